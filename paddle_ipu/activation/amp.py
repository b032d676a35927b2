"""Paddle's automatic mixed precision for PIR programs.

Stock Paddle changes the dtypes of a ProgramDesc program's variables. PIR types a program while it
is built, and on the CPU wheel builds nothing in half; so here AMP's entry points write on each
operator what it is to be computed in (``annotations.AMP``), and the program stays in float32 until
``passes/convert_to_half.py`` retypes it. The rules are Paddle's, by the operators' old types.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

from paddle_ipu.activation import shard_guard
from paddle_ipu.dialect.annotations import AMP
from paddle_ipu.dialect.paddle_objects import Operation, Program, Scope, Value
from paddle_ipu.dialect.value_names import is_variable, name_of
from paddle_ipu.errors import NotSupported
from paddle_ipu.frontend.programs import is_pir
from paddle_ipu.legacy.legacy_names import PADDLE, is_attribute_constant, type_of
from paddle_ipu.runtime import scope as scopes

if TYPE_CHECKING:
    from paddle import Tensor
    from paddle._typing import DTypeLike
    from paddle.static.amp.decorator import OptimizerWithMixedPrecision
    from paddle.static.amp.fp16_lists import AutoMixedPrecisionLists

GUARDED = "paddle_ipu.fp16_guard"
"""Attribute of an operator that was built inside ``fp16_guard``."""

_DTYPES = {"FP16": "float16", "FLOAT16": "float16", "BF16": "bfloat16", "BFLOAT16": "bfloat16"}
_OF_PARAMETER = "builtin.parameter"
_NAMED = (_OF_PARAMETER, f"{PADDLE}.data")


def _name_of_dtype(dtype: object) -> str:
    name = _DTYPES.get(str(dtype).rpartition(".")[2].upper())
    if name is None:
        raise NotSupported(
            f"automatic mixed precision to {dtype} is not supported; use float16 or bfloat16."
        )
    return name


# -- what the operators of a program become --------------------------------------------------------


_CONVERTED = (f"{PADDLE}.", "custom_op.")
"""Paddle's own operators and those of users, as AMP converts both in ProgramDesc programs."""


class _Plan:
    """Decides for every operator of a program, by Paddle's lists."""

    def __init__(
        self,
        program: Program,
        lists: AutoMixedPrecisionLists,
        guarded: bool,
        dtype: str,
        level: str,
        promote: bool,
    ) -> None:
        self._lists = lists
        self._guarded = guarded
        self._dtype = dtype
        self._level = level
        self._promote = promote
        self._black = set(lists.black_list)
        self.half_values: dict[int, Value] = {}
        self._full_parameters: set[int] = set()
        self.dtypes: list[tuple[Operation, str]] = []
        parameters = []
        for operator in program.global_block().ops:
            if operator.name() == _OF_PARAMETER:
                parameters.append(operator)
            elif operator.name().startswith(_CONVERTED) and _is_processed(operator):
                self._decide(operator)
        for operator in parameters:
            key = operator.result(0).id
            half = key in self.half_values and key not in self._full_parameters and level == "O2"
            self.dtypes.append((operator, dtype if half else "float32"))

    def _decide(self, operator: Operation) -> None:
        inputs = [value for value in operator.operands_source() if value.initialized()]
        half = self._is_half(operator, inputs)
        self.dtypes.append((operator, self._dtype if half else "float32"))
        for value in inputs:
            if half and _is_float(value):
                self.half_values[value.id] = value
            elif not half and _operator_of(value) == _OF_PARAMETER:
                self._full_parameters.add(value.id)
        for value in operator.results():
            if half and value.initialized() and _is_float(value):
                self.half_values[value.id] = value

    def _is_half(self, operator: Operation, inputs: list[Value]) -> bool:
        op_type, lists = type_of(operator), self._lists
        if op_type in lists.unsupported_list or op_type in self._black:
            return False
        if any(_is_learning_rate(value) for value in inputs):
            return False
        if self._guarded and not operator.has_attr(GUARDED):
            return False
        if lists.black_varnames and self._touches(operator, inputs, lists.black_varnames):
            return False
        if op_type in lists.white_list:
            return True
        made_half = [value.id in self.half_values for value in inputs if _is_computed(value)]
        if self._promote:
            return all(made_half)
        if self._level == "O2":
            return True
        return op_type in lists.gray_list and (not made_half or made_half[-1])

    @staticmethod
    def _touches(operator: Operation, inputs: list[Value], names: Collection[str]) -> bool:
        values = [*inputs, *operator.results()]
        return any(is_variable(value) and name_of(value) in names for value in values)

    def names(self) -> set[str]:
        """Names of every variable that a half operator reads or makes."""
        return {
            name_of(value)
            for key, value in self.half_values.items()
            if key not in self._full_parameters
            and is_variable(value)
            and not is_attribute_constant(value.get_defining_op())
        }


def _is_learning_rate(value: Value) -> bool:
    """Whether it is a variable of that name: Paddle keeps optimizers in float32 by it."""
    return _operator_of(value) in _NAMED and "learning_rate" in value.name


def _operator_of(value: Value) -> str:
    """PIR's name of the operator that makes a value."""
    return str(value.get_defining_op().name())


def _is_computed(value: Value) -> bool:
    return _is_float(value) and _operator_of(value) not in _NAMED


def _is_float(value: Value) -> bool:
    members = value.type().as_vec_type()
    typed = value if members is None else members.as_list()[0]
    return str(typed.dtype).rpartition(".")[2].upper() in ("FLOAT32", "FP32")


def _is_processed(operator: Operation) -> bool:
    """Whether Paddle converts it: not what names a dtype, like ``full``, or has no float input."""
    if operator.name() == f"{PADDLE}.data":
        return False
    inputs = [value for value in operator.operands_source() if value.initialized()]
    if inputs and not any(_is_float(value) for value in inputs):
        return False
    if type_of(operator) == "cast":
        return False
    attributes = operator.attrs()
    return not any(
        str(attributes.get(name)).rpartition(".")[2].upper() in ("FLOAT32", "FLOAT16", "FLOAT64")
        for name in ("dtype", "out_dtype")
    )


# -- Paddle's entry points -------------------------------------------------------------------------


def casting_models(cast_model_to_fp16: Callable[..., Any]) -> Callable[..., Any]:
    """``cast_model_to_fp16`` that marks the operators of a PIR program."""

    @functools.wraps(cast_model_to_fp16)
    def cast(
        program: Program,
        amp_lists: AutoMixedPrecisionLists | None = None,
        use_fp16_guard: bool = True,
        dest_type: object = paddle.base.core.VarDesc.VarType.FP16,
        level: str = "O2",
        use_promote: bool = False,
    ) -> object:
        if not is_pir(program):
            return cast_model_to_fp16(
                program, amp_lists, use_fp16_guard, dest_type, level, use_promote
            )
        dtype = _name_of_dtype(dest_type)
        from paddle.static.amp import fp16_lists

        if amp_lists is None or level == "OD":
            amp_lists = fp16_lists.AutoMixedPrecisionLists(dtype=dtype)
        if level == "O2":
            # Pure half keeps nothing in float32 but what the user lists.
            amp_lists.black_list = amp_lists.black_list - fp16_lists.black_list
        plan = _Plan(program, amp_lists, use_fp16_guard, dtype, level, use_promote)
        for operator, wanted in plan.dtypes:
            operator.set_str_attr(AMP, wanted)
        return plan.names()

    return cast


def casting_parameters(cast_parameters_to_fp16: Callable[..., Any]) -> Callable[..., Any]:
    """``cast_parameters_to_fp16`` that takes a PIR program too."""

    @functools.wraps(cast_parameters_to_fp16)
    def cast(
        place: object,
        program: Program,
        scope: Scope | None = None,
        to_fp16_var_names: Collection[str] | None = None,
        *args: Any,
        **keywords: Any,
    ) -> None:
        if not is_pir(program):
            cast_parameters_to_fp16(place, program, scope, to_fp16_var_names, *args, **keywords)
            return
        dest_type = args[0] if args else keywords.get("dest_type", "FP16")
        if _name_of_dtype(dest_type) != "float16":
            # The parameters are rounded when the program is compiled.
            return
        scope = paddle.static.global_scope() if scope is None else scope
        wanted = set(to_fp16_var_names or ())
        for operator in program.global_block().ops:
            if operator.name() != _OF_PARAMETER:
                continue
            name = operator.attrs()["parameter_name"]
            tensor = scopes.tensor(scope, name) if name in wanted else None
            if tensor is not None:
                tensor.set(np.array(scopes.view(tensor)).astype(np.float16), place)

    return cast


def serialising(serialize_pir_program: Callable[..., Any]) -> Callable[..., Any]:
    """``serialize_pir_program`` without our attribute on parameters, which it refuses.

    A program that is read back computes the same in half: the other operators keep the attribute.
    """

    @functools.wraps(serialize_pir_program)
    def serialise(program: Program, *args: Any, **keywords: Any) -> object:
        marked = [
            (operator, operator.attrs()[AMP])
            for operator in program.global_block().ops
            if operator.name() == _OF_PARAMETER and operator.has_attr(AMP)
        ]
        for operator, _ in marked:
            operator.erase_attr(AMP)
        try:
            return serialize_pir_program(program, *args, **keywords)
        finally:
            for operator, dtype in marked:
                operator.set_str_attr(AMP, dtype)

    return serialise


@contextlib.contextmanager
def _marking(mark: Callable[[Operation], None]) -> Iterator[None]:
    """Calls `mark` with each of Paddle's operators that is built in the block, at its end."""
    watch = shard_guard.OperatorWatch()
    watch.watch(paddle.static.default_main_program())
    shard_guard.watches.append(watch)
    try:
        yield
    finally:
        shard_guard.watches.remove(watch)
        for operator in watch.built():
            if operator.name().startswith(f"{PADDLE}."):
                mark(operator)


def guarding(fp16_guard: Callable[..., Any]) -> Callable[..., Any]:
    """``fp16_guard`` that marks the operators of PIR programs too."""

    @contextlib.contextmanager
    def guard() -> Iterator[None]:
        if not paddle.base.framework.in_pir_mode():
            with fp16_guard():
                yield
            return
        with _marking(lambda operator: operator.set_bool_attr(GUARDED, True)):
            yield

    return functools.wraps(fp16_guard)(guard)


class _AutoCast:
    """Marks operators as ``auto_cast`` would type them; parameters stay in float32."""

    def __init__(self, white: set[str], black: set[str], level: str, dtype: str, promote: bool):
        self._white = white
        self._black = black
        self._level = level
        self._dtype = dtype
        self._promote = promote

    def __call__(self, operator: Operation) -> None:
        # An inner auto_cast ends first, and decides.
        if operator.has_attr(AMP):
            return
        if self._level == "O0":
            operator.set_str_attr(AMP, "float32")
        elif _is_processed(operator):
            operator.set_str_attr(AMP, self._dtype if self._is_half(operator) else "float32")

    def _is_half(self, operator: Operation) -> bool:
        names = {type_of(operator), operator.name().removeprefix(f"{PADDLE}.").rstrip("_")}
        if names & self._black:
            return False
        if names & self._white:
            return True
        if self._level == "OD" or (self._level == "O2" and not self._promote):
            return self._level == "O2"
        floats = [v for v in operator.operands_source() if v.initialized() and _is_float(v)]
        return bool(floats) and all(_is_marked_half(value) for value in floats)


_casts: list[_AutoCast] = []
"""The ``auto_cast`` blocks that are open; one that is off matters inside another only."""


def _is_marked_half(value: Value) -> bool:
    operator = value.get_defining_op()
    if operator.name() == "builtin.combine":
        return all(_is_marked_half(member) for member in operator.operands_source())
    if is_attribute_constant(operator):
        return True
    return bool(operator.has_attr(AMP)) and operator.attrs()[AMP] != "float32"


def auto_casting(amp_guard: Callable[..., Any]) -> Callable[..., Any]:
    """``paddle.amp.auto_cast`` that marks the operators of PIR programs."""

    @contextlib.contextmanager
    def guard(
        enable: bool = True,
        custom_white_list: Collection[str] | None = None,
        custom_black_list: Collection[str] | None = None,
        level: str = "O1",
        dtype: DTypeLike = "float16",
        use_promote: bool = True,
    ) -> Iterator[None]:
        lists = (custom_white_list, custom_black_list)
        if not paddle.base.framework.in_pir_mode():
            with amp_guard(enable, *lists, level, dtype, use_promote):
                yield
            return
        level = level.upper() if enable else "O0"
        if level == "O0" and not _casts:
            with amp_guard(False, *lists, level, dtype, use_promote):
                yield
            return
        name = _name_of_dtype(f".{getattr(dtype, 'name', dtype)}")
        update_list = sys.modules["paddle.amp.auto_cast"]._update_list
        white, black = update_list(*lists, level, name)
        # Paddle checks the arguments, and does not cast while it builds.
        marks = _AutoCast(white, black, level, name, use_promote)
        _casts.append(marks)
        try:
            with amp_guard(False, *lists, level, dtype, use_promote), _marking(marks):
                yield
        finally:
            _casts.remove(marks)

    return functools.wraps(amp_guard)(guard)


def scaling_backward(backward: Callable[..., Any]) -> Callable[..., Any]:
    """``backward`` of a decorated optimizer: marks a PIR program and scales its loss."""

    @functools.wraps(backward)
    def scaled(
        self: OptimizerWithMixedPrecision,
        loss: Tensor,
        startup_program: Program | None = None,
        parameter_list: list[Tensor] | None = None,
        no_grad_set: set[Tensor] | None = None,
        callbacks: object = None,
    ) -> object:
        rest = (startup_program, parameter_list, no_grad_set, callbacks)
        if not paddle.base.framework.in_pir_mode():
            return backward(self, loss, *rest)
        self._train_program = loss.block.program
        self._float_status = None
        with paddle.static.program_guard(self._train_program, startup_program):
            self._init_amp_var()
            guarded = self._use_fp16_guard if self._use_pure_fp16 else False
            level = "O2" if self._use_pure_fp16 else self._amp_level
            names = paddle.static.amp.cast_model_to_fp16(
                self._train_program, self._amp_lists, guarded, self._amp_vartype, level,
                self.use_promote,
            )  # fmt: skip
            if self._use_pure_fp16 and getattr(self._optimizer, "_multi_precision", False):
                names = names - _keep_parameters(self._train_program)
            self._to_fp16_var_names = names if self._use_pure_fp16 else None
            self._scaled_loss = loss
            if _scales(self):
                self._loss_scaling = paddle.pir.core.create_persistable_value(
                    dtype="float32",
                    shape=[1],
                    name=paddle.utils.unique_name.generate("loss_scaling"),
                    initializer=paddle.nn.initializer.Constant(self._init_loss_scaling),
                )
                self._scaled_loss = loss * self._loss_scaling
            return self._optimizer.backward(self._scaled_loss, *rest)

    return scaled


def _keep_parameters(program: Program) -> set[str]:
    """Leaves parameters in float32, rounded where half operators read them; returns their names.

    Stock Paddle keeps a float32 copy beside each half parameter. A PIR parameter is float32 when
    the optimizer is built and gets none, so it is its own copy.
    """
    parameters = [op for op in program.global_block().ops if op.name() == _OF_PARAMETER]
    for operator in parameters:
        operator.set_str_attr(AMP, "float32")
    return {str(operator.attrs()["parameter_name"]) for operator in parameters}


def unscaling_gradients(apply_gradients: Callable[..., Any]) -> Callable[..., Any]:
    """``apply_gradients`` of a decorated optimizer, whose updates read the unscaled gradients.

    Stock Paddle unscales them in place, which a PIR program does not record.
    """

    @functools.wraps(apply_gradients)
    def unscaled(
        self: OptimizerWithMixedPrecision, params_grads: list[tuple[Tensor, Tensor]]
    ) -> object:
        if not paddle.base.framework.in_pir_mode():
            return apply_gradients(self, params_grads)
        if not _scales(self):
            return self._optimizer.apply_gradients(params_grads)
        gradients = [gradient for _, gradient in params_grads]
        ops = paddle._C_ops
        gradients, overflow = ops.check_finite_and_unscale_(gradients, self._loss_scaling)
        if self._use_dynamic_loss_scaling:
            gradients = ops.update_loss_scaling_(
                gradients, overflow, self._loss_scaling, self._num_good_steps, self._num_bad_steps,
                self._incr_every_n_steps, self._decr_every_n_nan_or_inf, self._incr_ratio,
                self._decr_ratio, False,
            )[0]  # fmt: skip
        return self._optimizer.apply_gradients(
            [(param, new) for (param, _), new in zip(params_grads, gradients, strict=True)]
        )

    return unscaled


def _scales(optimizer: OptimizerWithMixedPrecision) -> bool:
    return bool(optimizer._use_dynamic_loss_scaling or optimizer._init_loss_scaling != 1.0)


def supporting_everything(get_sys_unsupported_list: Callable[..., Any]) -> Callable[..., Any]:
    """The list of operators without half kernels: an IPU has none such."""

    @functools.wraps(get_sys_unsupported_list)
    def unsupported(dtype: object) -> tuple[str, set[str], set[str]]:
        _, _, all_ops = get_sys_unsupported_list(dtype)
        return "IPU", set(), all_ops

    return unsupported

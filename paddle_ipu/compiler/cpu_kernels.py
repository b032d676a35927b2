"""Operators that run on Paddle's CPU kernels inside a compiled step.

With the option ``cpu_fallback``, an operator without a translator is copied into a Paddle program
of its own. The compiled step runs it by Paddle's executor on host arrays; in training Paddle's own
backward operators compute the gradients.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from paddle_ipu.compiler.kernel_requirements import check_kernels
from paddle_ipu.compiler.paddle_modes import static_mode
from paddle_ipu.dialect import dialect
from paddle_ipu.errors import NotSupported, PaddleIpuError
from paddle_ipu.frontend.legacy_operator import EMPTY, Operator, Variables

if TYPE_CHECKING:
    import paddle

Array = np.ndarray[Any, Any]
Kind = tuple[tuple[int, ...], str]
"""(shape, dtype)."""

_NARROW = {"int64": "int32", "float64": "float32"}
_HALF = ("float16", "bfloat16")
_PIR_CONSTANTS = frozenset({"pd_op.full", "pd_op.full_int_array"})
_COMBINE = "builtin.combine"
_DRAWS = 5
"""Runs after which an operator that draws even a single element has shown another one."""
_FEED = "operand_{}"
_GRADIENT = "gradient_{}"


@dataclass(slots=True)
class CpuKernel:
    """One operator on Paddle's CPU executor.

    Attributes:
        operator: its phi name.
        place: the operator with the user's line.
        operands: numbers of the node's inputs that it reads, in order.
        results: for each of the node's outputs (shape, dtype on the device), None for one that the
            operator leaves out. Half results are given as float32, in which the device rounds them.
        calls: how often it ran forward.
        seconds: how long all its runs took, backward included, copies on the host too.
        error: what the last failing run raised.
    """

    operator: str
    place: str
    operands: Sequence[int]
    results: Sequence[Kind | None] = ()
    calls: int = 0
    seconds: float = 0.0
    error: PaddleIpuError | None = None
    _forward: _Program | None = field(default=None, repr=False)
    _backward: _Program | None = field(default=None, repr=False)
    _make_backward: Callable[[], _Program] | None = field(default=None, repr=False)
    _ones: Sequence[Array] = field(default=(), repr=False)

    def forward(self, *operands: npt.ArrayLike) -> tuple[Array, ...]:
        """The results that are not None, in the device's dtypes."""
        self.calls += 1
        kinds = [kind for kind in self.results if kind is not None]
        assert self._forward is not None
        return self._run(self._forward, operands, kinds)

    def backward(
        self, operands: Sequence[npt.ArrayLike], gradients: Sequence[npt.ArrayLike]
    ) -> tuple[Array, ...]:
        """Gradients of the floating operands, by Paddle's backward operators.

        Args:
            operands: as for `forward`.
            gradients: one for each floating result.
        """
        program = self.gradient_program()
        kinds = [
            (tuple(np.shape(array)), np.asarray(array).dtype.name)
            for array in operands
            if np.asarray(array).dtype.kind == "f"
        ]
        return self._run(program, (*operands, *gradients), kinds)

    def gradient_program(self) -> _Program:
        """The program of `backward`, made when first asked for.

        Raises:
            NotSupported: Paddle has no gradient of the operator, or it draws at random.
        """
        if self._backward is None:
            assert self._make_backward is not None
            if self._draws():
                raise NotSupported(
                    f"{self.place}: it draws at random, and cpu_fallback runs it once more for its "
                    "gradient, which would draw other numbers. Give it a fixed seed where it takes "
                    "one, or stop the gradient of what it gives."
                )
            self._backward = self._make_backward()
        return self._backward

    def _draws(self) -> bool:
        """Whether the same operands give other results from run to run."""
        assert self._forward is not None
        found = [self._forward.run(self._ones) for _ in range(_DRAWS)]
        return not all(
            np.array_equal(array, first, equal_nan=first.dtype.kind == "f")
            for arrays in found[1:]
            for array, first in zip(arrays, found[0], strict=True)
        )

    def _run(
        self, program: _Program, arrays: Sequence[npt.ArrayLike], kinds: Sequence[Kind]
    ) -> tuple[Array, ...]:
        started = time.perf_counter()
        try:
            results = program.run(arrays)
            return tuple(
                _fitting(self.place, array, kind)
                for array, kind in zip(results, kinds, strict=True)
            )
        except PaddleIpuError as error:
            self.error = error
            raise
        except Exception as error:
            self.error = PaddleIpuError(
                f"{self.place}: Paddle's CPU kernel, which cpu_fallback runs, failed: {error}"
            )
            raise self.error from error
        finally:
            self.seconds += time.perf_counter() - started


def kernel_of(node: ir.Node, kinds: Sequence[Kind | None], in_64_bits: bool = False) -> CpuKernel:
    """Paddle's CPU kernel for an operator of the dialect.

    Args:
        node: the operator.
        kinds: for each of its inputs (shape, dtype on the device), None for an omitted one.
        in_64_bits: whether int64 is int64 on the device; else it is int32.

    Returns:
        A kernel that has run once, on ones, to learn the shapes of its results.

    Raises:
        NotSupported: Paddle cannot run it by itself, or not on this processor.
    """
    check_kernels([node], "cpu_fallback")
    source = node.meta.get(dialect.MADE_FROM)
    place = dialect.describe(node)
    if source is None:
        raise NotSupported(
            f"{place}: cpu_fallback needs the Paddle operator this was read from, and a program "
            "saved by another Paddle version has none that this one can run. Load the model under "
            "the version that saved it."
        )
    copy: Callable[..., _Program] = _copy_legacy if _is_legacy(source) else _copy_pir
    forward = copy(node, kinds, False)
    kernel = CpuKernel(str(node.op_type), place, forward.operands)
    kernel._forward = forward
    kernel._make_backward = lambda: copy(node, kinds, True)
    ones = [np.ones(shape, dtype) for shape, dtype in (_kind(kinds, i) for i in forward.operands)]
    try:
        found = forward.run(ones)
    except Exception as error:
        raise NotSupported(
            f"{place}: there is no translator, and Paddle's CPU kernel, which cpu_fallback asks "
            f"for, failed on ones: {error}"
        ) from error
    kernel._ones = ones
    shapes = iter(found)
    kernel.results = [
        None if value.dtype is None else _device_kind(place, next(shapes), value, in_64_bits)
        for value in node.outputs
    ]
    return kernel


def _kind(kinds: Sequence[Kind | None], index: int) -> Kind:
    kind = kinds[index]
    assert kind is not None
    return kind


def _device_kind(place: str, array: Array, value: ir.Value, in_64_bits: bool) -> Kind:
    dtype = dialect.dtype_name(value)
    if dtype not in dialect.POPART_DTYPES:
        raise NotSupported(
            f"{place}: it gives {dtype}, and there is nothing of that type on an IPU. Compute what "
            "needs it outside the program."
        )
    if not in_64_bits or dtype == "float64":
        dtype = _NARROW.get(dtype, dtype)
    return tuple(array.shape), dtype


def _fitting(place: str, array: Array, kind: Kind) -> Array:
    """A result as the compiled step expects it."""
    shape, dtype = kind
    if tuple(array.shape) != shape:
        raise NotSupported(
            f"{place}: Paddle's CPU kernel gave shape {list(array.shape)}, on ones it gave "
            f"{list(shape)}. A result whose shape depends on values has no place in an IPU program."
        )
    return np.asarray(array.astype("float32" if dtype in _HALF else dtype, copy=False), order="C")


@dataclass(slots=True)
class _Program:
    """A Paddle program of one operator, or of one and its backward.

    Attributes:
        operands: numbers of the node's inputs it reads, in order.
        feeds: (name, dtype) in the order of the arrays of :meth:`run`.
        fetches: variables, in the order of its results.
        running: a context in which Paddle runs it.
        missing: index of a result that Paddle does not compute -> its index among the feeds, of
            whose shape zeros stand for it.
    """

    program: paddle.static.Program
    operands: Sequence[int]
    feeds: Sequence[tuple[str, str]]
    fetches: Sequence[paddle.pir.Value | paddle.static.Variable]
    running: Callable[[], AbstractContextManager[None]]
    missing: Mapping[int, int] = field(default_factory=dict)
    _executor: paddle.static.Executor | None = None
    _scope: paddle.static.Scope | None = None

    def run(self, arrays: Sequence[npt.ArrayLike]) -> list[Array]:
        """What the program gives for arrays in the order of `feeds`."""
        import paddle

        feed: dict[str, Array] = {}
        for (name, dtype), array in zip(self.feeds, arrays, strict=True):
            feed[name] = np.asarray(array).astype(dtype, copy=False)
        if self._executor is None:
            self._executor = paddle.static.Executor(paddle.CPUPlace())
            self._scope = paddle.static.Scope()
        with static_mode(), self.running():
            found = iter(
                self._executor.run(
                    self.program, feed=feed, fetch_list=list(self.fetches), scope=self._scope
                )
            )
        count = len(self.fetches) + len(self.missing)
        return [
            np.zeros_like(arrays[self.missing[index]])
            if index in self.missing
            else np.asarray(next(found))
            for index in range(count)
        ]


# -- PIR ----------------------------------------------------------------------------------------


def _copy_pir(node: ir.Node, kinds: Sequence[Kind | None], backward: bool) -> _Program:
    import paddle

    op = node.meta[dialect.MADE_FROM]
    if list(op.blocks()):
        raise NotSupported(
            f"{dialect.describe(node)}: cpu_fallback runs single operators, not control flow."
        )
    program = paddle.static.Program()
    copy = _PirCopy(node, kinds)
    with static_mode(), paddle.static.program_guard(program, paddle.static.Program()):
        made = copy.add(op)
        results = [result for value in made.results() for result in _members(value)]
        if not backward:
            return _Program(program, copy.operands, copy.feeds, results, nullcontext)
        return _with_gradients(program, copy.operands, copy.feeds, copy.data, results, node)


class _PirCopy:
    """Copies one operator, with data in the place of what it reads."""

    def __init__(self, node: ir.Node, kinds: Sequence[Kind | None]) -> None:
        import paddle

        self.operands: list[int] = []
        self.feeds: list[tuple[str, str]] = []
        self.data: list[paddle.pir.Value] = []
        self._node = node
        self._kinds = kinds
        self._next = 0
        self._mapping = paddle.pir.IrMapping()
        self._options = paddle.pir.CloneOptions(False, True, False)
        self._known: set[str] = set()

    def add(self, op: paddle.pir.Operation) -> paddle.pir.Operation:
        """Copies the operator into the current program."""
        for source in op.operands_source():
            if not source.initialized():
                self._next += 1
                continue
            producer = source.get_defining_op()
            if producer is not None and producer.name() == _COMBINE:
                for member in producer.operands_source():
                    self._operand(member)
                made = producer.clone(self._mapping, self._options).result(0)
                made.stop_gradient = False
                self._mapping.add(source, made)
            else:
                self._operand(source)
        return op.clone(self._mapping, self._options)

    def _operand(self, value: paddle.pir.Value) -> None:
        import paddle

        index, self._next = self._next, self._next + 1
        if value.id in self._known:
            return
        self._known.add(value.id)
        # What a loop hands to its body is defined by no operator.
        producer = value.get_defining_op()
        if producer is not None and producer.name() in _PIR_CONSTANTS:
            self._mapping.add(value, producer.clone(self._mapping, self._options).result(0))
            return
        shape, _ = _kind(self._kinds, index)
        dtype = str(value.dtype).rpartition(".")[2].lower()
        name = _FEED.format(index)
        data = paddle.static.data(name, list(shape), dtype)
        data.stop_gradient = False
        self._mapping.add(value, data)
        self.operands.append(index)
        self.feeds.append((name, dtype))
        self.data.append(data)


def _members(value: paddle.pir.Value) -> list[paddle.pir.Value]:
    """The values of a list, a value by itself, nothing of an omitted result."""
    import paddle

    if not value.initialized():
        return []
    value.stop_gradient = False
    if value.type().as_vec_type() is None:
        return [value]
    return list(paddle._C_ops.builtin_split(value))


# -- ProgramDesc --------------------------------------------------------------------------------


def _is_legacy(source: object) -> bool:
    return isinstance(source, Operator)


def _copy_legacy(node: ir.Node, kinds: Sequence[Kind | None], backward: bool) -> _Program:
    from paddle.base.framework import Program

    operator = node.meta[dialect.MADE_FROM]
    place = dialect.describe(node)
    if not _is_registered(operator.type):
        raise NotSupported(
            f"{place}: there is no translator, and this Paddle has no operator {operator.type!r} "
            "that cpu_fallback could run."
        )
    if any(isinstance(value, Variables) for value in operator.attributes.values()):
        raise NotSupported(
            f"{place}: cpu_fallback does not run operators with variable attributes."
        )
    indices: dict[str, int] = {}
    for index, name in enumerate(node.meta[dialect.OPERAND_VARIABLES]):
        if name is not None:
            indices.setdefault(name, index)
    program = Program()
    with _old_programs(), static_mode():
        block = program.global_block()
        data: dict[str, Any] = {}
        operands, feeds = [], []
        for name in dict.fromkeys(n for names in operator.inputs.values() for n in names):
            if name == EMPTY:
                continue
            value = node.inputs[indices[name]] if name in indices else None
            if value is None:
                raise NotSupported(
                    f"{place}: cpu_fallback cannot give it {name!r}, which the IPU program leaves "
                    "out."
                )
            dtype = _on_cpu(dialect.dtype_name(value))
            shape, _ = _kind(kinds, indices[name])
            data[name] = block.create_var(
                name=name, shape=list(shape), dtype=dtype, stop_gradient=False, need_check_feed=True
            )
            operands.append(indices[name])
            feeds.append((name, dtype))
        outputs: dict[str, Any] = {}
        names = node.meta[dialect.RESULT_VARIABLES]
        for slot, written in operator.outputs.items():
            outputs[slot] = [
                block.create_var(
                    name=f"{name}.result",
                    dtype=_on_cpu(dialect.dtype_name(node.outputs[names.index(name)]))
                    if name in names
                    else "float32",
                    stop_gradient=False,
                )
                for name in written
                if name != EMPTY
            ]
        kept = {
            slot: [data[n] for n in given if n != EMPTY] for slot, given in operator.inputs.items()
        }
        attributes = {k: v for k, v in operator.attributes.items() if k not in _NOT_COPIED}
        block.append_op(type=operator.type, inputs=kept, outputs=outputs, attrs=attributes)
        made = {v.name.removesuffix(".result"): v for part in outputs.values() for v in part}
        results = [made[name] for name in names if name is not None]
        if not backward:
            return _Program(program, operands, feeds, results, _old_programs)
        return _with_gradients(
            program, operands, feeds, list(data.values()), results, node, _old_programs
        )


def _is_registered(op_type: str) -> bool:
    from paddle.base.framework import OpProtoHolder

    return op_type in OpProtoHolder.instance().op_proto_map


def _on_cpu(dtype: str) -> str:
    """Paddle's CPU kernels have no half."""
    return "float32" if dtype in _HALF else dtype


_NOT_COPIED = frozenset({"op_callstack", "op_role", "op_role_var", "op_namescope", "op_device"})


# -- both kinds of program -----------------------------------------------------------------------


def _with_gradients(
    program: paddle.static.Program,
    operands: Sequence[int],
    feeds: Sequence[tuple[str, str]],
    data: Sequence[paddle.pir.Value | paddle.static.Variable],
    results: Sequence[paddle.pir.Value | paddle.static.Variable],
    node: ir.Node,
    running: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> _Program:
    import paddle

    with running(), paddle.static.program_guard(program, paddle.static.Program()):
        wanted = [value for value, (_, dtype) in zip(data, feeds, strict=True) if _floats(dtype)]
        targets = [value for value in results if _floats(_dtype(value))]
        given = [
            paddle.static.data(_GRADIENT.format(index), list(value.shape), _dtype(value))
            for index, value in enumerate(targets)
        ]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                gradients = paddle.static.gradients(targets, wanted, given)
        except Exception as error:
            raise NotSupported(
                f"{dialect.describe(node)}: there is no translator, and Paddle, which cpu_fallback "
                f"asks for a gradient, has none: {error}"
            ) from error
    if all(gradient is None for gradient in gradients):
        raise NotSupported(
            f"{dialect.describe(node)}: there is no translator, and Paddle, which cpu_fallback "
            "asks for a gradient, has none. Stop it: x.stop_gradient = True, or x.detach()."
        )
    floats = [at for at, (_, dtype) in enumerate(feeds) if _floats(dtype)]
    return _Program(
        program,
        operands,
        [*feeds, *((_GRADIENT.format(at), _dtype(value)) for at, value in enumerate(targets))],
        [gradient for gradient in gradients if gradient is not None],
        running,
        {at: floats[at] for at, gradient in enumerate(gradients) if gradient is None},
    )


def _dtype(value: paddle.pir.Value | paddle.static.Variable) -> str:
    name = str(value.dtype).rpartition(".")[2].lower()
    return {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}.get(
        name, name
    )


def _floats(dtype: str) -> bool:
    return "float" in dtype


def _old_programs() -> AbstractContextManager[None]:
    """Paddle 3 builds and runs ProgramDesc programs with PIR switched off."""
    from paddle import pir_utils

    guard: AbstractContextManager[None] = getattr(pir_utils, "OldIrGuard", nullcontext)()
    return guard

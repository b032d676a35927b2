"""The complete table of renames, and how a reader uses it."""

from __future__ import annotations

from typing import Any

from paddle_ipu.errors import InvalidProgramError, NotSupported
from paddle_ipu.frontend import legacy_forms
from paddle_ipu.frontend.legacy_operator import COMMON, DTYPES, Operator, Variables
from paddle_ipu.frontend.vocabulary import (  # noqa: F401 - they fill the table
    arithmetic,
    attention,
    decoding,
    effects,
    fused,
    indexing,
    layers,
    losses,
    mathematics,
    optimizers,
    quantization,
    random,
    ranking,
    recurrent,
    shapes,
    vision,
)
from paddle_ipu.frontend.vocabulary.row import TABLE as TABLE
from paddle_ipu.frontend.vocabulary.row import Attribute, Operand, Result, Row, Slot


def attribute_value(
    operator: Operator, name: str, attribute: Attribute, may_be_tensor: bool = False
) -> Any:
    """The value that an attribute has in the dialect.

    Args:
        operator: the ProgramDesc operator.
        name: the attribute or operand in the dialect.
        attribute: the attribute in the ProgramDesc.
        may_be_tensor: a computed attribute is accepted, and returned as `Variables`.

    Raises:
        NotSupported: it is computed, and may not be.
        InvalidProgramError: the operator lacks it, or framework.proto does not have its dtype.
    """
    value = operator.attributes.get(attribute.name, attribute.default)
    if value is None:
        raise InvalidProgramError(
            f"operator {operator.type}{operator.place} has no attribute {attribute.name!r}, which "
            f"it needs for {name!r}. The program is damaged."
        )
    if isinstance(value, Variables) and not may_be_tensor:
        raise NotSupported(
            f"operator {operator.type}{operator.place}: attribute {attribute.name!r} is computed "
            f"in the program (variable {value.names[0]!r}), which is not supported; give a number."
        )
    if not attribute.is_dtype:
        return value
    if value == -1:
        return "undefined"
    if value not in DTYPES:
        raise InvalidProgramError(
            f"operator {operator.type}{operator.place}: attribute {attribute.name!r} is dtype "
            f"number {value}, which ProgramDesc does not define for tensors."
        )
    return DTYPES[value]


WITHOUT_MEANING = frozenset(
    {
        "Scale_in", "Scale_in_eltwise", "Scale_out", "Scale_weights", "Scale_x", "Scale_y",
        "data_format", "entry", "entry_config", "epmap", "exhaustive_search", "force_cpu",
        "force_fp32_output", "grad_inplace", "height_sections", "in_dtype", "infer_flags",
        "is_distributed", "is_test", "mkldnn_data_type", "onednn_data_type", "op_device",
        "op_namescope", "op_role_var", "place_type", "remote_prefetch", "scale_out",
        "scale_x", "scale_y", "slot",
        "table_class", "table_names", "trainer_id", "use_addto", "use_cudnn",
        "use_mkldnn", "use_onednn", "use_quantizer", "with_quant_attr", "workspace_size_MB",
        "x_data_format", "y_data_format",
    }
)  # fmt: skip
"""Attributes that a kernel, a pass or a trainer reads, and that change no result.

Where one of them does change it, the operator's row has it.
"""

_UNSET = {
    "fuse_activation": "", "fuse_alpha": 0.0, "fuse_beta": 0.0, "fuse_relu": False,
    "fuse_relu_before_depthwise_conv": False, "fuse_residual_connection": False,
    "fuse_with_relu": False, "dtype": 5, "out_dtype": -1,
}  # fmt: skip
"""Attributes that must have this value in an operator whose row does not have them."""


def check(operator: Operator, row: Row) -> None:
    """Refuses what the row does not have: an attribute or a slot that may change the result.

    Raises:
        NotSupported: there is one.
    """
    known = {attribute.name for attribute in row.attributes.values()}
    slots: set[str] = set()
    for operand in row.inputs:
        for source in operand.sources:
            if isinstance(source, Slot):
                slots.add(source.name)
            else:
                known.add(source.attribute.name)
    for name, value in operator.attributes.items():
        if name in known or name in WITHOUT_MEANING or name in COMMON:
            continue
        allowed = row.fixed if name in row.fixed else _UNSET
        if name not in allowed:
            raise NotSupported(
                f"operator {operator.type}{operator.place}: attribute {name!r} is not known here, "
                f"and it may change what the operator does. Its value is {value!r}."
            )
        if value != allowed[name]:
            raise NotSupported(
                f"operator {operator.type}{operator.place}: {name} = {value!r} is not supported; "
                f"only {allowed[name]!r} is."
            )
    for slot in operator.inputs:
        if slot not in slots and operator.input(slot) is not None:
            raise NotSupported(
                f"operator {operator.type}{operator.place}: input {slot} is not supported; got "
                f"variable {operator.input(slot)!r}. Give a number instead, where the operator "
                "takes one."
            )


def knows(legacy: str) -> bool:
    """Whether a ProgramDesc operator of that name can be read."""
    return legacy in TABLE or legacy in legacy_forms.REWRITES


def find(operator: Operator) -> Row | None:
    """The row of an operator, None where the table has none.

    A backward operator's is made from its forward operator's: it is called ``<phi>_grad``, and
    slot ``Out@GRAD`` of a forward operator whose result ``out`` is in ``Out`` is ``out_grad``.
    """
    legacy = operator.type
    if legacy in TABLE:
        return TABLE[legacy]
    if not legacy.endswith("_grad"):
        return None
    return _backward(operator, TABLE.get(legacy.removesuffix("_grad")))


def _backward(operator: Operator, forward: Row | None) -> Row:
    """Forward's operands, its results, then gradients; without a forward row, slots as they are."""
    names: dict[str, str] = {}
    for operand in () if forward is None else forward.inputs:
        for source in operand.sources:
            if isinstance(source, Slot):
                names[source.name] = operand.name
    for result in () if forward is None else forward.outputs:
        names[result.slot] = result.name
    order = list(names)

    def rename(slot: str) -> str:
        base, mark, _ = slot.partition("@GRAD")
        return names.get(base, base.lower()) + ("_grad" if mark else "")

    def rank(slot: str) -> tuple[bool, int]:
        base, mark, _ = slot.partition("@GRAD")
        return bool(mark), order.index(base) if base in order else len(order)

    return Row(
        operator.type if forward is None else f"{forward.op.removesuffix('_')}_grad",
        tuple(
            Operand(rename(slot), (Slot(slot, len(operator.inputs[slot]) > 1),))
            for slot in sorted(operator.inputs, key=rank)
        ),
        tuple(
            Result(rename(slot), slot, len(operator.outputs[slot]) > 1)
            for slot in sorted(operator.outputs, key=rank)
        ),
        {},
        is_backward=True,
    )

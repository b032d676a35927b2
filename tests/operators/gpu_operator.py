"""Programs with operators that Paddle has kernels of for GPUs only, as saved models bring them.

A wheel for the CPU refuses to build them: PIR checks dtypes against the kernels, ProgramDesc asks
the kernel for shapes. Read from a file they are there, so within `building` a program is a
ProgramDesc whose shapes are given beside the operators.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import paddle
from paddle.base import core

_NO_KERNEL = "is not registered"


def _infer_shape(original: Any) -> Any:
    def infer(desc: Any, block: Any) -> None:
        try:
            original(desc, block)
        except RuntimeError as error:
            if _NO_KERNEL not in str(error):
                raise
            # A gradient is like what it is of; the results of forward got their shapes elsewhere.
            for name in (name for slot in desc.output_names() for name in desc.output(slot)):
                base, mark, _ = name.partition("@GRAD")
                if mark and not name.startswith("@EMPTY@"):
                    gradient = block.find_var_recursive(name.encode())
                    forward = block.find_var_recursive(base.encode())
                    gradient.set_shape(forward.shape())
                    gradient.set_dtype(forward.dtype())

    return infer


@contextmanager
def building() -> Iterator[None]:
    """Makes ``paddle.static.Program`` a ProgramDesc that takes operators without a kernel."""
    original = core.OpDesc.infer_shape
    with ExitStack() as scopes:
        if not paddle.__version__.startswith("2."):
            from paddle.pir_utils import OldIrGuard

            scopes.enter_context(OldIrGuard())
        scopes.enter_context(patch.object(core.OpDesc, "infer_shape", _infer_shape(original)))
        yield


def append(
    name: str, inputs: dict[str, Any], outputs: dict[str, list[Any]], attributes: dict[str, Any]
) -> None:
    """Appends an operator to the ProgramDesc under construction."""
    from paddle.base.layer_helper import LayerHelper

    LayerHelper(name).append_op(type=name, inputs=inputs, outputs=outputs, attrs=attributes)


def weighted_sum(x: Any, weight: Any) -> Any:
    """``sum(x * weight)``; Paddle 3's own functions write PIR only."""
    from paddle.base.layer_helper import LayerHelper

    helper = LayerHelper("weighted_sum")
    product, total = (helper.create_variable_for_type_inference(x.dtype) for _ in range(2))
    append("elementwise_mul", {"X": x, "Y": weight}, {"Out": [product]}, {"axis": -1})
    append("reduce_sum", {"X": product}, {"Out": [total]}, {"reduce_all": True, "dim": [0]})
    return total


def add_all(terms: list[Any]) -> Any:
    """The sum of several tensors of one shape."""
    from paddle.base.layer_helper import LayerHelper

    total = LayerHelper("add_all").create_variable_for_type_inference(terms[0].dtype)
    append("sum", {"X": terms}, {"Out": [total]}, {})
    return total


def append_unknown(
    name: str,
    inputs: dict[str, Any],
    attributes: dict[str, Any],
    out: str,
    others: Sequence[str] = (),
) -> Any:
    """Appends an operator that the wheel for CPUs does not even know, and gives its result.

    The result is like the first input, and no gradient passes it.

    Args:
        name: of the operator in a ProgramDesc.
        inputs: slot -> variable, or None for one left out.
        attributes: of the operator.
        out: slot of the result.
        others: slots of results that nobody reads.
    """
    from paddle.base.framework import Operator
    from paddle.base.layer_helper import LayerHelper

    helper = LayerHelper(name)
    like = next(iter(inputs.values()))
    block = helper.main_program.current_block()
    desc = block.desc.append_op()
    desc.set_type(name)
    block.ops.append(Operator(block, desc))
    for slot, variable in inputs.items():
        if variable is not None:
            desc.set_input(slot, [variable.name])
    for slot in [*others, out]:
        made = helper.create_variable_for_type_inference(like.dtype, stop_gradient=True)
        made.desc.set_shape(list(like.shape))
        desc.set_output(slot, [made.name])
    for key, value in {**attributes, "op_callstack": traceback.format_stack()}.items():
        desc._set_attr(key, value)
    return made

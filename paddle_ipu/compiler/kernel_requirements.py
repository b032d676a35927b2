"""Paddle's CPU kernels that need more of the processor than Paddle itself does.

Paddle runs such a kernel without a check, and the process dies of an illegal instruction.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.errors import NotSupported
from paddle_ipu.operating_system import processors

NEEDS = {"self_dp_attention": "avx512f"}
"""phi name -> a feature of the processor, as Linux spells it."""


def check_kernels(nodes: Iterable[ir.Node], reader: str) -> None:
    """Refuses operators whose kernel this processor cannot run.

    Args:
        nodes: operators of the dialect.
        reader: what is about to run Paddle's kernels, for the message.

    Raises:
        NotSupported: naming the first such operator.
    """
    features = processors.features()
    for node in nodes:
        needed = NEEDS.get(str(node.op_type))
        if needed is not None and features and needed not in features:
            raise NotSupported(
                f"{dialect.describe(node)}: {reader} runs Paddle's CPU kernel, which needs a "
                f"processor with {needed}, and this one has none: the process would die. Do it on "
                "another machine. The IPU Model itself runs the operator anywhere."
            )

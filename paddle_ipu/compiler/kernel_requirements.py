"""Paddle's CPU kernels that need more of the processor than Paddle itself does.

Paddle runs such a kernel without a check, and the process dies of an illegal instruction.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.errors import NotSupported
from paddle_ipu.instances import processor

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
    features = processor_features()
    for node in nodes:
        needed = NEEDS.get(str(node.op_type))
        if needed is not None and features and needed not in features:
            raise NotSupported(
                f"{dialect.describe(node)}: {reader} runs Paddle's CPU kernel, which needs a "
                f"processor with {needed}, and this one has none: the process would die. Do it on "
                "another machine. The IPU Model itself runs the operator anywhere."
            )


def processor_features() -> frozenset[str]:
    """The processor's features, by Linux's names; empty where they are unknown.

    ``ONEDNN_MAX_CPU_ISA``, which caps oneDNN's kernels and ours, hides AVX-512 here too.
    """
    features = frozenset(processor.description().get("flags", "").split())
    if os.environ.get("ONEDNN_MAX_CPU_ISA", "").startswith(("AVX2", "SSE")):
        return frozenset(name for name in features if not name.startswith("avx512"))
    return features

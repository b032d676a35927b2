"""Results whose dtype Paddle's programs declare otherwise than its kernels write them."""

from __future__ import annotations

from paddle_ipu.dialect import dialect
from paddle_ipu.ops.context import TranslationContext


def written_as(context: TranslationContext, index: int, dtype: str) -> None:
    """Gives result `index` of the node the dtype that Paddle's kernel writes."""
    context.node.outputs[index].dtype = dialect.DTYPES[dtype]

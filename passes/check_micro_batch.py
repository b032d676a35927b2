"""Refuses a micro-batch size that contradicts the static shapes of the feeds.

    x: [8, 128], micro_batch_size 4  ->  an error: it sets a dynamic first dimension alone

1 is the option's default and contradicts nothing.
"""

from __future__ import annotations

from paddle_ipu.dialect import dialect
from paddle_ipu.errors import OptionError
from paddle_ipu.passes.pass_base import Compilation
from paddle_ipu.passes.support.own_rows import fits


class CheckMicroBatch:
    """Raises if no feed can have as many rows as the option says.

    Args:
        option: the name of the option in the message.
        again: what to do after the feeds are declared otherwise, for the message.

    Raises:
        OptionError: the size contradicts every feed.
    """

    name = "check_micro_batch"
    requires = ()
    ensures = ()

    def __init__(self, option: str = "micro_batch_size", again: str = "") -> None:
        self._option = option
        self._again = again

    def run(self, compilation: Compilation) -> bool:
        wanted = int(compilation.options["micro_batch_size"])
        shapes = {
            str(value.name): dialect.dims_of(value)
            for value in compilation.graph.inputs
            if value.meta[dialect.ROLE] == dialect.FEED and value.name in compilation.feeds
        }
        shapes = {name: dims for name, dims in shapes.items() if dims}
        if wanted == 1 or not shapes or fits(list(shapes.values()), wanted):
            return False
        listed = ", ".join(f"feed {name!r} has the shape {dims}" for name, dims in shapes.items())
        name, dims = next(iter(shapes.items()))
        raise OptionError(
            f"{self._option} is {wanted}, but {listed}: the option sets the rows of feeds whose "
            f"dimension 0 is -1, and there are none. Make dimension 0 -1, for instance "
            f"paddle.static.data({name!r}, {[-1, *dims[1:]]}){self._again}, or leave "
            f"{self._option} out."
        )

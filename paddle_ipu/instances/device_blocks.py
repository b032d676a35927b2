"""The devices that a machine's IPUs make up, numbered as ``gc-info -l`` lists them."""

from __future__ import annotations


def device_blocks(ipus: int) -> list[range]:
    """The IPUs of each device: single ones first, then pairs, fours, up to all.

    Args:
        ipus: of the machine or of the GCD.

    Returns:
        By number of the device, the IPUs that it has.
    """
    blocks, size = list[range](), 1
    while size <= ipus:
        blocks += [range(first, first + size) for first in range(0, ipus - size + 1, size)]
        size *= 2
    return blocks

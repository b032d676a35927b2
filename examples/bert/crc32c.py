"""CRC-32C (Castagnoli) of large arrays of bytes, in NumPy: the checksum of TensorFlow's files."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

POLYNOMIAL = 0x82F63B78  # reversed
LANES = 1 << 14  # parts of a large input that are computed side by side

Words = NDArray[np.uint32]


def _table() -> Words:
    values = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        values = np.where(values & 1, (values >> 1) ^ np.uint32(POLYNOMIAL), values >> 1)
    return values


_TABLE = _table()


def crc32c(data: bytes | memoryview | NDArray[np.uint8]) -> int:
    """The checksum of ``data``."""
    octets = np.frombuffer(data, np.uint8)
    length = len(octets) // LANES
    if length == 0:
        return int(_plain(octets, 0xFFFFFFFF)) ^ 0xFFFFFFFF
    split = length * LANES
    lanes = np.zeros(LANES, np.uint32)
    lanes[0] = 0xFFFFFFFF  # the checksum begins with ones; the other parts continue one
    columns = octets[:split].reshape(LANES, length)
    for column in range(length):
        lanes = _TABLE[(lanes ^ columns[:, column]) & 0xFF] ^ (lanes >> np.uint32(8))
    shift = _shift_of(length)
    while len(lanes) > 1:  # neighbours are joined: the left one moves past the right one's bytes
        lanes = _apply(shift, lanes[0::2]) ^ lanes[1::2]
        shift = _apply(shift, shift)
    return int(_plain(octets[split:], int(lanes[0]))) ^ 0xFFFFFFFF


def masked(checksum: int) -> int:
    """The form that TensorFlow's and LevelDB's files store."""
    return (((checksum >> 15) | (checksum << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _plain(octets: NDArray[np.uint8], state: int) -> int:
    table = _TABLE.tolist()
    for octet in octets.tolist():
        state = table[(state ^ octet) & 0xFF] ^ (state >> 8)
    return state


def _shift_of(count: int) -> Words:
    """What ``count`` bytes of zeros make of each bit of a state: linear over GF(2)."""
    result = np.uint32(1) << np.arange(32, dtype=np.uint32)
    power = _TABLE[result & 0xFF] ^ (result >> np.uint32(8))
    while count:
        if count & 1:
            result = _apply(power, result)
        power = _apply(power, power)
        count >>= 1
    return result


def _apply(columns: Words, states: Words) -> Words:
    """The linear map that sends bit i to ``columns[i]``, applied to each state."""
    result = np.zeros_like(states)
    for bit in range(32):
        result ^= np.where((states >> np.uint32(bit)) & 1, columns[bit], np.uint32(0))
    return result

"""CRC-32C (Castagnoli), the checksum of TensorFlow's files, and the form they store it in."""

from __future__ import annotations


def crc32c(data: bytes) -> int:
    """The checksum of ``data``."""
    import google_crc32c

    checksum: int = google_crc32c.value(data)
    return checksum


def masked(checksum: int) -> int:
    """Rotated right by 15 bits, plus a constant: what TensorFlow's and LevelDB's files store."""
    return (((checksum >> 15) | (checksum << 17)) + 0xA282EAD8) & 0xFFFFFFFF

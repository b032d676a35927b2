"""Whom a file belongs to, and who may write it, where the system says so by numbers and modes."""

from __future__ import annotations

import os
import stat

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def this_user() -> int | None:
    """The number of the user that this process acts for; None where users have none."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def is_this_user(number: int) -> bool:
    """Whether a file's owner is this process's user; True where the system does not tell."""
    return this_user() in (None, number)


def is_this_user_or_root(number: int) -> bool:
    """Likewise, or root, who may change any program."""
    return number == 0 or is_this_user(number)


def others_write(mode: int) -> bool:
    """Whether others than its owner may write a file of this mode.

    False on Windows, whose modes say nothing of other users.
    """
    return this_user() is not None and bool(mode & _OTHERS_WRITE)

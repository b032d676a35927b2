"""Flags of ``os.open`` that not every system has; 0 where there is none."""

from __future__ import annotations

import os

NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
"""Fails at a symbolic link. Windows, which has no such flag, lets only administrators make them."""

NOT_IN_PROGRAMS = getattr(os, "O_CLOEXEC", 0)
"""Closed in programs that this one starts, as Python has it anyway."""

NO_WAITING = getattr(os, "O_NONBLOCK", 0)
"""Does not wait for the other end of a pipe."""

BINARY = getattr(os, "O_BINARY", 0)
"""Bytes as they are; Windows would turn some into line ends."""

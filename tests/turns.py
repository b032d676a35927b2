"""What the suite runs in turns: ``1/3`` in a variable takes the second, the fifth and so on.

``PADDLE_IPU_ROWS`` is for rows of the operator case table, ``PADDLE_IPU_FILES`` for test files,
``PADDLE_IPU_LOWER_FILES`` for those of PopART's interface and XLA.
"""

from __future__ import annotations

import os


def turn(variable: str) -> slice:
    """What an environment variable takes of a sequence: all of it, where it is not set."""
    number, _, count = os.environ.get(variable, "0/1").partition("/")
    return slice(int(number) % int(count), None, int(count))


ROWS = turn("PADDLE_IPU_ROWS")

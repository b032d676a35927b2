"""Options that a subcommand does not have: the similar ones are named.

argparse takes the word behind such an option for the script or model, and tells of that first.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence

from paddle_ipu.errors import meant


def refuse_unknown_options(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Ends the command at an option that the subcommand does not have.

    Args:
        parser: of the subcommand.
        words: what follows the subcommand. Behind a script or model they are not looked at.
    """
    known = {option: action for action in parser._actions for option in action.option_strings}
    has_target = any(action.nargs == argparse.PARSER for action in parser._actions)
    rest = iter(words)
    for word in rest:
        if word == "--" or (has_target and not word.startswith("-")):
            return
        if not word.startswith("-") or word == "-":
            continue
        name, equals, _ = word.partition("=")
        # argparse takes the beginning of a long option for it.
        options = [name] if name in known else [o for o in known if o.startswith(name)]
        if not options and name[:2] not in known:
            long = [option for option in known if option.startswith("--")]
            parser.error(f"there is no option {name!r}.{meant(name, long)}")
        if options and not equals:
            # Without a number of values it takes one.
            nargs = known[options[0]].nargs
            for _value in itertools.islice(rest, nargs if isinstance(nargs, int) else 1):
                pass

"""Layers in the scopes that Paddle's operators carry.

While a static program is built, its operators carry a scope in the attribute that Paddle has for
scopes and saves with a model: ``op_namescope`` of a ProgramDesc, ``struct_name`` of PIR. There a
layer is the part ``root:path``, for instance ``/bert_0:encoder.layers.0.linear1/``. Paddle's own
parts beside it are those of ``static.name_scope`` and, in PIR, the classes of layers.
"""

from __future__ import annotations

import re

_PADDLES_OWN = re.compile(r"(optimizer|gradient_clip|regularization|create_parameter)(_\d+)?")


def is_paddles_own(name: str) -> bool:
    """Whether a scope's part, or what a parameter is named after, is no layer but Paddle's own."""
    return _PADDLES_OWN.fullmatch(name) is not None


def scope_part(root: str, path: str) -> str:
    """A layer as a part of a scope.

    Args:
        root: the name of the layer that the path starts from, "" for none.
        path: of the layer, "" for `root` itself.
    """
    return f"{_plain(root)}:{_plain(path)}"


def _plain(name: str) -> str:
    return name.replace("/", "_").replace(":", "_")


def is_layer(part: str) -> bool:
    """Whether a part of a scope is a layer."""
    return ":" in part


def read_scope(scope: str) -> tuple[str, str]:
    """(name of the root, path of the layer) of a scope; without a layer, of Paddle's own parts."""
    parts = [part for part in scope.split("/") if part]
    layers = [number for number, part in enumerate(parts) if is_layer(part)]
    if layers:
        root, _, path = parts[layers[-1]].partition(":")
        return root, ".".join(filter(None, (path, *parts[layers[-1] + 1 :])))
    return "", ".".join(part for part in parts if not is_paddles_own(part))

"""The one file that knows Graphcore's own ``popart``: which module and device a program gets.

``PADDLE_IPU_DEVICE`` says which: ``model`` for the IPU Model, ``sdk`` for Graphcore's module, and
``auto`` (the default) for the SDK where it is installed and ``POPLAR_IPUMODEL`` is not set.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from paddle_ipu import popart as ours
from paddle_ipu.errors import BackendUnavailableError, NotPortableError, OptionError
from paddle_ipu.instances import attachment
from paddle_ipu.popart.paddle_optimizer import PaddleOptimizer

_TRUE = frozenset({"1", "true", "True", "TRUE"})
CHOICES = ("auto", "model", "sdk")


def wants_model() -> bool:
    """True when ``POPLAR_IPUMODEL`` asks for the IPU Model, by upstream's spelling of truth."""
    return os.environ.get("POPLAR_IPUMODEL", "") in _TRUE


def sdk_installed() -> bool:
    """True when Graphcore's ``popart`` can be imported."""
    # A module made at run time has no spec to find.
    return "popart" in sys.modules or importlib.util.find_spec("popart") is not None


def choice() -> tuple[str, str]:
    """(``model`` or ``sdk``, why).

    Raises:
        OptionError: ``PADDLE_IPU_DEVICE`` holds something else than its three values.
    """
    requested = os.environ.get("PADDLE_IPU_DEVICE", "auto")
    if requested not in CHOICES:
        raise OptionError(
            f"PADDLE_IPU_DEVICE={requested!r} is not one of {', '.join(CHOICES)}; unset it to let "
            "the plugin choose."
        )
    if requested != "auto":
        return requested, f"PADDLE_IPU_DEVICE={requested}"
    if wants_model():
        return "model", "POPLAR_IPUMODEL is set"
    if sdk_installed():
        return "sdk", "Graphcore's popart is installed"
    return "model", "Graphcore's popart is not installed"


def select() -> ModuleType:
    """The module with PopART's API that programs are compiled with.

    Raises:
        BackendUnavailableError: the SDK is asked for and not installed, or its module refuses to
            be imported, as it does in a process that has imported onnx.
    """
    kind, why = choice()
    if kind == "model":
        return ours
    if not sdk_installed():
        raise BackendUnavailableError(
            f"{why}, but Graphcore's popart cannot be imported. Source the Poplar SDK's enable.sh, "
            "or use PADDLE_IPU_DEVICE=model."
        )
    try:
        return importlib.import_module("popart")
    except (ImportError, RuntimeError) as error:
        early = (
            "Import popart at the start of the program, before what imports onnx"
            if "onnx" in sys.modules
            else "Look whether the SDK is made for this Python"
        )
        raise BackendUnavailableError(
            f"{why}, but importing it failed: {error} {early}, or use PADDLE_IPU_DEVICE=model."
        ) from error


def is_ours(popart: ModuleType) -> bool:
    """True for this package's module."""
    return popart is ours


def model_of(popart: ModuleType, builder: Any) -> Any:
    """What a session of `popart` takes as model: ours the builder's own, Graphcore's its bytes."""
    return builder.model if is_ours(popart) else builder.getModelProto()


def check_portable(
    popart: ModuleType, extensions: Mapping[str, str], optimizer: PaddleOptimizer | None
) -> None:
    """Refuses to hand a program that is not portable to Graphcore's module.

    Args:
        extensions: operator of the ``ai.paddle_ipu`` domain -> the place it comes from.
        optimizer: the optimizer where it is Paddle's own rule.

    Raises:
        NotPortableError: it names what keeps the program off the hardware.
    """
    if is_ours(popart):
        return
    reasons = [
        f"operator ai.paddle_ipu.{name} (from {place})" for name, place in extensions.items()
    ]
    if optimizer is not None:
        rules = sorted({update.rule for update in optimizer.updates})
        reasons.append(f"Paddle's own update rule ({', '.join(rules)})")
    if reasons:
        raise NotPortableError(
            "this program is not portable to Graphcore's SDK: " + "; ".join(reasons) + ". Run it "
            "on the IPU Model (PADDLE_IPU_DEVICE=model)"
            + (
                "."
                if optimizer is None
                else ", or ask for PopART's update rule: set_options({'optimizer_rule': 'popart'})."
            )
        )


def acquire(popart: ModuleType, num_ipus: int, tiles_per_ipu: int) -> Any:
    """A device for `num_ipus` IPUs: a model of them with our module, hardware with Graphcore's.

    Raises:
        BackendUnavailableError: no such hardware can be attached.
    """
    manager = popart.DeviceManager()
    if is_ours(popart) or wants_model():
        if not wants_model():
            attachment.attach(num_ipus)
        return manager.createIpuModelDevice(
            {"numIPUs": num_ipus, "tilesPerIPU": tiles_per_ipu, "ipuVersion": "ipu2"}
        )
    count = 1 << max(num_ipus - 1, 0).bit_length()
    device = manager.tryAcquireAvailableDevice(count)
    if device is None:
        raise BackendUnavailableError(
            f"Can't attach IPU, ipu_num = {count}. Check `gc-monitor` for free IPUs and "
            "IPUOF_CONFIG_PATH for the partition, or set POPLAR_IPUMODEL=1."
        )
    return device

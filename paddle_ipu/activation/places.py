"""Paddle's device names for the IPU: the place, the device count, ``paddle.get_device``.

Stock Paddle has no IPU allocator. Upstream keeps tensors of an IPU place in host memory, so a
place that Paddle's C++ code takes for the CPU stores them where an IPU build does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import paddle
from paddle.base import core

if TYPE_CHECKING:
    from paddle.distributed.launch.context.device import Device


class IPUPlace(core.CPUPlace):
    """Where tensors of IPU programs live; C++ sees a CPU place.

    Which IPUs a program runs on is decided by its strategy, so there is one place, with id 0, as
    upstream documents; an id is accepted because ``'ipu:0'`` names a place too.

    Args:
        device_id: must be 0.

    Raises:
        ValueError: for another id.
    """

    def __init__(self, device_id: int = 0) -> None:
        if device_id != 0:
            raise ValueError(
                f"IPUPlace has one device id, 0, got {device_id}. The number of IPUs is set with "
                "IpuStrategy.set_graph_config(num_ipus=...)."
            )
        super().__init__()

    def get_device_id(self) -> int:
        """The id of the place: 0."""
        return 0

    def ipu_device_id(self) -> int:
        """The id of the place: 0."""
        return 0

    def is_ipu_place(self) -> bool:
        """True."""
        return True

    def is_cpu_place(self) -> bool:
        """False; C++ code, which has no IPU place, still takes it for the CPU."""
        return False

    def __repr__(self) -> str:
        return "Place(ipu:0)"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IPUPlace)

    def __hash__(self) -> int:
        return hash(IPUPlace)

    def __reduce__(self) -> tuple[type[IPUPlace], tuple[()]]:
        return IPUPlace, ()


def is_compiled_with_ipu() -> bool:
    """True: the plugin is what an IPU build of Paddle compiles in."""
    return True


def get_ipu_device_count() -> int:
    """The number of devices: one IPU Model, however many IPUs it models, as upstream."""
    return 1


def naming_ipus(get_device: Callable[..., Any]) -> Callable[..., Any]:
    """``paddle.get_device`` that returns ``ipus:{0-<n-1>}`` while the IPU is the device.

    Stock code asks for a CPU place first, which an IPU place is by inheritance.
    """

    @functools.wraps(get_device)
    def get_device_with_ipus(*tensor: Any, **keywords: Any) -> object:
        # Asked for a tensor's device (Paddle 3.3 takes one), the stock answer is right.
        default = not tensor and not keywords
        if default and isinstance(paddle.base.framework._current_expected_place_(), IPUPlace):
            return f"ipus:{{0-{get_ipu_device_count() - 1}}}"
        return get_device(*tensor, **keywords)

    return get_device_with_ipus


def guarding_ipus(device_guard: Callable[..., Any]) -> Callable[..., Any]:
    """``paddle.static.device_guard`` that takes ``ipu`` and ``ipu:0``.

    A static program is compiled for IPUs as a whole, so its operators are given no device.
    """

    @functools.wraps(device_guard)
    def guard(device: str | None = None) -> object:
        on_ipu = isinstance(device, str) and device.partition(":")[0] == "ipu"
        return device_guard(None if on_ipu else device)

    return guard


def taking_named_ipus(convert_to_place: Callable[..., Any]) -> Callable[..., Any]:
    """``_convert_to_place`` that takes what ``paddle.get_device`` returns for the IPU."""

    @functools.wraps(convert_to_place)
    def convert(device: object) -> object:
        if isinstance(device, str) and device.lower().startswith("ipus:"):
            return IPUPlace()
        return convert_to_place(device)

    return convert


def counting_ipus(get_selected_devices: Callable[..., Any]) -> Callable[..., Any]:
    """``Device.get_selected_devices`` that takes ``--devices=4`` of an IPU launch as a number.

    How many IPUs there are is known to the V-IPU server, which ``poprun`` asks.
    """

    @functools.wraps(get_selected_devices)
    def get_selected_devices_of(device: Device, devices: str = "") -> list[str]:
        on_ipus = device.get_selected_device_key() == "FLAGS_selected_ipus"
        if on_ipus and str(devices).isdecimal():
            return [str(devices)]
        return list(get_selected_devices(device, devices))

    return get_selected_devices_of

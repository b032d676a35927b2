"""``paddle-ipu info``: versions, devices, whether the SDK is there, and what would be used."""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import logging
import os
import platform
import warnings
from collections.abc import Mapping
from typing import Any

import paddle_ipu
from paddle_ipu.errors import ActivationError, OptionError
from paddle_ipu.operating_system import platforms
from paddle_ipu.runtime import target_selection

NAME = "info"
SUMMARY = "report versions, devices, the SDK, and what would run compiled programs"
EXIT_CODES = """\
exit codes:
  0  Paddle is patched and there is a device: compiled programs can run
  1  they cannot; the report says why
  2  wrong arguments
"""

_LEGACY = "ProgramDesc"

# Names of distributions, in the order of the report.
_REPORTED = ("paddlepaddle", "jax", "jaxlib", "onnx", "onnx-ir", "numpy", "protobuf")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this subcommand."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Prints the report; returns 0 if compiled programs can run, else 1."""
    report = collect()
    if arguments.json:
        print(json.dumps(report, indent=2))
    else:
        print(describe(report), end="")
    return 0 if report["compiled_programs"]["device"] is not None else 1


def collect() -> dict[str, Any]:
    """The report as plain data: versions, platform, paddle, xla, sdk, compiled_programs."""
    paddle = _paddle()
    xla = _xla()
    sdk = _sdk(os.environ)
    return {
        "versions": {
            "paddle_ipu": paddle_ipu.__version__,
            "python": platform.python_version(),
            **{name: _version(name) for name in _REPORTED},
        },
        "platform": _platform(),
        "paddle": paddle,
        "xla": xla,
        "sdk": sdk,
        "compiled_programs": choose(paddle, xla, sdk),
    }


def choose(
    paddle: Mapping[str, Any], xla: Mapping[str, Any], sdk: Mapping[str, Any]
) -> dict[str, str | None]:
    """The device that would run a compiled program, and why.

    Args:
        paddle: what `info` reports of Paddle.
        xla: likewise of XLA.
        sdk: likewise of Graphcore's SDK.

    Returns:
        ``device``, None if nothing can run a program, and ``reason``.
    """
    if not paddle["patched"]:
        return {"device": None, "reason": f"Paddle is not patched: {paddle['problem']}"}
    try:
        kind, why = target_selection.choice()
    except OptionError as error:
        return {"device": None, "reason": str(error)}
    if kind == "sdk":
        if sdk["popart"]:
            return {"device": "IPUs, through Graphcore's SDK", "reason": why}
        return {"device": None, "reason": f"{why}, but Python finds no module `popart`"}
    if not xla["devices"]:
        return {"device": None, "reason": f"XLA has no device: {xla['problem']}"}
    return {"device": f"IPU Model, XLA on {xla['platform']}", "reason": why}


def describe(report: Mapping[str, Any]) -> str:
    """The report as text, one fact a line."""
    paddle, xla, sdk = report["paddle"], report["xla"], report["sdk"]
    chosen = report["compiled_programs"]
    patched = "patched" if paddle["patched"] else f"not patched: {paddle['problem']}"
    lines = [(name, version or "not installed") for name, version in report["versions"].items()]
    lines += [
        ("platform", report["platform"]["missing"] or report["platform"]["name"]),
        ("Paddle", patched),
        ("static programs", paddle["programs"] or "not known"),
        ("automatic activation", "on" if paddle["autoload"] else "off (PADDLE_IPU_AUTOLOAD=0)"),
        ("XLA platform", xla["platform"] or f"none: {xla['problem']}"),
        ("XLA devices", ", ".join(xla["devices"]) or "none"),
        ("oneDNN in XLA", xla["onednn"] or f"not used: {xla['onednn_problem']}"),
        ("Graphcore's popart", "found" if sdk["popart"] else "not found"),
        ("POPLAR_SDK_ENABLED", sdk["POPLAR_SDK_ENABLED"] or "not set"),
        ("compiled programs", chosen["device"] or "cannot run"),
        ("because", chosen["reason"]),
    ]
    width = max(len(name) for name, _ in lines)
    return "".join(f"{name:<{width}}  {value}\n" for name, value in lines)


def _platform() -> dict[str, str]:
    return {
        "name": platforms.this_platform().name,
        "missing": platforms.what_is_missing(),
    }


def _paddle() -> dict[str, Any]:
    problem = kind = None
    with warnings.catch_warnings():
        # The report says itself what the warning of the automatic activation would.
        warnings.simplefilter("ignore")
        # Importing Paddle may log to the standard output, which belongs to the report.
        with open(os.devnull, "w") as null, contextlib.redirect_stdout(null):
            try:
                paddle_ipu.activate()
                kind = _kind_of_programs()
            except ActivationError as error:
                problem = str(error)
    autoload = os.environ.get("PADDLE_IPU_AUTOLOAD") != "0"
    return {
        "patched": problem is None,
        "problem": problem,
        "autoload": autoload,
        "programs": kind,
    }


def _kind_of_programs() -> str:
    """What static mode builds: Paddle 2.6, and 3.x with FLAGS_enable_pir_api=0, ProgramDesc."""
    import paddle

    return "PIR" if paddle.get_flags("FLAGS_enable_pir_api")["FLAGS_enable_pir_api"] else _LEGACY


def _xla() -> dict[str, Any]:
    # Paddle sets up the root logger, which then shows JAX's search for absent accelerators.
    disabled = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        import jax

        from paddle_ipu.xla.kernels import library

        return {
            "platform": jax.default_backend(),
            "devices": [str(device) for device in jax.devices()],
            "problem": None,
            "onednn": library.version(),
            "onednn_problem": library.why_not(),
        }
    except (ImportError, RuntimeError) as error:
        why = "there is no XLA"
        return {
            "platform": None, "devices": [], "problem": str(error),
            "onednn": None, "onednn_problem": why,
        }  # fmt: skip
    finally:
        logging.disable(disabled)


def _sdk(environment: Mapping[str, str]) -> dict[str, Any]:
    return {
        "popart": target_selection.sdk_installed(),
        "POPLAR_SDK_ENABLED": environment.get("POPLAR_SDK_ENABLED"),
    }


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None

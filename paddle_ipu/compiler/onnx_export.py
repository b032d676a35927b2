"""``paddle_ipu.export``: a Paddle program, layer or saved model as an ONNX file.

What is written is the PopART program, forward: operators of ONNX opset 11 and of Graphcore's
domain, static shapes, tensor types of the device. :mod:`paddle_ipu.popart` runs it, and other
runtimes do if it has standard operators only.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paddle_ipu.compiler.exported_model import ExportReport, model_to_export, target_of, write
from paddle_ipu.compiler.paddle_modes import dynamic_mode, static_mode
from paddle_ipu.compiler.source import Source
from paddle_ipu.compiler.translated_program import WeightsOf, array_weights, scope_weights
from paddle_ipu.dialect.value_names import name_of
from paddle_ipu.errors import InvalidProgramError, NotSupported
from paddle_ipu.frontend import programs, saved_model
from paddle_ipu.options.strategy import StrategyValues, check_consistent
from paddle_ipu.options.values import is_whole
from paddle_ipu.passes.check_micro_batch import CheckMicroBatch
from paddle_ipu.popart import standard_operators
from paddle_ipu.runtime.weights.owner import sync_to_host

if TYPE_CHECKING:
    import paddle

__all__ = ["ExportReport", "export"]


@dataclass(frozen=True, slots=True)
class _Exported:
    """What is exported.

    Attributes:
        program: of any kind that ``IpuCompiledProgram`` takes.
        feeds: names of the inputs.
        fetches: names of the outputs in the program.
        names: the outputs' default names in the file.
        weights: reads the weights.
    """

    program: paddle.static.Program
    feeds: list[str]
    fetches: list[str]
    names: list[str]
    weights: WeightsOf


def export(
    source: paddle.static.Program | paddle.nn.Layer | str | os.PathLike[str],
    path: str | os.PathLike[str],
    feed_list: Sequence[Any] | None = None,
    fetch_list: Sequence[Any] | None = None,
    *,
    input_spec: Sequence[Any] | None = None,
    output_names: Sequence[str] | None = None,
    scope: paddle.static.Scope | None = None,
    ipu_strategy: paddle.static.IpuStrategy | None = None,
    batch_size: int | None = None,
    standard_only: bool = False,
    external_data_from: int = 64 * 2**20,
) -> ExportReport:
    """Writes a Paddle program as ONNX, forward.

    Args:
        source: a static program; a ``nn.Layer`` or a function of ``paddle.jit.to_static``; or the
            path of a saved model, without its suffix, which is read as data.
        path: the file. Weights of `external_data_from` bytes or more in all go to ``<path>.data``,
            or to ``<path>.1.data`` where the model that is replaced has those.
        feed_list: names or variables that the model is fed; those of a saved model by default.
        fetch_list: names or variables that it gives; those of a saved model by default.
        input_spec: what a layer is called with, as for ``paddle.jit.save``.
        output_names: names for the outputs, in order; by default those of `fetch_list`, and what a
            saved model or a layer calls its results, with ``.output`` behind one that is taken.
        scope: where a program's weights are; the global scope by default.
        ipu_strategy: its options say, for instance, whether the model is half.
        batch_size: size of the dynamic first dimension of feeds, 1 by default; the strategy's
            ``micro_batch_size`` where one is given.
        standard_only: rewrites Graphcore's operators with ONNX's own, and gives inputs and outputs
            the dtypes of the Paddle program, so that other runtimes run the model; placement on
            IPUs is left out.
        external_data_from: bytes.

    Raises:
        NotSupported: operators without a translator; with `standard_only`, operators that ONNX
            does not have.
        InvalidProgramError, FetchError: what is to be exported is not said rightly.
        OptionError: other rows than the feeds' own batch has.
        ModelFileError: the saved model cannot be read, or the file cannot be written.
    """
    target = target_of(path)
    found = _program_of(source, feed_list, fetch_list, input_spec, scope, standard_only)
    feeds, fetches = found.feeds, found.fetches
    if output_names is None:
        names = _distinct(found.names, feeds)
    else:
        names = _checked(output_names, fetches, feeds)
    # The check names the option that the user sets.
    check = CheckMicroBatch("batch_size" if ipu_strategy is None else "micro_batch_size")
    options = _options(ipu_strategy, batch_size)
    exported = model_to_export(
        Source(found.program, options, feeds, fetches, (check,)), found.weights, standard_only
    )
    exported.name_nodes()
    model = exported.model
    if standard_only:
        standard_operators.rewrite(model)
        if lacking := standard_operators.not_standard(model):
            raise NotSupported(
                f"ONNX has no operators for {', '.join(lacking)}, and standard_only asks for its "
                "own alone. Without it the model is written for paddle_ipu.popart"
                f"{exported.users(lacking)}"
            )
        exported.restore_inputs()
    exported.give_names(feeds, dict(zip(names, fetches, strict=True)), standard_only)
    if standard_only:
        exported.model = standard_operators.raised(model)
    return write(exported, target, external_data_from)


# -- what is exported -----------------------------------------------------------------------------


def _program_of(
    source: paddle.static.Program | paddle.nn.Layer | str | os.PathLike[str],
    feed_list: Sequence[Any] | None,
    fetch_list: Sequence[Any] | None,
    input_spec: Sequence[Any] | None,
    scope: paddle.static.Scope | None,
    in_64_bits: bool,
) -> _Exported:
    if programs.is_program(source) and not programs.is_saved(source):
        if feed_list is None or fetch_list is None:
            raise InvalidProgramError(
                "export of a program needs feed_list and fetch_list, as compile does: which "
                "tensors the model takes, and which it gives."
            )
        if input_spec is not None:
            raise InvalidProgramError("export: input_spec is for layers; a program has feed_list.")
        fetches = _names(fetch_list)
        weights = _of_scope(scope, in_64_bits)
        return _Exported(source, _names(feed_list), fetches, fetches, weights)
    if isinstance(source, (str, os.PathLike)):
        return _saved(os.fspath(source), feed_list, fetch_list, in_64_bits)
    if callable(getattr(source, "forward", None)) or hasattr(source, "get_concrete_program"):
        with _saved_layer(source, input_spec) as prefix:
            return _saved(prefix, feed_list, fetch_list, in_64_bits)
    kind = type(source)
    raise InvalidProgramError(
        "export takes a paddle.static.Program, a layer, a function of paddle.jit.to_static, or the "
        f"path of a saved model, got {kind.__module__}.{kind.__qualname__}."
    )


def _names(items: Sequence[Any]) -> list[str]:
    if isinstance(items, str) or not isinstance(items, (list, tuple)):
        raise InvalidProgramError(
            f"feed_list and fetch_list are lists of names or variables, got {items!r}."
        )
    return [item if isinstance(item, str) else name_of(item) for item in items]


def _of_scope(scope: paddle.static.Scope | None, in_64_bits: bool) -> WeightsOf:
    import paddle

    sync_to_host()
    return scope_weights(paddle.static.global_scope() if scope is None else scope, in_64_bits)


def _saved(
    prefix: str,
    feed_list: Sequence[Any] | None,
    fetch_list: Sequence[Any] | None,
    in_64_bits: bool,
) -> _Exported:
    model = saved_model.read(saved_model.locate(prefix, None, None, prefer=(".json", ".pdmodel")))
    program = model.program("it is exported")
    feeds = list(program.feed_names) if feed_list is None else _names(feed_list)
    fetches = [str(target.name) for target in program.fetch_targets]
    chosen = fetches if fetch_list is None else _names(fetch_list)
    names = list(program.output_names) if fetch_list is None else chosen
    # A mapped file stays readable when its folder is removed.
    return _Exported(program, feeds, chosen, names, array_weights(model.parameters, in_64_bits))


def _checked(names: Sequence[str], fetches: Sequence[str], feeds: Sequence[str]) -> list[str]:
    found = _names(names)
    different = len({*found, *feeds, ""}) == len(found) + len(feeds) + 1
    if len(found) != len(fetches) or not different:
        raise InvalidProgramError(
            f"export: output_names is {found}, expected {len(fetches)} different names, for "
            f"{fetches}, and none of the inputs'."
        )
    return found


def _distinct(names: Sequence[str], feeds: Sequence[str]) -> list[str]:
    """Names that no input has, and none twice; a model may give what it is fed."""
    found: list[str] = []
    for name in names:
        while name in found or name in feeds:
            name += ".output"
        found.append(name)
    return found


@contextlib.contextmanager
def _saved_layer(layer: paddle.nn.Layer, input_spec: Sequence[Any] | None) -> Iterator[str]:
    """Saves a layer in evaluation mode by ``paddle.jit.save``; gives the path without suffix."""
    import paddle

    layers = layer.sublayers(include_self=True) if hasattr(layer, "sublayers") else []
    training = [each for each in layers if each.training]
    with tempfile.TemporaryDirectory() as folder, dynamic_mode():
        prefix = os.path.join(folder, "model")
        try:
            if training:
                layer.eval()
            paddle.jit.save(layer, prefix, input_spec=input_spec)
        except (ValueError, TypeError, RuntimeError) as error:
            raise InvalidProgramError(
                f"export: paddle.jit.save cannot save the layer: {str(error).strip()} input_spec "
                "says what the layer is called with, for instance "
                "[paddle.static.InputSpec([None, 784], 'float32', 'x')]."
            ) from error
        finally:
            for each in training:
                each.training = True
        yield prefix


def _options(
    ipu_strategy: paddle.static.IpuStrategy | None, batch_size: int | None
) -> StrategyValues:
    import paddle

    if batch_size is not None and (not is_whole(batch_size) or batch_size < 1):
        raise InvalidProgramError(
            f"export: batch_size is {batch_size!r}, expected an integer from 1 on."
        )
    strategy = ipu_strategy
    if strategy is None:
        # In dynamic mode a strategy would take over the layers of paddle.jit.to_static.
        with static_mode():
            strategy = paddle.static.IpuStrategy()
        strategy.set_graph_config(is_training=False, micro_batch_size=int(batch_size or 1))
    elif batch_size is not None:
        raise InvalidProgramError(
            "export: give either ipu_strategy, whose micro_batch_size counts, or batch_size."
        )
    values: StrategyValues = strategy._ipu_strategy.snapshot()
    check_consistent(values)
    return values

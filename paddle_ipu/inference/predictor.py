"""``create_predictor`` for configs with ``enable_ipu``, and the predictor that it returns."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
from paddle.base import core

from paddle_ipu.errors import FeedError, FetchError, NotSupported, meant
from paddle_ipu.inference.config import files_of
from paddle_ipu.inference.model import Model
from paddle_ipu.inference.settings import settings_of
from paddle_ipu.inference.tensor import IpuTensor, view_of
from paddle_ipu.notebook.html_table import html_table
from paddle_ipu.operating_system import process_memory
from paddle_ipu.runtime.feed_words import listed

if TYPE_CHECKING:
    from paddle import Tensor
    from paddle.inference import Config

    from paddle_ipu.serving.program_model import ProgramModel

Array = np.ndarray[Any, Any]


class IpuPredictor:
    """A predictor on the IPU, with the methods of ``paddle.inference.Predictor``.

    As Paddle's, one is for one thread; ``clone`` gives others the same model and weights.

    Args:
        model: shared with its clones.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._inputs = {
            known.name: IpuTensor(known.name, known.dtype, True) for known in model.inputs
        }
        self._outputs = {
            name: IpuTensor(name, dtype, False)
            for name, dtype in zip(model.outputs, model.output_dtypes, strict=True)
        }

    def __repr__(self) -> str:
        inputs = [f"{known.name} {known.dtype} {list(known.shape)}" for known in self._model.inputs]
        outputs = map(" ".join, zip(self._outputs, self._model.output_dtypes, strict=True))
        return (
            f"<IpuPredictor: inputs {', '.join(inputs) or '(none)'}, "
            f"outputs {', '.join(outputs) or '(none)'}>"
        )

    def _repr_html_(self) -> str:
        rows = [("input", i.name, i.dtype, f"{list(i.shape)}") for i in self._model.inputs]
        outputs = zip(self._outputs, self._model.output_dtypes, strict=True)
        rows += [("output", name, dtype, "") for name, dtype in outputs]
        return html_table(("", "name", "dtype", "shape"), rows, "IpuPredictor")

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """``isinstance(it, paddle.inference.Predictor)`` holds, as for Paddle's own predictors."""
        return core.PaddleInferPredictor

    def get_input_names(self) -> list[str]:
        """The inputs' names, in the order the model was saved with."""
        return list(self._inputs)

    def get_output_names(self) -> list[str]:
        """The outputs' names, in the order the model was saved with."""
        return list(self._outputs)

    def get_input_handle(self, name: str) -> IpuTensor:
        """The handle that data for an input is given to.

        Raises:
            FeedError: no input has that name.
        """
        if name not in self._inputs:
            raise FeedError(
                f"the model has no input {name!r}; its inputs are "
                f"{', '.join(map(repr, self._inputs)) or '(none)'}.{meant(name, self._inputs)}"
            )
        return self._inputs[name]

    def get_output_handle(self, name: str) -> IpuTensor:
        """The handle that has an output's data after a run.

        Raises:
            FetchError: no output has that name.
        """
        if name not in self._outputs:
            raise FetchError(
                f"the model has no output {name!r}; its outputs are "
                f"{', '.join(map(repr, self._outputs)) or '(none)'}.{meant(name, self._outputs)}"
            )
        return self._outputs[name]

    def run(self, inputs: Sequence[Tensor] | None = None) -> list[Tensor] | None:
        """Computes the outputs of what the input handles hold, or of `inputs`.

        Args:
            inputs: tensors, one for each input in the order of their names; the handles then
                stay as they are. Neither they nor the results are copied.

        Returns:
            None; with `inputs` a list of tensors, one for each output.

        Raises:
            FeedError: an input is missing, or of a shape or dtype that the model does not take.
            TypeError: `inputs` is no list of tensors.
            BackendUnavailableError: its backend was reset, or this process was forked from the
                one that made it.
        """
        if inputs is not None:
            return self._run_tensors(inputs)
        arrays = [tensor.array for tensor in self._inputs.values() if tensor.array is not None]
        if len(arrays) != len(self._inputs):
            missing = [name for name, tensor in self._inputs.items() if tensor.array is None]
            raise FeedError(
                f"{listed(missing, 'input', 'has no data', 'have no data')}. Before run() call "
                f"predictor.get_input_handle({missing[0]!r}).copy_from_cpu(array)."
            )
        results = self._model.run(arrays)
        for tensor, array in zip(self._outputs.values(), results, strict=True):
            tensor.array = array
        return None

    def _run_tensors(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        if not isinstance(inputs, (list, tuple)):
            raise TypeError(
                f"run got {type(inputs).__name__}, expected a list of tensors, one for each input: "
                f"{', '.join(map(repr, self._inputs)) or '(none)'}."
            )
        if len(inputs) != len(self._inputs):
            raise FeedError(
                f"run got {len(inputs)} tensors, the model has {len(self._inputs)} inputs: "
                f"{', '.join(map(repr, self._inputs)) or '(none)'}."
            )
        arrays = [view_of(tensor, "run") for tensor in inputs]
        results = self._model.run(arrays)
        held = {_place_of(array) for array in arrays}
        tensors = []
        with _dynamic_mode():
            for name, array in zip(self._outputs, results, strict=True):
                # A result may be an input, or another result; a tensor can be written.
                is_own = not self._model.shares_steps and _place_of(array) not in held
                held.add(_place_of(array))
                tensors.append(core.eager.Tensor(array, core.CPUPlace(), False, is_own, name, True))
        return tensors

    def clone(self, stream: object = None) -> IpuPredictor:
        """A predictor with inputs and outputs of its own; model, weights and programs are shared.

        Args:
            stream: not used: streams are those of GPUs.
        """
        return IpuPredictor(self._model)

    def serving_model(self, shared_outputs: Collection[str] = ()) -> ProgramModel:
        """Its model for a ``paddle_ipu.serving.BatchingRunner``, by the names of the handles.

        Args:
            shared_outputs: outputs that are the same whatever the rows are.

        Raises:
            ServingError: it has inputs that are not rows of fixed shape.
        """
        return self._model.serving_model(shared_outputs)

    def clear_intermediate_tensor(self) -> None:
        """Drops the data of inputs and outputs; nothing else is kept between runs."""
        for tensor in (*self._inputs.values(), *self._outputs.values()):
            tensor.array = None

    def try_shrink_memory(self) -> int:
        """Returns unused memory to the system.

        Returns:
            How many bytes; 0 where unknown.
        """

        before = process_memory.resident_bytes() or 0
        process_memory.give_back_freed()
        return max(0, before - (process_memory.resident_bytes() or 0))

    def register_input_hook(self, hook: Callable[..., None]) -> None:
        """Not supported, as ``register_output_hook``.

        Raises:
            NotSupported: always.
        """
        self._refuse_hook("register_input_hook")

    def register_output_hook(self, hook: Callable[..., None]) -> None:
        """Not supported: on the IPU a model is one program, not operator after operator.

        Raises:
            NotSupported: always.
        """
        self._refuse_hook("register_output_hook")

    def _refuse_hook(self, what: str) -> None:
        raise NotSupported(
            f"{what}: on the IPU a model runs as one program, so there is no moment between two "
            "operators. Save the model with the values you want to see as outputs, or compare it "
            "operator by operator with paddle_ipu.verify."
        )


def creating(original: Callable[[Config], object]) -> Callable[[Config], object]:
    """``create_predictor``, which gives configs with ``enable_ipu`` a predictor on the IPU."""

    @functools.wraps(original)
    def create_predictor(config: Config) -> object:
        if not isinstance(config, core.AnalysisConfig) or not settings_of(config).enabled:
            return original(config)
        strategy = settings_of(config).strategy()
        return IpuPredictor(Model(files_of(config), strategy))

    return create_predictor


def refusing(original: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes predictors on the CPU; it refuses configs with ``enable_ipu``."""

    @functools.wraps(original)
    def create(*args: Any, **keywords: Any) -> object:
        for argument in args:
            if isinstance(argument, core.AnalysisConfig) and settings_of(argument).enabled:
                raise NotSupported(
                    "this makes predictors on the CPU, and the config has enable_ipu. Use "
                    "paddle.inference.create_predictor(config)."
                )
        return original(*args, **keywords)

    return create


def _place_of(array: Array) -> int:
    """Where its memory begins."""
    place: int = array.__array_interface__["data"][0]
    return place


@contextlib.contextmanager
def _dynamic_mode() -> Iterator[None]:
    """Tensors can be made in dynamic mode only."""
    if paddle.in_dynamic_mode():
        yield
        return
    with paddle.base.dygraph.guard(core.CPUPlace()):
        yield

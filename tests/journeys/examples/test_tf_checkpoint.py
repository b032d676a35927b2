"""TensorFlow's checkpoints, read without TensorFlow, from bytes made after the format."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from examples.bert.crc32c import crc32c
from examples.bert.files import DataError
from examples.bert.stages.names import encoder_names, from_published, from_tensorflow
from examples.bert.stages.settings import Settings
from examples.bert.tf_checkpoint import TensorFlowCheckpoint

SETTINGS = Settings(
    hidden_size=4, num_hidden_layers=2, vocab_size=7, max_position_embeddings=5, seq_len=4
)
TYPES = {np.dtype(np.float32): 1, np.dtype(np.float64): 2, np.dtype(np.int64): 9}


def slow_crc32c(data: bytes) -> int:
    """Bit by bit, after the definition."""
    state = 0xFFFFFFFF
    for octet in data:
        state ^= octet
        for _ in range(8):
            state = (state >> 1) ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


def stored(data: bytes) -> bytes:
    checksum = slow_crc32c(data)
    rotated = (checksum >> 15 | checksum << 17) & 0xFFFFFFFF
    return struct.pack("<I", (rotated + 0xA282EAD8) & 0xFFFFFFFF)


def varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def block(records: list[tuple[bytes, bytes]], compression: int = 0) -> bytes:
    """A block of a LevelDB table: keys share their beginnings, one restart point."""
    body, before = b"", b""
    for key, value in records:
        shared = 0
        while shared < min(len(key), len(before)) and key[shared] == before[shared]:
            shared += 1
        rest = key[shared:]
        body += varint(shared) + varint(len(rest)) + varint(len(value)) + rest + value
        before = key
    body += struct.pack("<II", 0, 1)
    return body + bytes([compression]) + stored(body + bytes([compression]))


def write_bundle(prefix: Path, tensors: dict[str, NDArray], compression: int = 0) -> None:
    """The index, in two blocks, and the data of a checkpoint."""
    data, records = b"", [(b"", field(1, 1) + field(3, field(1, 1)))]
    for name in sorted(tensors):
        array = tensors[name]
        dimensions = b"".join(field(2, field(1, n)) for n in array.shape)
        content = array.tobytes()
        entry = field(1, TYPES[array.dtype]) + field(2, dimensions)
        entry += field(4, len(data)) + field(5, len(content))
        entry += varint(6 << 3 | 5) + stored(content)
        records.append((name.encode(), entry))
        data += content
    half = max(1, len(records) // 2)
    index, places = b"", []
    for part in (records[:half], records[half:]):
        if part:
            made = block(part, compression)
            places.append((part[-1][0], varint(len(index)) + varint(len(made) - 5)))
            index += made
    handles = b""
    for made in (block([]), block(places)):
        handles += varint(len(index)) + varint(len(made) - 5)
        index += made
    footer = handles.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)
    prefix.with_name(prefix.name + ".index").write_bytes(index + footer)
    prefix.with_name(prefix.name + ".data-00000-of-00001").write_bytes(data)


def bert_tensors() -> dict[str, NDArray]:
    """A BERT of two layers under TensorFlow's names, with more words and fewer positions."""
    rng = np.random.default_rng(0)
    tensors: dict[str, NDArray] = {"global_step": np.array(12, np.int64)}
    for ours, theirs, _ in encoder_names(2):
        if ".weight" not in ours:
            shape: tuple[int, ...] = (16,) if "inner" in ours else (4,)
        elif "feed_forward" in ours:
            shape = (4, 16) if "inner" in ours else (16, 4)
        else:
            shape = {"word": (9, 4), "position": (3, 4), "segment": (2, 4)}.get(
                ours.split(".")[1], (4, 4)
            )
        tensors[theirs] = rng.standard_normal(shape).astype(np.float32)
    tensors["cls/squad/output_weights"] = rng.standard_normal((2, 4)).astype(np.float32)
    tensors["cls/squad/output_bias"] = np.float32([1, 2])
    return tensors


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return tmp_path / "bert_model.ckpt"


@pytest.mark.parametrize("size", [0, 9, 16_384, 50_000])
def test_the_checksum_is_that_of_the_definition(size: int) -> None:
    data = np.random.default_rng(size).bytes(size)
    assert crc32c(data) == slow_crc32c(data)
    assert crc32c(b"123456789") == 0xE3069283


def test_tensors_are_read_as_they_were_written(prefix: Path) -> None:
    tensors = bert_tensors() | {"double": np.arange(6.0).reshape(2, 3)}
    write_bundle(prefix, tensors)
    checkpoint = TensorFlowCheckpoint(prefix)
    assert checkpoint.shapes == {name: array.shape for name, array in tensors.items()}
    for name, array in tensors.items():
        read = checkpoint.read(name)
        assert read.dtype == array.dtype and np.array_equal(read, array), name


def test_tensorflows_bert_comes_under_the_networks_names(prefix: Path) -> None:
    tensors = bert_tensors()
    write_bundle(prefix, tensors)
    said: list[str] = []
    found = from_tensorflow(prefix, SETTINGS, said.append)
    layer = "bert/encoder/layer_1/"
    for ours, theirs in {
        "embeddings.segment.weight": "bert/embeddings/token_type_embeddings",
        "embeddings.norm.scale": "bert/embeddings/LayerNorm/gamma",
        "encoder.1.attention.key.weight": f"{layer}attention/self/key/kernel",
        "encoder.1.attention.value.bias": f"{layer}attention/self/value/bias",
        "encoder.1.attention.output.weight": f"{layer}attention/output/dense/kernel",
        "encoder.1.feed_forward.inner.bias": f"{layer}intermediate/dense/bias",
        "encoder.1.feed_forward.norm.bias": f"{layer}output/LayerNorm/beta",
        "squad.classifier.bias": "cls/squad/output_bias",
    }.items():
        assert np.array_equal(found[ours], tensors[theirs]), ours
    words = tensors["bert/embeddings/word_embeddings"]
    positions = tensors["bert/embeddings/position_embeddings"]
    assert np.array_equal(found["embeddings.word.weight"], words[:7])
    assert np.array_equal(found["embeddings.position.weight"], positions[[0, 1, 2, 0, 1]])
    heads = tensors["cls/squad/output_weights"]
    assert np.array_equal(found["squad.classifier.weight"], heads.T)
    assert "9 rows are cut to --vocab_size 7" in " ".join(said)
    assert "3 positions are repeated to 5" in " ".join(said)


def test_the_published_scripts_parameters_come_under_the_networks_names() -> None:
    rng = np.random.default_rng(1)
    names = {c: a for a, _, c in encoder_names(2) if c != "-"}
    arrays = {c: rng.standard_normal((4, 4)).astype(np.float32) for c in names}
    arrays["ipu_bert_embeddings_0.w_0"] = rng.standard_normal((4, 7)).astype(np.float32)
    arrays["linear_12.w_0"] = rng.standard_normal((4, 2)).astype(np.float32)
    arrays["linear_12.b_0"] = np.zeros(2, np.float32)
    for missing in ("linear_0.b_0", "linear_6.b_0"):
        del arrays[missing]
    found = from_published(arrays, SETTINGS)
    assert np.array_equal(found["embeddings.word.weight"], arrays["ipu_bert_embeddings_0.w_0"].T)
    assert np.array_equal(found["encoder.1.attention.query.weight"], arrays["bert_model_0.w_3"])
    assert np.array_equal(found["encoder.1.attention.value.weight"], arrays["bert_model_0.w_5"])
    assert np.array_equal(found["encoder.1.attention.output.weight"], arrays["linear_6.w_0"])
    assert np.array_equal(found["encoder.1.feed_forward.inner.weight"], arrays["linear_8.w_0"])
    assert np.array_equal(found["encoder.1.feed_forward.outer.weight"], arrays["linear_9.w_0"])
    assert np.array_equal(found["encoder.0.attention.norm.scale"], arrays["layer_norm_2.w_0"])
    assert np.array_equal(found["encoder.1.feed_forward.norm.scale"], arrays["layer_norm_8.w_0"])
    assert not found["encoder.0.attention.output.bias"].any()
    assert not found["encoder.0.attention.query.bias"].any()
    assert np.array_equal(found["squad.classifier.weight"], arrays["linear_12.w_0"])
    assert not [name for name in found if name.startswith(("mlm.", "nsp."))]
    # What pretraining saved has another head under that name, and one more.
    heads = {"linear_12": (4, 4), "linear_13": (4, 2), "linear_14": (4, 4), "layer_norm_10": (4,)}
    for name, shape in heads.items():
        arrays[f"{name}.w_0"] = rng.standard_normal(shape).astype(np.float32)
        arrays[f"{name}.b_0"] = rng.standard_normal(shape[-1:]).astype(np.float32)
    found = from_published(arrays, SETTINGS)
    assert "squad.classifier.weight" not in found
    for ours, theirs in {
        "mlm.transform.weight": "linear_12.w_0",
        "mlm.transform.bias": "linear_12.b_0",
        "mlm.norm.scale": "layer_norm_10.w_0",
        "mlm.norm.bias": "layer_norm_10.b_0",
        "nsp.classifier.weight": "linear_13.w_0",
        "nsp.classifier.bias": "linear_13.b_0",
        "nsp.pooler.weight": "linear_14.w_0",
        "nsp.pooler.bias": "linear_14.b_0",
    }.items():
        assert found[ours] is arrays[theirs], ours
    assert not found["mlm.bias"].any()
    arrays["bert_model_0.b_0"] = np.arange(12, dtype=np.float32)
    key = from_published(arrays, SETTINGS)["encoder.0.attention.key.bias"]
    assert np.array_equal(key, np.float32([4, 5, 6, 7]))


@pytest.mark.parametrize("trainer", [False, True])
@pytest.mark.parametrize("pretrained", [False, True])
def test_published_parameters_are_found_as_paddle_3_numbers_them(
    trainer: bool, pretrained: bool
) -> None:
    """Layers alone are counted there; the IPUTrainer's attention is a layer of its own."""
    rng = np.random.default_rng(2)
    linear, norms = {0: 0, 2: 1, 3: 2, 6: 3, 8: 4, 9: 5}, [0, 2, 4, 6, 8]
    heads = {12: (4, 4), 13: (4, 2), 14: (4, 4)} if pretrained else {12: (4, 2)}
    linear |= {number: number - 6 for number in heads}
    counted: dict[str, tuple[str, tuple[int, ...]]] = {}
    for old, new in linear.items():
        for letter, shape in (("w", (4, 4)), ("b", (4,))):
            counted[f"linear_{old}.{letter}_0"] = (f"linear_{new}.{letter}_0", shape)
    for old, shape in heads.items():
        counted[f"linear_{old}.w_0"] = (f"linear_{linear[old]}.w_0", shape)
    for new, old in enumerate([*norms, 10] if pretrained else norms):
        for letter in "wb":
            counted[f"layer_norm_{old}.{letter}_0"] = (f"layer_norm_{new}.{letter}_0", (4,))
    for number in range(6):
        layer = f"ipu_multi_head_attention_{number // 3}.w_{number % 3}"
        name = f"bert_model_0.w_{number}"
        counted[name] = (layer if trainer else name, (4, 4))
    for name in ("ipu_bert_embeddings_0.w_0", "ipu_bert_embeddings_0.w_1", "embedding_0.w_0"):
        counted[name] = (name, (4, 7))
    old_names = {name: rng.standard_normal(shape) for name, (_, shape) in counted.items()}
    new_names = {counted[name][0]: values for name, values in old_names.items()}
    assert len(new_names) == len(old_names)
    expected, found = (from_published(arrays, SETTINGS) for arrays in (old_names, new_names))
    assert expected.keys() == found.keys()
    assert ("nsp.pooler.weight" in found) == pretrained
    assert all(np.array_equal(expected[name], found[name]) for name in found)


def test_what_cannot_be_read_is_refused(prefix: Path) -> None:
    def refused() -> str:
        with pytest.raises(DataError) as error:
            from_tensorflow(prefix, SETTINGS, lambda _: None)
        return str(error.value)

    assert "expected the index of a TensorFlow checkpoint, but there is no such file" in refused()
    index = prefix.with_name(prefix.name + ".index")
    data = prefix.with_name(prefix.name + ".data-00000-of-00001")
    index.write_bytes(b"something else, but long enough to be a table's footer, 48 bytes")
    assert "expected a LevelDB table" in refused()
    write_bundle(prefix, bert_tensors(), compression=1)
    assert "is compressed, which is not read" in refused()
    write_bundle(prefix, bert_tensors())
    good = index.read_bytes()
    index.write_bytes(good[:30] + b"\x00" + good[31:])
    assert "is damaged: its checksum is another" in refused()
    index.write_bytes(good)
    content = data.read_bytes()
    data.write_bytes(content[:40] + b"?" + content[41:])
    assert "is damaged: its checksum is another" in refused()
    data.write_bytes(content[:40])
    assert "bytes at" in refused() and "the file is cut off or of another checkpoint" in refused()
    data.unlink()
    assert "expected the data of" in refused()

"""Parameter files: every dtype, bounds, and what Paddle itself wrote."""

from __future__ import annotations

import math
import re
import struct
import zlib  # noqa: F401 - before paddle 2.6, which brings another one along
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from paddle_ipu.errors import ModelFileError
from paddle_ipu.frontend.parameter_files import read_combined, read_separate

DTYPES = {
    0: np.bool_, 1: np.int16, 2: np.int32, 3: np.int64, 4: np.float16, 5: np.float32,
    6: np.float64, 20: np.uint8, 21: np.int8, 22: ml_dtypes.bfloat16, 23: np.complex64,
    24: np.complex128, 32: ml_dtypes.float8_e4m3fn, 33: ml_dtypes.float8_e5m2,
}  # fmt: skip


def stream(
    array: Any,
    code: int,
    *,
    lod: bytes = struct.pack("<Q", 0),
    versions: tuple[int, int] = (0, 0),
    description: bytes | None = None,
    packed: bool = False,
) -> bytes:
    """A variable as Paddle's format describes it."""
    if description is None:
        dims = b"".join(varint(dim) for dim in array.shape)
        if packed:
            shape = b"\x12" + varint(len(dims)) + dims
        else:
            shape = b"".join(b"\x10" + varint(dim) for dim in array.shape)
        description = b"\x08" + varint(code) + shape
    return (
        struct.pack("<I", versions[0])
        + lod
        + struct.pack("<Ii", versions[1], len(description))
        + description
        + array.tobytes()
    )


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


@pytest.mark.parametrize("code", DTYPES)
@pytest.mark.parametrize("packed", [True, False])
def test_every_dtype(code: int, packed: bool) -> None:
    array = np.array([[0, 1, 1], [1, 0, 1]]).astype(DTYPES[code])
    found = read_combined(stream(array, code, packed=packed), ["w"])["w"]
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)
    assert not found.flags.writeable


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (200,), (1, 2, 3, 4)])
def test_every_shape(shape: tuple[int, ...]) -> None:
    array = np.arange(math.prod(shape), dtype="float32").reshape(shape)
    np.testing.assert_array_equal(read_combined(stream(array, 5), ["w"])["w"], array)


def test_variables_stand_sorted_by_name() -> None:
    content = stream(np.float32([1]), 5) + stream(np.int64([[2, 3]]), 3)
    found = read_combined(content, ["b", "a"])
    assert list(found) == ["a", "b"]
    np.testing.assert_array_equal(found["b"], [[2, 3]])


def test_levels_of_detail_are_passed_over() -> None:
    lod = struct.pack("<QQQQ", 1, 16, 0, 2)
    array = np.float32([1, 2])
    np.testing.assert_array_equal(read_combined(stream(array, 5, lod=lod), ["w"])["w"], array)


def test_a_file_is_mapped_not_copied(tmp_path: Path) -> None:
    file = tmp_path / "w.pdiparams"
    file.write_bytes(stream(np.float32([1, 2]), 5))
    found = read_combined(file, ["w"])["w"]
    np.testing.assert_array_equal(found, [1, 2])
    assert not found.flags.owndata


ONE = np.float32([1, 2])
DAMAGE = {
    "has version 7, expected 0": stream(ONE, 5, versions=(7, 0)),
    "has a tensor of version 3, expected 0": stream(ONE, 5, versions=(0, 3)),
    "declares 99 LoD levels": stream(ONE, 5, lod=struct.pack("<Q", 99)),
    "ends within a LoD level: 1099511627776 byte(s) expected": stream(
        ONE, 5, lod=struct.pack("<QQ", 1, 1 << 40)
    ),
    "has dtype number 13, which no dtype of Paddle has": stream(ONE, 13),
    "has dtype number None": stream(ONE, 5, description=b""),
    "has the shape [-1]": stream(ONE, 5, description=b"\x08\x05\x10" + varint(-1)),
    "ends within float32 elements of shape [1099511627776]: 4398046511104 byte(s) expected": stream(
        ONE, 5, description=b"\x08\x05\x10" + varint(1 << 40)
    ),
    "has field 3 of wire type 0 in its description": stream(ONE, 5, description=b"\x18\x05"),
    "has a description that ends within a number": stream(ONE, 5, description=b"\x08\x85"),
    "has a number of more than ten bytes": stream(ONE, 5, description=b"\x08" + b"\x80" * 11),
    "has a description that ends within its dimensions": stream(
        ONE, 5, description=b"\x08\x05\x12\x09\x01"
    ),
    "ends within the version": b"\x00",
    "declares a description of -4 bytes": struct.pack("<IQIi", 0, 0, 0, -4),
    "has the shape [0, 4611686018427387904, 4611686018427387904], which no array has": stream(
        ONE[:0], 5, description=b"\x08\x05\x10\x00" + (b"\x10" + varint(1 << 62)) * 2
    ),
}


@pytest.mark.parametrize("message", DAMAGE)
def test_damage_is_told_before_memory_is_taken(message: str) -> None:
    expected = re.escape(f"the parameters in memory: variable 'w' at byte 0 {message}")
    with pytest.raises(ModelFileError, match=expected):
        read_combined(DAMAGE[message], ["w"])


def test_more_than_one_variable_in_a_file_of_one(tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(stream(ONE, 5) * 2)
    with pytest.raises(ModelFileError, match=r"32 byte\(s\) are left after variable 'w'"):
        read_separate(tmp_path, ["w"])


def test_names_that_no_file_can_have(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="which cannot be a file's name"):
        read_separate(tmp_path, ["a\0b"])


def test_what_paddle_wrote(static_mode: None, tmp_path: Path) -> None:
    """bfloat16 and others, through Paddle's own writer."""
    import paddle

    arrays: dict[str, Any] = {
        "b": np.arange(6, dtype="float16").reshape(2, 3),
        "a": np.float32([1.5, -2]).astype(ml_dtypes.bfloat16),
        "c": np.array([True, False]),
    }
    scope = paddle.static.Scope()
    program = paddle.static.Program()
    from paddle.base import core

    for name, array in arrays.items():
        bits = array.view(np.uint16) if name == "a" else array
        scope.var(name).get_tensor().set(bits, paddle.CPUPlace())
    tensors = [scope.find_var(name).get_tensor() for name in sorted(arrays)]
    file = tmp_path / "all"
    if hasattr(core, "save_combine_func"):
        core.save_combine_func(tensors, sorted(arrays), str(file), True, False, False)
    else:
        block = program.global_block()
        variables = [
            block.create_var(name=name, persistable=True, shape=[1], dtype="float32")
            for name in sorted(arrays)
        ]
        block.append_op(
            type="save_combine",
            inputs={"X": variables},
            outputs={"Y": block.create_var(name="saved", type=core.VarDesc.VarType.RAW)},
            attrs={"file_path": str(file)},
        )
        with paddle.static.scope_guard(scope):
            paddle.static.Executor(paddle.CPUPlace()).run(program)
    found = read_combined(file, arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_the_scope_gets_dtypes_and_shapes_as_they_are(static_mode: None) -> None:
    import paddle

    from paddle_ipu.activation.load_model import fill_scope

    arrays = {
        "half": np.arange(3, dtype="float16"),
        "brain": np.arange(3).astype(ml_dtypes.bfloat16),
        "scalar": np.array(2.5, "float32"),
        "none": np.zeros((0, 2), "int64"),
    }
    with paddle.static.scope_guard(paddle.static.Scope()):
        fill_scope(arrays)
        scope = paddle.static.global_scope()
        tensors = {name: scope.find_var(name).get_tensor() for name in arrays}
    assert [tensor.shape() for tensor in tensors.values()] == [[3], [3], [], [0, 2]]
    dtypes = [str(tensor._dtype()).rpartition(".")[2].lower() for tensor in tensors.values()]
    assert dtypes == ["float16", "bfloat16", "float32", "int64"]
    np.testing.assert_array_equal(
        np.array(tensors["brain"]).view(ml_dtypes.bfloat16), arrays["brain"]
    )

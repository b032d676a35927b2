"""Valid uses of every operator: those in the programs of the operator case table."""

from __future__ import annotations

import hashlib
import os
import pickle
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import paddle

from paddle_ipu.frontend.vocabulary.table import TABLE
from paddle_ipu.ops import families  # noqa: F401 - fills the table of translators
from paddle_ipu.ops.registry import find_translator
from tests.checkout import ROOT
from tests.differential.operators.program import dtype_name
from tests.differential.operators.signature import has_meaning, pir, pir_signature
from tests.differential.operators.use import Array, DType, Operand, Operands, Tensor, Use
from tests.operators.built_case import BuiltCase, build_case, lacks, static_mode
from tests.operators.operator_case import OperatorCase
from tests.operators.operator_cases import CASES

NOT_DRAWN = frozenset(
    """
    data feed fetch full_int_array full_ shadow_output set_parameter parameter
    array_length array_pop array_read array_write array_write_ array_to_tensor create_array
    create_array_like add_n_array write_to_array read_from_array lod_array_length
    tensor_array_to_tensor if while conditional_block select_input print assert share_data
    share_data_ py_func sgd sgd_ empty empty_like assign_out_ assign_value assign_value_ increment_
    """.split()
)
"""Operators with effects, of control flow, of tensor arrays, and without a result to compare."""

_ELEMENTS = 4096
HERE = Path(__file__).parent


def examples() -> tuple[Mapping[str, list[Use]], frozenset[str]]:
    """Operator -> its uses in the case table, and the operators whose results are random.

    They are kept in ``out/`` until the case table changes.
    """
    sources = sorted((ROOT / "tests/operators").rglob("*.py")) + [
        HERE / name for name in ("examples.py", "use.py", "signature.py")
    ]
    digest = hashlib.sha256(f"{paddle.__version__} {pir()}".encode())
    for source in sources:
        digest.update(source.read_bytes())
    path = ROOT / "out/differential" / f"{digest.hexdigest()[:20]}.pickle"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        half_written = path.with_suffix(f".{os.getpid()}")
        half_written.write_bytes(pickle.dumps(recorded()))
        half_written.rename(path)
    return pickle.loads(path.read_bytes())


def recorded() -> tuple[Mapping[str, list[Use]], frozenset[str]]:
    """Operator -> its uses in the case table, and the operators whose results are random."""
    uses: dict[str, dict[str, Use]] = {}
    random: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in CASES:
            if lacks(case) or case.gpu_only:
                continue
            built = build_case(case)
            with static_mode():
                read = _in_pir if pir() else _in_program_desc
                for use in read(case, built):
                    uses.setdefault(use.op, {}).setdefault(form(use), use)
                    if case.check is not None and case.op in (_phi_name(use.op), use.op):
                        random.add(use.op)
    if pir():
        uses = {op: _with_all_results(those) for op, those in uses.items()}
    drawn = {
        op: list(uses[op].values())
        for op in sorted(uses)
        if op[:-1] not in uses or not op.endswith("_")
    }
    return drawn, frozenset(random)


def _phi_name(op: str) -> str:
    row = TABLE.get(op)
    return str(row.op) if row is not None and not pir() else op.removesuffix("_")


def _with_all_results(uses: Mapping[str, Use]) -> dict[str, Use]:
    """The uses of an operator, each with the results that any of them has."""
    results = {name: dtypes for use in uses.values() for name, dtypes in use.outputs.items()}
    return {form: replace(use, outputs=results) for form, use in uses.items()}


def form(use: Use) -> str:
    """A text that is the same for uses that differ in the values of operands alone."""
    shapes = [(name, t.dtype, t.array.shape) for name, _, t in use.tensors()]
    return f"{shapes} {use.attributes}"


def _value(name: str, case: OperatorCase, built: BuiltCase) -> Array | None:
    array = built.feed.get(name, built.parameters.get(name))
    return case.inputs.get(name) if array is None else array


def _tensor(shape: Any, dtype: str, array: Array | None) -> Tensor:
    shape = [max(int(size), 1) if size == -1 else int(size) for size in shape]
    if array is None or list(array.shape) != shape:
        array = np.zeros(shape, "float32" if dtype == "bfloat16" else dtype)
    return Tensor(array, dtype)


# PIR


def _in_pir(case: OperatorCase, built: BuiltCase) -> Iterator[Use]:
    for op in built.program.global_block().ops:
        domain, _, name = op.name().rpartition(".")
        if domain != "pd_op" or name in NOT_DRAWN or not find_translator(name):
            continue
        if any(
            result.initialized() and result.is_dense_tensor_array_type() for result in op.results()
        ):
            continue
        use = _pir_use(op, name, case, built)
        if use is not None:
            yield use


def _pir_use(op: Any, name: str, case: OperatorCase, built: BuiltCase) -> Use | None:
    operands: dict[str, Operands] = {}
    values = op.attrs()
    attributes: dict[str, Any] = {
        key: _plain(values[key])
        for key in (*op.get_attr_names(), *values)
        if key in values and has_meaning(key)
    }
    takes_tensor = {p.name for p in pir_signature(name) or () if p.is_operand}
    for slot, operand in zip(op.get_input_names(), op.operands(), strict=False):
        source = operand.source()
        if source is None or not source.initialized():
            operands[slot] = None
            continue
        maker = source.get_defining_op()
        if maker is not None and maker.name() == "builtin.combine":
            parts = [_pir_operand(part.source(), case, built) for part in maker.operands()]
            if any(part is None for part in parts):
                return None
            operands[slot] = tuple(part for part in parts if part is not None)
            continue
        constant = maker is not None and maker.name() == "pd_op.full_int_array"
        if constant and slot not in takes_tensor:
            attributes[slot] = list(maker.attrs()["value"])
            continue
        if maker is not None and maker.name() == "pd_op.full" and slot not in takes_tensor:
            value = maker.attrs()["value"]
            whole = dtype_name(source.dtype).startswith("int")
            attributes[slot] = int(value) if whole else value
            continue
        operands[slot] = _pir_operand(source, case, built)
        if operands[slot] is None:
            return None
    if sum(tensor.array.size for _, _, tensor in Use(name, operands, {}).tensors()) > _ELEMENTS:
        return None
    fetched = {
        (maker.id(), variable.index())
        for variable in built.fetches.values()
        if (maker := variable.get_defining_op()) is not None
    }
    results: dict[str, tuple[str, ...] | str] = {
        str(result.index()): ("",)
        for result in op.results()
        if result.initialized() and (not result.use_empty() or (op.id(), result.index()) in fetched)
    }
    return Use(name, operands, attributes, results)


def _pir_operand(source: Any, case: OperatorCase, built: BuiltCase) -> Operand | None:
    if not source.is_dense_tensor_type():
        return None
    maker = source.get_defining_op()
    array = None
    if maker is not None and maker.name() in ("pd_op.data", "builtin.parameter"):
        attributes = maker.attrs()
        array = _value(attributes.get("name", attributes.get("parameter_name", "")), case, built)
    if maker is not None and maker.name() == "pd_op.full":
        shape = list(source.shape)
        array = np.full(shape, maker.attrs()["value"]).astype(dtype_name(source.dtype))
    return _tensor(source.shape, dtype_name(source.dtype), array)


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if isinstance(value, (bool, int, float, str)) else DType(dtype_name(value))


# ProgramDesc


def _in_program_desc(case: OperatorCase, built: BuiltCase) -> Iterator[Use]:
    block = built.program.global_block()
    for op in block.ops:
        if op.type.endswith("_grad") or op.attr("op_role") not in (0, 256):
            continue
        if op.type in NOT_DRAWN or op.has_attr("sub_block"):
            continue
        use = _desc_use(op, block, case, built)
        if use is not None:
            yield use


def _numbers(value: Any) -> Any:
    """An attribute with plain numbers where Paddle 2.6 has its Scalars."""
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return value.value() if type(value).__name__ == "Scalar" else value


def _desc_use(op: Any, block: Any, case: OperatorCase, built: BuiltCase) -> Use | None:
    operands: dict[str, Operands] = {}
    slots: dict[str, str] = {}
    for slot in op.input_names:
        tensors = []
        for name in op.input(slot):
            variable = block._var_recursive(name)
            if "LOD_TENSOR" not in str(variable.type) or "ARRAY" in str(variable.type):
                return None
            slots.setdefault(name, slot)
            dtype = dtype_name(variable.dtype)
            tensors.append(_tensor(variable.shape, dtype, _value(name, case, built)))
        if tensors:
            operands[slot] = tuple(tensors)
    attributes = {
        name: _numbers(op.attr(name))
        for name in op.attr_names
        if has_meaning(name) and isinstance(op.attr(name), (bool, int, float, str, list))
    }
    outputs: dict[str, tuple[str, ...] | str] = {}
    first = next((dtype for _, _, t in Use("", operands, {}).tensors() if (dtype := t.dtype)), "")
    for slot in op.output_names:
        names = op.output(slot)
        if names:
            dtypes = [dtype_name(block._var_recursive(name).dtype) for name in names]
            made = tuple("" if dtype == first else dtype for dtype in dtypes)
            outputs[slot] = slots.get(names[0], made)
    if sum(tensor.array.size for _, _, tensor in Use("", operands, {}).tensors()) > _ELEMENTS:
        return None
    return Use(op.type, operands, attributes, outputs)

"""Cases of simulated quantisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle

from tests.operators.cases.one_operator import call
from tests.operators.operator_case import CaseTable, Since, floats, integers, normal, uniform

TABLE = CaseTable()
_add = TABLE.add

_FLOAT = "float32"
# 127 / 2 is a half: with this scale halves are rounded; 0 and the bounds are in it, too.
_TIES = floats(2.0, 1.0 / 127, 3.0 / 127, -1.0 / 127, -3.0 / 127, 0.0, -2.0, 5.0 / 127)
_ROUNDING = Since("3.0", "the operator has no round_type")


def _abs_max(
    kind: str, x: Any, bits: int = 8, round_type: int | None = None, axis: int | None = None
) -> list[Any]:
    """One of the operators that find their scale themselves."""
    axes: dict[str, Any] = {} if axis is None else {"quant_axis": axis}
    test = [False] if kind == "fake_channel_wise_quantize_abs_max" else []
    rounding: dict[str, Any] = {} if round_type is None else {"round_type": round_type}
    return call(
        kind,
        [x, bits, 1 if round_type is None else round_type, *axes.values(), *test],
        {"X": x},
        {"Out": _FLOAT, "OutScale": _FLOAT},
        bit_length=bits,
        **axes,
        **rounding,
    )


for _kind in ("fake_quantize_abs_max", "fake_quantize_dequantize_abs_max"):
    _gradient = ("x",) if "dequantize" in _kind else ()
    _add(
        _kind,
        lambda x, kind=_kind: [*_abs_max(kind, x), *_abs_max(kind, x, bits=4)],
        gradient=_gradient,
        x=normal(3, 4),
    )
    _add(
        _kind,
        lambda x, z, kind=_kind: [*_abs_max(kind, x), *_abs_max(kind, z)],
        gradient=_gradient,
        label="halves and zeros",
        x=_TIES,
        z=np.zeros((2, 3), np.float32),
    )
    _add(
        _kind,
        lambda x, t, kind=_kind: [
            *_abs_max(kind, x, round_type=0),
            *_abs_max(kind, t, round_type=0),
        ],
        gradient=_gradient,
        label="halves to even",
        since=_ROUNDING,
        x=normal(3, 4),
        t=_TIES,
    )
for _kind in (
    "fake_channel_wise_quantize_abs_max",
    "fake_channel_wise_quantize_dequantize_abs_max",
):
    _gradient = ("x",) if "dequantize" in _kind else ()
    _add(
        _kind,
        lambda x, kind=_kind: [
            *_abs_max(kind, x, axis=0),
            *_abs_max(kind, x, bits=4, axis=1),
        ],
        gradient=_gradient,
        x=normal(3, 4, 2),
    )
    _add(
        _kind,
        lambda x, kind=_kind: _abs_max(kind, x, round_type=0, axis=1),
        gradient=_gradient,
        label="halves to even",
        since=_ROUNDING,
        x=np.stack([_TIES, 2 * _TIES], axis=1),
    )
TABLE.refuse(
    "fake_channel_wise_quantize_abs_max",
    lambda x: call(
        "fake_channel_wise_quantize_abs_max",
        [x, 8, 1, 0, True],
        {"X": x},
        {"Out": _FLOAT, "OutScale": _FLOAT},
        is_test=True,
    )[0],
    "with is_test its scales are what an earlier run left in its result",
    x=normal(3, 4),
)


def _moving(kind: str, given: tuple[Any, ...], rate: float, bits: int, is_test: bool) -> list[Any]:
    """One of the operators with a moving average; `given` are x, scale, accumulator and state."""
    x, scale, accumulator, state = given
    results = call(
        kind,
        [x, scale, accumulator, state, rate, bits, is_test, 1],
        {"X": x, "InScale": scale, "InAccum": accumulator, "InState": state},
        {"Out": _FLOAT, "OutScale": _FLOAT, "OutState": _FLOAT, "OutAccum": _FLOAT},
        moving_rate=rate,
        bit_length=bits,
        is_test=is_test,
    )
    return results[:1] if is_test else results


for _kind in (
    "fake_quantize_moving_average_abs_max",
    "fake_quantize_dequantize_moving_average_abs_max",
):
    _add(
        _kind,
        lambda x, s, a, n, kind=_kind: [
            *_moving(kind, (x, s, a, n), 0.9, 8, False),
            *_moving(kind, (x, s, a, n), 0.5, 4, False),
            *_moving(kind, (x, s, a, n), 0.9, 8, True),
        ],
        gradient=("x",) if "dequantize" in _kind else (),
        x=normal(3, 4),
        s=floats(1.5),
        a=floats(7.0),
        n=floats(4.0),
    )


def _observed(x: Any, accumulator: Any, state: Any) -> list[Any]:
    return call(
        "moving_average_abs_max_scale",
        [x, accumulator, state, 0.5, False],
        {"X": x, "InAccum": accumulator, "InState": state},
        {"Out": _FLOAT, "OutScale": _FLOAT, "OutState": _FLOAT, "OutAccum": _FLOAT},
        moving_rate=0.5,
    )


_add(
    "moving_average_abs_max_scale",
    lambda x, a, n: [
        *_observed(x, a, n),
        call(
            "moving_average_abs_max_scale",
            [x, a, n, 0.9, True],
            {"X": x, "InAccum": a, "InState": n},
            {"Out": _FLOAT, "OutScale": _FLOAT, "OutState": _FLOAT, "OutAccum": _FLOAT},
            is_test=True,
        )[0],
    ],
    x=normal(3, 4),
    a=floats(7.0),
    n=floats(4.0),
)
for _shapes in (((), ()), ((), (1,)), ((1, 1), (1,))):
    _add(
        "moving_average_abs_max_scale",
        lambda x, a, n: _observed(x, a, n),
        label="of {} and {} axes".format(*map(len, _shapes)),
        x=normal(3, 4),
        a=np.full(_shapes[0], 7.0, np.float32),
        n=np.full(_shapes[1], 4.0, np.float32),
    )
TABLE.refuse(
    "moving_average_abs_max_scale",
    lambda x, a, n: _observed(x, a, n),
    r"in_state has shape \[2\], expected one element",
    x=normal(3, 4),
    a=floats(7.0),
    n=floats(4.0, 5.0),
)


def _range(x: Any, scale: Any, step: Any, is_test: bool, bits: int = 8) -> Any:
    return call(
        "fake_quantize_range_abs_max",
        [x, scale, step, 10000, bits, is_test, 1],
        {"X": x, "InScale": scale, "Iter": step},
        {"Out": _FLOAT, "OutScale": _FLOAT, "OutScales": _FLOAT},
        bit_length=bits,
        is_test=is_test,
    )[0]


_add(
    "fake_quantize_range_abs_max",
    lambda x, s, n: [_range(x, s, n, True), _range(x, s, n, True, bits=5)],
    x=normal(3, 4),
    s=floats(1.5),
    n=np.asarray([3]),
)
TABLE.refuse(
    "fake_quantize_range_abs_max",
    lambda x, s, n: _range(x, s, n, False),
    "in training it reads its window of scales",
    x=normal(3, 4),
    s=floats(1.5),
    n=np.asarray([3]),
)


def _linear(
    kind: str, given: tuple[Any, ...], axis: int, is_test: bool = True, **attributes: Any
) -> list[Any]:
    """quantize_linear or dequantize_linear; `given` are x, scale, zero point and the average's."""
    x, scale, zero, accumulator, state = given
    rounding = int(attributes.get("round_type", 0))
    levels, bits = int(attributes.pop("qmax", 127)), int(attributes.pop("bit_length", 8))
    observes = bool(attributes.get("only_observer", False))
    bounds: dict[str, Any] = {} if levels == 127 else {"qmax": levels, "qmin": -levels - 1}
    results = call(
        kind,
        [x, scale, zero, accumulator, state, axis, bits, -levels - 1, levels, rounding, is_test,
         observes],
        {"X": x, "Scale": scale, "ZeroPoint": zero, "InAccum": accumulator, "InState": state},
        {"Y": _FLOAT, "OutState": _FLOAT, "OutAccum": _FLOAT, "OutScale": _FLOAT},
        quant_axis=axis,
        bit_length=bits,
        is_test=is_test,
        **bounds,
        **attributes,
    )  # fmt: skip
    if is_test:
        return results[:1]
    return results if axis < 0 else [results[0], results[3]]


def _as_float(x: Any) -> Any:
    """Whole numbers as Paddle 3 wants them; Paddle 2 takes them as they are."""
    return x.cast("float32") if paddle.framework.in_pir_mode() else x


_STATES: dict[str, Any] = {"a": floats(7.0), "n": floats(4.0), "z": floats(0.0)}
_add(
    "quantize_linear",
    lambda x, t, s, c, a, n, z: [
        *_linear("quantize_linear", (x, s, z, a, n), -1),
        *_linear("quantize_linear", (t, s, z, a, n), -1),
        *_linear("quantize_linear", (x, s, z, a, n), -1, round_type=1),
        *_linear("quantize_linear", (x, c, z, a, n), 1),
        *_linear("quantize_linear", (x, s, z, a, n), -1, only_observer=True),
        *_linear("quantize_linear", (x, s, z, a, n), -1, is_test=False),
        *_linear("quantize_linear", (x, c, z, a, n), 0, is_test=False),
        *_linear("quantize_linear", (x, s, z, a, n), -1, is_test=False, only_observer=True),
    ],
    x=normal(4, 4),
    t=_TIES,
    s=floats(2.0),
    c=uniform(4),
    **_STATES,
)
_add(
    "quantize_linear",
    # The bounds count, not the bits.
    lambda x, s, a, n, z: [
        *_linear("quantize_linear", (x, s, z, a, n), -1, qmax=7),
        *_linear("quantize_linear", (x, s, z, a, n), -1, qmax=7, bit_length=6),
    ],
    label="other bounds",
    since=Since("3.1", "the operator has no qmax"),
    x=normal(4, 4),
    s=floats(2.0),
    **_STATES,
)
_add(
    "quantize_linear",
    lambda x, s, a, n, z: _linear("quantize_linear", (x, s, z, a, n), -1, is_test=False),
    label="numbers without an axis",
    x=normal(4, 4),
    s=np.asarray(2.0, np.float32),
    a=np.asarray(7.0, np.float32),
    n=floats([4.0]),
    z=floats(0.0),
)
TABLE.refuse(
    "quantize_linear",
    lambda x, s, a, n, z: _linear("quantize_linear", (x, s, z, a, n), -1, is_test=False),
    r"scale has shape \[2\], expected one element",
    x=normal(4, 4),
    s=floats(2.0, 3.0),
    **_STATES,
)
TABLE.refuse(
    "quantize_linear",
    lambda x, s, a, n, z: _linear("quantize_linear", (x, s, z, a, n), -1, qmax=448),
    "qmax=448 asks for 8-bit floats",
    since=Since("3.1", "the operator has no qmax"),
    x=normal(4, 4),
    s=floats(2.0),
    **_STATES,
)


def _dequantized(x: Any, m: Any, s: Any, c: Any, *_: Any) -> list[Any]:
    levels = np.float32(127)
    return [x * s / levels, x * c[:, None] / levels, m.astype(np.float32) * c / levels, x]


_add(
    "dequantize_linear",
    lambda x, m, s, c, a, n, z: [
        *_linear("dequantize_linear", (x, s, z, a, n), -1),
        *_linear("dequantize_linear", (x, c, z, a, n), 0),
        *_linear("dequantize_linear", (_as_float(m), c, z, a, n), 1),
        *_linear("dequantize_linear", (x, s, z, a, n), -1, only_observer=True),
    ],
    limitation="Paddle 3's executor runs the kernel of quantize_linear instead",
    oracle=_dequantized,
    x=normal(3, 3) * 100,
    m=integers(3, 3, low=-128, high=128, dtype="int8"),
    s=floats(2.0),
    c=uniform(3),
    **_STATES,
)
_add(
    "dequantize_linear",
    lambda x, s, a, n, z: [
        *_linear("dequantize_linear", (x, s, z, a, n), -1, qmax=7, bit_length=6, round_type=1),
        _linear("dequantize_linear", (x, s, z, a, n), -1, is_test=False)[0],
    ],
    label="other bounds",
    since=Since("3.1", "the operator has no qmax"),
    oracle=lambda x, s, *_: [x * s / np.float32(7), x * s / np.float32(127)],
    x=normal(3, 3) * 100,
    s=floats(2.0),
    **_STATES,
)
_add(
    "fake_dequantize_max_abs",
    lambda x, s: call(
        "fake_dequantize_max_abs", [x, s, 7.0], {"X": x, "Scale": s}, {"Out": _FLOAT}, max_range=7.0
    ),
    x=normal(3, 4),
    s=floats(1.5),
)


def _by_channel(x: Any, scales: list[Any], bits: list[int], axis: int, columns: int) -> Any:
    return call(
        "fake_channel_wise_dequantize_max_abs",
        [x, scales, bits, axis, columns],
        {"X": x, "Scales": scales},
        {"Out": _FLOAT},
        quant_bits=bits,
        quant_axis=axis,
        x_num_col_dims=columns,
    )[0]


_add(
    "fake_channel_wise_dequantize_max_abs",
    lambda x, s, t, o: [
        _by_channel(x, [s], [8], 0, 1),
        _by_channel(x, [t], [4], 1, 1),
        _by_channel(x, [t, o], [8, 4], 0, 1),
        _by_channel(x, [s, o], [8, 8], 0, 2),
    ],
    x=normal(3, 4, 3),
    s=uniform(3),
    t=uniform(4, seed=1),
    o=floats(0.5),
)
TABLE.refuse(
    "fake_channel_wise_dequantize_max_abs",
    lambda x, s, o: _by_channel(x, [s, o], [8], 0, 1),
    r"there are 2 scales and quant_bits \[8\]; give the bits of each scale",
    x=normal(3, 4),
    s=uniform(4),
    o=floats(0.5),
)
_add(
    "dequantize_abs_max",
    lambda x, y, s: [
        call("dequantize_abs_max", [n, s, 100.0], {"X": n, "Scale": s}, {"Out": _FLOAT},
             max_range=100.0)[0]
        for n in (x, y)
    ],
    x=integers(3, 4, low=-128, high=128, dtype="int8"),
    y=integers(3, 4, low=-9999, high=9999, dtype="int16"),
    s=floats(1.5),
)  # fmt: skip
_add(
    "dequantize_log",
    lambda x, d: call("dequantize_log", [x, d], {"X": x, "Dict": d}, {"Out": _FLOAT}),
    x=np.asarray([[0, 1, 127], [-1, -128, -64]], np.int8),
    d=uniform(128),
)

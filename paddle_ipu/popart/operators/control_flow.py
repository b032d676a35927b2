"""Rows of the operators that run subgraphs, as If, Loop, Scan and Call, or end the program: Abort.

What subgraphs compute is priced operator by operator.
"""

from __future__ import annotations

from paddle_ipu.popart.op_schema import (
    ANY,
    BOOLS,
    FREE,
    INTS,
    NO_GRADIENT,
    READS_NOTHING,
    UNPRICED,
    Attribute,
    graphcore_row,
    int_,
    ints,
    onnx_row,
)
from paddle_ipu.popart.shape_inference import control_flow


def _graph(name: str) -> tuple[str, Attribute]:
    return name, Attribute("graph", required=True)


onnx_row(
    "If", 1, control_flow.if_, BOOLS, FREE, READS_NOTHING,
    [_graph("else_branch"), _graph("then_branch")],
    version=(1, 11), name="logical_if", outputs=(1, None),
)  # fmt: skip
for _version, _fewest in ((1, 3), (11, 2)):
    onnx_row(
        "Loop", (_fewest, None), control_flow.loop, (INTS, BOOLS, ANY), FREE, READS_NOTHING,
        [_graph("body")], version=_version, outputs=(1, None),
    )  # fmt: skip
onnx_row(
    "Scan", (1, None), control_flow.scan, ANY, FREE, READS_NOTHING,
    [
        _graph("body"), int_("num_scan_inputs", required=True), ints("scan_input_axes"),
        ints("scan_input_directions"), ints("scan_output_axes"), ints("scan_output_directions"),
    ], version=(9, 11), outputs=(1, None),
)  # fmt: skip
graphcore_row(
    "Call", (0, None), control_flow.call, ANY, FREE, READS_NOTHING,
    [_graph("callee")], outputs=(1, None),
)  # fmt: skip
graphcore_row(
    "PackedDataBlock", (5, None), control_flow.packed_data_block, ANY, FREE, NO_GRADIENT,
    [
        ints("maxSequenceLengths", required=True), int_("resultSize", required=True),
        int_("callbackBatchSize", required=True), _graph("callback"),
    ], name="packedDataBlock",
)  # fmt: skip
graphcore_row("Abort", (0, 1), control_flow.abort, BOOLS, UNPRICED, NO_GRADIENT, outputs=0)

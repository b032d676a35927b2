"""What the Builder says of operators that do not fit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.builder import Builder

Call = Callable[[Builder, dict[str, str]], object]

OPSETS = {"ai.onnx": 11, "ai.graphcore": 1}


def new() -> Builder:
    return Builder(opsets=OPSETS)


def ints(builder: Builder, values: list[int]) -> str:
    return str(builder.aiOnnx.constant(np.array(values, np.int64)))


def _inputs(builder: Builder) -> dict[str, str]:
    shapes: dict[str, tuple[str, list[int]]] = {
        "x23": ("FLOAT", [2, 3]),
        "x34": ("FLOAT", [3, 4]),
        "x234": ("FLOAT", [2, 3, 4]),
        "half": ("FLOAT16", [2, 3]),
        "int": ("INT32", [2, 3]),
        "flag": ("BOOL", [2, 3]),
        "scalar": ("FLOAT", []),
        "image": ("FLOAT", [1, 4, 5, 5]),
        "kernel": ("FLOAT", [4, 2, 3, 3]),
        "c4": ("FLOAT", [4]),
        "c3": ("FLOAT", [3]),
        "label": ("INT32", [2, 5]),
    }
    return {name: builder.addInputTensor(*shape, name) for name, shape in shapes.items()}


def _mean_of_opset_7() -> None:
    builder = Builder(opsets={"ai.onnx": 7})
    shapes = builder.addInputTensor("FLOAT", [2, 3]), builder.addInputTensor("FLOAT", [3])
    builder.aiOnnx.mean(list(shapes))


ERRORS: list[tuple[str, Call, str]] = [
    (
        "matmul",
        lambda b, i: b.aiOnnx.matmul([i["x34"], i["x34"]]),
        r"^Op\(ai.onnx.MatMul:9, inputs=\[x34, x34\], outputs=\[MatMul:0\]\) contracting "
        r"dimensions unequal: lhs 'x34' \[3 4\], rhs 'x34' \[3 4\]$",
    ),
    (
        "matmul of a scalar",
        lambda b, i: b.aiOnnx.matmul([i["scalar"], i["x34"]]),
        r"outputs=\[MatMul:0\]\) doesn't support scalar tensor scalar as the lhs input$",
    ),
    (
        "matmul by a scalar",
        lambda b, i: b.aiOnnx.matmul([i["x34"], i["scalar"]]),
        "doesn't support scalar tensor scalar as the rhs input$",
    ),
    (
        "mixed types",
        lambda b, i: b.aiOnnx.add([i["x23"], i["half"]]),
        r"^np broadcasting failed on Op\(ai.onnx.Add:7, .*\), incompatible types FLOAT and FLOAT16 "
        r"\(shapes \[2 3\] and \[2 3\]\). The operator has incompatible types: input 0 'x23' is "
        r"FLOAT   \[2 3\] and input 1 'half' is FLOAT16 \[2 3\]. Cast one of them.$",
    ),
    (
        "mixed types of a product",
        lambda b, i: b.aiOnnx.mul([i["x23"], i["half"]]),
        "^np broadcasting failed on .* incompatible types FLOAT and FLOAT16",
    ),
    (
        "mixed types of a comparison",
        lambda b, i: b.aiOnnx.equal([i["x23"], i["int"]]),
        "^np broadcasting failed on .* incompatible types FLOAT and INT32",
    ),
    (
        "mixed types of an operator that does not broadcast",
        lambda b, i: b.aiOnnx.matmul([i["x23"], i["half"]]),
        "incompatible types: input 0 'x23' is FLOAT   .* and input 1 'half' is FLOAT16",
    ),
    (
        "an integer bound",
        lambda b, i: b.aiOnnx.clip([i["x23"], ints(b, [0])]),
        "incompatible types: input 0 'x23' is FLOAT",
    ),
    (
        "where a slice goes",
        lambda b, i: b.aiGraphcore.dynamicslice(
            [i["x234"], b.addInputTensor("UINT32", [1]), i["x23"]], [0], [1]
        ),
        r"slice 'x23' has shape \[2 3\], expected \[1 3 4\], of which axes of size 1 may be left",
    ),
    (
        "a wrong type",
        lambda b, i: b.aiOnnx.sqrt([i["int"]]),
        r"input 0 'int' is INT32   \[2 3\], expected one of BFLOAT16, DOUBLE, FLOAT, FLOAT16$",
    ),
    ("gemm", lambda b, i: b.aiOnnx.gemm([i["x23"], i["x23"]]), "contracting dimensions unequal"),
    (
        "gemm bias",
        lambda b, i: b.aiOnnx.gemm([i["x23"], i["x34"], i["x23"]]),
        r"broadcast",
    ),
    ("gemm rank", lambda b, i: b.aiOnnx.gemm([i["x234"], i["x23"]]), "of rank 3, expected rank 2"),
    (
        "axis of an extremum",
        lambda b, i: b.aiOnnx.argmax([i["x23"]], 2),
        "^Cannot compute ArgExtremaOp on axis 2 when input rank is 2, invalid ArgExtremaOp Op",
    ),
    (
        "negative axis of an extremum",
        lambda b, i: b.aiOnnx.argmin([i["x23"]], -3),
        r"^Axis -3 is out of acceptable range \[-2, 1\] Op.* has an input of rank 2$",
    ),
    (
        "extremum of a scalar",
        lambda b, i: b.aiOnnx.argmax([i["scalar"]], 0),
        "^ArgExtremaOp input rank must be greater than 0, invalid ArgExtremaOp Op",
    ),
    (
        "axis of the largest",
        lambda b, i: b.aiOnnx.topk([i["x23"], ints(b, [1])], 2),
        "^Cannot compute BaseSortOp on axis 2 when input rank is 2, invalid BaseSortOp Op",
    ),
    (
        "axis",
        lambda b, i: b.aiOnnx.gather([i["x23"], i["int"]], 2),
        r"axis 2 is out of range .* -2\.\.1$",
    ),
    (
        "axis of a concat",
        lambda b, i: b.aiOnnx.concat([i["x23"], i["x23"]], 2),
        r"^Attribute 'axis' of ConcatOp, 2, is outside of acceptable range \[-2, 1\] Op",
    ),
    (
        "ranks of a concat",
        lambda b, i: b.aiOnnx.concat([i["x23"], i["x234"]], 0),
        r"^Input 1 of 2 to concat does not have matching output rank. Input 1 has rank 3 \(\[2 3 "
        r"4\]"
        r"\) while the output has rank 2 \(\[2 3\]\).Concat axis 0. Op",
    ),
    (
        "types of a concat",
        lambda b, i: b.aiOnnx.concat([i["x23"], i["half"]], 0),
        r"^All input tensor types to a concat operation must be equal. This is for op "
        r"Op\(ai.onnx.Con",
    ),
    (
        "outputs of a split",
        lambda b, i: b.aiOnnx.split([i["x23"]], 2, 1, [1, 1, 1]),
        "^Number of outputs does not match number of requested splits. Op",
    ),
    (
        "length of perm",
        lambda b, i: b.aiOnnx.transpose([i["x23"]], [0]),
        r"^Rank of permutation tensor \[0\], rank 1 must be equal to rank of input tensor, shape "
        r"\[2 "
        r"3\], rank 2. Op",
    ),
    (
        "depth at run time",
        lambda b, i: b.aiOnnx.onehot([i["int"], i["scalar"], ints(b, [0, 1])]),
        "input 1 'scalar' is FLOAT|^The depth Tensor `scalar' does not have data. Op",
    ),
    (
        "depths",
        lambda b, i: b.aiOnnx.onehot([i["int"], ints(b, [2, 2]), ints(b, [0, 1])]),
        "^The depth tensor should be rank 0 in OneHot. Op",
    ),
    (
        "cumsum axis at run time",
        lambda b, i: b.aiOnnx.cumsum([i["x23"], b.addInputTensor("INT32", [1], "where")]),
        r"^For CumSum op Op\(.*\), the axis tensor where does not have data. It is computed at",
    ),
    (
        "cumsum attribute",
        lambda b, i: b.aiOnnx.cumsum([i["x23"], ints(b, [0])], exclusive=2),
        "^CumSum op, 'exclusive' attributes must be 0 or 1. Op.* has 2$",
    ),
    (
        "negative dimension to reverse",
        lambda b, i: b.aiGraphcore.reverse([i["x23"]], [-1]),
        r"^ReverseOp 'Op\(.*\)' invalid dimension '-1'. Only positive dimensions are supported",
    ),
    (
        "dimension to reverse",
        lambda b, i: b.aiGraphcore.reverse([i["x23"]], [2]),
        "invalid dimension '2' for input tensor of rank 2$",
    ),
    (
        "dimension to reverse twice",
        lambda b, i: b.aiGraphcore.reverse([i["x23"]], [1, 1]),
        "^Dimension 1 appears multiple times in the list of dimensions of ReverseOp 'Op",
    ),
    (
        "loss of a scalar",
        lambda b, i: b.aiGraphcore.l1loss([i["scalar"]], 1.0),
        r"^L1Op not valid for rank-0 tensor \(scalar\). Op.* reshape it to \[1\]$",
    ),
    (
        "boundaries",
        lambda b, i: b.aiGraphcore.bucketize([i["x23"], i["x23"]]),
        "^BucketizeOp::setup The boundaries tensor is not a 1-D tensor. The boundaries tensor "
        "rank = 2",
    ),
    (
        "type of boundaries",
        lambda b, i: b.aiGraphcore.bucketize([i["half"], i["c3"]]),
        "^BucketizeOp::setup The input and boundaries tensors have different data types. The input "
        "tensor data type = float16. The boundaries tensor data type = float32. Op",
    ),
    (
        "side of boundaries",
        lambda b, i: b.aiGraphcore.bucketize([i["x23"], i["c3"]], 2),
        "^BucketizeOp right = 2 is not valid: must be either 0 or 1.$",
    ),
    (
        "group of a conv",
        lambda b, i: b.aiOnnx.conv([i["image"], i["kernel"]], group=0),
        r"^group attribute in Op\(ai.onnx.Conv:11, .*\) must be greater than zero$",
    ),
    (
        "outputs of a conv's groups",
        lambda b, i: b.aiOnnx.conv([i["image"], b.addInputTensor("FLOAT", [3, 2, 3, 3])], group=2),
        "group 2 does not fit: ",
    ),
    (
        "log probabilities",
        lambda b, i: b.aiGraphcore.ctcloss([i["x23"], i["int"], i["int"], i["int"]]),
        r"^Unsupported shape for input 0 of Op Op\(.*\) \(expected a 'logarithmized probabilities' "
        r"tensor of rank 3, got a tensor with shape \[2 3\]\).$",
    ),
    (
        "targets",
        lambda b, i: b.aiGraphcore.ctcloss([i["x234"], i["int"], i["int"], i["int"]]),
        r"^Unsupported shape for input 1 of Op Op\(.*\) \(expected a 'targets' tensor of rank 2 "
        r"with "
        "the size of the first dimension being 3 to match the size of the second dimension of the "
        r"'logarithmized probabilities' tensor, got \[2 3\]\).$",
    ),
    (
        "lengths of targets",
        lambda b, i: b.aiGraphcore.ctcloss(
            [i["x234"], b.addInputTensor("INT32", [3, 2]), b.addInputTensor("INT32", [3]), i["int"]]
        ),
        r"^Unsupported shape for input 3 of Op Op\(.*\) \(expected a 'target lengths' tensor of "
        r"shape "
        r"\[3\], got \[2 3\]\).$",
    ),
    (
        "lengths of a beam search",
        lambda b, i: b.aiGraphcore.ctcbeamsearchdecoder([i["x234"], i["int"]]),
        r"^Unsupported shape for input 1 of Op Op\(.*\) \(expected a 'data lengths' tensor of "
        r"shape "
        r"\[3\], got \[2 3\]\).$",
    ),
    (
        "scales",
        lambda b, i: b.aiOnnx.resize([i["x23"], "", b.aiOnnx.constant(np.ones(3, np.float32))]),
        r"^The number of dimensions of the resize op scales \(3\) must match the number of "
        r"dimensions "
        r"of the input \(2\). Op",
    ),
    (
        "sizes",
        lambda b, i: b.aiOnnx.resize([i["x23"], "", "", ints(b, [1, 1, 1])]),
        r"^ResizeOp, length of sizes \(3\) does not match the rank of input shape \(2\). Op",
    ),
    ("softmax axis", lambda b, i: b.aiOnnx.softmax([i["x23"]], 3), r"expected -2\.\.2$"),
    (
        "repeated axes",
        lambda b, i: b.aiOnnx.reducesum([i["x23"]], [1, -1]),
        r"axes \[1, -1\] name a dimension twice",
    ),
    (
        "reshape at run time",
        lambda b, i: b.aiOnnx.reshape([i["x23"], i["int"]]),
        r"^Need the value of the ai.onnx.Reshape:5 input 'shape' to determine the output shape, "
        r"but "
        r"was unable because \[Tensor::getDataViaGraphTraversal\] Could not work out tensor data "
        r"for "
        r"int.\nOp\(.*'int' is computed at run time; make it a Constant or an initializer.$",
    ),
    (
        "ends at run time",
        lambda b, i: b.aiOnnx.slice([i["x23"], ints(b, [0]), i["int"]]),
        "^Need the value of the ai.onnx.Slice:11 input 'ends' to determine",
    ),
    (
        "expand at run time",
        lambda b, i: b.aiOnnx.expand([i["x23"], i["int"]]),
        "^Need the value of the ai.onnx.Expand:8 input 'shape' to determine",
    ),
    (
        "expand",
        lambda b, i: b.aiOnnx.expand([i["x23"], ints(b, [2, 2])]),
        "^Expand shape constraint: corresponding dimensions must have the same value or one of "
        r"them must be 1. Op\(ai.onnx.Expand:8, .*\) expands \[2 3\] to \[2 2\].$",
    ),
    (
        "reshape",
        lambda b, i: b.aiOnnx.reshape([i["x23"], ints(b, [4])]),
        r"cannot reshape \[2 3\] of 6 elements to \[4\]",
    ),
    (
        "reshape with two unknowns",
        lambda b, i: b.aiOnnx.reshape([i["x23"], ints(b, [-1, -1])]),
        "^shape input to ReshapeOp can only use -1 to specify one unknown dimension. Op.* asks for "
        r"\[-1 -1\].$",
    ),
    (
        "reshape to a negative size",
        lambda b, i: b.aiOnnx.reshape([i["x23"], ints(b, [-2, 3])]),
        "^Dimension, -2, of new shape for Reshape cannot be smaller than -1. Op",
    ),
    (
        "reshape with a 0 too far",
        lambda b, i: b.aiOnnx.reshape([i["x23"], ints(b, [2, 3, 0])]),
        "past the rank",
    ),
    (
        "perm",
        lambda b, i: b.aiOnnx.transpose([i["x23"]], [0, 0]),
        r"perm \[0, 0\] is no permutation of the 2 dimensions",
    ),
    ("squeeze", lambda b, i: b.aiOnnx.squeeze([i["x23"]], [0]), "its size is not 1"),
    (
        "concat",
        lambda b, i: b.aiOnnx.concat([i["x23"], i["x34"]], 0),
        r"^Input 1 to concat does not have matching shape. Op.* input 1 'x34' \[3 4\] does not "
        r"match "
        r"input 0 \[2 3\] in all but axis 0$",
    ),
    (
        "split",
        lambda b, i: b.aiOnnx.split([i["x23"]], 2, 1),
        r"^Tensor x23 \(\[2 3\]\) may not be split into equally sized parts along axis 1. Op.* "
        r"into 2 "
        "equal parts. Give 'split'$",
    ),
    (
        "split sizes",
        lambda b, i: b.aiOnnx.split([i["x23"]], 2, 1, [1, 1]),
        r"^splits 2 invalid for dimension of size 3. Op.* split \[1, 1\] does not cut axis 1",
    ),
    (
        "slice lengths",
        lambda b, i: b.aiOnnx.slice([i["x23"], ints(b, [0]), ints(b, [1, 1])]),
        "differ in length",
    ),
    (
        "slice step",
        lambda b, i: b.aiOnnx.slice(
            [i["x23"], ints(b, [0]), ints(b, [1]), ints(b, [0]), ints(b, [0])]
        ),
        "the step of axis 0 is 0",
    ),
    (
        "tile at run time",
        lambda b, i: b.aiOnnx.tile([i["x23"], i["int"]]),
        r"^The 'Repeats' Tensor `int' must be of type Constant. Op.* make it a Constant or an "
        r"initia",
    ),
    (
        "tile",
        lambda b, i: b.aiOnnx.tile([i["x23"], ints(b, [2])]),
        "^'Repeats' tensor `Constant:0' should have one element for each dimension of the data "
        r"tensor. Op.* has repeats \[2\] of \[2 3\]$",
    ),
    (
        "negative repeats",
        lambda b, i: b.aiOnnx.tile([i["x23"], ints(b, [2, -1])]),
        r"repeats \[2, -1\] must not be negative$",
    ),
    ("pads", lambda b, i: b.aiOnnx.pad([i["x23"], ints(b, [1])]), "a begin and an end for each"),
    (
        "pads that cut",
        lambda b, i: b.aiOnnx.pad([i["x23"], ints(b, [-3, 0, 0, 0])]),
        "cut more than there is",
    ),
    (
        "pad mode",
        lambda b, i: b.aiOnnx.pad([i["x23"], ints(b, [0, 0, 0, 0])], "wrap"),
        "mode is 'wrap', expected constant, reflect or edge",
    ),
    (
        "depth",
        lambda b, i: b.aiOnnx.onehot([i["int"], ints(b, [0]), ints(b, [0, 1])]),
        "depth must be one positive value",
    ),
    (
        "one-hot values",
        lambda b, i: b.aiOnnx.onehot([i["int"], ints(b, [2]), ints(b, [1])]),
        "off_value, on_value",
    ),
    (
        "k",
        lambda b, i: b.aiOnnx.topk([i["x23"], ints(b, [4])]),
        r"^Cannot take top-4 on dim of size 3, invalid Op Op.*: k is \[4\], expected one value",
    ),
    (
        "cumsum axis",
        lambda b, i: b.aiOnnx.cumsum([i["x23"], ints(b, [0, 1])]),
        r"^CumSum op, 'axis' tensor must have one element. Op.* got INT64   \[2\]$",
    ),
    ("bound", lambda b, i: b.aiOnnx.clip([i["x23"], i["c3"]]), "the bound 'c3' must be a scalar"),
    (
        "ratio",
        lambda b, i: b.aiOnnx.dropout([i["x23"]], 1, 1.0),
        r"ratio value 1.0 is not valid. Please use a value in the interval \[0,1\)",
    ),
    (
        "one value",
        lambda b, i: b.aiOnnx.constantofshape([ints(b, [2])], np.zeros(2, np.float32)),
        "value must hold one element",
    ),
    (
        "conv groups",
        lambda b, i: b.aiOnnx.conv([i["image"], i["kernel"]]),
        r"^Invalid value for group \(1\) in Op.*. number of input channels \(4\) / group \(1\) "
        r"should "
        r"be equal to the weight inputs second dimension \(2\): group 1 does not fit: data \[1 4 "
        r"5 5\] "
        r"has 4 channels, weights \[4 2 3 3\] take 2",
    ),
    (
        "kernel shape",
        lambda b, i: b.aiOnnx.conv([i["image"], i["kernel"]], group=2, kernel_shape=[2, 2]),
        r"^kernel_shape, \[2 2\], does not match inferred shape from weight input 'kernel', \[3 "
        r"3\]$",
    ),
    (
        "conv bias",
        lambda b, i: b.aiOnnx.conv([i["image"], i["kernel"], i["c3"]], group=2),
        r"the bias must have shape \[4\]",
    ),
    (
        "strides",
        lambda b, i: b.aiOnnx.conv([i["image"], i["kernel"]], group=2, strides=[1]),
        "^Length of strides vector 1 != number of spatial dimensions 2$",
    ),
    (
        "zero stride",
        lambda b, i: b.aiOnnx.conv([i["image"], i["kernel"]], group=2, strides=[1, 0]),
        "^Strides invalid. 0 stride at index 1$",
    ),
    (
        "conv pads",
        lambda b, i: b.aiOnnx.conv([i["image"], i["kernel"]], group=2, pads=[1, 1]),
        r"^Padding vector \(length 2\) does not have 2 values for each spatial dimension 2$",
    ),
    (
        "dilations",
        lambda b, i: b.aiOnnx.conv([i["image"], i["kernel"]], [1], 2),
        "^Length of dilations vector 1 != number of spatial dimensions 2$",
    ),
    (
        "window",
        lambda b, i: b.aiOnnx.averagepool([i["image"]], [9, 9]),
        r"^Window parameter values combine to give invalid spatial output shape: \[-3 -3\]. In "
        r"Op.* "
        r"the window \[9 9\] is larger than the padded input \[5 5\].$",
    ),
    (
        "no spatial dimensions",
        lambda b, i: b.aiGraphcore.multiconv([[i["x23"], i["x23"]]]),
        "^Input tensor has no spatial dimensions$",
    ),
    (
        "mean of two shapes in opset 7",
        lambda _, i: _mean_of_opset_7(),
        r"^Inputs to ai.onnx.Mean:6 do not all the same type & shape, with opid.version = 6. Op.* "
        r"got "
        r"\[2 3\] and \[3\]; from opset 8 on they broadcast.$",
    ),
    (
        "mask of a dropout",
        lambda b, i: b.aiGraphcore.shapeddropout([i["x23"]], [4, 3]),
        "^ShapedDropout: incompatible input tensor and dropout shape. "
        "ai.graphcore.ShapedDropout:1 is "
        r"configured with shape \[4 3\] which is not broadcastable to the input tensor with shape "
        r"\[2 3\].$",
    ),
    (
        "mask of a dropout of a higher rank",
        lambda b, i: b.aiGraphcore.shapeddropout([i["x23"]], [1, 2, 3]),
        "^ShapedDropout: incompatible input tensor and dropout shape. ",
    ),
    (
        "activations of an RNN",
        lambda b, i: b.aiOnnx.rnn([i["x234"], i["x234"], i["x234"]], 1, activations=["Tanh"] * 2),
        r"only supports 1 activation, 2 were specified$",
    ),
    (
        "pool kernel",
        lambda b, i: b.aiOnnx.averagepool([i["image"]], [2]),
        "^invalid kernel_shape, not same rank as the tensor operated on. Op.* must have one size "
        "for "
        "each of the 2 spatial dimensions",
    ),
    (
        "average with padding",
        lambda b, i: b.aiOnnx.averagepool([i["image"]], [2, 2], count_include_pad=1),
        "`count_include_pad` is not supported",
    ),
    (
        "storage order",
        lambda b, i: b.aiOnnx.maxpool([i["image"]], 1, [2, 2], storage_order=1),
        "storage_order != 0, not supported",
    ),
    (
        "dilated pool",
        lambda b, i: b.aiOnnx.maxpool([i["image"]], 1, [2, 2], dilations=[2, 2]),
        r"^MaxPool has dilations \[2 2\]. Dilations of value other than 1 are currently not "
        r"supported. "
        "Op.* has dilations != 1, not supported$",
    ),
    (
        "indices of a pool",
        lambda b, i: b.aiOnnx.maxpool([i["image"]], 2, [2, 2]),
        r"MaxPool has an invalid number of outputs 2. Must be between 0..1",
    ),
    (
        "automatic padding",
        lambda b, i: b.customOp(
            "MaxPool", 11, "ai.onnx", [i["image"]], {"kernel_shape": [2, 2], "auto_pad": "SAME"}
        ),
        "Invalid auto_pad provied: SAME",
    ),
    (
        "batch norm rank",
        lambda b, i: b.aiOnnx.batchnormalization([i["x23"], *[i["c3"]] * 4], 1),
        "^batch norm requires X to have a rank >= 3.  x has rank 2$",
    ),
    (
        "batch norm shape",
        lambda b, i: b.aiOnnx.batchnormalization([i["image"], i["c4"], i["c3"], *[i["c4"]] * 2], 1),
        r"^expected shape of batch norm input tensor B \(\[3\]\) to be \[4\] to match dimension 1 "
        r"of X \(\[1 4 5 5\]\)$",
    ),
    (
        "batch norm outputs",
        lambda b, i: b.aiOnnx.batchnormalization([i["image"], *[i["c4"]] * 4], 3),
        r"has 1 output \(inference\) or 5 \(training\), 3 asked for",
    ),
    (
        "groups",
        lambda b, i: b.aiGraphcore.groupnormalization([i["image"], i["c4"], i["c4"]], 3),
        "num_groups 3 does not divide the 4 channels",
    ),
    (
        "group norm scale",
        lambda b, i: b.aiGraphcore.groupnormalization([i["image"], i["c3"], i["c4"]], 2),
        r"the scale must have shape \[4\]",
    ),
    (
        "labels",
        lambda b, i: b.aiGraphcore.nllloss([i["x234"], i["label"]]),
        r"^The label tensor \(INT32   \[2 5\]\) must have shape \[2 3\] to match all but the final "
        r"dimension of the probabilities tensor \(FLOAT   \[2 3 4\]\) in Op\(ai.graphcore.Nll:1",
    ),
    (
        "label type",
        lambda b, i: b.aiGraphcore.nllloss([i["x234"], i["x23"]]),
        "Expected the label tensor NllOp to be an integer data type",
    ),
    (
        "probabilities",
        lambda b, i: b.aiGraphcore.nllloss([i["scalar"], i["label"]]),
        "Invalid shape for prob tensor",
    ),
    (
        "reduction",
        lambda b, i: b.aiGraphcore.identityloss([i["x23"]], "Max"),
        "reduction is 'Max', expected Sum, Mean or None",
    ),
]


@pytest.mark.parametrize(
    ("call", "message"), [row[1:] for row in ERRORS], ids=[r[0] for r in ERRORS]
)
def test_messages(call: Call, message: str) -> None:
    builder = new()
    with pytest.raises(popart_exception, match=message):
        call(builder, _inputs(builder))

"""Rows of the operator case table that become another program on Paddle 2.6, and why.

:mod:`.test_same_programs` holds that all others become the same.
"""

from __future__ import annotations

from collections.abc import Mapping

DIFFERENT: Mapping[str, str] = {
    "divide-integers": "paddle.divide converts integers to float32 in 3.3 only",
    "cumsum": "paddle.cumsum of an integer has a cast in 3.3 only, to its own dtype",
    "sqrt-standard deviation": "paddle.var guards n - 1 by where in 2.6, by maximum in 3.3",
    "slice": "x[:, 0:100] writes no operator in 3.3",
    "expand": "2.6 infers 1 for a dimension of -1, which is the shape of the fed cotangent",
    "cross_entropy_with_softmax-class weights and smoothing": "2.6 casts soft labels",
    "sigmoid_cross_entropy_with_logits": "focal loss writes 1 - x as a scale in 2.6",
    "cross_entropy_with_softmax-smoothed soft labels": "2.6 casts soft labels",
    "sigmoid_cross_entropy_with_logits-focal loss": "focal loss writes 1 - x as a scale in 2.6",
    "exp-Poisson likelihood": "the loss casts its labels in 2.6",
    "index_sample-margins between classes": "multi_margin_loss weighs before the power in 2.6",
    "batch_norm-twice with the same statistics": "2.6 stops the gradient between both writes",
    "strided_slice-bounds": "3.3 writes the end of a whole axis as -5, 2.6 as given",
    "det": "2.6 declares the shape of the matrix, which the fed cotangent then has",
    "det-singular": "2.6 declares the shape of the matrices",
    "kthvalue": "2.6 declares the indices as float32",
    "lu": "2.6 declares one number of the decomposition as a vector",
    "diag_embed": "2.6 stops the gradient of its result",
    "relu-hinges": "2.6 reads the two operands in the other order",
    **dict.fromkeys(
        (
            "conv2d-channels last",
            "conv2d-one axis",
            "conv2d_transpose-one axis",
            "conv3d_transpose",
            "deformable_conv",
        ),
        "3.3 reshapes the bias before it adds it, 2.6 adds along an axis",
    ),
    **dict.fromkeys(
        ("einsum-broadcast ellipsis", "einsum-ellipsis", "einsum-ellipsis of one"),
        "2.6 writes einsum with plain operators where there is an ellipsis",
    ),
    **dict.fromkeys(
        (
            "set_value_with_tensor",
            "set_value_with_tensor-from computed starts",
            "set_value_with_tensor-gradient with a new axis",
            "set_value_with_tensor-new axes before and behind dropped ones",
            "set_value_with_tensor-new axis",
            "set_value_with_tensor-whole numbers and truth values",
        ),
        "2.6 assigns the value to a variable of its own first",
    ),
    **dict.fromkeys(
        (
            "array_length",
            "array_read",
            "array_read-by a number of run time",
            "array_to_tensor",
            "array_write-in a False branch",
            "array_write-in a True branch",
            "array_write-in a loop",
            "array_write-over an element",
            "create_array",
        ),
        "3.3 copies what it writes to an array of tensors",
    ),
    **dict.fromkeys(
        (
            "set_value-from computed starts",
            "slice-a start that is an expression, beside an index and a slice",
            "slice-constant lengths from computed starts",
            "slice-one index, a tensor without axes",
            "strided_slice-beside computed starts",
            "while-writes a slice",
        ),
        "3.3 makes one tensor of the bounds first",
    ),
    **dict.fromkeys(
        (
            "put_along_axis-mean of int32 below zero",
            "put_along_axis-mean of int64 below zero",
            "put_along_axis-mean of whole numbers",
            "put_along_axis-mean of whole numbers without what was there",
        ),
        "2.6 rounds a mean of integers towards zero, 3.3 down",
    ),
    **dict.fromkeys(
        (
            "moving_average_abs_max_scale-of 0 and 0 axes",
            "moving_average_abs_max_scale-of 0 and 1 axes",
            "moving_average_abs_max_scale-of 2 and 1 axes",
            "quantize_linear-numbers without an axis",
        ),
        "2.6 declares an average as a vector, 3.3 in the shape of the operand with its last value",
    ),
    **dict.fromkeys(
        (
            "max_pool2d_with_index-windows_outside_of_1",
            "max_pool2d_with_index-windows_outside_of_2",
            "max_pool3d_with_index-windows_outside_of_3",
        ),
        "2.6 leaves out windows that begin behind the image",
    ),
    **dict.fromkeys(
        (
            "set_value-backwards_from_-3_to_None_of_1",
            "set_value-backwards_from_-6_to_-7_of_5",
            "set_value-backwards_from_-8_to_None_of_5",
            "strided_slice-backwards_from_-3_to_None_of_1",
            "strided_slice-backwards_from_-8_to_None_of_5",
            "strided_slice-backwards_from_3_to_-9_of_5",
        ),
        "2.6 has other bounds of backward slices before the front",
    ),
    "increment-64 bits": "3.3 writes the end of a last column as the largest number",
    "scale-constants": "3.3 keeps a constant's whole numbers as float64",
    "kldiv_loss": "batchmean divides by the shape's first element in 2.6, scales in 3.3",
}
"""Rows whose Paddle functions write other operators in 2.6 than in 3.3."""

"""Differences that are explained: by Paddle's kernel, by a static shape, or by an open issue."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tests.differential.operators.families import (
    CONVOLUTIONS,
    FACTORIZATIONS,
    PRODUCTS,
    SUMS,
)
from tests.differential.operators.use import Array, Case

HUGE = 1e18
"""Squares of larger numbers are beyond float32's range."""


@dataclass(frozen=True, slots=True)
class Explained:
    """A kind of difference that is no news.

    Attributes:
        op: regular expression for the whole name of an operator of the case.
        finding: regular expression that is searched in the finding's title, detail, case, and
            in lines that say of what kinds its numbers are, as `_kinds` has them.
        why: the reason, and where it is written down.
        is_open: whether it is ours, and to be mended.
    """

    op: str
    finding: str
    why: str
    is_open: bool = False


ROWS = (
    Explained(
        "viterbi_decode",
        "shape",
        "Paddle cuts the path after the longest sequence; an IPU program's shapes are static, and "
        "the path is as long as the potentials (docs/operators.md)",
    ),
    Explained(
        "gammaincc|gammainc",
        "numbers|NaN|infinity",
        "Paddle's kernel reads y by x's index; a smaller y is read beyond its end",
    ),
    Explained(
        "auc",
        "LoweringError|numbers|popart_exception",
        "Paddle's shape inference takes counts and labels of any size, and its kernel reads and "
        "writes them as if they fitted num_thresholds and slide_steps",
    ),
    Explained(
        "auc",
        r"(NaN|infinity)[\s\S]*\n    (stat_|Stat)\w+: [^\n]*\d{19}",
        "an area of counts near 2^63 is beyond float32's range",
    ),
    Explained(
        "median|nanmedian|kthvalue",
        "output 1: .*\n.*int64",
        "which of several equal numbers is the middle one: Paddle's kernel leaves that to "
        "std::nth_element, which says nothing of their order",
    ),
    Explained(
        ".*",
        r"expected object\[\] None",
        "Paddle's conditional_block gives no tensor for a result without elements",
    ),
    Explained(
        ".*quantize.*|moving_average_abs_max_scale",
        "NaN|infinity[\\s\\S]*with nan",
        "the largest of numbers and NaN: Paddle's kernels compare by <, which skips NaN or keeps "
        "it, by its place",
    ),
    Explained(
        "searchsorted|bucketize",
        "numbers of int",
        "where a number belongs in a sequence that is not sorted is not defined",
    ),
    Explained(
        "polygamma",
        r"(infinity|NaN|numbers)[\s\S]*n = 0",
        "Paddle's kernel computes gamma(1) * zeta(1, x), which is infinite; paddle.polygamma calls "
        "digamma instead",
    ),
    Explained(
        "multiplex|put_along_axis",
        "shape of a gradient",
        "Paddle's gradient has the rows of the index; that of an operand has the operand's shape",
    ),
    Explained(
        "dequantize_linear",
        "numbers|NaN|infinity",
        "Paddle 3's executor runs the kernel of quantize_linear instead",
    ),
    Explained(
        "masked_fill",
        r"gradient of \d+_value",
        "Paddle's kernel for CPUs writes a count of 64 bits where the gradient belongs",
    ),
    Explained(
        "roi_align",
        "NaN",
        "a box without area has no samples: Paddle's kernel for CPUs divides 0 by 0, that for GPUs "
        "gives 0, and so does ours",
    ),
    Explained(
        "trunc|copysign",
        "numbers of int64",
        "Paddle's kernel takes integers through double precision, which rounds those beyond 2^53",
    ),
    Explained(
        "logcumsumexp",
        r"numbers[\s\S]*x: u?int",
        "of integers: Paddle's kernel begins with the lowest number of their type, not of floats",
    ),
    Explained(
        "eigh|svd|eigvalsh",
        r"^(eigh|svd): [\s\S]*output [012]: |output 1: ",
        "eigenvectors and singular vectors have any sign, and any basis where values are equal",
    ),
    Explained(
        "eigh|eigvalsh",
        "of a gradient",
        "Paddle's gradient mixes the matrices of a stack",
    ),
    Explained(
        "uniform_random_batch_size_like",
        "dtype",
        "the draw changes the operator's dtype, and not that of its variable",
    ),
    Explained(
        "c?elu|selu",
        r"numbers[\s\S]*got -\S+e-0[5-9], expected -\S+e-0[5-9]\n",
        "Paddle's kernels have exp(x) - 1, which cancels near 0",
    ),
    Explained(
        "rint|round|floor|ceil|trunc|sign",
        r"(NaN|infinity) of a gradient[\s\S]*got -?0\.0, expected (nan|-?inf)",
        "nothing comes from behind a gradient of zeros: Paddle multiplies it by the slope before, "
        "which may be no number",
    ),
    Explained(
        "fused_softmax_mask",
        r"NaN[\s\S]*\n    \w+: [^\n]*(nan|inf|e\+38)",
        "the largest of numbers and NaN: Paddle's kernel skips NaN or keeps it, by its place",
    ),
    Explained(
        "fake_quantize_.*",
        r"(numbers|infinity)[\s\S]*\n    (\w*scale|in_accum|in_state): \S+ \[*-",
        "a scale below zero is no largest magnitude; kernels clip to bounds in another order",
    ),
    Explained(
        ".*conv.*_transpose.*",
        "NaN[\\s\\S]*with (infinities|nan)",
        "no number is multiplied by the zeros between elements of a dilated kernel",
    ),
    Explained(
        "psroi_pool|roi_pool",
        "numbers",
        "the edge of a bin is a whole number but for rounding, before the image's first pixel: XLA "
        "multiplies and adds at once, Paddle's kernel does not",
    ),
    Explained(
        "fc|fusion_repeated_fc_relu",
        r"NaN[\s\S]*(activation_type = 'relu'|fc_relu)",
        "Paddle's relu gives 0 for NaN, as ours; that within fc keeps NaN",
    ),
    Explained(
        "topk",
        r"(numbers|NaN|infinity)[\s\S]*sorted = False",
        "the order of the results, and which of equal numbers are among them, is not defined",
    ),
    Explained(
        "cross_entropy_with_softmax|(log_)?softmax|fused_softmax_mask(_upper_triangle)?",
        r"(numbers|infinity)[\s\S]*(with numbers beyond 64|expected -64)",
        "Paddle's kernels for CPUs take a logit for 64 below the largest where it is lower still; "
        "those for GPUs, and ours, do not",
    ),
    Explained(
        "put_along_axis|split",
        r"axis = -",
        "Paddle's kernel does not count axes from the end, its function does before: the kernel "
        "takes no notice of the index, or cuts the first axis",
    ),
    Explained(
        "renorm",
        r"(numbers|NaN)[\s\S]*\n    axis = -",
        "Paddle's kernel does not count axes from the end, its function does before",
    ),
    Explained(
        "renorm",
        r"of a gradient[\s\S]*\n    p = (inf|0\.0)",
        "the formula of other orders gives no norm of order 0 or infinity, and multiplies infinity "
        "by zero in the derivative",
    ),
    Explained(
        "log(2|10|1p)?|exp|expm1",
        r": (log(2|10|1p)?|exp|expm1)\n    x: (constant )?u?int\d+\[[\s\S]*result 0 of operator",
        "of integers: Paddle 3's programs declare integers for results that are floats, and the "
        "operators that take them run their kernels of integers",
    ),
    Explained(
        "group_norm",
        r"of a gradient[\s\S]*: group_norm\n    \w+: [^\n]*\n    (?![sS]cale)",
        "without a scale Paddle's gradient lacks a term (docs/operators.md)",
    ),
    Explained(
        "group_norm",
        r"of a gradient[\s\S]*\n    ([sS]cale: [^\n]*(e-\d\d|\b0\.0*(e\+00)? *[],])|"
        r"[bB]ias: [^\n]*(inf|nan))",
        "Paddle's gradient has the normal numbers of (y - bias) / scale, of which a scale of 0 "
        "or small beside the bias leaves no digits",
    ),
    Explained(
        ".*norm.*",
        r"(NaN|infinity|numbers)[\s\S]*with huge numbers",
        "squares beyond the range: the length or deviation is infinite, of which Paddle's kernels "
        "make NaN by its square root (Eigen) or by infinity less infinity, and others 0",
    ),
    Explained(
        "warpctc",
        r"infinity[\s\S]*\n    logits_length: [^\n]*\b0\b",
        "a sequence without times and labels: Paddle's loss is infinite (docs/operators.md)",
    ),
    Explained(
        "warpctc",
        r"numbers[\s\S]*with numbers beyond 64",
        "its softmax takes a logit for 64 below the largest where it is lower still, as others of "
        "Paddle's for CPUs",
    ),
    Explained(
        "viterbi_decode",
        r"with (infinities|nan|huge numbers)",
        "Paddle's kernel multiplies the scores of a sequence's tags by 0 where it goes on: a tag "
        "whose score was infinite or NaN is NaN from then on",
    ),
    Explained(
        "viterbi_decode",
        r"NaN[\s\S]*with infinities",
        "the largest of numbers and NaN: Paddle's kernel skips NaN, and an infinite transition may "
        "be taken from one that is infinite too",
    ),
    Explained(
        "yolo_loss",
        r"numbers[\s\S]*(with nan|scale_x_y = -?(inf|nan))",
        "whether a predicted box that is NaN overlaps others: Paddle's comparisons take the edges "
        "of the others",
    ),
    Explained(
        "yolo_loss",
        r"(NaN|infinity)[\s\S]*with huge numbers",
        "a sum is beyond the range or not by which of its terms meet first",
    ),
    Explained(
        "lu_solve",
        r"\n    b: \w+(\[[\d, ]*), \d+, \d+\][^\n]*"
        r"\n    lu: \w+((?!\1, \d+, \d+\])|[^\n]*\n    pivots: \w+(?!\1, \d+\]))",
        "Paddle's function repeats the matrices and pivots for each right-hand side, its kernel "
        "does not and reads beyond them",
    ),
    Explained(
        "logsumexp",
        r"NaN[\s\S]*(with infinities|got -?inf)",
        "Paddle's kernel subtracts the largest number from itself, which is NaN of an infinity; "
        "ours is the limit",
    ),
    Explained(
        "(bi|tri)?linear_interp(_v2)?|bicubic_interp(_v2)?",
        r"NaN[\s\S]*with infinities",
        "a weight that is 0 but for rounding, times infinity",
    ),
    Explained(
        "lp_pool2d",
        r"of a gradient[\s\S]*\n    x: [^\n]*e-[234]\d",
        "the gradient of a norm whose powers are too small for float32",
    ),
    Explained(
        "cumprod",
        r"(NaN|infinity) of a gradient[\s\S]*with (infinities|huge numbers)",
        "Paddle's kernel divides a product, which is beyond the range, by each factor again",
    ),
    Explained(
        "lgamma|gammaln",
        r"numbers[\s\S]*output 0: off by \d(\.\d+)?e-(0[89]|[1-9]\d)[\s\S]*\n    x: [^\n]*-\d\.",
        "a zero between two poles below -2 is the difference of logarithms, each exact to 1e-8",
    ),
    Explained(
        "digamma",
        r"(numbers|infinity|NaN) of a gradient[\s\S]*\n    x: [^\n]*-(8|9|\d\d+|[\d.]+e\+)",
        "below -8 Paddle's gradient is not that of digamma; its polygamma is (docs/operators.md)",
    ),
    Explained(
        "warpctc",
        r"infinity[\s\S]*\n    label: [^\n]*\b0\b[\s\S]*blank = 0",
        "a blank among the labels leaves no alignment: Paddle's loss is infinite, and 0 for labels "
        "that do not fit their sequence; ours is 0 for both",
    ),
    Explained(
        "sqrt|asinh|acosh",
        r"expected nan|expected -?inf\n[\s\S]*\n    x: [^\n]*e-4\d",
        "Paddle's kernel multiplies x by 1 / sqrt(x) where its vectors are wide: infinity by 0; "
        "the slopes of asinh and acosh have a root too",
    ),
    Explained(
        "abs|copysign|hardswish|logsigmoid|softshrink",
        r"NaN[\s\S]*expected nan[\s\S]*with (infinities|huge numbers)",
        "Paddle's formula multiplies infinity by 0, divides it by itself, or takes it from itself: "
        "the slope of |x| is x / |x|. Ours is the limit",
    ),
    Explained(
        "celu|silu",
        r"(NaN|infinity) of a gradient[\s\S]*expected (nan|-?inf)",
        "Paddle's formula multiplies an exponential beyond the range by 0. Ours is the limit",
    ),
    Explained(
        "silu|swish|mish",
        r"(NaN|infinity) of a gradient[\s\S]*with (infinities|huge numbers)",
        "x, or its product with the gradient, is beyond the range, and multiplied by 0",
    ),
    Explained(
        "swish",
        r"of a gradient[\s\S]*expected -?0\.0\n[\s\S]*with huge numbers",
        "Paddle's formula for the slope, y + sigmoid(x) * (1 - y), has no digits of 1 beside y",
    ),
    Explained(
        "softplus|stanh",
        r"NaN of a gradient[\s\S]*(beta|scale_a|scale_b) = (-?0\.0|inf)",
        "a slope that is divided by 0, or infinite: 0 times infinity in another order",
    ),
    Explained(
        "logit",
        r"NaN( or infinity)? of a gradient[\s\S]*(eps = -?0\.0|with nan)",
        "the slope is infinite at 0 and 1, where ours is NaN; where NaN is limited to the bounds, "
        "ours is 0",
    ),
    Explained(
        "softplus|logsigmoid|mish|c?elu|selu|erfinv",
        r"numbers[\s\S]*output 0: off by [\d.]+e-(1[6-9]|[2-9]\d), [^\n]*expected -?0\.0\n",
        "Paddle's formula adds 1 to a number that is less than the last bit of 1, or takes 1 from "
        "such a sum",
    ),
    Explained(
        "pow",
        r"(NaN|infinity)[\s\S]*\n    x: [^\n]*-inf\b|got -?inf, expected -?inf\n",
        "powers of minus infinity and minus 0: Paddle's vectors give odd ones another sign, ours a "
        "root for the exponent one half, which is no number",
    ),
    Explained(
        "triangular_solve",
        r"(NaN|infinity)[\s\S]*\n    x: [^\n]*\b0\.[],]",
        "a matrix with 0 on its diagonal has no inverse; whether the infinities of a solution meet "
        "zeros is the kernel's",
    ),
    Explained(
        "roi_pool",
        "NaN",
        "the largest of numbers and NaN: Paddle's kernel skips NaN",
    ),
    Explained(
        "roi_align",
        r"of a gradient[\s\S]*aligned = True",
        "Paddle's gradient takes boxes for at least a pixel wide, which its result does not",
    ),
    Explained(
        SUMS,
        "NaN or infinity",
        "a sum beyond the range is infinite or NaN by which of its terms meet first",
    ),
    Explained(
        PRODUCTS,
        r"(NaN|infinity)[\s\S]*with huge numbers",
        "a sum is beyond the range or not by which of its terms meet first",
    ),
    Explained(
        f"{CONVOLUTIONS}|{FACTORIZATIONS}",
        r"(NaN|infinity)[\s\S]*with (infinities|nan)",
        "whether zeros of the padding or of a factorization are multiplied by what is no number",
    ),
    Explained(
        "qr",
        r"numbers[\s\S]*with a singular matrix",
        "columns of q beyond the rank of a matrix are any that are orthogonal to the others",
    ),
    Explained(
        "det.*|slogdet.*|inverse|solve",
        r"(numbers|infinity)[\s\S]*with a singular matrix",
        "a pivot that is zero but for rounding",
    ),
    Explained(
        "spectral_norm",
        r"(NaN|infinity)[\s\S]*\d(\.\d+)?e-(3[89]|4\d)\b",
        "a singular value that is too small to be normal counts as 0",
    ),
    Explained(
        "lu",
        r"(NaN|infinity) of a gradient[\s\S]*\nexpected [^\n]*(inf|nan)",
        "the factors of a singular matrix have no derivative: its formula divides by zero",
    ),
    Explained(
        "inverse|solve",
        r"(NaN|infinity)[\s\S]*\nexpected [^\n]*\binf\b",
        "a result beyond the range: which of its terms meet first is the kernel's",
    ),
    Explained(
        "bicubic_interp.*",
        r"(NaN|infinity)[\s\S]*with (huge numbers|infinities|nan)",
        "a pixel of the border counts several times, with weights of both signs: Paddle's kernel "
        "adds products, ours weights",
    ),
    Explained(
        "lstsq",
        r"output [123]: got (shape|dtype)[\s\S]*\n    [xy]: \w+\[([1-9]\d*, )*0\b",
        "without elements Paddle's kernel leaves residuals, ranks and singular values as they are "
        "made: int64 and float32 of shape [0]",
    ),
    Explained(
        "lstsq",
        r"output 1: |with (huge numbers|infinities|nan)",
        "residuals are differences of nearly equal numbers; LAPACK scales what is not finite",
    ),
    Explained(
        "elementwise_pow",
        r"expected -?(2147483648|2147483647|9223372036854775808|9223372036854775807|32768|128)\b",
        "a power beyond the integers' range: Paddle's kernel casts a double, which C++ leaves open",
    ),
    Explained(
        "fmax|fmin",
        "numbers of int",
        "Paddle's kernels take integers through floats",
    ),
    Explained(
        "svdvals",
        "shape",
        "Paddle's kernel has one axis for all those of a stack, the program does not",
    ),
    Explained(
        "lu_solve",
        "shape",
        "Paddle's function broadcasts stacks, its kernel gives the shape of b",
    ),
    Explained(
        "cholesky_solve",
        r"(NaN|infinity)[\s\S]*\n    y: [^\n]*(\b0\.|e-4\d) *[],]",
        "a factor with 0, or a denormal, on its diagonal has no inverse; whether the infinities of "
        "a solution meet zeros is the kernel's",
    ),
    Explained(
        "cholesky_solve",
        "of a gradient",
        "Paddle's gradient multiplies by the whole factor, its other triangle too",
    ),
    Explained(
        "c?elu|selu",
        r"(scale|alpha) = -?inf|infinity[\s\S]*with huge numbers",
        "infinity times zero, or less infinity, in another order",
    ),
    Explained(
        "send_u_recv|graph_send_recv",
        r"shape[\s\S]*int\d+\[0\]",
        "without messages Paddle's kernel leaves the result's shape at out_size alone",
    ),
    Explained(
        "mode|kthvalue|median",
        r"of a gradient[\s\S]*\n    x: \w+\[\]",
        "Paddle's gradient of a number without axes is 1, whatever comes from behind",
    ),
    Explained(
        "p_norm",
        r"of a gradient[\s\S]*porder = \S+e-",
        "the gradient of a norm that is infinite",
    ),
    Explained(
        "p_norm|dist",
        r"of a gradient[\s\S]*\b(porder|p) = -?inf[\s\S]*with infinities",
        "the gradient of a largest or smallest magnitude that is infinite: ours is 0",
    ),
    Explained(
        "p_norm|dist",
        r"numbers of \w+ of a gradient[\s\S]*\n    x: [^\n]*e[-+]\d\d[\s\S]*"
        r"\b(porder|p) = (?!-?(1\.0|2\.0|inf))",
        "Paddle adds epsilon to a power of the norm, which counts beside a small one; powers of "
        "large sums magnify what float32 rounds off 1 / p",
    ),
    Explained(
        "qr",
        r"of a gradient[\s\S]*: gather_nd\n[^\n]*\n    index: \w+\[\d+, 1\] "
        r"\[\[(-?\d+)\](, \[\1\])+\]\n\d+: qr",
        "a matrix of equal rows: R has no inverse, of which the gradient is made",
    ),
    Explained(
        "lp_pool2d",
        r"(NaN|infinity) of a gradient[\s\S]*with (huge numbers|infinities)",
        "the norm of a window whose powers are beyond the range is infinite, its slope 0 times "
        "infinity, or infinity by infinity",
    ),
    Explained(
        "matmul",
        "numbers of int64",
        "Paddle's kernel multiplies integers in single precision",
    ),
    Explained(
        "tanh_shrink",
        r"gradient of 0_x: off by \d(\.\d+)?e-(0[789]|\d\d)",
        "the slopes of x and of tanh cancel near 0; Paddle has the square of tanh",
    ),
    Explained(
        "amin|amax|min|max",
        "NaN of a gradient[\\s\\S]*with nan",
        "the gradient of a largest number that is NaN: Paddle's kernel for axes of one element has "
        "0, others NaN",
    ),
    Explained(
        "mean|reduce_mean",
        r"numbers of int\d+\n[\s\S]*got 2147483647, expected -2147483648",
        "a float beyond the integers' range is cast to one, which C++ leaves open",
    ),
    Explained(
        "relu6?|leaky_relu|clip|hardtanh|hardsigmoid|thresholded_relu|hardshrink",
        r"(NaN|infinity) of a gradient[\s\S]*got -?0\.0, expected (nan|-?inf)[\s\S]*\n1: ",
        "Paddle multiplies a slope of 0 by what comes from behind, which is infinite",
    ),
    Explained(
        "self_dp_attention",
        r"numbers[\s\S]*: self_dp_attention\n    x: (result|"
        r"\w+\[\d+, \d+, \d+, (\d+), \d+\][\s\S]*head_number = (?!\2\n))",
        "Paddle's kernel takes head_number, whatever heads its operand has",
    ),
    Explained(
        "(log_)?softmax",
        r"NaN[\s\S]*softmax\n    x: \w+\[\]",
        "of a number without axes Paddle's kernel gives 1, and its logarithm 0, whatever it is",
    ),
    Explained(
        "max_pool[23]d_with_index",
        r"NaN[\s\S]*got nan, expected -3\.4028",
        "an image without pixels: the largest is NaN in Paddle 3, the lowest number in Paddle 2.6",
    ),
    Explained(
        "max_pool[23]d_with_index",
        r"numbers of int[\s\S]*got 0, expected -1[\s\S]*\n    [xX]: \w+\[(\d+, )*0\b",
        "an image without pixels: the largest is at 0 in Paddle 3, nowhere in Paddle 2.6",
    ),
    Explained(
        "logcumsumexp",
        r"NaN[\s\S]*with nan",
        "Paddle's kernel compares NaN with what came before, and so skips it",
    ),
    Explained(
        "slogdet.*",
        r"NaN of a gradient[\s\S]*expected [^\n]*nan",
        "Paddle's gradient counts matrices as singular whose determinant's logarithm is 0",
    ),
    Explained(
        "prod|reduce_prod",
        r"NaN of a gradient[\s\S]*expected [^\n]*nan[\s\S]*\n    \w: [^\n]*\b0\.[],]",
        "Paddle's gradient divides the product by each factor: 0 by 0",
    ),
    Explained(
        ".*",
        r"of a gradient[\s\S]*all of it where Paddle's alone is not finite[\s\S]*"
        r"with (infinities|huge numbers)",
        "a slope where a result is infinite, or a product on the way to it is beyond the range: "
        "Paddle's formula multiplies 0 by infinity",
    ),
    Explained(
        "matrix_rank.*",
        r"numbers of int[\s\S]*with a singular matrix",
        "whether a singular value that is zero but for rounding is above a tolerance of 0",
    ),
    Explained(
        "index_select",
        r"numbers of \w+ of a gradient[\s\S]*\n    index: [^\n]*-\d",
        "Paddle's gradient does not count an index from the end, its function does",
    ),
    Explained(
        "fused_bias_residual_layernorm",
        "all of it where Paddle's alone is not finite",
        "Paddle's variance is the mean of squares less the square of the mean, which may be below "
        "zero",
    ),
    Explained(
        "dist|p_norm",
        r"NaN[\s\S]*\b(p|porder) = -?inf[\s\S]*with nan",
        "the largest of numbers and NaN: Paddle's kernel skips NaN or keeps it, by its place",
    ),
    Explained(
        "cross_entropy_with_softmax",
        r"infinity[\s\S]*got -?inf, expected (-?1e\+20|[\s\S]*\n    input: [^\n]*e-4\d)",
        "of a probability of 0, as a denormal is, Paddle's kernel takes 1e20 for the infinite loss",
    ),
    Explained(
        "cross_entropy_with_softmax",
        r"NaN[\s\S]*\n    input: [^\n]*\binf[\s\S]*use_softmax = False",
        "of an infinite probability Paddle's kernel takes 1e20 for the logarithm, and a label of 0 "
        "times it is 0",
    ),
    Explained(
        "pool[23]d",
        r"of a gradient[\s\S]*pooling_type = 'max'[\s\S]*with nan",
        "NaN within a window: Paddle's kernel begins anew after it, and gives the gradient to the "
        "first element that is equal to the result, which may lie before it",
    ),
    Explained(
        "lu",
        r"output 2: [\s\S]*: lu\n    x: result[\s\S]*with huge numbers",
        "whether a matrix is singular whose elements are sums of huge numbers, in another order",
    ),
    Explained(
        "prod|reduce_prod",
        r"(NaN|infinity)[\s\S]*with huge numbers",
        "a product is beyond the range, and then times 0, or not: by which of its factors meet "
        "first",
    ),
    Explained(
        "deformable_conv",
        r"gradient of \d+_\w+: [^\n]*the norm of what is expected is 0 [\s\S]*im2col_step",
        "Paddle's gradient takes whole steps of im2col_step images, and so none "
        "where there are fewer",
    ),
    Explained(
        "selu",
        r"of a gradient[\s\S]*(scale|alpha) = -",
        "Paddle's gradient takes the branch of the result's sign, which a factor below 0 turns",
    ),
    Explained(
        "kldiv_loss",
        r"NaN[\s\S]*got 0\.0, expected nan[\s\S]*\n    x: \w+\[(\d+, )*0\b[\s\S]*reduction = 'sum'",
        "a sum of no elements is 0; Paddle's kernel gives NaN, as for a mean",
    ),
    Explained(
        "i0e",
        r"of a gradient[\s\S]*quantize_dequantize[\s\S]*: i0e\n    x: result",
        "the slope at 0 has the sign of the side, which is the sign of 0; a number that is "
        "quantised to -0 in a training is 0, the sum of it and the straight-through difference",
    ),
    Explained(
        "fusion_repeated_fc_relu",
        r"(numbers|infinity)[\s\S]*with (infinities|nan)",
        "a NaN between two layers: Paddle's fc keeps it, ours is 0",
    ),
    Explained(
        "slogdet.*",
        r"numbers[\s\S]*output 0: [\s\S]*with (infinities|nan|huge numbers)",
        "the sign of a determinant that is infinite or NaN",
    ),
    Explained(
        "put_along_axis",
        r"gradient of \d+_values?[\s\S]*\n    indices: [^\n]*-\d",
        "Paddle's gradient does not count an index from the end, its kernel does",
    ),
    Explained(
        "ctc_align",
        r"numbers[\s\S]*\n    input: [^\n]*\d{10}",
        "Paddle's kernel compares tokens by their lowest 32 bits",
    ),
    Explained(
        "svd",
        r"of a gradient[\s\S]*with a singular matrix",
        "the gradient divides by singular values, one of which is zero but for rounding",
    ),
    Explained(
        "lu",
        r"numbers[\s\S]*output [01]: [\s\S]*with nan",
        "which row is the pivot among numbers and NaN",
    ),
    Explained(
        "box_coder",
        r"(numbers|infinity)[\s\S]*e\+38",
        "XLA multiplies by the reciprocal of a size, which of one near the range's end is a "
        "denormal, and so 0",
    ),
    Explained(
        "affine_channel",
        r"numbers[\s\S]*: affine_channel\n    [xX]: \w+\[\d+\]",
        "of an operand of one axis Paddle's kernel writes no result",
    ),
    Explained(
        "lgamma|gammaln|digamma",
        r"numbers of \w+ of a gradient[\s\S]*got -?inf, expected -?inf\n",
        "the slope at a pole has the sign of the side, which is the sign of 0",
    ),
    Explained(
        "sum",
        r"numbers of int\d+\n[\s\S]*: sum\n    x: float16",
        "Paddle's kernel of float16 casts the sum, those of other floats cast what they add",
    ),
    Explained(
        "softplus",
        r"infinity[\s\S]*expected inf",
        "Paddle's formula has an exponential, which is beyond the range below a high threshold",
    ),
    Explained(
        "equal|not_equal|equal_all",
        r"numbers of bool[\s\S]*e-(1[5-9]|[2-4]\d)\b",
        "Paddle's kernel counts numbers as equal that are less than 1e-15 apart",
    ),
    Explained(
        "p_norm",
        r"(numbers|infinity)[\s\S]*: p_norm\n    x: \w+\[\]",
        "of a number without axes Paddle's kernel takes the norm of nothing",
    ),
    Explained(
        "slice",
        r"(shape|numbers|NaN|infinity)[\s\S]*: slice\n[\s\S]*    axes = \[[^\]]*-",
        "Paddle's kernel of the operator does not count an axis from the end; its function does",
    ),
    Explained(
        "swiglu|logcumsumexp",
        r"of a gradient[\s\S]*with huge numbers",
        "Paddle's formula adds a gradient's part to a number beside which it is lost",
    ),
    Explained(
        "clip_by_norm",
        r"NaN[\s\S]*max_norm = inf",
        "Paddle divides an infinite limit by an infinite limit",
    ),
    Explained(
        "grid_sample",
        r"(NaN|infinity) of a gradient[\s\S]*with infinities",
        "Paddle multiplies a pixel that is infinite by the weight 0 that it has at the border",
    ),
    Explained(
        "scale",
        r"infinity[\s\S]*: scale\n[\s\S]*(digamma|reciprocal|rsqrt|divide)",
        "Paddle adds a bias of 0, which makes 0 of -0; XLA leaves that out",
    ),
    Explained(
        "p_norm",
        r"of a gradient[\s\S]*: p_norm\n[\s\S]*    epsilon = (-|[1-9]\.|0\.0*[1-9])",
        "Paddle's gradient adds epsilon, which is no small number here, to a power of the norm",
    ),
    Explained(
        "mean",
        r"numbers of int64[\s\S]*: mean\n    x: int64[^\n]*\d{9}",
        "Paddle's kernel goes by float32",
    ),
    Explained(
        "sigmoid_cross_entropy_with_logits",
        r"NaN[\s\S]*expected nan\n[\s\S]*normalize = True",
        "of labels that are all ignored Paddle divides 0 by 0",
    ),
    Explained(
        "logit",
        r"of a gradient[\s\S]*    eps = (0\.[5-9]|[1-9])",
        "an eps above one half puts every number outside, where Paddle's slope is 0",
    ),
    Explained(
        "fusion_squared_mat_sub",
        r"numbers[\s\S]*with numbers beyond 64",
        "where one product is much larger than the others, its square is taken from itself",
    ),
)
"""The first that fits explains a finding."""


def explanation(case: Case, title: str, detail: str) -> Explained | None:
    """The row that explains a finding, None for news."""
    text = f"{title}\n{detail}\n{case}\n{_kinds(case)}"
    for row in ROWS:
        named = any(re.fullmatch(row.op, use.op) for use in case.steps)
        if named and re.search(row.finding, text):
            return row
    return None


def _kinds(case: Case) -> str:
    """The kinds of numbers among the operands, of which a case's text may show few."""
    arrays = [
        tensor.array.astype(np.float64)
        for use in case.steps
        for _, _, tensor in use.tensors()
        if tensor.array.dtype.kind == "f"
    ]
    finite = [array[np.isfinite(array)] for array in arrays]
    kinds = {
        "with infinities": any(np.isinf(array).any() for array in arrays),
        "with nan": any(np.isnan(array).any() for array in arrays),
        "with huge numbers": any((np.abs(array) > HUGE).any() for array in finite),
        "with numbers beyond 64": any((np.abs(array) > 64).any() for array in arrays),
        "with a singular matrix": any(map(_is_singular, arrays)),
    }
    return "\n".join(kind for kind, is_there in kinds.items() if is_there)


def _is_singular(array: Array) -> bool:
    """Whether one of a stack of matrices lacks full rank, but for float32's rounding."""
    if array.ndim < 2 or not array.size:
        return False
    matrices = array[np.isfinite(array).all((-1, -2))]
    most = max(array.shape[-2:]) * np.finfo(np.float32).eps
    sizes = np.linalg.svd(matrices, compute_uv=False)
    return bool((sizes[:, -1] <= most * sizes[:, 0]).any())

"""What findings of random operators turned out to be, from :data:`FIRST_SEED` on."""

from __future__ import annotations

from collections.abc import Mapping

FIRST_SEED = 104

_LOGIT = "mended: the logarithm of a quotient had no slope at its ends, and denormals are zeros"

CAUSES: Mapping[tuple[int, str], str] = {
    (104, "cross_entropy_with_softmax: NaN"):
        "Paddle takes 1e20 for the infinite logarithm of a probability of 0",
    (104, "i0e: numbers of float32 of a gradient"): "the sign of a 0 that was quantised",
    (104, "selu: infinity of a gradient"): "a scale below 0: Paddle goes by the result's sign",
    (104, "selu: numbers of float32 of a gradient"):
        "a scale below 0: Paddle goes by the result's sign",
    (105, "baddbmm: NaN"): "mended: a beta of 0 leaves the addend out",
    (105, "pool3d: numbers of float32 of a gradient"):
        "NaN in a window: Paddle gives the gradient to the first that equals the maximum",
    (105, "std: NaN of a gradient"): "mended: the slope of a deviation of 0 is 0",
    (105, "gru_unit: numbers of float32"): "refused by name: Paddle reads beyond hidden_prev",
    (106, "gather: shape"): "mended: an index of shape [n, 0]",
    (106, "gammaln: infinity"): "rounding beside a denormal",
    (106, "logit: NaN or infinity of a gradient"): _LOGIT,
    (106, "celu: infinity"): "float64 beyond float32's range",
    (107, "index_put: InvalidProgramError: operator index_put contradicts itself …. The program "
          "is dam"): "refused by name: more indices than axes",
    (107, "fused_bias_residual_layernorm: numbers of float32"):
        "refused by name: begin_norm_axis is no axis",
    (107, "fused_bias_residual_layernorm: infinity"): "refused by name: begin_norm_axis is no axis",
    (107, "fused_bias_residual_layernorm: NaN"): "refused by name: begin_norm_axis is no axis",
    (107, "gather: shape"): "refused by name: an axis that x does not have",
    (107, "exp: NaN"): "rounding beside a denormal",
    (107, "digamma: infinity"): "Paddle adds a bias of 0, which makes 0 of -0",
    (108, "grid_sample: NaN of a gradient"): "Paddle multiplies an infinite pixel by the weight 0",
    (108, "log2: infinity"): "a denormal, which is 0 here",
    (108, "log2: NaN or infinity of a gradient"):
        "mended: the slope of tanh at 0 made NaN of infinity",
    (109, "slice: numbers of float32"):
        "Paddle's kernel does not count an axis from the end; its function does",
    (109, "swiglu: numbers of float32 of a gradient"):
        "Paddle adds 1 to a huge number, beside which it is lost",
    (109, "index_put: numbers of float32 of a gradient"):
        "logcumsumexp: Paddle adds the gradient's logarithm to a huge number",
    (109, "logit: NaN or infinity of a gradient"): _LOGIT,
    (109, "logit: infinity"): _LOGIT,
    (109, "logit: NaN"): _LOGIT,
    (110, "yolo_loss: numbers of float32"): "refused by name: anchor_mask is beyond the anchors",
    (110, "clip_by_norm: NaN"): "Paddle divides an infinite limit by an infinite limit",
    (110, "gather_nd: LoweringError: ai.paddle_ipu.GatherNd … of float……, int…… cannot be "
          "lowered"): "refused by name: an index into an axis without elements",
    (111, "sigmoid_cross_entropy_with_logits: NaN"):
        "labels that are all ignored: Paddle divides 0 by 0",
    (111, "logit: infinity of a gradient"):
        "an eps above one half: Paddle's slope is 0 for every number",
    (113, "p_norm: numbers of float64 of a gradient"):
        "Paddle adds epsilon, here -1, to a power of the norm",
    (114, "yolo_loss: LoweringError: ai.paddle_ipu.YoloLoss … of float……, float……, int…… canno"):
        "refused by name: boxes of fewer images than there are",
    (114, "cumprod: NaN"): "a factor is a denormal, which is 0 here, beside huge ones",
}  # fmt: skip
"""(seed, the finding's title) -> what was mended, or why the difference stays."""

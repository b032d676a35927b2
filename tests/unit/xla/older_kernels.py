"""Where Paddle's CPU kernels, which the lowerings are compared with, were others in the past.

The lowerings follow the newest kernels on every Paddle.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.operators.operator_case import Since

_TIES = Since("3.1", "the kernel gives a tie's whole gradient to one side")
_EVERY_TIE = Since("3.1", "the kernel gives every one of several largest the whole gradient")
_CLIP = Since("3.1", "the kernel's gradient is zero at the bounds")
_GROUP = Since("3.0", "there is no function group_norm")

OLDER: Mapping[str, Since] = {
    "test_binary_gradients[Mod-remainder-first8-second8]": Since(
        "3.0", "the operator has no gradient"
    ),
    "test_unary_gradients[Round-round-points8]": Since(
        "3.1", "the kernel rounds halves away from zero"
    ),
    "test_binary_gradients[Max-maximum-first4-second4]": _TIES,
    "test_binary_gradients[Min-minimum-first5-second5]": _TIES,
    "test_binary_gradients[Max-maximum-first6-second6]": _TIES,
    "test_binary_gradients[Min-minimum-first7-second7]": _TIES,
    "test_broadcast_gradient_sums": _TIES,
    "test_pow_of_a_constant_exponent[0.0]": Since(
        "3.0", "the kernel's gradient of x ** 0 is NaN at zero"
    ),
    "test_pow_gradients_at_zero_and_below": Since(
        "3.1", "the kernel's gradient of x ** 0 is NaN at zero where the exponent is a tensor"
    ),
    "test_clip_passes_the_gradient_at_its_bounds[bounds0]": _CLIP,
    "test_clip_passes_the_gradient_at_its_bounds[bounds1]": _CLIP,
    "test_clip_passes_the_gradient_at_its_bounds[bounds2]": _CLIP,
    "test_gather_gradient_adds_up_repeated_indices": Since(
        "3.1", "the kernel adds gradients of other elements"
    ),
    "test_group_normalization[1]": _GROUP,
    "test_group_normalization[2]": _GROUP,
    "test_group_normalization[6]": _GROUP,
    "test_ties_over_several_axes_share_the_gradient[ReduceMax]": _EVERY_TIE,
    "test_ties_over_several_axes_share_the_gradient[ReduceMin]": _EVERY_TIE,
    "test_gradients_at_ties_and_zeros[ReduceMax-<lambda>0]": _EVERY_TIE,
    "test_gradients_at_ties_and_zeros[ReduceMin-<lambda>0]": _EVERY_TIE,
}
"""Test -> the first Paddle whose kernel it can be compared with."""

"""How a session computes, where its options leave a choice: rounding, partial sums, statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from paddle_ipu.errors import popart_exception

if TYPE_CHECKING:
    from paddle_ipu.popart.options import SessionOptions

_PARTIALS = {"": False, "float": False, "half": True}


@dataclass(frozen=True, slots=True)
class Precision:
    """PopART's session options that change numbers of half tensors, and of norms and softmax.

    Attributes:
        stochastic_rounding: results are rounded to half up or down at random.
        half_matmuls: float16 matrix products add their products up in float16.
        half_convolutions: float16 convolutions do.
        half_recurrences: the matrix products inside float16 LSTMs do.
        stable_norms: norms of half tensors take the variance around the mean, in two passes.
        unstable_softmax: softmax takes exponentials without subtracting the maximum first.
        strided_groups: channel c of a group norm is of group ``c % groups``, not
            ``c // (channels / groups)``.
    """

    stochastic_rounding: bool = False
    half_matmuls: bool = False
    half_convolutions: bool = False
    half_recurrences: bool = False
    stable_norms: bool = False
    unstable_softmax: bool = False
    strided_groups: bool = False

    @classmethod
    def of(cls, options: SessionOptions) -> Precision:
        """What the options of a session say.

        Raises:
            popart_exception: a type of partial sums that is none.
        """

        def in_map(name: str) -> bool:
            text = str(getattr(options, name).get("partialsType", ""))
            if text.lower() not in _PARTIALS:
                raise popart_exception(
                    f"SessionOptions.{name}['partialsType']: partial sums are of type 'float' or "
                    f"'half', got {text!r}"
                )
            return _PARTIALS[text.lower()]

        # Other types of these are refused of operators that read them, as in PopART.
        matmuls = options.partialsTypeMatMuls.lower() == "half"
        convolutions = str(options.convolutionOptions.get("partialsType", "")).lower() == "half"
        return cls(
            stochastic_rounding=bool(options.enableStochasticRounding),
            half_matmuls=matmuls or in_map("matmulOptions"),
            half_convolutions=convolutions,
            half_recurrences=in_map("lstmOptions"),
            stable_norms=bool(options.enableStableNorm),
            unstable_softmax=bool(options.enableNonStableSoftmax),
            strided_groups=bool(options.groupNormStridedChannelGrouping),
        )

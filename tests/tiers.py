"""The tiers of the tests: pytest markers, what each means, and the files that have it as a whole.

Single tests have a marker where they stand. A test without one runs everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tier:
    """A marker.

    Attributes:
        name: the marker.
        meaning: when its tests run, for ``pytest --markers``.
        places: files and folders, from the root, all of whose tests have it.
    """

    name: str
    meaning: str
    places: tuple[str, ...]

    def has(self, path: str) -> bool:
        """Whether a file belongs to it as a whole."""
        return any(path == place or path.startswith(f"{place}/") for place in self.places)


TIERS = (
    Tier(
        "long",
        "takes tens of seconds; `make test-all` runs it, on every Paddle",
        (
            *(
                f"tests/journeys/precision/test_{name}.py"
                for name in ("every_half", "half_partials", "loss_scaling", "rounding")
            ),
            *(
                f"tests/journeys/training/test_{name}.py"
                for name in (
                    "fifty_steps",
                    "popart_rules",
                    "powers",
                    "recomputation",
                    "resume",
                    "sequence_layers",
                )
            ),
            "tests/journeys/examples/test_bert_stages.py",
            "tests/operators/test_shapes_against_numpy.py",
            "tests/operators/test_slices_against_numpy.py",
            "tests/unit/popart/test_operator_properties.py",
            "tests/unit/sessions/test_recomputation.py",
            "tests/unit/verification/test_microscope.py",
            "tests/unit/verification/test_saved_models.py",
        ),
    ),
    Tier("thorough", "takes minutes; `make test-all` runs it, on the newest Paddle", ()),
    Tier(
        "newest",
        "depends little on Paddle's version; `make test` runs it on the newest alone",
        (
            "tests/differential/files",
            "tests/differential/operators",
            "tests/journeys/custom_ops",
            "tests/journeys/documents",
            "tests/journeys/test_packaging.py",
            "tests/unit/cost_model",
            "tests/unit/distributed",
            "tests/unit/operating_system",
            "tests/unit/pages",
            "tests/unit/serving",
            "tests/unit/tools",
            "tests/unit/tree",
            "tests/unit/verification",
            "tests/unit/zoo",
        ),
    ),
    Tier(
        "same",
        "depends on no version of Paddle; runs on the newest, in `make test-all` on the oldest too",
        (
            "tests/journeys/containers",
            "tests/journeys/examples",
            "tests/journeys/training/test_other_platforms.py",
            "tests/models",
            "tests/operators/onnx_nodes",
            "tests/operators/test_attribute_coverage.py",
            "tests/operators/test_completeness.py",
            "tests/operators/test_onnxruntime.py",
            "tests/unit/popart",
            "tests/unit/sessions",
            "tests/unit/xla",
        ),
    ),
)
"""Which tests run when; CONTRIBUTING.md has their times."""

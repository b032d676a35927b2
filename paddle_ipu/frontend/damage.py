"""What of a damaged program made a pass or a translator fail.

Paddle checks the attributes of what a script builds, and not those of all files.
"""

from __future__ import annotations

import onnx_ir as ir

from paddle_ipu.errors import InvalidProgramError, ModelFileError, PassError
from paddle_ipu.frontend.attribute_kinds import wrong_attribute
from paddle_ipu.frontend.saved_model import SavedProgram


def damage_of(
    graph: ir.Graph, program: object, error: Exception
) -> InvalidProgramError | ModelFileError | None:
    """The error to raise in the place of another, None where nothing says that it is damage.

    Args:
        graph: the program's, as far as passes have come.
        program: as it was read.
        error: what failed; one without a cause was meant.
    """
    found = wrong_attribute(graph) if error.__cause__ is not None else ""
    if found:
        return InvalidProgramError(
            f"{found}. The program is damaged; copy its file anew or save the model again."
        )
    if isinstance(error, PassError) and isinstance(program, SavedProgram):
        return ModelFileError(
            f"{program.source}: an operator may have an attribute out of range. If the file is "
            f"damaged, copy it anew or save the model again; else {error}"
        )
    return None

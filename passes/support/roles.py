"""What Paddle made an operator for, where the program says so.

ProgramDesc programs give every operator a role; PIR programs give none, and passes then go by
structure. The values are those of ``OpRole`` in Paddle's ``op_proto_maker.h``; they are bits.
"""

from __future__ import annotations

import onnx_ir as ir

from paddle_ipu.dialect.dialect import attribute

OP_ROLE = "op_role"
FORWARD, BACKWARD, OPTIMIZE, RPC, DIST, LR_SCHED, LOSS = 0, 1, 2, 4, 8, 16, 256


def role_of(node: ir.Node) -> int | None:
    """The role, None in a program without roles."""
    found = attribute(node, OP_ROLE)
    return None if found is None else int(found)


def is_training_only(node: ir.Node) -> bool | None:
    """Whether it belongs to backward or the optimizer; None in a program without roles."""
    role = role_of(node)
    return None if role is None else bool(role & (BACKWARD | OPTIMIZE))


def losses(graph: ir.Graph) -> list[str]:
    """The values that the program marks as losses: none in a program without roles.

    Where an operator was written with several, only the last is a loss.
    """
    marked = [node for node in graph if role_of(node) == LOSS]
    inner = {id(value) for node in marked for value in node.inputs}
    seeded = {
        str(node.outputs[0].name).partition(GRADIENT_MARK)[0]
        for node in graph
        if role_of(node) == LOSS | BACKWARD
    }
    found: list[str] = []
    for node in marked:
        names = [str(value.name) for value in node.outputs if id(value) not in inner]
        found += [name for name in names if name in seeded] or names[:1]
    return found


GRADIENT_MARK = "@GRAD"
"""Behind a variable's name, in ProgramDesc programs: its gradient."""

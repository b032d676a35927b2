"""The role of an operator in training, if the program has roles.

ProgramDesc programs give every operator a role; PIR programs give none, and passes go by structure.
The values are the bits of ``OpRole`` in Paddle's ``op_proto_maker.h``.
"""

from __future__ import annotations

import onnx_ir as ir

from paddle_ipu.dialect.dialect import attribute

OP_ROLE = "op_role"
FORWARD, BACKWARD, OPTIMIZE, RPC, DIST, LR_SCHED, LOSS = 0, 1, 2, 4, 8, 16, 256


def role_of(node: ir.Node) -> int | None:
    """The role of a node; None in a program without roles."""
    role = attribute(node, OP_ROLE)
    return None if role is None else int(role)


def is_training_only(node: ir.Node) -> bool | None:
    """Whether a node belongs to backward or the optimizer; None in a program without roles."""
    role = role_of(node)
    return None if role is None else bool(role & (BACKWARD | OPTIMIZE))


def losses(graph: ir.Graph) -> list[str]:
    """Names of the values that the program marks as losses; none in a program without roles.

    Of the results of one operator only one is a loss: one whose gradient is a seed of backward.
    """
    marked = [node for node in graph if role_of(node) == LOSS]
    inner = {id(value) for node in marked for value in node.inputs}
    seeded = {
        str(node.outputs[0].name).partition(GRADIENT_MARK)[0]
        for node in graph
        if role_of(node) == LOSS | BACKWARD
    }
    loss_names: list[str] = []
    for node in marked:
        names = [str(value.name) for value in node.outputs if id(value) not in inner]
        loss_names += [name for name in names if name in seeded] or names[:1]
    return loss_names


GRADIENT_MARK = "@GRAD"
"""Suffix of a variable's name, in ProgramDesc programs: its gradient."""

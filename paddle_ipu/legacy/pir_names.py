"""What ProgramDesc programs have and PIR programs lack: one table of the names added to PIR.

``patch_table.PATCHES`` has a row for each name here, ``docs/old_api.md`` is made from it. PIR's
classes are the same in Paddle 3.0 to 3.3 in this respect, and 2.6 builds ProgramDesc programs,
which have all of it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PirName:
    """A name of the old API that is added to a PIR class.

    Attributes:
        owner: class of ``paddle.pir``.
        name: the attribute.
        does: what it does, or what to write instead where PIR has no equivalent.
        module: module of ``paddle_ipu.legacy`` with the function ``<owner>_<name>`` in lower case,
            without underscores in front of the name; None where PIR has no equivalent.
        wraps: Paddle has the name, and the function makes the new object from Paddle's.
    """

    owner: str
    name: str
    does: str
    module: str | None
    wraps: bool = False

    @property
    def function(self) -> str:
        """The name of the function in `module`."""
        return f"{self.owner}_{self.name.lstrip('_')}".lower()

    @property
    def replacement_name(self) -> str:
        """Module and name of what is added."""
        return f"paddle_ipu.legacy.{self.module or 'pir_members'}.{self.function}"


def _added(owner: str, module: str, rows: dict[str, str]) -> tuple[PirName, ...]:
    return tuple(PirName(owner, name, does, module) for name, does in rows.items())


def _refused(owner: str, rows: dict[str, str]) -> tuple[PirName, ...]:
    return tuple(PirName(owner, name, does, None) for name, does in rows.items())


PIR_NAMES: tuple[PirName, ...] = (
    PirName(
        "Program",
        "clone",
        "with `for_test=True`: a copy in test mode without backward and optimizer operators; "
        "values keep their names in every copy",
        "inference_clone",
        wraps=True,
    ),
    PirName(
        "Program",
        "set_state_dict",
        "arrays too, and what `paddle.load` gives, into the global scope where none is given; a "
        "name or a shape that the program does not have is skipped with a warning",
        "pir_program",
        wraps=True,
    ),
    *_added(
        "Program",
        "pir_program",
        {
            "all_parameters": "list of the parameters, in the order of their creation",
            "block": "the block of that number; only the global one has a number, 0",
            "current_block": "the block under construction, else the global one",
            "current_block_idx": "0, the number of the only block that has one",
            "to_string": "the program as text; both arguments are taken and change nothing",
        },
    ),
    *_refused(
        "Program",
        {
            "desc": "paddle.static.serialize_program(feeds, fetches, program=program) for its "
            "bytes, str(program) for its text",
        },
    ),
    *_added(
        "Block",
        "pir_append_op",
        {
            "append_op": "writes the result of an operator into a variable that exists; for "
            "elementwise operators and what else scripts append by hand, NotSupported for others",
        },
    ),
    *_added(
        "Block",
        "pir_block",
        {
            "vars": "dict of name -> variable, intermediates included; a new one each time",
            "var": "the variable of a name; ValueError where there is none",
            "has_var": "whether `var` would find it",
            "_remove_op": "removes the operator of a position",
        },
    ),
    *_refused(
        "Block",
        {
            "desc": "block.ops for its operators, block.vars for its variables",
            "_insert_op": "the function that makes the operator, for instance paddle.add(x, y), "
            "where it belongs, inside of paddle.static.program_guard(program)",
            "create_var": "the function whose result the variable is, or "
            "paddle.static.data(name, shape, dtype) for a feed",
            "create_parameter": "paddle.static.create_parameter(shape, dtype), inside of "
            "paddle.static.program_guard(program, startup_program)",
        },
    ),
    *_added(
        "Operation",
        "pir_operation",
        {
            "type": "the operator's type in a ProgramDesc program of Paddle 2.6: `matmul_v2`, "
            "`elementwise_add`; PIR's name where that has no such operator: `full_int_array`",
            "attr": "an attribute's value; `/` for `op_namescope`, since PIR keeps no name scopes; "
            "ValueError where there is none",
            "_set_attr": "sets an attribute the operator has (not a float one), or `ipu_index`, "
            "`ipu_stage`, `__available_memory`, `serialize_factor`, `serialize_mode`, "
            "`recompute_checkpoint`; ValueError for others",
            "all_attrs": "dict of all attributes",
            "attr_names": "names of all attributes",
            "input_names": "names of the operands, PIR's: `x`, `y`",
            "output_names": "names of the results, PIR's: `out`",
            "input": "names of the variables of an operand; its old slot finds it too: `X`, `Ids`",
            "output": "names of the variables of a result; its old slot finds it too: `Out`, `Y`",
            "input_arg_names": "names of the variables it reads",
            "output_arg_names": "names of the variables it makes",
            "_rename_input": "makes it read another variable of the block",
            "_rename_output": "gives a variable that it makes a new name; ValueError where another "
            "has it",
            "block": "the block it is in",
            "idx": "its position in the block",
            "to_string": "the operator as text",
            "desc": "a view with `type`, `attr`, `has_attr`, `_set_attr`, `attr_names`, `input`, "
            "`output` and the names of what it reads and makes",
        },
    ),
    *_added(
        "Value",
        "pir_value",
        {
            "op": "the operator that makes it",
            "lod_level": "0: PIR programs have no level-of-detail tensors",
            "get_value": "its tensor in the scope, the newest weights included",
            "set_value": "writes an array to its tensor in the scope",
            "to_string": "the variable as text",
        },
    ),
    *_refused(
        "Value",
        {"desc": "x.shape, x.dtype, x.name, x.persistable and x.stop_gradient"},
    ),
)
"""Every name added to PIR's classes."""

STATIC_LAYERS = (
    "embedding",
    "conv2d",
    "conv3d",
    "conv2d_transpose",
    "conv3d_transpose",
    "batch_norm",
    "layer_norm",
    "group_norm",
    "instance_norm",
    "prelu",
    "bilinear_tensor_product",
)
"""Layers of ``paddle.static.nn`` that ``legacy/static_nn.py`` builds in PIR programs."""

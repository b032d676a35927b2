"""docs/old_api.md: what of Paddle's old API there is, from the tables that offer it."""

from __future__ import annotations

from itertools import groupby

from paddle_ipu.legacy.fluid_names import DELEGATES, FLUID_NAMES, INSTEAD, LAYER_FILES
from paddle_ipu.legacy.pir_names import PIR_NAMES, STATIC_LAYERS

_INTRO = """\
# The old API

<!-- Made from paddle_ipu/legacy/: python -m tools.generate_docs old_api --write -->

Scripts for IPU builds of Paddle were written for ProgramDesc programs and `paddle.fluid`. Paddle
2.6 still builds such programs; Paddle 3.0 to 3.3 build PIR programs instead, and `paddle.fluid` is
gone since 2.5. With the plugin active they find again what they call, on all of these versions.
Where today's Paddle has no honest answer, the error says what to write instead.

A script that imports `paddle.fluid` needs no change:

```python
import paddle
import paddle.fluid as fluid  # or paddle.fluid without an import

paddle.enable_static()
main, startup = fluid.Program(), fluid.Program()
with fluid.program_guard(main, startup):
    x = fluid.data("x", [4, 8], "float32")
    with paddle.static.ipu_shard_guard(index=0):
        y = fluid.layers.fc(x, 2)
        y.block.ops[-2]._set_attr("__available_memory", 0.28)
    loss = fluid.layers.mean(fluid.layers.square(y))
    test_program = main.clone(for_test=True)
    fluid.optimizer.Adam(learning_rate=0.01).minimize(loss)
```

`tests/unit/legacy/old_style_bert.py` is a longer one. Unused, none of this is imported.

What differs from Paddle 2.4:

- A result of a full reduction has rank 0, not shape [1].
- Intermediate variables of PIR programs have other names; ask them for `x.name`.
- `op._set_attr` on a PIR program takes what has an effect and refuses the rest. Some attributes of
  ProgramDesc operators, such as `dropout_prob`, are operands in PIR and can no longer be changed.
- `clone(for_test=True)` of a PIR program tells training by structure: gradients, updates and what
  reads them, and the constants and states that only these read. A ProgramDesc has roles for it.
"""

_PIR = """
## On PIR programs

Given to PIR programs on Paddle 3.0 to 3.3; ProgramDesc programs, on 2.6, have them of their own.

| name | what it does |
| --- | --- |
"""

_PIR_REFUSED = """
These raise `AttributeError`, so that `hasattr` is False:

| name | write instead |
| --- | --- |
"""

_STATIC = """
## Layers with parameters

Stock Paddle 3.0 to 3.3 refuses these layers of `paddle.static.nn` in PIR programs; with the plugin
they work, with the names, shapes and initial values of parameters that they have on 2.6:
"""

_FLUID = """
## `paddle.fluid`

*Ours* are functions of this package on top of today's, with the arguments and defaults of 2.4; the
others are today's own objects. All are tested against NumPy or today's function.
"""

_DELEGATES = """
### Renamed modules

Every public name of today's module answers:

| module | today |
| --- | --- |
"""

_REFUSED = """
### Not offered

Every other name raises `AttributeError`. It says what to write instead, for a name that still
exists elsewhere in Paddle by itself and for these from a table:

| name | write instead |
| --- | --- |
"""


def old_api_page() -> str:
    """The whole page."""
    lines = [_INTRO + _PIR.rstrip("\n")]
    lines += [
        f"| `{row.owner}.{row.name}` | {row.does} |" for row in PIR_NAMES if row.module is not None
    ]
    lines.append(_PIR_REFUSED.rstrip("\n"))
    lines += [
        f"| `{row.owner}.{row.name}` | {row.does} |" for row in PIR_NAMES if row.module is None
    ]
    lines += [_STATIC, ", ".join(f"`{layer}`" for layer in STATIC_LAYERS) + ".", _FLUID]
    rows = sorted(FLUID_NAMES, key=lambda row: (row.module, row.name))
    for module, members in groupby(rows, key=lambda row: row.module):
        lines += [f"### `{module}`\n", "| name | today | ours | differs in |"]
        lines.append("| --- | --- | --- | --- |")
        for row in members:
            ours = "yes" if row.source.startswith("paddle_ipu.") else ""
            lines.append(f"| `{row.name}` | `{row.today}` | {ours} | {row.note} |")
        lines.append("")
    files = ", ".join(f"`{name}`" for name in LAYER_FILES)
    lines.append(f"The files of `paddle.fluid.layers` ({files}) answer as the package does.")
    lines.append(_DELEGATES.rstrip("\n"))
    lines += [f"| `{module}` | `{today}` |" for module, today in sorted(DELEGATES.items())]
    lines.append(_REFUSED.rstrip("\n"))
    lines += [f"| `{name}` | {instead} |" for name, instead in sorted(INSTEAD.items())]
    return "\n".join(lines) + "\n"

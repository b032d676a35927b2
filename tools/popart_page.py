"""docs/popart.md: the names of `paddle_ipu.popart` and what session options do, from the tables."""

from __future__ import annotations

import inspect
from enum import Enum

import paddle_ipu.popart as popart
from paddle_ipu.popart.absent import absent_names
from paddle_ipu.popart.older_names import OLDER
from paddle_ipu.popart.option_effects import EFFECTS, Status
from tools.popart_differences import DIFFERENCES

_INTRO = """\
# The names of paddle_ipu.popart

<!-- Made from paddle_ipu/popart/__init__.py, option_effects.py and tools/popart_differences.py:
python -m tools.generate_docs popart --write -->

On this page you can look up every name of `paddle_ipu.popart` and every field of `SessionOptions`.
[Run a popart program without the SDK](from_popart.md) is the guide,
[PopART's devices](devices.md) says which IPUs there are.

`paddle_ipu.popart` has the public names of PopART 3.4's Python module `popart`, so a program
written for it runs on the IPU Model with another import. A test compares classes, overloads,
argument names, defaults and enumerations with a table of PopART's bindings. Irregular names are
kept, such as the `debugName` of `call` or the `name` of `logical_if`.

## What is there
"""

_OLDER = """
## What older releases had

Names of PopART 2.0 to 3.3 that 3.4 does not have any more:

| name | up to | now |
| --- | --- | --- |"""

_GROUPS = """
## Weights that differ between groups of replicas

`Builder.addInitializedInputTensor(array, variableSettings, name)` adds such a weight. Its array
has an entry for each group, `[groups, *shape]`; if the session has one group, it has the
weight's own shape. Here two groups of two replicas each train a weight of their own:

```python
group = popart.CommGroup(popart.CommGroupType.Consecutive, 2)
w = builder.addInitializedInputTensor(np.stack([w0, w1]), popart.VariableSettings(group), "w")
```

- **Shapes**: the number of groups follows from the session's replicas, so the tensor, and
  what is computed from it, has no shape before a session has the model; `getTensorShape` of the
  weight returns its array's. On a replica it is `shape`: `Session.getInfo` says so.
- **Training**: a group's gradients are summed over its own replicas and micro-batches, and each
  group has its own optimizer state, so with summed gradients a group trains as if it
  were alone. As in PopART, means are divided by the number of all replicas nevertheless: with
  `Mean` and `Post` a group's step is as many times smaller as there are groups (`Running`
  averages over the group), and SGD's `Combined` velocity with accumulation is divided by the
  groups in each update.
- **Reading**: `readWeights` returns the values of each group's first replica, `[groups, *shape]`,
  with `AllReplicas` those of every replica, `[replicas, *shape]`; optimizer state is read as its
  weight is. `AllReduceReplicas` is `OnePerGroup`, as in PopART. `writeWeights`, `modelToHost`
  and `resetHostWeights` always have one entry for each group; a saved model keeps the settings.
- **Refused**: settings with a stride, which no model keeps, as in PopART; `ClipNormSettings` of
  such a weight; a `PaddleOptimizer`; replicas over several processes; sharding over replicas
  that do not share the values.
"""

_OPTIONS = """
## What a session option does

| status | what it means |
| --- | --- |
| numbers | changes what is computed |
| behaviour | changes what a session does or says, but no number |
| cost | changes memory or time, here or in predictions, but no number |
| checked | a session is refused where PopART refuses it; otherwise it is kept for hardware |
| recorded | does nothing here; it is kept for hardware |
| refused | another value than the default raises `NotSupported` |

Fields of `popart.SessionOptions`:

| field | status | what it does, or would do on hardware |
| --- | --- | --- |"""


_DIFFERENCES = """
## What PopART's own tests ask and this does not do

Graphcore wrote some 3,300 Python tests for PopART 3.4. About half of them were compared with this
package. This table lists every difference that was found.

| the test asks that | here | why |
| --- | --- | --- |"""


def popart_page() -> str:
    """The page."""
    lines = [_INTRO, "| name | what it is |", "| --- | --- |"]
    enumerations, prefixes = [], []
    for name in popart.__all__:
        value = getattr(popart, name)
        if isinstance(value, type) and issubclass(value, Enum):
            enumerations.append(f"- `{name}`: {', '.join(f'`{member.name}`' for member in value)}")
        elif name.startswith("reserved"):
            prefixes.append(f"| `{name}()` | `{value()}` | {_first(value)} |")
        else:
            lines.append(f"| `{name}` | {_first(value)} |")
    lines += ["\n### Enumerations\n", *enumerations]
    lines += ["\n### Prefixes of tensors' names\n", "| function | gives | before or for |"]
    lines += ["| --- | --- | --- |", *prefixes]
    lines += ["\n## What is not there\n", "Asking for it raises `NotSupported`.\n"]
    lines += ["| name | why |", "| --- | --- |"]
    absent = dict(popart.NOT_HERE)
    for kind in (popart.Builder, popart.InferenceSession, popart.TrainingSession):
        for name, why in absent_names(kind).items():
            absent[f"{kind.__name__}.{name}"] = why
    lines += [f"| `{name}` | {why} |" for name, why in sorted(absent.items())]
    lines.append(_OLDER)
    lines += [f"| `{name}` | {o.last} | {o.instead} |" for name, o in sorted(OLDER.items())]
    lines.append(_GROUPS.rstrip())
    lines.append(_OPTIONS)
    for status in Status:
        rows = sorted((name, e.meaning) for name, e in EFFECTS.items() if e.status is status)
        lines += [f"| `{name}` | {status.value} | {meaning} |" for name, meaning in rows]
    lines.append(_DIFFERENCES)
    lines += [f"| {row.asked} | {row.here} | {row.why} |" for row in DIFFERENCES]
    return "\n".join(lines) + "\n"


def _first(value: object) -> str:
    """The first paragraph of a docstring; a number for itself."""
    if isinstance(value, int):
        return f"{value}"
    text = inspect.getdoc(value) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")

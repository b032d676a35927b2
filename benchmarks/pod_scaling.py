"""What grows how from 4 to 256 IPUs, on paper: the IPU Model's predictions; nothing is run.

python -m benchmarks.pod_scaling                     the tables of docs/scaling.md
python -m benchmarks.pod_scaling --pods Bow-Pod      with Bow IPUs
python -m benchmarks.pod_scaling --plot FILE         their plot
python -m benchmarks.pod_scaling --write             tables and plot into docs/
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import paddle

import paddle_ipu
from benchmarks.published_programs import bert, resnet_in_public
from paddle_ipu.cost_model.constants import CONSTANTS
from paddle_ipu.cost_model.machines import MACHINES, Machine, machine_named
from paddle_ipu.cost_model.operator_cost import Pricing
from paddle_ipu.cost_model.prediction import Prediction, predict
from paddle_ipu.cost_model.program import Program

SIZES = (4, 8, 16, 32, 64, 128, 256)
DOCS = Path(__file__).parent.parent / "docs"
PAGE, PICTURE = DOCS / "scaling.md", DOCS / "images" / "pod_scaling.png"
MARKS = ("<!-- tables -->\n", "<!-- end of tables -->\n")


@dataclass(frozen=True)
class Network:
    """A network whose replicas are multiplied.

    Attributes:
        program: with the published strategy.
        ipus: of a replica.
        batch: rows of a weight update where that stays.
        accumulation: micro-batches of an update and replica where the batch grows.
    """

    name: str
    program: Program
    ipus: int
    batch: int
    accumulation: int


@dataclass(frozen=True)
class Point:
    """A network on a system."""

    machine: Machine
    replicas: int
    accumulation: int
    found: Prediction
    without_gateways: Prediction

    @property
    def throughput(self) -> float:
        """Rows a second."""
        return self.found.cycles.throughput

    def seconds(self, cycles: float) -> float:
        """Seconds of so many cycles."""
        return cycles / self.machine.processor.clock

    @property
    def update(self) -> float:
        """Seconds from one weight update to the next."""
        return self.seconds(self.found.cycles.per_update)

    @property
    def gradients(self) -> float:
        """Seconds in which the replicas' gradients are summed."""
        return self.seconds(_sums(self.found))

    @property
    def steps(self) -> float:
        """Seconds of them that pass however few the bytes are."""
        return self.seconds(self.found.cycles.update["steps of collectives"])

    @property
    def gateways(self) -> float:
        """Seconds of them in which link domains exchange them, steps and bytes."""
        return self.gradients - self.seconds(_sums(self.without_gateways))

    @property
    def waits(self) -> float:
        """Share of the time in which the pipeline fills and drains."""
        phases = self.found.cycles.phases
        both = phases.get("fill", 0.0) + phases.get("drain", 0.0)
        return both / self.found.cycles.per_update


def _sums(found: Prediction) -> float:
    """Cycles of the replicas' sums."""
    update = found.cycles.update
    return update["collectives"] + update["steps of collectives"]


def networks() -> tuple[Network, Network]:
    """BERT-Base phase 1 and ResNet-50 with public strategies for a POD16."""
    public = resnet_in_public()
    return (
        Network("BERT-Base phase 1", bert(), 4, 65536, 512),
        Network("ResNet-50", public, 1, 256 * public.rows, 16),
    )


def points(network: Network, pods: str, fixed_batch: bool) -> list[Point]:
    """The network on systems of every size; with one batch for all, or with one accumulation."""
    found = []
    for size in SIZES:
        machine = machine_named(f"{pods}{size}")
        replicas = size // network.ipus
        rows = replicas * network.program.rows
        accumulation = network.batch // rows if fixed_batch else network.accumulation
        if accumulation < 1:
            continue
        settings = replace(
            network.program.settings, ipus=size, replicas=replicas, accumulation=accumulation
        )
        program = replace(network.program, settings=settings)
        endless = replace(machine, gateway_bandwidth=float("inf"))
        pricing = Pricing(machine.processor, replace(CONSTANTS, gateway_seconds=0.0))
        whole, without = predict(program, machine), predict(program, endless, pricing)
        found.append(Point(machine, replicas, accumulation, whole, without))
    return found


def efficiencies(found: Sequence[Point]) -> list[float]:
    """Throughput of an IPU, as a share of that in the smallest system."""
    each = [point.throughput / point.machine.ipus for point in found]
    return [value / each[0] for value in each]


def table(network: Network, found: Sequence[Point]) -> str:
    """A row for each system."""
    rows = [
        "IPUs | replicas | accumulation | rows of an update | rows/s | efficiency | "
        "an update, ms | of it gradients, ms | by steps, ms | by gateways, ms | share | "
        "fill and drain".split(" | ")
    ]
    for point, efficiency in zip(found, efficiencies(found), strict=True):
        batch = point.replicas * point.accumulation * network.program.rows
        rows.append([
            str(point.machine.ipus),
            str(point.replicas),
            f"{point.accumulation:,}",
            f"{batch:,}",
            f"{point.throughput:,.0f}",
            f"{efficiency:.1%}",
            f"{point.update * 1e3:,.1f}",
            f"{point.gradients * 1e3:.2f}",
            f"{point.steps * 1e3:.2f}",
            f"{point.gateways * 1e3:.2f}",
            f"{point.gradients / point.update:.2%}",
            f"{point.waits:.1%}",
        ])  # fmt: skip
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + " ---: |" * len(rows[0]))
    return "\n".join(lines)


def texts(found: Sequence[Network], pods: str) -> Iterator[str]:
    """All tables, each with its title."""
    for network in found:
        for fixed, title in ((True, "the same batch"), (False, "the same accumulation")):
            shown = table(network, points(network, pods, fixed))
            yield f"{network.name}, {network.ipus} IPU(s) a replica, {title}:\n\n{shown}"


def plot(found: Sequence[Network], pods: str, file: Path) -> None:
    """Efficiency, and the time of the gradients' sum, by IPUs."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for network, color in zip(found, ("C0", "C1"), strict=True):
        for fixed, style in ((True, "-"), (False, "--")):
            at = points(network, pods, fixed)
            sizes = [point.machine.ipus for point in at]
            name = f"{network.name}, same {'batch' if fixed else 'accumulation'}"
            left.plot(sizes, efficiencies(at), color + style, marker="o", label=name)
        sums = [point.gradients * 1e3 for point in at]
        right.plot(sizes, sums, color, marker="o", label=network.name)
    left.set(
        title="efficiency", xlabel="IPUs", ylabel=f"rows/s of an IPU, to {pods}4", ylim=(0, 1.1)
    )
    right.set(
        title="sum of the gradients", xlabel="IPUs", ylabel="ms a weight update", ylim=(0, None)
    )
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set_xticks(SIZES, [str(size) for size in SIZES])
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8, handlelength=4)
    figure.savefig(file, dpi=100, metadata={"Software": None})
    pyplot.close(figure)


def main(words: Sequence[str] | None = None) -> int:
    """Prints the tables, or plots them."""
    known = sorted(name[:-1] for name in MACHINES if name.endswith("d4") or name == "POD4")
    parser = argparse.ArgumentParser(
        description="BERT-Base and ResNet-50 on 4 to 256 IPUs, on paper"
    )
    parser.add_argument("--pods", choices=known, default="POD", help="systems (default POD)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write the plot to FILE")
    parser.add_argument("--write", action="store_true", help="write tables and plot into docs/")
    arguments = parser.parse_args(words)
    paddle.enable_static()
    paddle_ipu.activate()
    found = networks()
    if arguments.plot is not None:
        plot(found, arguments.pods, arguments.plot)
        return 0
    shown = "\n\n".join(texts(found, arguments.pods))
    if arguments.write:
        PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), shown), encoding="utf-8")
        plot(found, arguments.pods, PICTURE)
    else:
        print(shown)
    return 0


def with_tables(page: str, shown: str) -> str:
    """The page with these tables between its marks."""
    before, _, rest = page.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    return f"{before}{MARKS[0]}\n{shown}\n\n{MARKS[1]}{after}"


if __name__ == "__main__":
    sys.exit(main())

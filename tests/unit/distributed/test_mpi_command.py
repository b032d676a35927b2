"""mpirun's command line and the instances' environment, as text."""

from __future__ import annotations

import json

import pytest

from paddle_ipu.distributed.mpi_command import (
    Launch,
    Partition,
    command,
    environment_of,
    ignored_words,
    topology,
)
from paddle_ipu.distributed.poprun_arguments import read
from paddle_ipu.instances.instance import this_instance


def launch(*words: str, **settings: object) -> Launch:
    arguments = read([*words, "python3", "train.py"])
    given = {"mpirun": "mpirun", "coordinator": "127.0.0.1:5000", "processors": 8, **settings}
    return Launch(arguments=arguments, **given)  # type: ignore[arg-type]


TWO = ("--num-instances=2", "--num-replicas=4", "--ipus-per-replica=2")


def contexts(words: list[str]) -> list[list[str]]:
    """The words of each instance's own part."""
    parts: list[list[str]] = [[]]
    for word in words:
        if word == ":":
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def test_the_whole_command() -> None:
    found = launch(
        *TWO, "--mpi-global-args=--tag-output --mca btl tcp,self", "--mpi-local-args=-x A=1",
        "--instance-mpi-local-args=1:-x B=2", "--allow-run-as-root",
    )  # fmt: skip
    first, second = contexts(command(found))
    start = "mpirun --tag-output --allow-run-as-root --map-by slot:OVERSUBSCRIBE --bind-to none"
    assert first[: len(start.split())] == start.split()
    assert first[len(start.split()) :][:3] == ["--mca", "btl", "tcp,self"]
    assert first[-4:] == ["-x", "A=1", "python3", "train.py"]
    assert second[:2] == ["-np", "1"]
    assert second[-6:] == ["-x", "A=1", "-x", "B=2", "python3", "train.py"]
    assert first.count("--tag-output") == 1


def test_an_instance_reads_what_it_is() -> None:
    found = launch(*TWO)
    for number in range(2):
        environment = environment_of(found, number)
        mpi = {"OMPI_COMM_WORLD_RANK": str(number), "OMPI_COMM_WORLD_SIZE": "2"}
        instance = this_instance({**environment, **mpi})
        assert (instance.index, instance.count, instance.local_index) == (number, 2, number)
        assert (instance.total_replicas, instance.local_replicas) == (4, 2)
        assert (instance.replica_offset, instance.ipus_per_replica) == (2 * number, 2)
        assert instance.coordinator == "127.0.0.1:5000"
        assert not [name for name in environment if name.startswith("IPUOF_VIPU")]
        assert "POPART_CACHE_DIR" not in environment


def test_partition_cache_and_profiles() -> None:
    partition = Partition("p1", ("vipu.example.com", 34521), 60, size=8, gcds=2, ilds=2)
    found = launch(*TWO, "--autoreport-dir=/prof", partition=partition, cache="/cache")
    environment = environment_of(found, 1)
    assert environment["IPUOF_VIPU_API_HOST"] == "vipu.example.com"
    assert environment["IPUOF_VIPU_API_PORT"] == "34521"
    assert environment["IPUOF_VIPU_API_PARTITION_ID"] == "p1"
    assert environment["IPUOF_VIPU_API_TIMEOUT"] == "60"
    assert environment["IPUOF_VIPU_API_GCD_ID"] == "1"
    assert environment["POPDIST_AUTOREPORT_DIRECTORY"] == "/prof"
    assert environment["POPART_CACHE_DIR"] == "/cache"
    options = json.loads(environment["POPLAR_TARGET_OPTIONS"])
    assert (options["ipuLinkDomainSize"], options["instanceSize"]) == ("4", "4")
    own = launch(*TWO, partition=partition, environment={"POPLAR_TARGET_OPTIONS": "{}"})
    assert "POPLAR_TARGET_OPTIONS" not in environment_of(own, 0)


@pytest.mark.parametrize(
    ("placement", "words"),
    [
        ("scattersocket", "--map-by package --bind-to core"),
        ("scatternuma", "--map-by numa --bind-to core"),
        ("close", "--map-by core --bind-to core"),
        ("spreadnuma", "--map-by slot:OVERSUBSCRIBE --bind-to none"),
        ("disabled", ""),
    ],
)
def test_placements(placement: str, words: str) -> None:
    found = command(launch(*TWO, f"--process-placement={placement}"))
    start = found[2 : found.index("-np")]
    assert start == words.split()


def test_more_instances_than_processors() -> None:
    found = command(launch(*TWO, "--process-placement=close", processors=1))
    assert found[2:6] == "--map-by slot:OVERSUBSCRIBE --bind-to core:overload-allowed".split()


def test_numa_nodes_are_divided_among_the_instances() -> None:
    four = ("0-3", "4-7", "8-11", "12-15")
    first, second = contexts(command(launch(*TWO, numa_nodes=four)))
    assert first[-5:] == ["taskset", "-c", "0-3,4-7", "python3", "train.py"]
    assert second[-5:] == ["taskset", "-c", "8-11,12-15", "python3", "train.py"]
    both = command(launch(*TWO, numa_nodes=("0-3", "4-7")))
    assert both[2:6] == "--map-by numa:OVERSUBSCRIBE --bind-to numa:overload-allowed".split()
    assert "taskset" not in both


def test_the_users_placement_is_taken_only_where_poprun_has_none() -> None:
    words = "--mpi-global-args=--map-by ppr:1:node --bind-to core --display map"
    free = launch(*TWO, "--process-placement=disabled", words)
    assert "ppr:1:node" in command(free)
    assert ignored_words(free.arguments) == []
    bound = launch(*TWO, words)
    assert "ppr:1:node" not in command(bound)
    assert command(bound)[6:8] == ["--display", "map"]
    assert ignored_words(bound.arguments) == ["--map-by", "--bind-to"]


def test_other_hosts() -> None:
    environment = {
        "PATH": "/bin",
        "POPLAR_LOG_LEVEL": "INFO",
        "SECRET": "x",
        "PADDLE_IPU_DUMP": "d",
        "PADDLE_IPU_HEARTBEAT": "/run/counts",
    }
    found = launch(
        "--num-instances=4", "--num-replicas=4", "--host=h[0-1]", "--mpi-local-args=-x PATH=/other",
        environment=environment, folders={"h1": "/run/h1"}, cache="/run/programs",
    )  # fmt: skip
    parts = contexts(command(found))
    assert [part[part.index("--host") + 1] for part in parts] == ["h0:2", "h0:2", "h1:2", "h1:2"]
    forwarded = [word for flag, word in zip(parts[0], parts[0][1:], strict=False) if flag == "-x"]
    assert "POPLAR_LOG_LEVEL" in forwarded
    assert "PADDLE_IPU_DUMP" in forwarded
    assert "PATH" not in forwarded
    assert "SECRET" not in forwarded
    assert parts[0][-4:] == ["/run/counts", "0", "python3", "train.py"]
    assert parts[3][-4:] == ["/run/h1", "3", "python3", "train.py"]
    assert parts[3][-5].endswith("instance_guard.py")
    # A temporary folder is each host's own, one that was asked for is the same on all.
    caches = [environment_of(found, number)["POPART_CACHE_DIR"] for number in range(4)]
    assert caches == ["/run/programs", "/run/programs", "/run/h1", "/run/h1"]
    assert [environment_of(found, n)["POPDIST_LOCAL_INSTANCE_INDEX"] for n in range(4)] == list(
        "0101"
    )


def test_topology() -> None:
    assert topology(launch(*TWO)) == (
        "+========== poprun topology ===========+\n"
        "+-----------+--------------------------+\n"
        "| hosts     |        localhost         |\n"
        "+-----------+--------------------------+\n"
        "| ILDs      |            0             |\n"
        "+-----------+--------------------------+\n"
        "| instances |     0      |      1      |\n"
        "+-----------+--------------------------+\n"
        "| replicas  |    0-1     |     2-3     |\n"
        "+-----------+--------------------------+"
    )
    many = topology(launch("--num-instances=16", "--num-replicas=256", "--host=pod[1-4]"))
    assert len(set(map(len, many.splitlines()))) == 1
    assert "240-255" in many

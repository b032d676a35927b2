"""Replicas over processes: two instances compute what one process with all replicas does."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import Any

import jax
import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import BackendUnavailableError, OptionError, popart_exception
from paddle_ipu.instances.instance import Instance, this_instance
from tests.checkout import ROOT
from tests.unit.distributed import instance_program

TOTAL = instance_program.TOTAL
Found = dict[str, np.ndarray[Any, Any]]


def environment(rank: int, port: int) -> dict[str, str]:
    """What poprun gives to one of two instances."""
    return {
        "PADDLE_IPU_COORDINATOR": f"127.0.0.1:{port}",
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_SIZE": "2",
        "POPDIST_NUM_TOTAL_REPLICAS": str(TOTAL),
        "POPDIST_NUM_LOCAL_REPLICAS": str(TOTAL // 2),
        "POPDIST_REPLICA_INDEX_OFFSET": str(TOTAL // 2 * rank),
        "POPDIST_LOCAL_INSTANCE_INDEX": str(rank),
    }


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module", params=["sgd", pytest.param("adam", marks=pytest.mark.thorough)])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def instances(tmp_path_factory: pytest.TempPathFactory, kind: str) -> list[Found]:
    folder, port = tmp_path_factory.mktemp("instances"), free_port()
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.unit.distributed.instance_program", str(folder), kind],
            env={**os.environ, **environment(rank, port), "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    try:
        texts = [process.communicate(timeout=120) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for process, (printed, complained) in zip(processes, texts, strict=True):
        assert process.returncode == 0, complained
        # Gloo tells of its connections on the standard output, which is the program's.
        assert printed == ""
    return [dict(np.load(folder / f"{rank}.npz")) for rank in (0, 1)]


@pytest.fixture(scope="module")
def alone(kind: str) -> Found:
    options = popart.SessionOptions()
    options.enableReplicatedGraphs = True
    options.replicatedGraphCount = TOTAL
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": TOTAL})
    return instance_program.train(kind, options, device, weight_seed=0)


def test_two_instances_train_as_one_process(
    instances: list[Found], alone: Found, kind: str
) -> None:
    for name in ("w", "v"):
        expected = alone[name]
        got = [found[f"train.{name}"] for found in instances]
        assert np.array_equal(*got)
        tolerance = {"sgd": 1e-6, "adam": 1e-5}[kind]
        assert np.linalg.norm(got[0] - expected) <= tolerance * np.linalg.norm(expected)


def test_programs_with_and_without_updates_have_names_of_their_own(
    instances: list[Found], alone: Found
) -> None:
    """By which a recording tells them apart."""
    for modules in (alone["modules"], *(found["train.modules"] for found in instances)):
        assert len({*modules.tolist()}) == 2


def test_every_replica_has_its_own_data_and_dropout(instances: list[Found], alone: Found) -> None:
    together = np.concatenate([found["train.losses"] for found in instances], axis=-1)
    np.testing.assert_allclose(together, alone["losses"], rtol=2e-5)
    loss, reduced = together[:, 0], together[:, 1]
    assert len(np.unique(loss)) == loss.size
    sums = np.repeat(loss.sum(-1, keepdims=True), TOTAL, -1)
    np.testing.assert_allclose(reduced, sums, rtol=1e-5)


def test_popdist_in_instances(instances: list[Found]) -> None:
    for rank, found in enumerate(instances):
        assert found["popdist.sum"] == 0.1 + 1.1
        assert found["popdist.all"].tolist() == [[0, 1, 2], [10, 11, 12]]
        assert found["popdist.only"] == (rank == 1)
        assert found["popdist.joined"]
        # Of four IPUs: 0 to 3 are single, 4 and 5 are pairs.
        assert found["popdist.device"] == 4 + rank


def test_outside_poprun_there_is_one_instance() -> None:
    assert this_instance({}) == Instance()


def test_what_poprun_says_is_read() -> None:
    found = this_instance(environment(1, 5000))
    assert (found.index, found.count, found.replica_offset) == (1, 2, 2)
    assert (found.total_replicas, found.local_replicas) == (4, 2)
    assert found.coordinator == "127.0.0.1:5000"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"POPDIST_NUM_LOCAL_REPLICAS": "two"}, "POPDIST_NUM_LOCAL_REPLICAS='two' is not a number"),
        ({"POPDIST_REPLICA_INDEX_OFFSET": "3"}, "are not part of POPDIST_NUM_TOTAL_REPLICAS=4"),
        ({"OMPI_COMM_WORLD_RANK": "2"}, "in 2 instances, of which this is number 2"),
    ],
)
def test_contradictions_in_the_environment(changes: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        this_instance({**environment(1, 5000), **changes})


@pytest.mark.parametrize(
    ("local", "total", "offset", "message"),
    [
        (2, 3, 0, "Invalid globalReplicationFactor value: 3, it must be a multiple"),
        (2, 4, 5, "Global replica offset: 5, is larger than global replication factor: 4"),
        (2, 4, 0, r"as 1 instance\(s\) of 2 replica\(s\) have 2"),
        (2, 2, 1, "Global replica offset: 1, is not that of instance 0"),
    ],
)
def test_options_that_contradict(local: int, total: int, offset: int, message: str) -> None:
    options = popart.SessionOptions()
    options.enableReplicatedGraphs = True
    options.replicatedGraphCount = local
    options.enableDistributedReplicatedGraphs = True
    options.globalReplicationFactor = total
    options.globalReplicaOffset = offset
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": local})
    with pytest.raises(popart_exception, match=message):
        instance_program.train("sgd", options, device, weight_seed=0)


def test_nobody_said_where_to_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    import popdist

    for name, value in environment(1, 5000).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PADDLE_IPU_COORDINATOR")
    with pytest.raises(BackendUnavailableError, match="this is instance 1 of 2, but PADDLE_IPU"):
        popdist.init()
    assert not popdist.isBackendInitialized()
    with pytest.raises(OptionError, match="got instance 2, but there are 2"):
        popdist.execute_on_instances({2}, print)
    with pytest.raises(OptionError, match="mean, sum|sum, mean"):
        popdist.allReduce(1.0, "median")
    with pytest.raises(popart_exception, match="per replica is 4, but poprun was given"):
        popdist.checkNumIpusPerReplica(4)


@pytest.mark.parametrize("host", ["127.0.0.1", "a-host"])
def test_the_port_is_in_use(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    import popdist

    with socket.socket() as listener:
        listener.bind(("0.0.0.0", 0))
        listener.listen()
        port = listener.getsockname()[1]
        for name, value in environment(0, port).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("PADDLE_IPU_COORDINATOR", f"{host}:{port}")
        before = dict(jax.config.values)
        with pytest.raises(BackendUnavailableError, match=f"at port {port}: Address already in"):
            popdist.init()
        assert jax.config.values == before


def test_broadcast_from_an_instance_that_is_not_there() -> None:
    options = popart.SessionOptions()
    builder = popart.Builder()
    w = builder.addInitializedInputTensor(np.ones((2,), np.float32))
    loss = builder.aiGraphcore.l1loss([w], 1.0)
    device = popart.DeviceManager().createIpuModelDevice({})
    session = popart.TrainingSession(
        builder.getModelProto(), popart.DataFlow(1, {}), loss, popart.SGD({}), device,
        userOptions=options,
    )  # fmt: skip
    session.prepareDevice()
    session.weightsFromHost()
    session.broadcastWeights(0)
    with pytest.raises(popart.popart_runtime_error, match="rootRank 1, but there are 1"):
        session.broadcastWeights(1)

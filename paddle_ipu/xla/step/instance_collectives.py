"""Replicas over processes: the instances of a distributed program, joined by XLA's collectives.

Every instance compiles the same step. On the device an instance's arrays are its own; a step sees
them as parts of arrays with the dimension ``INSTANCE_AXIS``, weights and optimizer state as copies.
``jax.distributed`` makes the instances known to one another; XLA's collectives, Gloo's on the CPU,
carry gradients.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import socket
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src import distributed as jax_distributed
from jax.sharding import NamedSharding, PartitionSpec

from paddle_ipu.errors import BackendUnavailableError
from paddle_ipu.instances import heartbeat
from paddle_ipu.instances.failed_exit import end_where_failed
from paddle_ipu.instances.instance import COORDINATOR, this_instance
from paddle_ipu.xla import process
from paddle_ipu.xla.lowerings.registry import INSTANCE_AXIS, HostArray

Tree = dict[str, Any]
Pairs = dict[str, tuple[Any, Any]]
# JAX leaves these without types.
_partition: Any = PartitionSpec
_psum: Any = lax.psum
_pmin: Any = lax.pmin

_SHARED, _OWN = _partition(), _partition(INSTANCE_AXIS)
_JOIN_SECONDS = 300
# Others would abort where one is stopped or debugged for longer: mpirun sees who dies, and
# poprun's --hang-timeout who hangs.
_HEARTBEAT_SECONDS = 24 * 3600
_PART_WORDS = 1 << 24


def _free_address(coordinator: str) -> str:
    """Where instance 0 listens for the others; JAX would crash where the port is in use.

    Raises:
        BackendUnavailableError: another program has it.
    """
    host, _, port = coordinator.rpartition(":")
    if host in ("127.0.0.1", "localhost"):
        family, address = socket.AF_INET, host
    elif socket.has_dualstack_ipv6():
        family, address = socket.AF_INET6, "::"
    else:
        family, address = socket.AF_INET, "0.0.0.0"
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, int(port)))
        except OSError as error:
            raise BackendUnavailableError(
                f"instance 0 cannot wait for the others at port {port}: {error.strerror}. poprun "
                "chose a port that was free; start the program again. Where you set "
                f"{COORDINATOR}, give another port."
            ) from None
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _connect() -> None:
    """Has JAX know the other instances.

    Raises:
        BackendUnavailableError: nobody said where they meet, JAX has made its devices already, or
            some of them do not come.
    """
    instance = this_instance()
    if not instance.coordinator:
        raise BackendUnavailableError(
            f"this is instance {instance.index} of {instance.count}, but {COORDINATOR} does not "
            "say where the instances meet. Start the program with poprun, or set it to host:port "
            "of instance 0, a free port of its host, for all of them."
        )
    bind = None if instance.index else _free_address(instance.coordinator)
    process.prepare()
    process.end_by_sigterm()
    try:
        jax.distributed.initialize(
            instance.coordinator,
            instance.count,
            instance.index,
            cluster_detection_method="deactivate",
            coordinator_bind_address=bind,
            initialization_timeout=_JOIN_SECONDS,
            heartbeat_timeout_seconds=_HEARTBEAT_SECONDS,
        )
    except RuntimeError as error:
        raise BackendUnavailableError(
            f"instance {instance.index} of {instance.count} could not join the others at "
            f"{instance.coordinator}: {error}. All instances must reach that address, and a "
            "program must call popdist.init() or compile its first program for IPUs before it "
            "uses JAX itself."
        ) from error
    client: Any = jax_distributed.global_state.client
    end_where_failed(client, _leave_alone)


def _leave_alone() -> None:
    """Has JAX end without the others, which it waits for otherwise."""
    state = jax_distributed.global_state
    for kept in (state.client, state.service):
        # Deleted, it would wait for them, too.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    state.client = state.service = None


@dataclass(slots=True)
class GlobalArrays:
    """Arrays of all instances, each with this instance's part, by name.

    Putting hundreds of them together takes as long as a good part of a small step.
    """

    weights: Pairs = field(default_factory=dict)
    state: Pairs = field(default_factory=dict)


@dataclass(frozen=True)
class Instances:
    """The instances of this program, connected.

    Attributes:
        count: how many.
        mesh: their devices.
    """

    count: int
    mesh: jax.sharding.Mesh

    def step(self, function: Callable[..., Any], own: Collection[str]) -> Callable[..., Any]:
        """``Step.whole_step`` over all instances.

        Args:
            function: (weights, state, feeds, scalars, counters) -> (weights, state, anchors,
                flags), as one instance computes it.
            own: the weights that are not the same on all instances.
        """

        def part(*arguments: Any) -> Any:
            weights, state, feeds, scalars, counters = arguments
            weights = {n: a[0] if n in own else a for n, a in weights.items()}
            feeds = {name: array[0] for name, array in feeds.items()}
            weights, state, anchors, flags = function(weights, state, feeds, scalars, counters)
            weights = {n: a[None] if n in own else a for n, a in weights.items()}
            anchors, flags = jax.tree.map(lambda a: a[None], (anchors, flags))
            return weights, state, anchors, flags

        def whole(*arguments: Any) -> Any:
            weights = {n: _OWN if n in own else _SHARED for n in arguments[0]}
            return jax.shard_map(
                part,
                mesh=self.mesh,
                in_specs=(weights, _SHARED, _OWN, _SHARED, _SHARED),
                out_specs=(weights, _SHARED, _OWN, _OWN),
                check_vma=False,
            )(*arguments)

        return whole

    def specs(self, arguments: tuple[Any, ...], own: Collection[str]) -> tuple[Any, ...]:
        """Shapes of one instance's arguments as those of all."""
        weights, state, feeds, scalars, counters = arguments
        return (
            {n: self._spec(s, n in own) for n, s in weights.items()},
            {name: self._spec(spec, False) for name, spec in state.items()},
            {name: self._spec(spec, True) for name, spec in feeds.items()},
            self._spec(scalars, False),
            self._spec(counters, False),
        )

    def _spec(self, spec: Any, is_own: bool) -> Any:
        shape = (self.count, *spec.shape) if is_own else spec.shape
        sharding = NamedSharding(self.mesh, _OWN if is_own else _SHARED)
        return jax.ShapeDtypeStruct(shape, spec.dtype, sharding=sharding)  # type: ignore[no-untyped-call]

    def run(
        self,
        compiled: Callable[..., Any],
        own: Collection[str],
        earlier: GlobalArrays,
        weights: Mapping[str, Any],
        state: Mapping[str, Any],
        feeds: Mapping[str, Any],
        scalars: Any,
        counters: Any,
    ) -> tuple[Tree, Tree, Tree, Any]:
        """Runs a compiled :meth:`step` on one instance's arrays; gives its own results.

        Args:
            earlier: what the run before gave, which this one takes where it is the same still.
        """
        heartbeat.begin_collective()

        def global_array(known: Pairs, name: str, array: Any, is_own: bool) -> Any:
            part, whole = known.get(name, (None, None))
            return whole if part is array else self._global_array(array, is_own)

        weights, state, anchors, flags = compiled(
            {n: global_array(earlier.weights, n, a, n in own) for n, a in weights.items()},
            {name: global_array(earlier.state, name, a, False) for name, a in state.items()},
            {name: self._global_array(array, True) for name, array in feeds.items()},
            self._global_array(scalars, False),
            self._global_array(counters, False),
        )
        earlier.weights = {n: (_part(a, n in own), a) for n, a in weights.items()}
        earlier.state = {name: (_part(a, False), a) for name, a in state.items()}
        return (
            {name: part for name, (part, _) in earlier.weights.items()},
            {name: part for name, (part, _) in earlier.state.items()},
            {name: _on_host(array) for name, array in anchors.items()},
            None if flags is None else _on_host(flags),
        )

    def _global_array(self, array: Any, is_own: bool) -> Any:
        local = jnp.asarray(array[None] if is_own else array)
        shape = (self.count, *local.shape[1:]) if is_own else local.shape
        sharding = self._own if is_own else self._shared
        return jax.make_array_from_single_device_arrays(shape, sharding, [local])

    @cached_property
    def _own(self) -> Any:
        return NamedSharding(self.mesh, _OWN)

    @cached_property
    def _shared(self) -> Any:
        return NamedSharding(self.mesh, _SHARED)

    def from_instance(self, root: int, arrays: Tree) -> Tree:
        """Arrays as instance `root` has them; every instance must call this, with like shapes."""
        if not arrays:
            return {}
        heartbeat.beat()
        heartbeat.begin_collective()
        is_root = this_instance().index == root
        kept = {name: np.asarray(arrays[name]) for name in sorted(arrays)}
        size = sum(array.nbytes for array in kept.values())
        # In one piece, as bits: a sum for each array would take long to compile, and sums of floats
        # with zeros would lose the sign of zeros.
        bits = np.zeros(-(-size // 4) * 4, np.uint8)
        if is_root:
            np.concatenate([_bytes(a) for a in kept.values()], out=bits[:size])
        sent = self._summed(bits.view(np.uint32)).view(np.uint8)
        received, begin = {}, 0
        for name, array in kept.items():
            part = sent[begin : begin + array.nbytes].tobytes()
            received[name] = jnp.asarray(np.frombuffer(part, array.dtype).reshape(array.shape))
            begin += array.nbytes
        return received

    def _summed(self, words: HostArray) -> HostArray:
        """The sums of all instances' words, in parts of few sizes, each compiled once."""
        sums = np.empty_like(words)
        for begin in range(0, len(words), _PART_WORDS):
            part = words[begin : begin + _PART_WORDS]
            padded = np.zeros(1 << (len(part) - 1).bit_length(), np.uint32)
            padded[: len(part)] = part
            together = _part(self._sum(self._global_array(padded, True)), False)
            sums[begin : begin + len(part)] = np.asarray(together)[: len(part)]
        return sums

    # Kept, as JAX traces and compiles every new function anew.
    @cached_property
    def _sum(self) -> Any:
        return self._collective(lambda part: _psum(part[0], INSTANCE_AXIS))

    @cached_property
    def _gather(self) -> Any:
        def all_of_them(part: Any) -> Any:
            return lax.all_gather(part[0], INSTANCE_AXIS)

        return self._collective(all_of_them)

    def _collective(self, function: Callable[..., Any]) -> Any:
        return jax.jit(
            jax.shard_map(
                function, mesh=self.mesh, in_specs=(_OWN,), out_specs=_SHARED, check_vma=False
            )
        )

    def agree(self, key: str) -> bool:
        """Whether all instances gave the same key, and not ""; all must call it."""
        digest = hashlib.sha256(key.encode()).digest()
        digests = self.gathered(np.frombuffer(digest, np.uint8))
        return bool(key) and all(other.tobytes() == digest for other in digests)

    def check_same(self, lowered: Any) -> None:
        """Compares what the instances are about to compile; all must call it.

        Raises:
            BackendUnavailableError: they differ, and would wait for one another in vain.
        """
        digest = hashlib.sha256(lowered.as_text().encode()).digest()
        digests = self.gathered(np.frombuffer(digest, np.uint8))
        others = [number for number, other in enumerate(digests) if other.tobytes() != digest]
        if others:
            raise BackendUnavailableError(
                f"instance {this_instance().index} compiles another program than instance "
                f"{others[0]}. The instances of a distributed program build the same operators, "
                "with the same shapes and options; only their data differ."
            )

    def gathered(self, array: HostArray) -> HostArray:
        """What every instance gave, [instances, *shape]; all must call it, with like shapes."""
        heartbeat.beat()
        heartbeat.begin_collective()
        # As bytes: JAX narrows numbers of 64 bits.
        data = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        together = self._gather(self._global_array(data, True))
        content = np.array(_part(together, False)).tobytes()
        # A copy, as what bytes hold cannot be written to.
        return np.frombuffer(content, array.dtype).reshape(self.count, *array.shape).copy()


# -- in a step ------------------------------------------------------------------------------------


def summed(tree: Any, instances: int) -> Any:
    """The sums of what all instances have."""
    return tree if instances == 1 else _psum(tree, INSTANCE_AXIS)


def true_everywhere(flags: jax.Array, instances: int) -> jax.Array:
    """What is true on all instances."""
    if instances == 1:
        return flags
    lowest: jax.Array = _pmin(flags.astype(jnp.int32), INSTANCE_AXIS)
    return lowest.astype(jnp.bool_)


def first_replica(instances: int, replicas: int) -> int | jax.Array:
    """The number of this instance's first replica. All instances compile the same program."""
    return 0 if instances == 1 else lax.axis_index(INSTANCE_AXIS).astype(jnp.uint32) * replicas


def of_first(counters: jax.Array, instances: int) -> jax.Array:
    """Instance 0's integers: by them sums and updates are rounded alike on all instances."""
    if instances == 1:
        return counters
    first: jax.Array = _psum(
        jnp.where(lax.axis_index(INSTANCE_AXIS) == 0, counters, 0), INSTANCE_AXIS
    )
    return first


# -- between steps --------------------------------------------------------------------------------


def _bytes(array: HostArray) -> HostArray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _on_host(array: Any) -> HostArray:
    """This instance's part of an array."""
    own: HostArray = np.asarray(array.addressable_data(0))[0]
    return own


def _part(array: Any, is_own: bool) -> Any:
    local = array.addressable_data(0)
    return local[0] if is_own else local


@cache
def joined() -> Instances:
    """The instances of this program, connected on the first call, which waits for all of them.

    Raises:
        BackendUnavailableError: they cannot be connected.
    """
    # A hang before this one differs from one that waits for the others here.
    heartbeat.beat()
    _connect()
    devices = sorted(jax.devices(), key=lambda device: device.process_index)
    first = {device.process_index: device for device in reversed(devices)}
    mesh = jax.sharding.Mesh(
        np.asarray([first[index] for index in sorted(first)]), (INSTANCE_AXIS,)
    )
    instances = Instances(len(first), mesh)
    with _quiet_output():
        instances.from_instance(0, {"": jnp.zeros(1)})
    return instances


def is_joined() -> bool:
    """Whether the instances of this program are connected."""
    return joined.cache_info().currsize > 0


@contextlib.contextmanager
def _quiet_output() -> Iterator[None]:
    """Keeps what Gloo prints of its first connection from the program's standard output."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        with open(os.devnull, "wb") as null:
            os.dup2(null.fileno(), 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)

"""Which V-IPU service and partitions ``gc-info``, ``gc-monitor`` and ``doctor`` ask about."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from paddle_ipu.errors import VipuError
from paddle_ipu.instances import ipuof
from paddle_ipu.instances.vipu_client import PORT, VipuClient, configured_host


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say which service and which partitions."""
    parser.add_argument("--api-host", help="host of the V-IPU service; default: 127.0.0.1")
    parser.add_argument("--api-port", type=int, help="its port; default: 8090")
    parser.add_argument("--partition", help="default: that of the environment, else the only one")


def client_of(arguments: argparse.Namespace) -> tuple[VipuClient, ipuof.Target | None]:
    """(the service, the partition that the environment names).

    Raises:
        VipuError: the environment names something that is not there.
    """
    target = ipuof.target()
    host = configured_host() or "127.0.0.1"
    client = VipuClient(host, PORT) if target is None else target.client
    client = replace(
        client,
        host=arguments.api_host or client.host,
        port=arguments.api_port or client.port,
        timeout=10.0,
    )
    return client, target


def partitions_of(
    arguments: argparse.Namespace, every: bool
) -> tuple[VipuClient, list[tuple[dict[str, Any], int]]]:
    """(the service, the (partition, GCD) pairs that are asked about).

    Args:
        every: of all partitions.

    Raises:
        VipuError: no service answers, or it has no such partition.
    """
    client, target = client_of(arguments)
    name = arguments.partition or (None if target is None else target.partition)
    if every:
        partitions = client.call("partitions")
    elif name:
        partitions = [client.call("partition", name=name)]
    else:
        partitions = client.call("partitions")
        if len(partitions) != 1:
            listed = ", ".join(p["name"] for p in partitions) or "none"
            raise VipuError(f"name a partition with --partition; there are: {listed}")
    if target is not None and not every and partitions[0]["name"] == target.partition:
        return client, [(partitions[0], target.gcd)]
    return client, [
        (partition, gcd) for partition in partitions for gcd in range(partition["gcds"])
    ]

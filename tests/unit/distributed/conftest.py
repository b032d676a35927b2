"""A V-IPU service in this process, and its client."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from paddle_ipu.distributed.vipu_server import VipuServer, new_state
from paddle_ipu.instances.vipu_client import VipuClient


@pytest.fixture
def client() -> Iterator[VipuClient]:
    """Of a service with 64 IPUs in IPU-Link domains of 16."""
    server = VipuServer(new_state(64, {}, "pod", 16), port=0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield VipuClient(port=server.server_address[1], timeout=5.0)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

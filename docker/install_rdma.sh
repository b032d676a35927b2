#!/bin/bash
# Installs the RDMA libraries in a container, as root: gc-monitor reaches IPUs through them.
set -euo pipefail
if [ "$(id -u)" != 0 ]; then
    echo "install_rdma.sh: only root installs packages: docker/into_docker.sh start --with-root" >&2
    exit 2
fi
apt-get update
DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends librdmacm1 rdma-core
rm -rf /var/lib/apt/lists/*

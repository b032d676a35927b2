#!/bin/bash
# Checks an unpacked SDK while its image is built: check_sdk.sh required|unused
# Graphcore's own scripts read variables that nobody has set: no -u.
set -eo pipefail
# shellcheck source=docker/sdk_environment.sh
. "$(dirname "$0")/sdk_environment.sh"
case $1 in
required)
    if ! python3 -c "import popart"; then
        cat >&2 <<EOF
check_sdk.sh: the SDK's popart cannot be imported by $(python3 --version). An SDK has it for the Python of
the system that it was made for: build the runtime image with the BASE_IMAGE of that system, or give
SDK_POPART=unused, which uses the SDK's tools only and runs programs on the IPU Model.
EOF
        exit 1
    fi
    ;;
unused) touch "$PADDLE_IPU_SDK/popart_unused" ;;
*)
    echo "check_sdk.sh: SDK_POPART=$1: it is required or unused" >&2
    exit 2
    ;;
esac

#!/bin/bash
# Runs a command with the SDK's environment. `docker exec` does not come by here: source
# sdk_environment.sh there.
# shellcheck source=docker/sdk_environment.sh
. /usr/local/bin/sdk_environment.sh || exit
exec "$@"

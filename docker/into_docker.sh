#!/bin/bash
# Starts a development container with this checkout and the host's IPUs, and goes into it.
set -euo pipefail

usage() {
    cat <<'EOF'
Usage: docker/into_docker.sh start|into|stop [options] [-- arguments of `docker run`]

  start   start the container in the background
  into    open a shell in it
  stop    end and remove it

Options:
  --with-root  start: as root, to add a user (docker/add_user.sh) or install something; left out, as
               you, whom the image must know
  --dry-run    print the command, run nothing
  -h, --help   print this

Variables:
  IMG           the image (default: paddle_ipu:latest-dev)
  CONTAINER_ID  the container's name (default: paddle_ipu-dev-$USER)
  DOCKER        the program (default: docker; podman takes the same commands)
  IPUOF_VIPU_API_PARTITION_ID, IPUOF_VIPU_API_HOST, IPUOF_VIPU_API_PORT
                handed on to the container
  IPUOF_CONFIG_PATH
                a partition's ipuof.conf: mounted as /ipuof.conf

The checkout is /workspace/paddle_ipu in the container. Where gc-docker is installed, it starts the
container and gives it the host's IPUs.
EOF
}

fail() {
    echo "into_docker.sh: $1" >&2
    exit 2
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
user=$(id -un)
IMG=${IMG:-paddle_ipu:latest-dev}
CONTAINER_ID=${CONTAINER_ID:-paddle_ipu-dev-$user}
docker=${DOCKER:-docker}
command='' with_root='' dry_run=''
while [ $# -gt 0 ]; do
    case $1 in
    start | into | stop)
        [ -z "$command" ] || fail "one of start, into and stop at a time"
        command=$1
        ;;
    --with-root) with_root=yes ;;
    --dry-run) dry_run=yes ;;
    -h | --help)
        usage
        exit
        ;;
    --)
        shift
        break
        ;;
    *) fail "unknown argument $1; --help tells more" ;;
    esac
    shift
done
[ -n "$command" ] || fail "start, into or stop? --help tells more"
[ "$command" = start ] || [ -z "$with_root" ] || fail "--with-root is for start"
if [ -z "$dry_run" ] && ! command -v "$docker" >/dev/null; then
    fail "no $docker on the PATH: install it, or name another: DOCKER=podman"
fi

run() {
    if [ -n "$dry_run" ]; then
        printf '%q ' "$@"
        echo
    else
        "$@"
    fi
}

is_running() {
    [ "$("$docker" container inspect -f '{{.State.Running}}' "$CONTAINER_ID" 2>/dev/null)" = true ]
}

start() {
    # Memory that IPUs and MPI share with the host, without a limit.
    local words=(-d --name "$CONTAINER_ID" --net=host --ipc=host --ulimit memlock=-1:-1
        --cap-add=IPC_LOCK --cap-add=SYS_PTRACE
        -v "$root:/workspace/paddle_ipu" -w /workspace/paddle_ipu
        -e "HOST_USER=$user" -e "HOST_UID=$(id -u)" -e "HOST_GID=$(id -g)")
    local name config
    for name in IPUOF_VIPU_API_PARTITION_ID IPUOF_VIPU_API_HOST IPUOF_VIPU_API_PORT; do
        [ -z "${!name:-}" ] || words+=(-e "$name=${!name}")
    done
    if [ -n "${IPUOF_CONFIG_PATH:-}" ]; then
        [ -f "$IPUOF_CONFIG_PATH" ] || fail "IPUOF_CONFIG_PATH=$IPUOF_CONFIG_PATH: no such file"
        config=$(realpath "$IPUOF_CONFIG_PATH")
        words+=(-v "$config:/ipuof.conf:ro" -e IPUOF_CONFIG_PATH=/ipuof.conf)
    fi
    [ ! -d /dev/infiniband ] || words+=(--device=/dev/infiniband/)
    [ -n "$with_root" ] || words+=(--user "$(id -u):$(id -g)")
    # Arguments of the caller come last, before the image.
    words+=("$@" "$IMG" bash -c "trap exit TERM; sleep infinity & wait")
    if command -v gc-docker >/dev/null; then
        run gc-docker -- "${words[@]}"
    else
        run "$docker" run "${words[@]}"
    fi
    [ -z "$dry_run" ] || return 0
    if ! is_running; then
        "$docker" logs "$CONTAINER_ID" >&2 || true
        fail "$CONTAINER_ID ended at once; the lines above are its own"
    fi
    if [ -z "$with_root" ] && ! "$docker" exec "$CONTAINER_ID" id -un >/dev/null 2>&1; then
        "$docker" rm -f "$CONTAINER_ID" >/dev/null
        cat >&2 <<EOF
into_docker.sh: $IMG does not know user $(id -u). Add the user, once, and keep the image:
  docker/into_docker.sh start --with-root
  $docker exec $CONTAINER_ID docker/add_user.sh
  $docker commit $CONTAINER_ID paddle_ipu:latest-dev-$user
  docker/into_docker.sh stop
  IMG=paddle_ipu:latest-dev-$user docker/into_docker.sh start
EOF
        exit 1
    fi
    echo "$CONTAINER_ID runs; docker/into_docker.sh into opens a shell in it"
}

case $command in
start)
    if [ -z "$dry_run" ] && "$docker" container inspect "$CONTAINER_ID" >/dev/null 2>&1; then
        fail "there is a container $CONTAINER_ID already: go into it, or stop it first"
    fi
    start "$@"
    ;;
into)
    [ -n "$dry_run" ] || is_running || fail "$CONTAINER_ID does not run: docker/into_docker.sh start"
    run "$docker" exec -it "$@" "$CONTAINER_ID" bash
    ;;
stop)
    run "$docker" rm -f "$CONTAINER_ID"
    ;;
esac

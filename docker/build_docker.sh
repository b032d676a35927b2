#!/bin/bash
# Builds the project's container images.
set -euo pipefail

usage() {
    cat <<'EOF'
Usage: docker/build_docker.sh [options] [image ...] [-- arguments of the builder]

Builds images, each with the tag `latest` and with the version of paddle_ipu in its place:
  runtime   paddle_ipu:latest      Python, Paddle, the plugin, poprun (the default)
  dev       paddle_ipu:latest-dev  compilers, the sources, all that `make test` needs
  ssh       paddle_ipu:latest-ssh  the runtime image with an SSH server, for several hosts
  sdk       paddle_ipu:latest-sdk  the runtime image with Graphcore's Poplar SDK

Options:
  --sdk FILE     the SDK's archive, within the repository: docker/sdk/ is there for it
  --base IMAGE   the system of runtime and dev images (default: debian:bookworm-slim)
  --paddle NAME  which Paddle the runtime image has, as pip takes it: paddlepaddle==2.6.2
  --repo NAME    the images' name (default: PADDLE_DOCKER_REPO, else paddle_ipu)
  --dry-run      print the commands, run nothing
  -h, --help     print this

DOCKER names the program, docker by default; podman and buildah take the same commands. What follows
-- is handed to it:
  docker/build_docker.sh runtime -- --build-arg PIP_INDEX_URL=https://pypi.example.org/simple
EOF
}

fail() {
    echo "build_docker.sh: $1" >&2
    exit 2
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
docker=${DOCKER:-docker}
repo=${PADDLE_DOCKER_REPO:-paddle_ipu}
sdk='' base='' paddle='' dry_run='' images=()
while [ $# -gt 0 ]; do
    case $1 in
    --sdk | --base | --paddle | --repo)
        [ $# -gt 1 ] || fail "$1 needs a value; --help tells more"
        case $1 in
        --sdk) sdk=$2 ;;
        --base) base=$2 ;;
        --paddle) paddle=$2 ;;
        --repo) repo=$2 ;;
        esac
        shift
        ;;
    --dry-run) dry_run=yes ;;
    -h | --help)
        usage
        exit
        ;;
    --)
        shift
        break
        ;;
    runtime | dev | ssh | sdk) images+=("$1") ;;
    *) fail "unknown argument $1: images are runtime, dev, ssh and sdk; --help tells more" ;;
    esac
    shift
done
[ ${#images[@]} -gt 0 ] || images=(runtime)

version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$root/paddle_ipu/__init__.py")
[ -n "$version" ] || fail "no __version__ in $root/paddle_ipu/__init__.py"
if [ -z "$dry_run" ] && ! command -v "$docker" >/dev/null; then
    fail "no $docker on the PATH: install it, or name another builder: DOCKER=podman"
fi

run() {
    printf '+'
    printf ' %q' "$@"
    echo
    [ -n "$dry_run" ] || "$@"
}

for image in "${images[@]}"; do
    words=()
    case $image in
    runtime)
        file=Dockerfile suffix=''
        [ -z "$paddle" ] || words+=(--build-arg "PADDLE=$paddle")
        ;;
    *)
        file=Dockerfile.$image suffix=-$image
        ;;
    esac
    case $image in
    runtime | dev) [ -z "$base" ] || words+=(--build-arg "BASE_IMAGE=$base") ;;
    ssh | sdk) words+=(--build-arg "RUNTIME_IMAGE=$repo:latest") ;;
    esac
    if [ "$image" = sdk ]; then
        [ -n "$sdk" ] || fail "the sdk image needs --sdk FILE, the Poplar SDK's archive"
        [ -f "$sdk" ] || fail "--sdk $sdk: no such file"
        archive=$(realpath "$sdk")
        [[ $archive == "$root"/* ]] ||
            fail "--sdk $sdk is not within $root, which is all that a builder sees: put it in docker/sdk/"
        words+=(--build-arg "POPLAR_SDK=${archive#"$root"/}")
    fi
    run "$docker" build "$@" "${words[@]}" -f "$root/docker/$file" \
        -t "$repo:latest$suffix" -t "$repo:$version$suffix" "$root"
done

#!/bin/bash
# Adds a user to a container, to be run in it as root.
set -euo pipefail

usage() {
    cat <<'EOF'
Usage: docker/add_user.sh [--sudo] [NAME [UID [GID]]]

Adds the user whom into_docker.sh started the container for (HOST_USER, HOST_UID, HOST_GID), or the one
named, with a home of its own and the same numbers as on the host, so that files in the checkout belong
to them on both sides. The Python environment of the image becomes theirs, too.

  --sudo      let the user become root without a password
  -h, --help  print this
EOF
}

fail() {
    echo "add_user.sh: $1" >&2
    exit 2
}

sudo=''
words=()
for word in "$@"; do
    case $word in
    --sudo) sudo=yes ;;
    -h | --help)
        usage
        exit
        ;;
    -*) fail "unknown argument $word; --help tells more" ;;
    *) words+=("$word") ;;
    esac
done
name=${words[0]:-${HOST_USER:-}}
uid=${words[1]:-${HOST_UID:-}}
gid=${words[2]:-${HOST_GID:-$uid}}
[ ${#words[@]} -le 3 ] || fail "a name, a number of the user and one of the group at most"
[ -n "$name" ] || fail "who? Give a name, or start the container by into_docker.sh, which sets HOST_USER"
[ -n "$uid" ] || fail "which number has $name? Give it after the name, or set HOST_UID"
[[ $name =~ ^[a-z_][a-z0-9_.-]*$ ]] || fail "$name is no name of a user"
[[ $uid =~ ^[0-9]+$ && $gid =~ ^[0-9]+$ ]] || fail "numbers of user and group, not $uid and $gid"
[ "$(id -u)" = 0 ] || fail "only root adds users: docker/into_docker.sh start --with-root"

if [ "$uid" = 0 ]; then
    echo "$name is root; nothing to do"
    exit
fi
if known=$(getent passwd "$uid"); then
    [ "${known%%:*}" = "$name" ] || fail "number $uid belongs to ${known%%:*} already"
elif getent passwd "$name" >/dev/null; then
    fail "there is a user $name with another number: $(id -u "$name")"
else
    getent group "$gid" >/dev/null || groupadd -g "$gid" "$name"
    useradd -m -u "$uid" -g "$gid" -s /bin/bash "$name"
fi
if [ -n "${VIRTUAL_ENV:-}" ] && [ -d "$VIRTUAL_ENV" ]; then
    chown -R "$uid:$gid" "$VIRTUAL_ENV"
fi
if [ -n "$sudo" ]; then
    command -v sudo >/dev/null || fail "no sudo in this image: apt-get install sudo"
    # sudo passes over files with a dot in their name.
    rule=/etc/sudoers.d/${name//./_}
    echo "$name ALL=(ALL) NOPASSWD: ALL" | install -m 440 /dev/stdin "$rule"
fi
echo "$name is user $uid of group $gid; to keep it, on the host: docker commit CONTAINER IMAGE"

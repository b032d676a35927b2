# Puts a Poplar SDK that is unpacked in /popsdk (or in $PADDLE_IPU_SDK) into effect; to be sourced by bash.
# shellcheck shell=bash
for paddle_ipu_enable in "${PADDLE_IPU_SDK:=/popsdk}"/*/{poplar,popart}-*/enable.sh; do
    if [ ! -f "$paddle_ipu_enable" ]; then
        echo "sdk_environment.sh: no $paddle_ipu_enable; is the SDK unpacked in $PADDLE_IPU_SDK?" >&2
        unset paddle_ipu_enable
        return 1
    fi
    # shellcheck source=/dev/null
    . "$paddle_ipu_enable" || return
done
unset paddle_ipu_enable
if [ -f "$PADDLE_IPU_SDK/popart_unused" ]; then
    export PADDLE_IPU_DEVICE=model
fi

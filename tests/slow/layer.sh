#!/usr/bin/env bash
# needs: network
# The Engine's own limit on a container's layer, behind cf-init's watch: in force where its storage
# knows one (btrfs), asked for in vain where it only might (xfs mounted without quotas). On small
# file systems of the test's own; their tools are installed.
if [ -z "${PRIVATE_NS-}" ]; then
    passed=0 failed=0
    command -v mkfs.btrfs mkfs.xfs >/dev/null || apt-get -q install -y --no-install-recommends btrfs-progs xfsprogs >/dev/null 2>&1
    for fs in btrfs xfs; do
        small=$(mktemp -d /tmp/cf-layer-XXXXXX)
        truncate -s 2G "$small/image"; mkdir "$small/mnt"
        if ! "mkfs.$fs" -q -f "$small/image" >/dev/null 2>&1 || ! mount -o loop "$small/image" "$small/mnt" 2>/dev/null; then
            echo "SKIPPED layer on $fs: this kernel mounts none, or its tools are missing"; passed=$((passed + 1)); rm -rf "$small"; continue
        fi
        [ $fs != btrfs ] || btrfs quota enable "$small/mnt"
        ENGINE_DIR=$small/mnt/engine FS=$fs PRIVATE_NS=1 unshare --net -- bash "$0" >"$small/log" 2>&1
        cat "$small/log"
        read -r p f < <(sed -nE 's/^[a-z]+: ([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' "$small/log"; echo "0 1") # none: it broke off
        passed=$((passed + p)) failed=$((failed + f))
        for _ in 1 2 3 4 5; do umount -R "$small/mnt" 2>/dev/null; mountpoint -q "$small/mnt" || break; sleep 0.5; done
        rm -rf "$small"
    done
    printf 'layer: %d passed, %d failed\n' $passed $failed
    [ $failed = 0 ]
    exit
fi
. tests/support/private-engine.sh
driver=$(engine /info | jq -r '.Driver')
check "$FS: the Engine is on it" test "$driver" = "$([ "$FS" = btrfs ] && echo btrfs || echo overlay2)"
check "the image is made" publish slow/fault "$CTX/fault"; IMAGE=$REF
size=$(engine "/images/$IMAGE/json" | jq .Size)
remember_images
TOKEN=green; begin proper --disk 16m; over; verdict "$FS: a proper harness" 0 none
if [ "$FS" = btrfs ]; then wall=$((16777216 + 67108864 + size)); else wall=null; fi
check "$FS: the limit that is in force is told ($wall)" jq -e ".limits.layer_bytes == $wall" "$WORK/out"
# fill MIB: fills so much, and tells how far it came
fill() {
    TOKEN=fill; "$CF" test oci --name fault --image "$IMAGE" --pull never --entrypoint /opt/fault/bin/fault --protocol oneshot-v1 \
        --env "CF_FAULT_RUN=$TOKEN" --prompt-transport stdin --output-mode text --argv=fill-disk "--argv=$1" --disk 16m --grace 3s --json \
        >"$WORK/out" 2>"$WORK/err" & PID=$! BEGAN=$EPOCHREALTIME
    over
}
fill 1500
verdict "$FS: far over the limit" 1 harness
check "$FS: it is the limit's own error" jq -e '[.checks[].error?.type, .error.type?] | index("budget.exceeded")' "$WORK/out"
[ "$FS" != btrfs ] || check "$FS: the Engine's wall stood where it was told to" eval '[ "$(grep -o "uses [0-9]* bytes" "$WORK/out" | head -n 1 | tr -dc 0-9)" -le '$wall' ]'
audit "$FS"
unpublish
finish

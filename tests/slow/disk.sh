#!/usr/bin/env bash
# The Engine's data root is full: before a container is made, while an image is built, and in the
# middle of a turn. On a small file system of the test's own.
if [ -z "${PRIVATE_NS-}" ]; then
    small=$(mktemp -d /tmp/cf-small-XXXXXX)
    truncate -s 400M "$small/image"; mkdir "$small/mnt"
    if mkfs.ext4 -q -F "$small/image" 2>/dev/null && mount -o loop "$small/image" "$small/mnt" 2>/dev/null; then :
    elif mount -t tmpfs -o size=300m tmpfs "$small/mnt" 2>/dev/null; then :; else
        echo "SKIPPED disk: no small file system can be mounted"; echo "1 passed, 0 failed"; rm -rf "$small"; exit 0
    fi
    ENGINE_DIR=$small/mnt/engine SMALL=$small PRIVATE_NS=1 unshare --net -- bash "$0"
    status=$?
    for _ in 1 2 3 4 5; do umount -R "$small/mnt" 2>/dev/null; mountpoint -q "$small/mnt" || break; sleep 0.5; done
    mountpoint -q "$small/mnt" && umount -l "$small/mnt"
    rm -rf "$small"
    exit $status
fi
. tests/support/private-engine.sh
check "the data root is the small one" test "$(engine /info | jq -r .DockerRootDir | xargs realpath)" = "$(realpath "$SMALL/mnt/engine/data")"
check "the image is made" publish slow/fault "$CTX/fault"; IMAGE=$REF
remember_images
fill() { dd if=/dev/zero of="$SMALL/mnt/fill" bs=1M 2>/dev/null; dd if=/dev/zero of="$SMALL/mnt/fill2" bs=512 2>/dev/null; }
free() { rm -f "$SMALL/mnt/fill" "$SMALL/mnt/fill2"; }

TOKEN=create; fill; begin proper; over; free
verdict "no room to make a container" "3 4" "engine runner"
check "no room to make a container: says so" grep -qi "no space left" "$WORK/out"
reaped "no room to make a container"

TOKEN=build; fill
"$CF" test oci --name fault --build-context "$CTX/oneshot-harness" --entrypoint /opt/checkfu/bin/checkfu-oneshot --protocol acp-v1 --json \
    --grace 3s >"$WORK/out" 2>"$WORK/err" & PID=$! BEGAN=$EPOCHREALTIME
over; free
verdict "no room to build" "3 4" "engine runner"
check "no room to build: says so" grep -qi "no space left" "$WORK/out"
reaped "no room to build"

# In the turn: the harness meets the full disk, and its own limit is far away.
TOKEN=turn
"$CF" test oci --name fault --image "$IMAGE" --pull never --entrypoint /opt/fault/bin/fault --protocol oneshot-v1 --env "CF_FAULT_RUN=$TOKEN" \
    --prompt-transport stdin --output-mode text --argv=fill-disk --argv=4096 --disk 4g --turn-timeout 60s --grace 3s --json >"$WORK/out" 2>"$WORK/err" & PID=$! BEGAN=$EPOCHREALTIME
over
verdict "the disk is full in the turn" "1 3 4" "harness engine runner"
check "the disk is full in the turn: teardown is proven" jq -e '.teardown.proven' "$WORK/out"
reaped "the disk is full in the turn"

# And afterwards all is well.
TOKEN=after; begin proper; over; verdict "room again" 0 none; reaped "room again"
unpublish
finish

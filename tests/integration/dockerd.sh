#!/usr/bin/env bash
# dockerd itself is killed in the middle of a turn and stays away: the verdict comes all the same,
# and cf-init, which no ping reaches any more, ends the harness by itself. On a private Engine, in
# a network namespace of its own. Pauses and restarts are the campaign's.
if [ -z "${DOCKERD_NS-}" ]; then
    [ "$(id -u)" = 0 ] || { echo "SKIPPED dockerd: a private Engine needs root"; echo "1 passed, 0 failed"; exit 0; }
    DOCKERD_NS=1 exec unshare --net -- bash "$0" "$@"
fi
ip link set lo up
mine=$(mktemp -d /tmp/cf-dockerd-XXXXXX)
export CF_ENGINE_DIR=$mine/engine DOCKER_HOST=unix:///nowhere
host=$(docker/engine/engine start 2>"$mine/log") ||
    { cat "$mine/log"; echo "SKIPPED dockerd: no private Engine can be started"; echo "1 passed, 0 failed"; rm -rf "$mine"; exit 0; }
export "${host?}"
. tests/integration/lib.sh
trap 'docker/engine/engine stop >/dev/null 2>&1; rm -rf "$WORK" "$mine"' EXIT

# By image, so that nothing of a build has to be taken back.
. tests/support/publish.sh
check "the image is made" publish dockerd/fault "$CTX/fault"
"$CF" test oci --name fault --image "$REF" --pull never --entrypoint /opt/fault/bin/fault --protocol oneshot-v1 \
    --prompt-transport stdin --output-mode text --argv=stall --env CF_DOCKERD=alone --grace 3s --json >"$WORK/out" 2>"$WORK/err" & pid=$!
for _ in $(seq 400); do grep -q "turn ..." "$WORK/err" && break; sleep 0.02; done
alive() { grep -qsz "^CF_DOCKERD=alone" /proc/[0-9]*/environ; }
for _ in $(seq 100); do alive && break; sleep 0.05; done
check "the harness stands in its turn" alive
dockerd=$(cut -d' ' -f1 "$CF_ENGINE_DIR/started")
mapfile -d '' -t words <"/proc/$dockerd/cmdline"
began=$EPOCHREALTIME
kill -KILL "$dockerd"
got=0; wait $pid || got=$?
took=$(((${EPOCHREALTIME/./} - ${began/./}) / 1000))
check "dockerd killed: the verdict is exit 4, nothing could be proven (it is $got)" test $got = 4
check "dockerd killed: it came within grace and some ($took ms)" test "$took" -lt 20000
is "dockerd killed: the engine is blamed" '.blame == "engine" and .error.type == "runtime.runner_unavailable"'
is "dockerd killed: what is left has its line" '(.teardown.proven|not) and (.teardown.left|length) > 0 and ([.teardown.left[]|select((.remove // "") == "")] == [])'
for _ in $(seq 450); do alive || break; sleep 0.1; done
took=$(((${EPOCHREALTIME/./} - ${began/./}) / 1000))
check "without pings the harness is ended by cf-init ($took ms)" test "$took" -lt 40000
if alive; then bad "the harness is dead"; else ok "the harness is dead"; fi

# The next dockerd finds what the last one left, and reap removes it.
rm -f "$CF_ENGINE_DIR/docker.pid" "$(dirname "${DOCKER_HOST#unix://}")/exec/containerd/containerd.pid"
setsid "${words[@]}" >>"$CF_ENGINE_DIR/log" 2>&1 </dev/null & dockerd=$!; disown
echo "$dockerd $(sed 's/.*) //' "/proc/$dockerd/stat" | cut -d' ' -f20)" >"$CF_ENGINE_DIR/started"
for _ in $(seq 300); do engine /_ping >/dev/null && break; sleep 0.1; done
remember_images
cf "reap after the restart" 0 reap --json
audit "after the restart"
check "no shim of it is left" test -z "$(grep -lsz "^$mine.*/containerd.sock\$" /proc/[0-9]*/cmdline)"
finish

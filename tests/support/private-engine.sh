# private-engine.sh: sourced first by tests that stop, kill or starve dockerd itself: a private
# Engine in a network namespace of the test's own. Then comes lib.sh. ENGINE_DIR, when the
# test sets it before, is the folder in which that Engine lives.
if [ -z "${PRIVATE_NS-}" ]; then
    [ "$(id -u)" = 0 ] || { echo "SKIPPED $(basename "$0" .sh): a private Engine needs root"; echo "1 passed, 0 failed"; exit 0; }
    PRIVATE_NS=1 exec unshare --net -- bash "$0" "$@"
fi
ip link set lo up
mine=$(mktemp -d /tmp/cf-private-XXXXXX)
export CF_ENGINE_DIR=${ENGINE_DIR:-$mine/engine} DOCKER_HOST=unix:///nowhere
host=$(docker/engine/engine start 2>"$mine/log") ||
    { cat "$mine/log"; echo "SKIPPED $(basename "$0" .sh): no private Engine can be started"; echo "1 passed, 0 failed"; rm -rf "$mine"; exit 0; }
export "${host?}"
. tests/integration/lib.sh
trap 'docker/engine/engine stop >/dev/null 2>&1; rm -rf "$WORK" "$mine"' EXIT
. tests/support/publish.sh

dockerd_pid() { cut -d' ' -f1 "$CF_ENGINE_DIR/started"; }
dockerd_words() { mapfile -d '' -t WORDS <"/proc/$(dockerd_pid)/cmdline"; }
# launch_dockerd [FLAG...]: with WORDS, and until it answers
launch_dockerd() {
    local pid _
    # A containerd that nobody waits for stays a zombie, which the next dockerd takes for a live one.
    rm -f "$CF_ENGINE_DIR/docker.pid" "$(dirname "${DOCKER_HOST#unix://}")/exec/containerd/containerd.pid"
    setsid "${WORDS[@]}" "$@" >>"$CF_ENGINE_DIR/log" 2>&1 </dev/null & pid=$!
    disown
    echo "$pid $(sed 's/.*) //' "/proc/$pid/stat" | cut -d' ' -f20)" >"$CF_ENGINE_DIR/started"
    for _ in $(seq 600); do engine /_ping >/dev/null && return 0; sleep 0.1; done
    return 1
}
end_dockerd() { # end_dockerd SIGNAL
    local pid; pid=$(dockerd_pid)
    kill "-$1" "$pid"
    while kill -0 "$pid" 2>/dev/null && [ "$(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null | cut -c1)" != Z ]; do sleep 0.05; done
}
# begin NAME MODE FLAGS...: test oci of the harness in its turn, in the background: PID
begin() {
    local mode=$1; shift
    "$CF" test oci --name fault --image "$IMAGE" --pull never --entrypoint /opt/fault/bin/fault --protocol oneshot-v1 \
        --prompt-transport stdin --output-mode text "--argv=$mode" --env CF_FAULT_RUN="$TOKEN" --grace 3s --json "$@" \
        >"$WORK/out" 2>"$WORK/err" & PID=$!
    BEGAN=$EPOCHREALTIME
}
shows() { local _; for _ in $(seq 1000); do grep -qF "$1 ..." "$WORK/err" && return 0; kill -0 $PID 2>/dev/null || return 1; sleep 0.02; done; }
alive() { grep -qsz "^CF_FAULT_RUN=$TOKEN" /proc/[0-9]*/environ; }
until_alive() { local _; for _ in $(seq 200); do alive && return 0; sleep 0.05; done; return 1; }
dead_within() { local _; for _ in $(seq $(($1 * 10))); do alive || return 0; sleep 0.1; done; return 1; }
over() { GOT=0; wait $PID || GOT=$?; TOOK=$(((${EPOCHREALTIME/./} - ${BEGAN/./}) / 1000)); }
container_id() { engine '/containers/json?all=1&filters=%7B%22label%22%3A%5B%22com.checkfu.runner%22%5D%7D' | jq -r '.[0].Id // empty'; }
# verdict NAME EXITS BLAMES: these alone are true; the document says the same; what is left is 4 and has its line
verdict() {
    local why=""
    [[ " $2 " == *" $GOT "* ]] || why="exit $GOT, wanted $2"
    why+=$(jq -rs --argjson exit "$GOT" --arg blames " $3 " 'if length != 1 then " not one document" else .[0] |
        (if .exit_code != $exit then " says exit \(.exit_code)" else empty end),
        (.blame as $b | if $blames|contains(" \($b) ") then empty else " blames \($b)" end),
        (if $exit == 0 and (.status != "passed" or (.teardown.proven|not)) then " green and not proven" else empty end),
        (if $exit != 0 and $exit != 130 and ((.error.message // ([.checks[]|select(.status == "failed")|.error.message // .summary]|first) // "")|length) < 10 then " no word about why" else empty end),
        (if (.teardown.left? // []|length) > 0 and $exit != 4 then " something left, and not exit 4" else empty end),
        (if [.teardown.left[]?|select((.remove // "") == "")] != [] then " no line to remove what is left" else empty end)
        end' "$WORK/out" 2>&1)
    if [ -z "$why" ]; then ok "$1: exit $GOT in $TOOK ms, $(jq -r '(.error // ([.checks[].error?|values]|first)).message // "-"' "$WORK/out" | head -c 120)"; else
        bad "$1:$why ($TOOK ms)" "$(tail -n 4 "$WORK/err"; jq -c '{status,blame,exit_code,error,teardown}' "$WORK/out" 2>/dev/null | head -c 1500)"; fi
}
reaped() { # as long as an Engine needs to come to rest after what was done to it
    local _
    for _ in 1 2 3 4 5 6; do "$CF" reap --json >"$WORK/reap" 2>&1 && break; sleep 1; done
    audit "$1"
    check "$1: no process of it lives" eval '! alive'
    check "$1: no shim of it is left" no_shim
}
no_shim() { local _; for _ in $(seq 50); do [ -n "$(grep -lsz "^$CF_ENGINE_DIR.*/containerd.sock\$" /proc/[0-9]*/cmdline)" ] || return 0; sleep 0.1; done; return 1; }

#!/usr/bin/env bash
# Attempts to get out of a sandbox, from inside it, on a real Engine: each ends in its denial, and
# the run goes on or ends as it should. What needs no Engine is tried in tests/init and, one call
# after another against pid 1, in tests/sandbox/test_link_hostile.c; another run's token and a
# token after its run in tests/relay.
. tests/integration/lib.sh
. tests/support/publish.sh

mkdir -p "$WORK/root"; cp -a "$CTX/escape/." "$WORK/root/"; sed -i '/^USER/d' "$WORK/root/Dockerfile"
check "the images are made" publish escape/user "$CTX/escape"; publish escape/root "$WORK/root" >/dev/null
USER_IMAGE=${PUBLISHED[1]} ROOT_IMAGE=${PUBLISHED[3]}
remember_images

# attack NAME WANTED_EXIT IMAGE "MODE [ARGUMENT]..." [FLAG...]: one turn; what it printed is in $WORK/text.
attack() {
    local name=$1 want=$2 image=$3 words=() word argv=(); read -ra words <<<"$4"; shift 4
    for word in "${words[@]}"; do argv+=("--argv=$word"); done
    BEGAN=$EPOCHREALTIME
    cf "$name" "$want" run --prompt x --name escape --image "$image" --pull never --entrypoint /opt/escape/bin/escape \
        --protocol oneshot-v1 --prompt-transport stdin --output-mode text "${argv[@]}" "$@"
    TOOK_MS=$(((${EPOCHREALTIME/./} - ${BEGAN/./}) / 1000))
    jq -r '.observation.payload.content? // empty' "$WORK/out" >"$WORK/text"
    tail -n 1 "$WORK/out" | jq .result >"$WORK/result"
    check "$name: teardown is proven" jq -e '.teardown.proven and (.teardown.left|length) == 0' "$WORK/result"
}
text() { if grep -qF -- "$2" "$WORK/text"; then ok "$1: '$2'"; else bad "$1: no '$2'" "$(tail -n 5 "$WORK/text")"; fi; }
blames() { check "$1" jq -e --arg type "$2" '.error.type == $type and .error.blame == "harness"' "$WORK/result"; }

# A service of the host, tried at each of its addresses, and the socket of the Engine itself.
listen() { # any listener will do
    "$B/tests/support/registry" --directory "$WORK" >"$WORK/listener" 2>/dev/null & LISTENER=$!
    for _ in $(seq 50); do [ -s "$WORK/listener" ] && break; sleep 0.1; done
    LISTENING=$(head -n 1 "$WORK/listener")
}
listen
targets="unix:${DOCKER_HOST#unix://} tcp:$LISTENING"
for address in $(ip -4 -o addr show 2>/dev/null | awk '{sub("/.*", "", $4); print $4}' | head -n 6); do
    targets+=" tcp:$address:${LISTENING##*:}"
done
for image in "user $USER_IMAGE" "root $ROOT_IMAGE"; do
    who=${image%% *}
    attack "probe as $who" 0 "${image#* }" "probe $targets"
    text "probe as $who" "probe: over"
    check "probe as $who: some hundred attempts were made" test "$(grep -c ': denied in' "$WORK/text")" -ge 93
    if grep -q ALLOWED "$WORK/text"; then bad "probe as $who: nothing is allowed" "$(grep ALLOWED "$WORK/text")"; else
        ok "probe as $who: nothing is allowed"; fi
    check "probe as $who: pid 1 is out of reach, by the 32-bit table too" test "$(grep -cE '(pid 1|everybody)(, [a-z0-9 ]+)?: denied.*Operation not permitted' "$WORK/text")" -ge 12
    check "probe as $who: each denial came within a second" test -z "$(grep -E 'denied in [0-9]{4,} ms' "$WORK/text")"
    check "probe as $who: the listener of the host was tried and not reached" grep -q "tcp ${LISTENING%:*} port ${LISTENING##*:}: denied" "$WORK/text"
    grep -o '.*SKIPPED.*' "$WORK/text" | sed "s/^/SKIPPED probe as $who: /"
done
kill $LISTENER; wait $LISTENER 2>/dev/null

# Process trees that ignore TERM, in sessions of their own, holding stdout.
MARK=$$-$RANDOM # this very test's: another may run beside it
dead() { ! grep -qsz "^CF_ESCAPE=$MARK" /proc/[0-9]*/environ; }
grace=2000
within() { check "$1: the verdict came within $2 ms (it took $TOOK_MS)" test "$TOOK_MS" -le "$2"; }
slack=$((2000 + 500 * $(awk '{print int($1)}' /proc/loadavg))) # provisioning, on a busy machine
attack "a tree, and a deaf harness" 1 "$USER_IMAGE" "tree 20" --turn-timeout 2s --grace 2s --env CF_ESCAPE=$MARK
blames "a tree, and a deaf harness: the turn's deadline" runtime.turn_deadline_exceeded
within "a tree, and a deaf harness" $((2000 + grace + 1000 + slack))
check "a tree, and a deaf harness: all are dead" dead
attack "a tree whose harness has ended" 1 "$USER_IMAGE" "tree-exit 20" --turn-timeout 60s --grace 2s --env CF_ESCAPE=$MARK
within "a tree whose harness has ended" $((grace + 1000 + slack))
check "a tree whose harness has ended: all are dead" dead
attack "a tree whose harness crashes" 1 "$USER_IMAGE" "tree-crash 20" --turn-timeout 60s --grace 2s --env CF_ESCAPE=$MARK
within "a tree whose harness crashes" $((grace + 1000 + slack))
check "a tree whose harness crashes: all are dead" dead
attack "everything stopped" 1 "$USER_IMAGE" "stop-all" --turn-timeout 2s --grace 2s --env CF_ESCAPE=$MARK
within "everything stopped" $((2000 + grace + 1000 + slack))
check "everything stopped: all are dead" dead
attack "a chain of sessions" 1 "$USER_IMAGE" "flee 100" --turn-timeout 2s --grace 2s --env CF_ESCAPE=$MARK
check "a chain of sessions: all are dead" dead
"$CF" run --prompt x --name escape --image "$USER_IMAGE" --pull never --entrypoint /opt/escape/bin/escape --protocol oneshot-v1 \
    --prompt-transport stdin --output-mode text --argv=tree --argv=20 --grace 2s --env CF_ESCAPE=$MARK >"$WORK/out" 2>"$WORK/err" & pid=$!
for _ in $(seq 300); do grep -q "turn ..." "$WORK/err" && break; sleep 0.02; done
sleep 0.5; BEGAN=$EPOCHREALTIME; kill -INT $pid; got=0; wait $pid || got=$?
TOOK_MS=$(((${EPOCHREALTIME/./} - ${BEGAN/./}) / 1000))
check "a tree, interrupted: exit 130" test $got = 130
within "a tree, interrupted" $((grace + 1000 + slack))
check "a tree, interrupted: all are dead" dead

# Using things up: cf-init answers all the same.
attack "2,000 pipes" 0 "$USER_IMAGE" "pipes 2000"
text "2,000 pipes" "2000 pipes"
attack "a full /tmp" 0 "$USER_IMAGE" "fill-tmp" --memory 64m
text "a full /tmp" "then No space left on device"
attack "pid 1's program replaced by a root" 0 "$ROOT_IMAGE" "replace" --prompt y
check "pid 1's program replaced by a root: it was, in both turns, and is not run again" test "$(grep -c 'cf-init: replaced' "$WORK/text")" = 2
attack "pid 1's program replaced by a user" 0 "$USER_IMAGE" "replace"
text "pid 1's program replaced by a user" "cf-init: Permission denied"
attack "pid 1's score raised by a root" 0 "$ROOT_IMAGE" "raise-score"
text "pid 1's score raised by a root" "pid 1's score: raised"
text "pid 1's score raised by a root" "pid 1's score: taken back"
attack "all memory filled with files" 1 "$USER_IMAGE" "drown" --memory 64m --turn-timeout 20s
check "all memory filled with files: the harness was ended for it, pid 1 was not" jq -e '.harness.exit.oom == "yes" and .harness.exit.signal == 9' "$WORK/result"
attack "pid 1 goes first" 1 "$ROOT_IMAGE" "drown" --memory 64m --turn-timeout 20s
blames "pid 1 goes first" runtime.harness_failed
check "pid 1 goes first: that it was pid 1 is told" jq -e '.error.message | test("out of memory and its pid 1 was ended .limit 64 MiB")' "$WORK/result"
attack "a flood of half-open requests" 0 "$USER_IMAGE" "flood 600"
text "a flood of half-open requests" "connections took bytes"
attack "forged frames" 0 "$USER_IMAGE" "forge"
text "forged frames" "forged"
attack "a file of the host's, laid over the image by the engine" 1 "$ROOT_IMAGE" "grow /etc/hosts 64" --disk 16m --turn-timeout 20s
blames "a file of the host's: its growth counts" budget.exceeded
check "nothing of all that lives" dead
audit "escape"
unpublish
finish

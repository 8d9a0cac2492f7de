#!/usr/bin/env bash
# Interrupts in every phase end in the same proven teardown; SIGKILL leaves what reap finds.
. tests/integration/lib.sh

# interrupt NAME SIGNAL AFTER_LINE: the signal is sent when stderr shows AFTER_LINE.
interrupt() {
    local name=$1 signal=$2 line=$3 pid got=0 i
    "$CF" test oci "${FAULT[@]}" --json >"$WORK/out" 2>"$WORK/err" & pid=$!
    for i in $(seq 200); do grep -q "$line" "$WORK/err" && break; sleep 0.02; done
    kill -"$signal" $pid
    wait $pid || got=$?
    if [ $got = 130 ]; then ok "$name: exit 130"; else bad "$name: exit $got, wanted 130" "$(tail -n 5 "$WORK/err")"; fi
    is "$name: one document, teardown proven" '.exit_code == 130 and .teardown.proven'
    audit "$name"
}
for signal in INT TERM HUP; do
    fault stall; interrupt "SIG$signal in the turn" $signal "turn ..."
done
fault stall
interrupt "SIGINT while the engine is asked" INT "engine ..."
interrupt "SIGINT while the image is built" INT "image ..."
interrupt "SIGINT while the sandbox is made" INT "sandbox ..."
fault_acp ignore-term; interrupt "SIGINT in the handshake" INT "session ..."

# A second SIGINT hurries and still tears down.
fault_acp ignore-term-acp; fault stall
"$CF" test oci "${FAULT[@]}" --json >"$WORK/out" 2>"$WORK/err" & pid=$!
for i in $(seq 200); do grep -q "turn ..." "$WORK/err" && break; sleep 0.02; done
kill -INT $pid; sleep 0.1; kill -INT $pid; got=0; wait $pid || got=$?
check "two SIGINTs: exit 130" test $got = 130
is "two SIGINTs: teardown proven" '.teardown.proven'
audit "two SIGINTs"

# SIGKILL: the dead man's switch stops the container within a second, reap removes what is left.
for line in "image ..." "sandbox ..." "session ..." "turn ..."; do
    fault stall
    "$CF" test oci "${FAULT[@]}" --json >"$WORK/out" 2>"$WORK/err" & pid=$!
    for i in $(seq 400); do grep -q "$line" "$WORK/err" && break; sleep 0.02; done
    kill -9 $pid; wait $pid 2>/dev/null
    sleep 1.5
    running=$(engine "/containers/json?filters=%7B%22label%22%3A%5B%22com.checkfu.runner%22%5D%7D" | jq length)
    check "SIGKILL at '$line': nothing runs a second later" test "$running" = 0
    cf "SIGKILL at '$line': reap" 0 reap --json
    audit "SIGKILL at '$line'"
done
cf "ps holds nothing" 0 ps --json
sleep 6; "$CF" reap >/dev/null 2>&1 # lock files younger than a few seconds are not judged
check "no lock file of a dead run is left in the state folder" test -z "$(ls "$CFRUNNER_STATE_DIR/runs")"
check "no registry folder is left in the state folder" test -z "$(find "$CFRUNNER_STATE_DIR" -name 'registry-*' | head -n 3)"

# Two at once do not touch each other.
fault proper
"$CF" test oci "${FAULT[@]}" --json --quiet >"$WORK/a" 2>/dev/null & a=$!
"$CF" test oci "${ACP[@]}" --json --quiet >"$WORK/b" 2>/dev/null & b=$!
"$CF" test oci "${ONESHOT[@]}" --json --quiet >"$WORK/c" 2>/dev/null & c=$!
wait $a; ra=$?; wait $b; rb=$?; wait $c; rc=$?
check "three at once are green" test "$ra$rb$rc" = 000
audit "three at once"
finish

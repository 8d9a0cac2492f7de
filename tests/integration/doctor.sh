#!/usr/bin/env bash
# cfrunner doctor on this machine: fit on the Engine that answers, and exit 3 with the next step where a run
# could not work. Nothing of its trial stays, whatever stops it.
. tests/integration/lib.sh

conforms() { jq -s 'if length == 1 then .[0] else error("not one document") end' "$WORK/out" >"$WORK/report.json" &&
    "$CF" schema check --schema proto/doctor.schema.json "$WORK/report.json" | jq -e .valid; }
line() { printf '[.lines[]|select(.id=="%s").status]==["%s"]' "$1" "$2"; }
counted='.ok == ([.lines[]|select(.status=="ok")]|length) and .warnings == ([.lines[]|select(.status=="warning")]|length) and .blocking == ([.lines[]|select(.status=="blocking")]|length)'

cf "doctor" 0 doctor --json
check "its report conforms to its schema" conforms
is "it is fit" '.fit and .exit_code == 0 and .blocking == 0 and .tried'
is "its lines are counted" "$counted"
for id in engine api permission place builder cgroup seccomp sandbox architecture clock disk leftovers state; do
    is "a line: $id" "[.lines[]|select(.id==\"$id\")]|length == 1"
done
is "a next step stands where something is wrong, and nowhere else" 'all(.lines[]; (.next == null) == (.status == "ok"))'
is "the engine's own version" ".engine.version == \"$(engine /version | jq -r .Version)\""
is "the storage driver is the engine's" "[.lines[]|select(.id==\"storage\").fact|contains(\"$(engine /info | jq -r .Driver)\")]|any"
audit "doctor"
check "no lock file stays" test -z "$(ls "$CFRUNNER_STATE_DIR/runs")"

cf "for eyes" 0 doctor --plain
check "it fits 80 columns" test "$(awk '{ if (length($0) > m) m = length($0) } END { print m }' "$WORK/out")" -le 80
check "it is ASCII" sh -c "! LC_ALL=C grep -q '[^ -~]' '$WORK/out'"
check "the verdict is last" sh -c "tail -n 1 '$WORK/out' | grep -q '^ FIT .*exit 0'"

cf "only looking" 0 doctor --no-trial --json
is "nothing was tried" '.tried == false and ([.lines[]|select(.id=="sandbox" or .id=="builder")]|length) == 0'

# ---- what is in the way ----------------------------------------------------------------------------

cf "no engine" 3 doctor --engine unix:///nowhere/docker.sock --json
check "no engine: conforms" conforms
is "no engine: blocks, with the next step" "$(line engine blocking) and .fit == false and .engine == null and (.lines[0].next|length) > 0"
is "no engine: counted" "$counted"
cf "no engine, for eyes" 3 doctor --engine unix:///nowhere/docker.sock --plain
says "no engine, for eyes" "no run can work here"
: >"$WORK/file"
cf "not a socket" 3 doctor --engine "unix://$WORK/file" --json
is "not a socket: said so" '[.lines[].fact|contains("not a socket")]|any'

CFRUNNER_STATE_DIR=$WORK/file cf "a state folder that is a file" 3 doctor --json
is "a state folder that is a file: blocks" "$(line state blocking) and $(line engine ok)"

if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null && [ "${DOCKER_HOST#unix://}" != "$DOCKER_HOST" ]; then
    mkdir -m 755 "$WORK/open" && cp "$CF" "$WORK/open/cfrunner" && chmod 711 "$WORK"
    got=0; CFRUNNER_STATE_DIR=$WORK/open/none setpriv --reuid=65534 --regid=65534 --clear-groups "$WORK/open/cfrunner" doctor --json >"$WORK/out" 2>"$WORK/err" || got=$?
    check "a user who may not: exit 3 (it is $got)" test "$got" = 3
    is "a user who may not: a matter of permission" "$(line permission blocking)"
else echo "SKIPPED doctor as a user who may not: needs root, setpriv and a unix socket"; fi

# ---- an engine that fails under the trial -------------------------------------------------------------

spoiled() { # spoiled NAME EXIT METHOD TEXT FAULT [STATUS [SKIP [TIMES]]]
    local name=$1 want=$2 pid url="" _; shift 2
    : >"$WORK/spoil" # or the last one's answer is read
    "$B/tests/support/spoil" "$DOCKER_HOST" "$@" >"$WORK/spoil" & pid=$!
    for _ in $(seq 200); do url=$(head -n 1 "$WORK/spoil"); [ -z "$url" ] || break; sleep 0.02; done
    cf "$name" "$want" doctor --engine "$url" --json
    kill $pid 2>/dev/null; wait $pid 2>/dev/null
}
spoiled "a create refused" 3 POST /containers/create status 500
is "a create refused: the sandbox's line blocks" "$(line sandbox blocking) and $(line builder ok)"
audit "a create refused"
spoiled "an import refused" 3 POST fromSrc status 500
is "an import refused: blocks" "$(line sandbox blocking)"
spoiled "no builder" 0 POST /build status 501
is "no builder: worth a look, --image still works" "$(line builder warning) and $(line sandbox ok) and .fit"
audit "no builder"

# ---- what others left, and what the doctor leaves -------------------------------------------------------

fault stall
"$CF" test oci "${FAULT[@]}" --json >"$WORK/run" 2>"$WORK/run.err" & pid=$!
for _ in $(seq 600); do grep -q "turn \.\.\." "$WORK/run.err" && break; sleep 0.05; done
kill -KILL $pid; wait $pid 2>/dev/null
cf "after a run that was killed" 0 doctor --no-trial --json
is "its remains are told" "$(line leftovers warning) and ([.lines[]|select(.id==\"leftovers\").next]==[\"cfrunner reap\"])"
cf "the next step" 0 reap
cf "after that" 0 doctor --no-trial --json
is "nothing is left" "$(line leftovers ok)"
audit "after the reap"

# Interrupted and killed in the middle of its trial.
"$CF" doctor --json >"$WORK/out" 2>"$WORK/err" & pid=$!
sleep 0.2; kill -INT $pid; got=0; wait $pid || got=$?
check "interrupted: 130, or done before (it is $got)" test $got = 130 -o $got = 0
audit "interrupted"
"$CF" doctor --json >/dev/null 2>&1 & pid=$!
sleep 0.4; kill -KILL $pid; wait $pid 2>/dev/null
sleep 3 # the engine ends what it was at
cf "reap after a doctor that was killed" 0 reap
audit "killed"
finish

#!/usr/bin/env bash
# A recorded run is played again without an engine: the same observations to the byte, the same verdicts,
# the same exit; and a recording that was cut, changed or filled by a killed run says so.
. tests/integration/lib.sh
REC=$WORK/rec; mkdir "$REC"

# The scripted agent, and the reference harness with more arguments.
script() { SCRIPT=(--name script --build-context "$CTX/acp-script" --entrypoint /opt/script/bin/acp-script
    --protocol acp-v1 "--arg=/opt/script/wire/$1.acps"); }
plain() { AGENT=("${ACP[@]}"); local arg; for arg; do AGENT+=("--arg=$arg"); done; }
type_is() { printf '[.[] | .observation | select(.type == "observation.%s") | .payload]' "$1"; }

# told FILE: each observation with its number and turn, bytes as they are (times may differ by what
# passed between a record and its observation)
told() { grep '"observation":{' "$1" | sed -E 's/^\{"seq":([0-9]+),"at_ms":[0-9]+,/\1 /'; }
# again NAME WANTED: the recording NAME says what the live run said (in $WORK/NAME.nd).
again() {
    cf "$1: replayed" "$2" replay "$REC/$1.cfr"
    told "$WORK/$1.nd" >"$WORK/live"; told "$WORK/out" >"$WORK/replayed"
    check "$1: the same observations to the byte" cmp "$WORK/live" "$WORK/replayed"
    jq -c '.observation // empty' "$WORK/$1.nd" >"$WORK/live"; jq -c '.observation // empty' "$WORK/out" >"$WORK/replayed"
    check "$1: and as jq reads them" cmp "$WORK/live" "$WORK/replayed"
    tail -n 1 "$WORK/$1.nd" | jq -cS .result.grammar >"$WORK/live"; tail -n 1 "$WORK/out" | jq -cS .result.grammar >"$WORK/replayed"
    check "$1: the same verdicts" cmp "$WORK/live" "$WORK/replayed"
    check "$1: and it says so" sh -c "tail -n 1 '$WORK/out' | jq -e '.result | .same_as_recorded and .complete and .error == null'"
    check "$1: whole by itself" sh -c "'$CF' validate recording '$REC/$1.cfr' | jq -e '.valid and .complete and .torn_bytes == 0'"
}
# record NAME WANTED FLAGS...: a run, recorded, and played again
record() {
    local name=$1 want=$2; shift 2
    cf "$name" "$want" run "$@" --record "$REC/$name.cfr"
    cp "$WORK/out" "$WORK/$name.nd"
    again "$name" "$want"
}
has() { if told "$WORK/$1.nd" | grep -q "$2"; then ok "$1: has $2"; else bad "$1: no $2" "$(head -c 2000 "$WORK/$1.nd")"; fi; }

# ---- one-shot --------------------------------------------------------------------------------------
record oneshot 0 "${ONESHOT[@]}" --prompt "first question" --prompt "second question" --env HARNESS_SECRET=planted-value-1
has oneshot file_changed
check "the file is its owner's alone" test "$(stat -c %a "$REC/oneshot.cfr")" = 600
check "its digest is in the result" test "sha256:$(sha256sum <"$REC/oneshot.cfr" | cut -d' ' -f1)" = "$(tail -n 1 "$WORK/oneshot.nd" | jq -r .result.recording.digest)"
tail -n 1 "$WORK/oneshot.nd" | jq -c .result >"$WORK/result.json"
check "the result conforms to its schema" sh -c "'$CF' schema check --schema proto/run-result.schema.json '$WORK/result.json' | jq -e .valid"
fault exit3; record fails 1 "${FAULT[@]}" --prompt x
has fails observation.failed
fault segv; record dies 1 "${FAULT[@]}" --prompt x
fault print-lots 24; record lots 0 "${FAULT[@]}" --prompt x
check "much text: all of it was recorded" test "$(stat -c %s "$REC/lots.cfr")" -ge $((24 * 1024 * 1024))
if ! readelf -l "$(command -v busybox || echo /none)" 2>/dev/null | grep -q INTERP && command -v busybox >/dev/null; then
    mkdir "$WORK/context"; cp "$(command -v busybox)" "$WORK/context/busybox"
    printf 'FROM scratch\nCOPY busybox /bin/busybox\nCOPY busybox /bin/sh\nUSER 10001:10001\n' >"$WORK/context/Dockerfile"
    sh_run() { L=(--name t --build-context "$WORK/context" --working-directory /workspace --protocol oneshot-v1 --entrypoint /bin/sh
        --prompt-transport stdin --output-mode text --argv=-c "--argv=$1"); }
    # What the harness itself gives away is overwritten; what it was told is nowhere else.
    sh_run 'cat; echo "$HARNESS_SECRET $OPENAI_API_KEY"; echo "$CHECKFU_MODEL_TOKEN"'
    cf "a harness that gives its secrets away" 0 run "${L[@]}" --prompt planted-prompt --env HARNESS_SECRET=planted-value-2 --record "$REC/leak.cfr"
    token=$(jq -r '.observation.payload.content // empty' "$WORK/out" | grep -v planted | head -n 1)
    check "its token was in its words" test "${#token}" -ge 16
    check "no planted value is in the recording" sh -c "! grep -qa planted-value '$REC/leak.cfr'"
    check "no token is in the recording" sh -c "! grep -qaF '$token' '$REC/leak.cfr'"
    cf "leak: replayed" 0 replay "$REC/leak.cfr"
    check "leak: it says how much was overwritten" sh -c "tail -n 1 '$WORK/out' | jq -e '.result.masked == 3'"
    sh_run 'cat >/dev/null; echo before; echo told >file; sleep 300'
    # hooks, and a working directory that changes beside what the harness says
    sh_run 'cat >/dev/null; echo one; mkdir d; echo two >d/b'
    record hooked 0 "${L[@]}" --prompt x --prompt y --hook-post-materialize 'echo hooked-here'
    has hooked lifecycle_hook
    # a journal: the digest that is offered is the file's
    "$CF" correspond keygen --out "$WORK/ada.key" >"$WORK/ada.pub"; jq -s . "$WORK/ada.pub" >"$WORK/keyring"
    "$CF" correspond journal init "$WORK/j" --project 11111111-2222-4333-8444-555555555555 --keyring "$WORK/keyring" >/dev/null
    record journaled 0 "${L[@]}" --prompt x --journal "$WORK/j" --identity "$WORK/ada.key" --repository-id repo --thread-id t --claim-path src
    "$CF" correspond journal list "$WORK/j" --limit 200 | jq -r '.events[].event | select(.kind == "artifact.offer").body | tostring' >"$WORK/offers"
    check "the recording's digest is offered in the journal" grep -q "$(sha256sum <"$REC/journaled.cfr" | cut -d' ' -f1)" "$WORK/offers"
    check "before the release" sh -c "'$CF' correspond journal list '$WORK/j' --limit 200 | jq -e '[.events[].event.kind] | .[-3:] == [\"artifact.offer\", \"claim.release\", \"close\"]'"
    check "and the result says so" sh -c "tail -n 1 '$WORK/journaled.nd' | jq -e '.result.correspondence | .recording_offered and .complete'"
else
    echo "SKIPPED a harness that is a shell: no static busybox (apt-get install busybox-static)"
fi

# ---- acp -------------------------------------------------------------------------------------------
plain --declare=steer,interrupt,subagents
record declared 0 "${AGENT[@]}" --prompt one --prompt two --steer-after 1:left
plain --ask-permission
record permission-end 0 "${AGENT[@]}" --prompt x --prompt y --permission end
has permission-end requires_action
plain --use-fs
record fs 0 "${AGENT[@]}" --prompt x --fs
script steer-refused-two; record steered 0 "${SCRIPT[@]}" --prompt a --steer-after 200:left --steer-after 201:right --prompt c
has steered observation.steering
script cancel-next; record canceled 0 "${SCRIPT[@]}" --prompt a --prompt b --cancel-after 300ms
script drain; record drained 0 "${SCRIPT[@]}" --prompt a --interrupt-after 300ms
script subagents; record subagents 0 "${SCRIPT[@]}" --prompt a
has subagents subg_
script cuts; record cuts 0 "${SCRIPT[@]}" --prompt a
script update-before-session; record early 0 "${SCRIPT[@]}" --prompt a
script late-updates; record late 0 "${SCRIPT[@]}" --prompt a
script unknown-update; record broken 1 "${SCRIPT[@]}" --prompt a
script last-frame-open; record open-end 0 "${SCRIPT[@]}" --prompt a
script steer-malformed; record malformed 1 "${SCRIPT[@]}" --prompt a --steer-after 200:left
script version-2; record version 1 "${SCRIPT[@]}" --prompt a
check "another protocol version has no ready" sh -c "! grep -q observation.ready '$WORK/version.nd'"

# ---- the diagnostic --------------------------------------------------------------------------------
cf "test oci" 0 test oci "${ACP[@]}" --json --record "$REC/test.cfr"
cf "test oci: replayed" 0 replay "$REC/test.cfr"
check "test oci: its verdict is there" sh -c "tail -n 1 '$WORK/out' | jq -e '.result | .same_as_recorded and .diagnostic.status == \"passed\"'"
fault exit3
cf "test oci, wrong harness" 1 test oci "${FAULT[@]}" --json --record "$REC/test1.cfr"
cf "test oci, wrong harness: replayed" 1 replay "$REC/test1.cfr"

# ---- refused, cut, changed ---------------------------------------------------------------------------
cf "ephemeral" 2 run "${ACP[@]}" --prompt x --retention ephemeral_zdr --record "$REC/none.cfr"
says "ephemeral" "a recording outlives the run"
check "ephemeral: no file" test ! -e "$REC/none.cfr"
cf "nowhere" 2 run "${ACP[@]}" --prompt x --record /nonexistent/a.cfr
cf "no regular file" 2 run "${ACP[@]}" --prompt x --record /dev/null
head -c 9000 "$REC/oneshot.cfr" >"$REC/cut.cfr"
cf "cut" 4 replay "$REC/cut.cfr"
says "cut" "the run was cut short"
told "$WORK/out" >"$WORK/replayed"; told "$WORK/oneshot.nd" | head -n "$(wc -l <"$WORK/replayed")" >"$WORK/live"
check "cut: up to there the same" cmp "$WORK/live" "$WORK/replayed"
check "cut: something was told" test -s "$WORK/replayed"
cp "$REC/oneshot.cfr" "$REC/changed.cfr"; printf X | dd of="$REC/changed.cfr" bs=1 seek=9000 conv=notrunc 2>/dev/null
cf "changed" 2 replay "$REC/changed.cfr"
says "changed" "was changed or damaged"
cf "changed: validate" 2 validate recording "$REC/changed.cfr"
printf 'no recording, but text of some length' >"$REC/text.cfr"
cf "no recording" 2 replay "$REC/text.cfr"
cf "no file" 2 replay "$REC/nothing.cfr"

# ---- a killed run ------------------------------------------------------------------------------------
script cancel-deaf
"$CF" run "${SCRIPT[@]}" --prompt a --record "$REC/killed.cfr" >"$WORK/killed.nd" 2>/dev/null & pid=$!
for _ in $(seq 300); do grep -q agent_message "$WORK/killed.nd" && break; sleep 0.1; done
sleep 0.5; kill -9 $pid; wait $pid 2>/dev/null
cf "killed: replayed" 4 replay "$REC/killed.cfr"
told "$WORK/out" >"$WORK/replayed"; told "$WORK/killed.nd" >"$WORK/live"
check "killed: what it had told is there" sh -c "head -n \$(wc -l <'$WORK/live') '$WORK/replayed' | cmp - '$WORK/live' && test -s '$WORK/live'"
check "killed: no result" sh -c "tail -n 1 '$WORK/out' | jq -e '.result | .recorded == null and .complete == false and .same_as_recorded == null'"
cf "killed: valid up to its last whole record" 0 validate recording "$REC/killed.cfr"
sleep 1; cf "reap" 0 reap --json

# ---- a full disk -------------------------------------------------------------------------------------
mkdir "$WORK/small"
if mount -t tmpfs -o size=64k tmpfs "$WORK/small" 2>/dev/null; then
    fault print-lots 1
    cf "a disk that is full" 0 run "${FAULT[@]}" --prompt x --record "$WORK/small/a.cfr"
    check "a disk that is full: told, and no more than that" sh -c "tail -n 1 '$WORK/out' | jq -e '.result | .status == \"ok\" and ([.findings[] | select(.id == \"recording\")] | length == 1) and (.recording | .complete == false and .digest == null and (.error | length > 0))'"
    cf "a disk that is full: readable up to there" 0 validate recording "$WORK/small/a.cfr"
    umount "$WORK/small"
else
    echo "SKIPPED a full disk: no tmpfs can be mounted here"
fi

# ---- kept from other days, and from elsewhere -----------------------------------------------------------
for file in fixtures/recordings/*.cfr; do
    name=$(basename "$file" .cfr)
    cf "kept $name" "$(cat "${file%.cfr}.exit")" replay "$file"
    told "$WORK/out" >"$WORK/replayed"
    check "kept $name: the observations of then" cmp "${file%.cfr}.told" "$WORK/replayed"
    check "kept $name: the verdict of then" sh -c "tail -n 1 '$WORK/out' | jq -e .result.same_as_recorded"
done
if ls ../shared/data/acp-recordings/*.ndjson >/dev/null 2>&1; then
    for file in ../shared/data/acp-recordings/*.ndjson; do
        name=$(basename "$file" .ndjson); want=0; [ "$name" != codex-acp-badkey ] || want=1
        cf "wire $name" $want replay --wire acp "$file"
        check "wire $name: one terminal" sh -c "jq -es '[.[].observation.type? | select(. == \"observation.finished\" or . == \"observation.failed\")] | length == 1' '$WORK/out'"
    done
else
    echo "SKIPPED recorded agents: ../shared/data/acp-recordings is not here"
fi
printf '%s\n' '{"t":1,"dir":"c2a","line":"a prompt"}' '{"t":5,"dir":"a2c","line":"hello"}' '{"t":9,"dir":"c2a","line":"more"}' '{"t":12,"dir":"a2c","line":"again"}' >"$WORK/text.ndjson"
cf "wire oneshot, text" 0 replay --wire oneshot --output-mode text "$WORK/text.ndjson"
check "wire oneshot: two turns" sh -c "jq -es '[.[] | select(.observation.type? == \"observation.finished\").turn] == [1, 2]' '$WORK/out'"
audit "replay"
finish

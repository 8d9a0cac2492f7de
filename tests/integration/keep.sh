#!/usr/bin/env bash
# What a host takes out of a run while it lives (collect), and what it goes on from later (checkpoint, restore): through
# the public door by a host that listens (tests/support/drive), and on the command line. The harness is the image's own
# shell, or the reference agent with custody of its state outside.
. tests/integration/lib.sh
. tests/support/publish.sh
DRIVE=$B/tests/support/drive
command -v busybox >/dev/null && ! readelf -l "$(command -v busybox)" | grep -q INTERP || { echo "SKIPPED keep: no static busybox (apt-get install busybox-static)"; ok "nothing to do"; finish; exit 0; }

nd() { if jq -es "$2" "$WORK/out" >/dev/null 2>&1; then ok "$1"; else bad "$1: not $2" "$(head -c 2500 "$WORK/out")"; fi; }
drive() { local name=$1; shift; if timeout -k 5 60 env "$@" >"$WORK/out" 2>"$WORK/err"; then ok "$name: ran"; else bad "$name: ran" "$(cat "$WORK/err"; head -c 2000 "$WORK/out")"; fi; }
refuses() { nd "$1: refused: $2" "[.[] | .refused.text // empty | select(contains(\"$2\"))] | length == 1"; }
plan() { "$CF" test oci "${L[@]}" --print-plan "$@" >"$WORK/plan"; }
collect() { printf '{"directory":"%s"%s}' "$WORK/$1" "${2-}"; }
conforms() { check "$1" sh -c "'$CF' schema check --schema '$2' '$3' | jq -e .valid"; }
jq '.properties.collected.items' proto/run-result.schema.json >"$WORK/collected.schema.json"

mkdir -p "$WORK/image/bin" "$WORK/image/opt/custom/bin" "$WORK/image/opt/checkfu/bin"
cp "$(command -v busybox)" "$WORK/image/bin/busybox"; ln "$WORK/image/bin/busybox" "$WORK/image/bin/sh"
cp "$B/acp-agent" "$WORK/image/opt/custom/bin/"; cp "$B/checkfu-oneshot" "$WORK/image/opt/checkfu/bin/"
printf 'FROM scratch\nCOPY . /\nUSER 10001:10001\nWORKDIR /workspace\n' >"$WORK/image/Dockerfile"
check "the image is made" publish keep/image "$WORK/image"
remember_images
BASE=(--name keep --image "$REF" --pull never --working-directory /workspace)
shell() { L=("${BASE[@]}" --protocol oneshot-v1 --entrypoint /bin/sh --argv=-c "--argv=$1" --argv=sh '--argv={resume_flag}' --resume-flag=--go-on
    --prompt-transport stdin --output-mode stream_json); }
message='echo "{\"type\":\"observation.agent_message\",\"payload\":{\"content\":\"now\"}}"'
finished='echo "{\"type\":\"observation.finished\",\"payload\":{\"stop_reason\":\"end_turn\"}}"'

# ---- collect, in the middle of a turn -----------------------------------------------------------------

shell "mkdir -p good/deep sub; echo a >good/deep/a; echo late >sub/g; ln -s /etc/passwd link; ln -s / sub/root; mkfifo pipe; $message; sleep 50; $finished"
plan
drive "in the middle of a turn" DRIVE_COLLECT="$(collect c1)" DRIVE_WHEN=message "$DRIVE" "$WORK/plan" x
nd "the turn was in flight, and went on until the host ended it" '[.[] | select(.collected, .turn) | keys[0]] == ["collected", "turn"] and (.[] | select(.turn) | .turn.stop_reason == "interrupted")'
nd "its report" '.[] | select(.collected) | .collected | .error == null and .complete == false and .files == 2 and .bytes == 7'
nd "what is hostile is refused and named" '.[] | select(.collected) | [.collected.refused[].path] | sort == ["link", "pipe", "sub/root"]'
nd "one at a time, and no checkpoint meanwhile" '[.[] | .second.text // empty | select(contains("one at a time"))] | length == 2'
check "the files came" test "$(cat "$WORK/c1/good/deep/a" "$WORK/c1/sub/g" | tr '\n' ' ')" = "a late "
check "nothing but folders and files" test -z "$(find "$WORK/c1" ! -type f ! -type d)"
jq -c '.collected // empty' "$WORK/out" >"$WORK/doc"; conforms "as an item of the result's collected" "$WORK/collected.schema.json" "$WORK/doc"
nd "it is not one of them" '.[-1].result.collected == [] and .[-1].result.status == "ok"'

drive "a part of it" DRIVE_COLLECT="$(collect c2 ',"path":"good"')" DRIVE_WHEN=message "$DRIVE" "$WORK/plan" x
check "only that folder's content" test "$(cd "$WORK/c2" && find . -type f)" = ./deep/a
drive "one file of it" DRIVE_COLLECT="$(collect c3 ',"path":"sub/g"')" DRIVE_WHEN=message "$DRIVE" "$WORK/plan" x
check "only that file" test "$(cat "$WORK/c3/g"; ls "$WORK/c3" | wc -l)" = "late
1"
drive "through a symlink" DRIVE_COLLECT="$(collect c4 ',"path":"sub/root"')" DRIVE_WHEN=message "$DRIVE" "$WORK/plan" x
nd "a symlink is no folder" '.[] | select(.collected) | .collected | .files == 0 and .folders == 0 and (.refused | map(.why) == ["a symlink: not followed, not made"])'
drive "a part that is not there" DRIVE_COLLECT="$(collect c5 ',"path":"good/none"')" DRIVE_WHEN=message "$DRIVE" "$WORK/plan" x
nd "says so" '.[] | select(.collected) | .collected.error | contains("there is no good/none")'
check "and its folder goes again" test ! -e "$WORK/c5"
jq '.options.limits.collect_bytes = 3' "$WORK/plan" >"$WORK/plan2"
drive "bytes are bounded" DRIVE_COLLECT="$(collect c6)" DRIVE_WHEN=message "$DRIVE" "$WORK/plan2" x
nd "what does not fit is named" '.[] | select(.collected) | .collected | .files == 1 and ([.refused[] | select(.why | contains("limit of 3"))] | length == 1)'

# ---- between turns, refusals, the end -------------------------------------------------------------------

shell "n=\$(cat n 2>/dev/null); n=\$((\${n:-0} + 1)); echo \$n >n; echo \"\$1\" >flag; $message; $finished"
plan
drive "before the first turn, in a folder that is there" DRIVE_COLLECT="$(mkdir "$WORK/c7"; collect c7)" DRIVE_WHEN=ready "$DRIVE" "$WORK/plan" x
nd "an empty one, whole" '.[] | select(.collected) | .collected | .complete and .files == 0'
drive "after two turns" DRIVE_COLLECT="$(collect c8)" "$DRIVE" "$WORK/plan" x y
check "as it stands" test "$(cat "$WORK/c8/n")" = 2
for bad in '[]|not JSON' '{}|directory is missing' '{"directory":"x"}|absolute' '{"directory":"/x","path":"../y"}|beneath' '{"directory":"/x","paths":[]}|not a member' \
    "$(collect c8)|" ; do
    drive "collect ${bad%|*}" DRIVE_COLLECT="${bad%|*}" "$DRIVE" "$WORK/plan" x
    case $bad in '[]'*) nd "collect []: refused" '[.[] | select(.refused)] | length == 1' ;;
    *'|') nd "into a folder in use: its callback says so" '.[] | select(.collected) | .collected.error | contains("not empty")' ;;
    *) refuses "collect ${bad%|*}" "${bad#*|}" ;; esac
done
shell "dd if=/dev/zero of=big bs=1M count=200 2>/dev/null; $message; sleep 50"
plan
# The disk is slower than the sandbox's end: whoever closes waits for it, and hears of it first.
drive "closed while it collects" UV_THREADPOOL_SIZE=1 DRIVE_BUSY=1500 DRIVE_CLOSE=1 DRIVE_COLLECT="$(collect c9)" DRIVE_WHEN=message "$DRIVE" "$WORK/plan" x
nd "its callback comes once, with an error, before the result" '[.[] | select(.collected, .result) | keys[0]] == ["collected", "result"] and (.[] | select(.collected) | .collected.error | contains("given up"))'
nd "and the teardown is proven" '.[-1].result.teardown.proven'
check "no part of a file is left" test ! -e "$WORK/c9"

# ---- checkpoint and restore, one-shot ---------------------------------------------------------------------

shell "n=\$(cat n 2>/dev/null); n=\$((\${n:-0} + 1)); echo \$n >n; echo \"\$1\" >flag; mkdir -p .hid; echo x >.hid/x; chmod 600 n; $message; $finished"
cf "three turns, kept" 0 run "${L[@]}" --prompt a --prompt b --prompt c --checkpoint "$WORK/k1"
conforms "its document is in its schema" proto/checkpoint.schema.json "$WORK/k1/checkpoint.json"
check "it says how far it is" jq -e '.protocol == "oneshot-v1" and .turns == 3 and .state == null and .session == null and .error == null and .collected.complete' "$WORK/k1/checkpoint.json"
check "nobody else may read it" test "$(stat -c %a "$WORK/k1" "$WORK/k1/checkpoint.json" | tr '\n' ' ')" = "700 600 "
mv "$WORK/k1" "$WORK/k2"
cf "a fourth in another sandbox, from a folder that was moved" 0 run "${L[@]}" --prompt d --restore "$WORK/k2" --checkpoint "$WORK/k3"
check "it went on" test "$(cat "$WORK/k3/files/n" "$WORK/k3/files/flag" "$WORK/k3/files/.hid/x" | tr '\n' ' ')" = "4 --go-on x "
check "modes are kept" test "$(stat -c %a "$WORK/k3/files/n")" = 600
check "turns are counted on" jq -e '.turns == 4' "$WORK/k3/checkpoint.json"
mv "$WORK/k3/files" "$WORK/elsewhere"; ln -s "$WORK/elsewhere" "$WORK/k3/files"
cf "a symlink in place of its files" 2 run "${L[@]}" --prompt e --restore "$WORK/k3"; says "a symlink in place of its files" "no folder"
plan; jq --slurpfile k "$WORK/k3/checkpoint.json" '.options.restore = $k[0]' "$WORK/plan" >"$WORK/plan2"
drive "nor does the library follow it" "$DRIVE" "$WORK/plan2" x
nd "nor does the library follow it: it says so" '.[-1].result.error.message | contains("it is a symlink")'
rm "$WORK/k3/files"; mv "$WORK/elsewhere" "$WORK/k3/files"; echo secret >"$WORK/mine"; ln -s "$WORK/mine" "$WORK/k3/files/host"
shell "cat host 2>/dev/null >copy; readlink host >>copy; $finished"
cf "a symlink among its files" 0 run "${L[@]}" --prompt e --restore "$WORK/k3" --collect "$WORK/c10"
check "was not followed on this machine" test "$(cat "$WORK/c10/copy")" = "$WORK/mine"
cf "no checkpoint there" 2 run "${L[@]}" --prompt e --restore "$WORK"; says "no checkpoint there" "run --checkpoint filled"
jq '.error = "the disk was full"' "$WORK/k3/checkpoint.json" >"$WORK/doc"; mkdir -p "$WORK/k4/files"; cp "$WORK/doc" "$WORK/k4/checkpoint.json"
cf "one that was not made" 2 run "${L[@]}" --prompt e --restore "$WORK/k4"; says "one that was not made" "was not made"
head -c 20 "$WORK/doc" >"$WORK/k4/checkpoint.json"
cf "one that was cut" 2 run "${L[@]}" --prompt e --restore "$WORK/k4"; says "one that was cut" "the file was cut or changed"
cf "into a folder in use" 2 run "${L[@]}" --prompt e --checkpoint "$WORK/k3"; says "into a folder in use" "not empty"
cf "where nothing is kept" 2 run "${L[@]}" --prompt e --checkpoint "$WORK/k5" --retention ephemeral_zdr; says "where nothing is kept" "keeps nothing"
shell "exit 3"
cf "the last turn failed" 1 run "${L[@]}" --prompt e --checkpoint "$WORK/k5"; says "the last turn failed" "no checkpoint was made"
check "nothing is made then" test ! -e "$WORK/k5"
shell "$finished"; plan --retention ephemeral_zdr
drive "the library refuses it, too" DRIVE_CHECKPOINT="$(collect k6)" "$DRIVE" "$WORK/plan" x; refuses "where nothing is kept" "keeps nothing"
L=("${BASE[@]}" --protocol oneshot-v1 --entrypoint /bin/sh --argv=-c "--argv=$finished" --prompt-transport stdin --output-mode stream_json); plan
drive "a harness that cannot be continued" DRIVE_CHECKPOINT="$(collect k6)" "$DRIVE" "$WORK/plan" x
nd "it is incompatible" '[.[] | .refused.type // empty] == ["runtime.harness_incompatible"]'
cf "nor on the command line" 2 run "${L[@]}" --prompt e --checkpoint "$WORK/k6"; says "nor on the command line" "resume flag"
check "no folder is made for what is refused" test ! -e "$WORK/k6"

# ---- checkpoint and restore, acp ---------------------------------------------------------------------------

acp() { L=("${BASE[@]}" --protocol acp-v1 --entrypoint /opt/custom/bin/acp-agent --arg=--stdio "$@"); }
acp --arg=--declare=native_checkpoint; echo kept >"$WORK/note"
cf "custody: the first run" 0 run "${L[@]}" --prompt "remember the number seven" --file "$WORK/note:note" --checkpoint "$WORK/a1"
conforms "custody: its document" proto/checkpoint.schema.json "$WORK/a1/checkpoint.json"
check "custody: state, session, turns, file" jq -e --arg f "$(cat "$WORK/a1/files/note")" '.turns == 1 and .state_turns == 1 and (.state.state | contains("number seven")) and (.session | length > 0) and $f == "kept"' "$WORK/a1/checkpoint.json"
cf "custody: the next run" 0 run "${L[@]}" --prompt "go on" --restore "$WORK/a1" --checkpoint "$WORK/a2" -vv
check "custody: the agent was given its state" grep -q 'session/new.*same_run_resume' "$WORK/err"
check "custody: it went on from there" jq -e '.turns == 2 and .state_turns == 2 and (.state.state | contains("number seven") and contains("go on"))' "$WORK/a2/checkpoint.json"
check "custody: the file came along" test "$(cat "$WORK/a2/files/note")" = kept
acp
cf "an agent without custody" 0 run "${L[@]}" --prompt "go on" --restore "$WORK/a1" --checkpoint "$WORK/a3" -vv
says "an agent without custody" "restore_state_unused"
check "an agent without custody: files alone" jq -e --arg f "$(cat "$WORK/a3/files/note")" '.state == null and .state_turns == null and $f == "kept"' "$WORK/a3/checkpoint.json"
acp --arg=--declare=native_checkpoint
cf "no state outlives a run that keeps nothing" 2 run "${L[@]}" --prompt x --checkpoint-out "$WORK/cp" --retention ephemeral_zdr; says "no state outlives a run that keeps nothing" "keeps nothing"
cf "two states" 2 run "${L[@]}" --prompt x --restore "$WORK/a1" --resume-state <(jq .state "$WORK/a1/checkpoint.json"); says "two states" "second state"
cf "of another wire" 2 run "${L[@]}" --prompt x --restore "$WORK/k3"; says "of another wire" "oneshot-v1"
plan; jq --slurpfile k "$WORK/a1/checkpoint.json" '.options.restore = $k[0]' "$WORK/plan" >"$WORK/plan2"
drive "by the host" DRIVE_CHECKPOINT="$(collect a4)" "$DRIVE" "$WORK/plan2" "once more"
nd "by the host: its document" '.[] | select(.checkpoint_made) | .checkpoint_made | .turns == 2 and (.state.state | contains("number seven")) and .error == null'
drive "closed while it is made" DRIVE_CLOSE=1 DRIVE_CHECKPOINT="$(collect a5)" "$DRIVE" "$WORK/plan2" x
nd "closed while it is made: an error, before the result" '[.[] | select(.checkpoint_made, .result) | keys[0]] == ["checkpoint_made", "result"] and (.[] | select(.checkpoint_made) | .checkpoint_made.error != null)'
jq -c '.checkpoint_made // empty' "$WORK/out" >"$WORK/doc"; conforms "closed while it is made: in its schema" proto/checkpoint.schema.json "$WORK/doc"
audit "keep"
unpublish
finish

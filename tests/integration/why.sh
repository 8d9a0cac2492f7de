#!/usr/bin/env bash
# cfrunner why: the story of a check and of a frame, from kept recordings and from a fresh one.
. tests/integration/lib.sh

REC=fixtures/recordings
lines() { check "$1" grep -qE -- "$2" "$WORK/out"; }

cf "a check of a run" 0 why terminal_observation "$REC/failed-1.0.cfr" --plain
lines "a check: mark, status, group" '^ x terminal_observation  failed  TURN$'
lines "a check: the rule" '^   rule:    each turn ends with finished'
lines "a check: what was broken" '^   broken:  the turn ended as failed: the harness exited with code 1'
lines "a check: what it rests on" '^   o2$'
lines "a check: what happened around it" '^ > o2 .* observation\.failed '
cf "a frame" 0 why f9 "$REC/drained-1.0.cfr" --plain
lines "a frame: its content" '"stopReason": "cancelled"'
lines "a frame: the request that it answers" '^   asked:   f[0-9]+, [0-9.]+ s before$'
lines "a frame: what was made of it" '^ > o3 .* observation\.finished'
lines "a frame: the checks that rest on it" '^   check:   terminal_observation passed'
cf "a request" 0 why f1 "$REC/drained-1.0.cfr" --plain
lines "a request: its answer" '^   answer:  f2, '
cf "a relay call" 0 why r1 "$REC/drained-1.0.cfr" --plain
lines "a call: its row" '^     "path": "/v1/'
cf "an observation" 0 why o2 "$REC/drained-1.0.cfr" --plain
lines "an observation: its payload" '"content": "OK"'
cf "a line of a one-shot" 0 why 1 "$REC/oneshot-1.0.cfr" --plain
cf "a line of a later turn" 0 why t2f1 "$REC/oneshot-1.0.cfr" --plain
lines "a line of a later turn: by its turn" '^ > t2f1 +[0-9.]+ s < '
check "80 columns, ASCII" sh -c "awk 'length > 80 { bad = 1 } END { exit bad }' '$WORK/out' && ! LC_ALL=C grep -q '[^ -~]' '$WORK/out'"

cf "no such thing" 2 why f9999 "$REC/drained-1.0.cfr"
says "no such thing" "checks: ready_handshake"
cf "no recording" 2 why f1 proto/run-result.schema.json; says "no recording" "is no recording"
cf "no file" 2 why f1 /nonexistent.cfr; says "no file" "No such file"
cf "no question" 2 why
head -c -1500 "$REC/drained-1.0.cfr" >"$WORK/torn.cfr"
cf "a run that was cut short" 0 why f1 "$WORK/torn.cfr"; says "a run that was cut short" "cut short"
for n in 40 300 1200 2500; do
    cp "$REC/drained-1.0.cfr" "$WORK/bent.cfr"; printf 'X' | dd of="$WORK/bent.cfr" bs=1 seek=$n conv=notrunc 2>/dev/null
    timeout 20 "$CF" why f1 "$WORK/bent.cfr" >"$WORK/out" 2>&1; got=$?
    check "a changed byte at $n is told, or lies behind" sh -c "test $got = 2 || grep -q 'damaged' '$WORK/out'"
done

# The newest recording of the folder is meant when none is named; a diagnostic's checks have their evidence.
cf "a diagnostic, recorded" 1 test oci --name script --build-context "$CTX/acp-script" --entrypoint /opt/script/bin/acp-script \
    --protocol acp-v1 --arg=/opt/script/wire/subagent-undeclared.acps --record "$WORK/run.cfr" --plain
says "the report names the command" "cfrunner why subagent_correlation"
cp "$REC/failed-1.0.cfr" "$WORK/old.cfr"; touch -d '2001-01-01' "$WORK/old.cfr" "$WORK/torn.cfr" "$WORK/bent.cfr"
root=$PWD
(cd "$WORK" && "$(cd "$root/$(dirname "$CF")" && pwd)/cfrunner" why subagent_correlation --plain) >"$WORK/out" 2>"$WORK/err"; got=$?
check "the newest of the folder" test $got = 0
lines "it says which" '^run\.cfr  acp-v1$'
lines "a diagnostic: the fix" '^   fix:     declare subagents'
lines "a diagnostic: the frame" '^   f[0-9]+ .*"_meta":\{"checkfu\.subagent"'
lines "a diagnostic: the fact" '^   /declared/capabilities$'
lines "a diagnostic: around it" '^ > f[0-9]+ .* < session/update session_info_update'
cf "a setup check" 0 why image_resolved "$WORK/run.cfr" --plain
lines "a setup check: the digest" 'sha256:[0-9a-f]{64}|sha256:[0-9a-f]{50,}'

# What a harness sent does not reach the terminal as it came.
cf "hostile words, recorded" 0 test oci --name script --build-context "$CTX/acp-script" --entrypoint /opt/script/bin/acp-script \
    --protocol acp-v1 --arg=/opt/script/wire/hostile-words.acps --record "$WORK/hostile.cfr" --quiet
for what in stdout_pollution prompt_exchange f5 f6 o2; do "$CF" why $what "$WORK/hostile.cfr"; done >"$WORK/out" 2>/dev/null
check "no control character" sh -c "! LC_ALL=C grep -q '[[:cntrl:]]' '$WORK/out'"
check "the text is there" grep -q 'owned' "$WORK/out"
audit "why"
finish

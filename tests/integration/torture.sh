#!/usr/bin/env bash
# --torture quick: the reference harness bears it, and of a harness that does not the first trouble is named.
. tests/integration/lib.sh
. tests/support/publish.sh
check "the images are made" publish torture/fault "$CTX/fault"; FAULT_IMAGE=$REF
check "the images are made" publish torture/acp "$CTX/acp-harness"; ACP_IMAGE=$REF
remember_images
# by image: without a build and a registry for each
by_image() { BY=(); local skip=0 arg; for arg in "${@:2}"; do
    if [ $skip = 1 ]; then skip=0; elif [ "$arg" = --build-context ]; then skip=1; BY+=(--image "$1" --pull never); else BY+=("$arg"); fi; done; }

conforms() { "$CF" schema check --schema proto/diagnostic-result.schema.json "$WORK/out" | jq -e .valid; }
row() { printf '[.torture.trials[]|select(.id=="%s").status]==["%s"]' "$1" "$2"; }

cf "the reference agent" 0 test oci "${ACP[@]}" --arg=--stream --torture quick --json
check "its result conforms to its schema" conforms
is "the verdict stands" '.torture.status == "passed" and .torture.first == null and ([.checks[]|select(.id=="torture").status] == ["passed"])'
is "every trial has its row, in order" '[.torture.trials[].id] == ["stdin_bytes","stdin_slow","stdin_held","stdout_bytes","stdout_stalled","stopped_at_start","stopped_at_model","model_bytes","model_coalesced","model_stalled","model_429","model_500","model_error","model_cut","model_reset","canceled_at_prompt","canceled_at_model","canceled_at_output","ended_in_sandbox","ended_in_session","ended_in_turn"]'
is "none was left out" '[.torture.trials[]|select(.status=="skipped")] == []'
is "a cut answer was told, not taken for a whole one" "$(row model_cut told) and $(row model_reset told)"
is "a canceled turn ended" "$(row canceled_at_model ended)"
is "the trouble took its time" '[.torture.trials[]|select(.id|startswith("stopped_at_model","model_429","model_stalled","stdin_held")).took_ms >= 250]|all'
is "under a minute" '.torture.took_ms < 60000'
is "the pool's teardown is in the result" '.teardown.proven and (.teardown.left|length) == 0 and ([.teardown.removed[]|select(.kind=="registry")]|length) == 2'
is "the retest keeps the flag" '.next_steps.retest.argv | index("--torture") != null'
check "each trial was said" test "$(grep -c '^cfrunner: torture ' "$WORK/err")" = 21
audit "the reference agent"

# A harness that passes without trouble, reads its prompt once, and takes a busy model's or a cut answer for good.
fault hasty; by_image "$FAULT_IMAGE" "${FAULT[@]}"
cf "a hasty reader" 1 test oci "${BY[@]}" --torture quick --json
check "a hasty reader: conforms" conforms
is "a hasty reader: the first trouble is named" '.torture.first == "stdin_bytes" and .status == "failed" and .blame == "harness" and ([.checks[]|select(.status=="failed").id] == ["torture"])'
is "a hasty reader: the check points at its trial" '[.checks[]|select(.id=="torture").evidence[0].fact] == ["/torture/trials/0/status"]'
is "a hasty reader: its checks are named" '.torture.trials[0].changed|map(.check)|index("process_exchange") != null'
is "a hasty reader: a busy model, a cut answer" "$(row model_429 changed) and $(row model_cut changed) and $(row model_reset changed)"
is "a hasty reader: bears the rest" "$(row stdout_bytes same) and $(row model_bytes same) and $(row stopped_at_model same)"
is "a hasty reader: nothing to publish" '.next_steps|has("add")|not'

fault narrate; by_image "$FAULT_IMAGE" "${FAULT[@]}"
cf "without trouble it fails already" 1 test oci "${BY[@]}" --torture quick --json
is "then nothing is tried, and that is said" '.torture.status == "skipped" and .torture.trials == [] and (.torture.reason|length) > 0 and ([.checks[]|select(.id=="torture").status] == ["skipped"])'
cf "no such level" 2 test oci "${FAULT[@]}" --torture slow --json
cf "run has no torture" 2 run "${FAULT[@]}" --prompt x --torture quick

by_image "$ACP_IMAGE" "${ACP[@]}"
"$CF" test oci "${BY[@]}" --torture quick --json >"$WORK/out" 2>"$WORK/err" & pid=$!
for _ in $(seq 600); do grep -q "torture stdin_bytes" "$WORK/err" && break; sleep 0.05; done
kill -INT $pid; got=0; wait $pid || got=$?
check "interrupted in the middle: 130 (it is $got)" test $got = 130
is "interrupted: what was not tried is told" '([.torture.trials[]|select(.summary=="interrupted")]|length) > 3 and .teardown.proven'
audit "all"
unpublish
finish

#!/usr/bin/env bash
# cfrunner run: observations as NDJSON, several turns, the result last.
. tests/integration/lib.sh

launch=("${ONESHOT[@]}")
cf "two turns" 0 run "${launch[@]}" --prompt "first question" --prompt "second question"
nd() { if jq -es "$2" "$WORK/out" >/dev/null 2>&1; then ok "$1"; else bad "$1: not $2" "$(head -c 2500 "$WORK/out")"; fi; }
nd "every line is JSON" 'length > 4'
nd "sequence numbers have no gap" '[.[].seq] == [range(1; length + 1)]'
nd "times do not run back" '[.[].at_ms] as $t | ($t | sort) == $t'
nd "ready comes first" '.[0].observation.type == "observation.ready"'
nd "two turns finished" '[.[] | select(.observation.type == "observation.finished") | .turn] == [1, 2]'
nd "the result is last and once" '(.[-1].result.status == "ok") and ([.[] | select(.result)] | length == 1)'
nd "observation lines are closed objects" '[.[:-1][] | keys == ["at_ms","observation","seq","turn"]] | all'
jq -c '.observation // empty' "$WORK/out" | while read -r line; do
    printf '%s' "$line" >"$WORK/o.json"; "$CF" validate observation "$WORK/o.json" >/dev/null || echo "$line"; done >"$WORK/wrong"
check "each observation is in the contract" test ! -s "$WORK/wrong"
jq -c '.result // empty' "$WORK/out" >"$WORK/result.json"
check "the result conforms to its schema" sh -c "'$CF' schema check --schema proto/run-result.schema.json '$WORK/result.json' | jq -e .valid"

cf "acp, two turns" 0 run "${ACP[@]}" --prompt "one" --prompt "two"
nd "acp: one ready, two terminals" '([.[] | select(.observation.type == "observation.ready")] | length == 1) and ([.[] | select(.observation.type == "observation.finished")] | length == 2)'
nd "acp: grammar holds" '[.[-1].result.grammar[] | select(.status == "failed")] | length == 0'

printf 'a prompt from a file' >"$WORK/prompt"
cf "prompt from a file" 0 run "${ACP[@]}" --prompt "@$WORK/prompt"
cf "no prompt" 2 run "${ACP[@]}"
says "no prompt" "--prompt is missing"
cf "output schema" 2 run "${ACP[@]}" --prompt x --output-schema /nonexistent

# A reader that goes away ends the run, and nothing is left.
timeout 60 "$CF" run "${ACP[@]}" --prompt x 2>/dev/null | head -n 1 >/dev/null
ok "a reader that goes away does not hang it"

# 100 MiB of text through a slow reader: every byte arrives.
fault print-lots 40
cf "40 MiB of text" 0 run "${FAULT[@]}" --prompt x --memory 256m
check "40 MiB: all of it" test "$(jq -r '.observation.payload.content // empty' "$WORK/out" | tr -d '\n' | wc -c)" -ge $((40 * 1024 * 1024))
fault print-lots 40
cf "output past its limit" 1 run "${FAULT[@]}" --prompt x --output-limit 1m
nd "output limit: budget.exceeded" '[.[] | select(.observation.type == "observation.failed") | .observation.payload.error.type] == ["budget.exceeded"]'
audit "run"
finish

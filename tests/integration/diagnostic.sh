#!/usr/bin/env bash
# The main road: both reference harnesses, end to end, on a real Engine.
. tests/integration/lib.sh

conforms() { "$CF" schema check --schema "proto/$1.schema.json" "$2" | jq -e .valid; }
status_of() { printf '[.checks[]|select(.id=="%s").status]==["%s"]' "$1" "$2"; }

# Each check rests on something, and what it points at is there.
evidence() {
    is "$1: every check has evidence" '[.checks[] | .evidence | length > 0] | all'
    is "$1: facts are where they are said to be" '. as $r | [.checks[].evidence[] | select(.fact) | . as $e
        | (.fact[1:] | split("/") | map(tonumber? // .)) as $p | ($r | getpath($p)) | (if type == "string" then . else tojson end)
        | .[:40] == $e.value[:40] or $e.value == "unsigned_local_only" or ($e.value | length > 200)] | all'
    is "$1: calls are in the ledger" '. as $r | [.checks[].evidence[] | .call // empty] - [$r.model_calls[].id] == []'
    is "$1: checks that were waited for are checks" '. as $r | [.checks[].evidence[] | .check // empty] - [$r.checks[].id] == []'
    is "$1: nothing came after the run's end" '.timings_ms.total as $t | [.checks[].evidence[] | .at_ms // 0 | . <= $t] | all'
}

cf "one-shot, stream_json, resume, schema" 0 test oci "${ONESHOT[@]}" --json
is "one-shot: status passed" '.status == "passed" and .exit_code == 0 and .blame == "none"'
is "one-shot: label" '.label == "unsigned_local_only" and .driver_version == "checkfu:oneshot-v1@1"'
for id in image_resolved sandbox_provisioned process_exchange prompt_transport output_mode model_plane_reached \
    observations_normalized resume output_schema ready_handshake terminal_observation teardown_drained; do
    is "one-shot: $id passed" "$(status_of $id passed)"
done
is "one-shot: no ACP check" '[.checks[].id] | index("initialize_handshake") == null and index("prompt_exchange") == null'
is "one-shot: next step is a retest, not a registration" '.next_steps | has("retest") and (has("add")|not)'
is "one-shot: the retest names the published image" '.next_steps.retest.argv | index("custom-oneshot@sha256:<64-hex-digest>") != null and index("--build-context") == null'
is "one-shot: teardown is proven and says what went" '.teardown.proven and (.teardown.removed|length) >= 2 and (.teardown.left|length) == 0'
is "one-shot: isolation in force" '.isolation | tostring | test("none")'
cp "$WORK/out" "$WORK/result.json"
check "one-shot: the result conforms to its schema" conforms diagnostic-result "$WORK/result.json"
evidence "one-shot"
audit "one-shot"

cf "acp" 0 test oci "${ACP[@]}" --json
is "acp: status passed" '.status == "passed" and .driver_version == "checkfu:acp-v1@1"'
for id in image_resolved sandbox_provisioned initialize_handshake session_start prompt_exchange model_plane_reached \
    observations_normalized ready_handshake terminal_observation tool_correlation teardown_drained; do
    is "acp: $id passed" "$(status_of $id passed)"
done
is "acp: never a one-shot check" '[.checks[].id] | index("resume") == null and index("output_schema") == null'
is "acp: the envelope of a non-declarer" '.capability_set | has("subagents") | not'
cp "$WORK/out" "$WORK/result.json"
check "acp: the result conforms to its schema" conforms diagnostic-result "$WORK/result.json"
evidence "acp"
is "acp: the handshake rests on a question and its answer" '[.checks[]|select(.id=="initialize_handshake").evidence[].what] == ["initialize","answer"]'
is "acp: one clock: the model was called between the prompt and its answer" '[.checks[]|select(.id=="prompt_exchange").evidence]
    | .[0] | (map(select(.note=="asked"))[0].at_ms) as $asked | (map(select(.note=="answered"))[0].at_ms) as $answered
    | map(select(.call))[0].at_ms | . >= $asked and . <= $answered'
audit "acp"

# A failure points at the frame that broke the rule.
cf "evidence of a failure" 1 test oci --name script --build-context "$CTX/acp-script" --entrypoint /opt/script/bin/acp-script \
    --protocol acp-v1 --arg=/opt/script/wire/subagent-undeclared.acps --env GIVEN=checkfu.subagent --json
evidence "a failure"
is "a failure: the frame is shown, with its time" '[.checks[]|select(.id=="subagent_correlation").evidence[]|select(.frame)]
    | length > 0 and all(.at_ms > 0 and .from == "harness" and (.text|length > 0))'
is "a failure: what --env gave is struck out of what a frame shows" '[.checks[].evidence[].text // empty] | any(test("\\*{16}")) and all(test("checkfu.subagent") | not)'
audit "a failure"

# The report for eyes: 80 columns, no scrolling on success, the verdict last and once.
cf "the report" 0 test oci "${ONESHOT[@]}" --plain
check "the report fits 80 columns" test "$(awk '{ if (length($0) > m) m = length($0) } END { print m }' "$WORK/out")" -le 80
check "the report does not scroll on success" test "$(wc -l <"$WORK/out")" -le 40
check "the verdict is last" sh -c "tail -n 1 '$WORK/out' | grep -q '^ PASS '"
check "the verdict is there once" test "$(grep -cE '^ (PASS|FAIL|ERROR) ' "$WORK/out")" = 1
cf "quiet" 0 test oci "${ONESHOT[@]}" --plain --quiet
check "quiet is one line" test "$(wc -l <"$WORK/out")" = 1
check "quiet says nothing on stderr" test ! -s "$WORK/err"

# The floor: prompt on stdin, text out.
cf "one-shot floor" 0 test oci --name floor --build-context "$CTX/oneshot-harness" \
    --entrypoint /opt/checkfu/bin/checkfu-oneshot --protocol oneshot-v1 --prompt-transport stdin --output-mode text --json
is "floor: passed without resume and output_schema" '.status == "passed" and ([.checks[].id] | index("resume") == null)'

# Every dialect, streaming and not.
for dialect in anthropic_messages openai_chat openai_responses; do
    for stream in "" --argv=--stream; do
        cf "dialect $dialect $stream" 0 test oci --name d --build-context "$CTX/oneshot-harness" --json --quiet \
            --entrypoint /opt/checkfu/bin/checkfu-oneshot --protocol oneshot-v1 --prompt-transport stdin \
            --output-mode text --argv=--dialect --argv=$dialect $stream --model-wire-dialect $dialect
        is "dialect $dialect $stream: spoken" "[.model_calls[] | select(.nonce_seen) | .dialect] == [\"$dialect\"]"
    done
done
cf "a dialect that the release does not state" 1 test oci --name d --build-context "$CTX/oneshot-harness" --json \
    --entrypoint /opt/checkfu/bin/checkfu-oneshot --protocol oneshot-v1 --prompt-transport stdin \
    --output-mode text --argv=--dialect --argv=openai_chat --model-wire-dialect anthropic_messages
is "the refusal is in the ledger" '[.model_calls[] | select(.refused != null)] | length > 0'
audit "dialects"

# The registry on every interface: said loudly, and it works.
cf "registry on all interfaces" 0 test oci "${ACP[@]}" --json --allow-registry-all-interfaces
is "registry on all interfaces: the exposure is told" '[.findings[] | select(.id == "exposure")] | length == 1'

# Limits and environment.
cf "limits are in the result" 0 test oci "${ACP[@]}" --json --memory 256m --cpus 1 --pids 64
is "limits: in force" '.limits | tostring | test("268435456")'
audit "all"
finish

#!/usr/bin/env bash
# ACP v1 whole: every way an agent can talk, stall or die is a script of fixtures/wire/; what it
# offers beyond that, the reference harness declares and serves.
. tests/integration/lib.sh
DRIVE=$B/tests/support/drive

# Both images are built once, and pushed to a registry of ours for their digests.
"$B/tests/support/registry" >"$WORK/address" 2>"$WORK/registry.err" &
REGISTRY=$!
for _ in $(seq 50); do ADDRESS=$(head -n 1 "$WORK/address"); [ -z "$ADDRESS" ] || break; sleep 0.1; done
post() { curl -sf -m 120 --unix-socket "${DOCKER_HOST#unix://}" -X POST "${@:2}" "http://d/v1.41$1"; }
publish() { # publish CONTEXT: prints NAME@sha256:...
    local name=$ADDRESS/cfrunner-acp-$1
    tar -C "$CTX/$1" -c . | post "/build?t=$name:t" -T - -H 'Content-Type: application/x-tar' >"$WORK/build.log"
    post "/images/$name/push?tag=t" -H "X-Registry-Auth: $(printf '{}' | base64)" >>"$WORK/build.log"
    engine "/images/$name:t/json" | jq -r --arg name "$name@" '[.RepoDigests[] | select(startswith($name))][0]' # Podman's push tells none
}
SCRIPT_IMAGE=$(publish acp-script)
AGENT_IMAGE=$(publish acp-harness)
remember_images
unpublish() {
    for image in "$SCRIPT_IMAGE" "$AGENT_IMAGE"; do
        for name in "$image" "${image%@*}:t"; do
            curl -s --unix-socket "${DOCKER_HOST#unix://}" -X DELETE "http://d/v1.41/images/$name?force=1" >/dev/null
        done
    done
    kill "$REGISTRY"
}
trap 'unpublish; rm -rf "$WORK"' EXIT

# The scripted agent: script NAME; the reference harness: plain ARG...
script() { SCRIPT=(--name script --image "$SCRIPT_IMAGE" --entrypoint /opt/script/bin/acp-script
    --protocol acp-v1 "--arg=/opt/script/wire/$1.acps"); }
plain() { AGENT=(--name agent --image "$AGENT_IMAGE" --entrypoint /opt/custom/bin/acp-agent --protocol acp-v1 --arg=--stdio
    --working-directory /workspace); local arg; for arg; do AGENT+=("--arg=$arg"); done; }

# nd NAME JQ: a filter over the lines of the last run; last: over its result.
nd() { if jq -es "$2" "$WORK/out" >/dev/null 2>&1; then ok "$1"; else bad "$1: not $2" "$(tail -n 6 "$WORK/err"; head -c 3000 "$WORK/out")"; fi; }
type_is() { printf '[.[] | .observation | select(.type == "observation.%s") | .payload]' "$1"; }
finding() { printf '[.[-1].result.findings[] | select(.id == "%s")] | length %s' "$1" "$2"; }
check_is() { printf '[.checks[] | select(.id == "%s") | .status] == ["%s"]' "$1" "$2"; }
rule_is() { printf '[.[-1].result.grammar[] | select(.id == "%s") | .status] == ["%s"]' "$1" "$2"; }
message() { printf '[.[] | .observation | select(.type == "observation.agent_message") | .payload.content] | add == "%s"' "$1"; }
# heard NAME TEXT: the agent said so on its stderr (run with -v).
heard() { if grep -qF -- "$2" "$WORK/err"; then ok "$1"; else bad "$1: stderr does not hold $2" "$(grep harness: "$WORK/err" | head -n 30)"; fi; }
unheard() { if grep -qF -- "$2" "$WORK/err"; then bad "$1: stderr holds $2" "$(grep -F -- "$2" "$WORK/err" | head -n 3)"; else ok "$1"; fi; }
wire() { local name=$1 want=$2; shift 2; script "$name"; cf "$name" "$want" run "${SCRIPT[@]}" -v "$@"; }

# later NAME WANTED ARGS...: in the background; joined: its verdict, and its output as the last run's.
later() { local name=$1; shift; mkdir -p "$WORK/$name"; local want=$1; shift
    ( got=0; timeout -k 5 150 "$CF" "$@" >"$WORK/$name/out" 2>"$WORK/$name/err" || got=$?; echo "$got $want" >"$WORK/$name/rc" ) &
    eval "pid_${name//-/_}=$!"; }
joined() { eval "wait \$pid_${1//-/_}"; read -r got want <"$WORK/$1/rc"; cp "$WORK/$1/out" "$WORK/out"; cp "$WORK/$1/err" "$WORK/err"
    if [ "$got" = "$want" ]; then ok "$1: exit $want"; else bad "$1: exit $got, wanted $want" "$(tail -n 12 "$WORK/err"; head -c 2000 "$WORK/out")"; fi; }

# ---- what takes its time, in the background -------------------------------------------------------
script slow-session; later slow-session 0 run "${SCRIPT[@]}" --prompt x
script steer-unanswered; later steer-unanswered 1 run "${SCRIPT[@]}" --prompt x --steer-after 100:left

# ---- before a session -----------------------------------------------------------------------------
fault_acp cat
cf "an entrypoint that is cat" 1 test oci "${FAULT[@]}" --json
is "cat: fails at once" "$(check_is initialize_handshake failed)"
says "cat" "it is an echo, no agent"
script proper
SCRIPT[-1]=--arg=-e; SCRIPT+=(--arg=hang)
began=$SECONDS
cf "an entrypoint that says nothing" 1 test oci "${SCRIPT[@]}" --json --start-timeout 3s
is "silence: fails inside the handshake's budget" "$(check_is initialize_handshake failed)"
says "silence" "no bytes were seen"
check "silence: in time" test $((SECONDS - began)) -le 20
wire version-2 1 --prompt x
nd "version-2: named" '.[-1].result.error.type == "runtime.harness_incompatible" and (.[-1].result.error.message | contains("version 2"))'
wire initialize-error 1 --prompt x
nd "initialize-error: incompatible" '.[-1].result.error.type == "runtime.harness_incompatible"'
wire session-error 1 --prompt x
nd "session-error: the agent's own words" '.[-1].result.error.message | contains("not a git repository")'
for name in declares-downgrade declares-null declares-promotion declares-string; do
    wire $name 1 --prompt x
    nd "$name: refused" '.[-1].result.error.type == "runtime.harness_incompatible"'
    unheard "$name: before session/new" '"session/new"'
done
wire update-before-session 0 --prompt x
nd "update-before-session: kept, not lost" "$(finding foreign_session '== 0')"
plain --require-auth
cf "an agent that wants a login" 0 run "${AGENT[@]}" --prompt x
wire prompt-auth 1 --prompt x
nd "prompt-auth: the credential" '.[-1].result.error.type == "model.credential_rejected" or ([.[].observation.payload.error.type?] | index("model.credential_rejected") != null)'

# ---- the stream ------------------------------------------------------------------------------------
wire banner 0 --prompt x
nd "banner: a finding with its line" '[.[-1].result.findings[] | select(.id == "stdout_pollution") | .frame] == [1, 2]'
wire junk-1000 0 --prompt x
nd "junk-1000: bounded" '[.[-1].result.findings[] | select(.id == "stdout_pollution")] | length == 100'
for name in cuts ids unknown-fields responses-twice wrong-types last-frame-open; do
    wire $name 0 --prompt x
    nd "$name: a whole turn" "$(type_is finished) | length == 1"
done
nd_last() { wire "$1" "$2" --prompt x; }
nd_last odd-strings 0
nd "odd-strings: repairs are told" "$(finding repaired_frame '>= 1')"
nd "odd-strings: the turn is not dropped" "$(type_is agent_message) | length == 1"
nd_last many-chunks 0
nd "many-chunks: text joined, in order, once" '[.[] | .observation | select(.type == "observation.agent_message") | .payload.content] == ["one two", "three", "four OK"]'
nd_last bytewise-4mib 0
nd "bytewise-4mib: split, not lost" "$(type_is agent_thinking) | map(.content | length) | add == 4194304"
check "bytewise-4mib: linear" test "$(jq -r 'select(.result) | .result.timings_ms.turn' "$WORK/out")" -le 30000
nd_last frame-16mib 0
nd "frame-16mib: all of it" "$(type_is agent_thinking) | map(.content | length) | add == 16777216"
nd_last frame-too-long 1
nd "frame-too-long: named" '.[-1].result.error.message | contains("longer than")'
nd_last closes-stdin 0
nd "closes-stdin: its answer is taken" "$(type_is finished) | length == 1"
nd_last closes-stdout 1
nd "closes-stdout: told" '.[-1].result.error.message | contains("stdout")'
began=$SECONDS
nd_last ignores-end 0
check "an agent that ignores stdin's end is ended" test $((SECONDS - began)) -le 20

# ---- methods, kinds, reasons ------------------------------------------------------------------------
nd_last unknown-request 0
heard "unknown-request: -32601" '"code":-32601'
nd "unknown-request: once each" "$(finding refused_request '== 2')"
asked=$(sed -n 's/^f[0-9]* <- *\([0-9]*\) ms .*"_vendor.drain".*/\1/p' "$WORK/err")
said=$(sed -n 's/^f[0-9]* -> *\([0-9]*\) ms .*"id":"v-1","error".*/\1/p' "$WORK/err")
check "unknown-request: within 100 ms" test "${said:-999999}" -le $((${asked:-0} + 100))
nd_last unknown-update 1
nd "unknown-update: named" '.[-1].result.error.message | contains("agent_dream_chunk")'
nd_last unstable-update 0
nd "unstable-update: counted" "$(finding ignored '>= 1')"
nd_last unknown-stop 1
nd "unknown-stop: named" '.[-1].result.error.message | contains("bored")'
nd_last foreign-session 0
nd "foreign-session: rejected" "($(finding foreign_session '== 1')) and ($(message OK))"
nd_last prompt-error 1
nd "prompt-error: failed, the run's end" "$(type_is failed) | length == 1"
nd_last response-both 1
nd_last empty-turn 0
nd "empty-turn: told" "$(finding empty_turn '== 1')"
nd_last turn-telemetry 0
nd "turn-telemetry: carried" "$(type_is finished) | .[0].turn.shell_commands == 2"
script costs
cf "costs" 0 run "${SCRIPT[@]}" --prompt a --prompt b
nd "costs: a difference a turn" "$(type_is finished) | map(.vendor_reported_cost_microusd) == [500000, 250000]"
nd_last late-updates 0
nd "late-updates: the same write is whole, the tail is taken" "$(message 'OK (and a tail)')"
nd "late-updates: both frames named" "$(finding update_after_terminal '>= 1')"

# ---- tools -------------------------------------------------------------------------------------------
script tools-twice
cf "tools-twice" 0 run "${SCRIPT[@]}" --prompt a --prompt b
nd "tools-twice: used once a turn, a new id in the next" "$(type_is tool_use) | (length == 2) and (.[0].tool_use_id != .[1].tool_use_id)"
nd "tools-twice: correlation holds" "$(rule_is tool_correlation passed)"
nd_last tool-unannounced 0
nd "tool-unannounced: fails the rule, not the run" "$(rule_is tool_correlation failed)"
nd_last tool-first-in-permission 0
nd "tool-first-in-permission: announced by it" "$(type_is tool_use) | map(.tool_use_id) == [\"t9\"]"
heard "tool-first-in-permission: denied by a reject option" '"optionId":"r"'

# ---- permissions --------------------------------------------------------------------------------------
nd_last permission-reject-only 0
heard "permission-reject-only: an odd id, word for word" 'Nö'
wire tool-first-in-permission 0 --prompt x --permission allow
heard "allow picks the way to allow" '"optionId":"a"'
plain --ask-permission
cf "deny" 0 run "${AGENT[@]}" --prompt x
nd "deny: the agent went on" "$(type_is finished) | map(.stop_reason) == [\"end_turn\"]"
cf "end" 0 run "${AGENT[@]}" --prompt x --prompt y --permission end -vv
nd "end: the turn's last word" '[.[] | select(.turn == 1) | .observation.type] | .[-1] == "observation.requires_action"'
nd "end: allowed in the next turn" '[.[] | select(.turn == 2) | .observation | select(.type == "observation.tool_result") | .payload.error] == [null]'
heard "end: said to the agent with the next prompt" 'Allowed: the tool call'
wire permission-pending 0 --prompt x --permission end
nd "permission-pending: one action" "$(type_is requires_action) | map(.action.tool_use_id) == [\"t1\"]"
heard "permission-pending: the other is answered, too" 'second {"outcome":{"outcome":"cancelled"}}'

plan() { "$CF" test oci "$@" --print-plan; }
script permission-pending
plan "${SCRIPT[@]}" | jq '.options.permission = "ask"' >"$WORK/plan"
drive() { local name=$1; shift; if timeout -k 5 60 env "$@" >"$WORK/out" 2>"$WORK/err"; then ok "$name: ran"; else bad "$name: ran" "$(cat "$WORK/err"; head -c 2000 "$WORK/out")"; fi; }
drive "ask" DRIVE_PERMISSION=go "$DRIVE" "$WORK/plan" hello
nd "ask: both were asked" '[.[] | select(.permission) | .permission.tool_use_id] == ["t1", "t2"]'
nd "ask: what was not offered is refused" '[.[] | select(.refused)] | length == 2'
nd "ask: answered once only" '[.[] | select(.second)] | length == 2'
nd "ask: the turn finished" '[.[] | select(.turn) | .turn.outcome] == ["finished"]'
drive "ask, and canceled" DRIVE_CANCEL=300 "$DRIVE" "$WORK/plan" hello
nd "ask, canceled: both are over without the host" '[.[] | select(.gone) | .gone] == [1, 2]'
nd "ask, canceled: interrupted" '[.[] | select(.observation.type == "observation.finished") | .observation.payload.stop_reason] == ["interrupted"]'
drive "ask, and interrupted" DRIVE_INTERRUPT=300 "$DRIVE" "$WORK/plan" hello
nd "ask, unanswered: interrupted" '[.[] | select(.observation.type == "observation.finished") | .observation.payload.stop_reason] == ["interrupted"]'
jq '.options.permission = "ask"' "$WORK/plan" >"$WORK/plan2"
script permission-pending
cf "ask with nobody listening" 2 run "${SCRIPT[@]}" --prompt x --permission ask
says "ask with nobody listening" "nobody listens"

# ---- questions -----------------------------------------------------------------------------------------
script elicitation
cf "questions not offered" 0 run "${SCRIPT[@]}" --prompt a --prompt b -v
heard "not offered: -32601" '-32601'
cf "questions declined" 0 run "${SCRIPT[@]}" --prompt a --prompt b --elicitation decline -v
heard "declined: by policy" 'form {"action":"decline"}'
heard "declined: a mode that was not offered" '-32602'
script elicitation
plan "${SCRIPT[@]}" --elicitation end >"$WORK/plan"
drive "question ends the turn" DRIVE_ANSWERS='{"1-branch":"dev","2-sure":"true","3-count":"3","4-tags":"a"}' "$DRIVE" "$WORK/plan" hello again
nd "question: requires_action of kind question" '[.[].observation? | select(.type == "observation.requires_action") | .payload.action.kind] == ["question"]'
nd "question: four items" '[.[].observation? | select(.type == "observation.requires_action") | .payload.action.items | length] == [4]'
nd "question: the next turn finished" '[.[] | select(.turn) | .turn.outcome] == ["requires_action", "finished"]'
nd "question: its observation is in the contract" '[.[].observation? | select(.type == "observation.requires_action")] | length == 1'
plan "${SCRIPT[@]}" | jq '.options.elicitation = "ask"' >"$WORK/plan"
drive "question asked of the host" DRIVE_QUESTION='{"action":"accept","content":{"branch":"main"}}' "$DRIVE" "$WORK/plan" hello
nd "host: was asked" '[.[] | select(.question) | .question.question.kind] == ["question"]'
nd "host: the turn finished" '[.[] | select(.turn) | .turn.outcome] == ["finished"]'

# ---- files and terminals ------------------------------------------------------------------------------
mkdir -p "$WORK/in"
printf 'one\ntwo\nthree\nfour' >"$WORK/in/lines.txt"
printf '\377\376' >"$WORK/in/bytes"
head -c 16777217 /dev/zero | tr '\0' a >"$WORK/in/huge"
ln -s /etc/passwd "$WORK/in/out"
ln -s /proc/self/environ "$WORK/in/magic"
printf '#!/bin/false\n' >"$WORK/in/tool"; chmod 755 "$WORK/in/tool"
wire files 0 --prompt x --fs --file "$WORK/in:in" --collect "$WORK/collected"
heard "files: line and limit" 'lines {"content":"two\nthree\n"}'
heard "files: behind the end" 'behind {"content":""}'
heard "files: a wrong type is as absent" 'odd {"content":"one\ntwo\nthree\nfour"}'
heard "files: relative" 'path must be absolute'
heard "files: outside" 'path is not beneath the working directory'
heard "files: .." 'leads out of /workspace'
heard "files: a symlink out" '/workspace/in/out leads out of /workspace'
heard "files: a folder" '/workspace/in is not a regular file'
heard "files: missing, -32002 with its uri" '"uri":"file:///workspace/no%20such%20file"'
heard "files: not text" 'is not UTF-8 text'
heard "files: over 16 MiB" '/workspace/in/huge is larger than 16 MiB'
heard "files: no path" 'path is not a path'
heard "files: another session" 'unknown session'
heard "files: written" 'new {}'
heard "files: not written through a link" 'through {"code":-32602'
heard "files: content of a wrong type" 'content is not a text'
nd "files: told as changes, once each" "$(type_is file_changed) | map([.event, .path]) == [[\"create\",\"/workspace/made/deep/new.txt\"],[\"modify\",\"/workspace/made/deep/new.txt\"],[\"modify\",\"/workspace/in/tool\"]]"
check "files: what is there keeps its mode" test -x "$WORK/collected/in/tool"
check "files: emptied" test ! -s "$WORK/collected/made/deep/new.txt"
wire file-16mib 0 --prompt x --fs --memory 1g
heard "file-16mib: written" 'written {}'
heard "file-16mib: one byte more is refused" 'content is larger than 16 MiB'
wire terminals 0 --prompt x --terminal
heard "terminals: at once" 'created {"terminalId":"term-1"}'
heard "terminals: exit code" 'waited {"exitCode":3,"signal":null}'
heard "terminals: cut at a character" 'output {"output":"€","truncated":true'
heard "terminals: stderr is output, too" 'both-streams {"output":"out of money\n"'
heard "terminals: killing what has ended" 'killed-late {}'
heard "terminals: released" 'gone {"code":-32002'
heard "terminals: found by PATH" 'by-path {"terminalId":"term-2"}'
heard "terminals: running, no exit status" 'running {"output":"bytes'
heard "terminals: signal" 'signalled {"exitCode":null,"signal":"SIGKILL"}'
heard "terminals: the id stays valid" 'still-there {"output":'
heard "terminals: unknown program" 'no such program in the sandbox'
heard "terminals: a folder that is none" 'cwd is not an absolute path'
heard "terminals: much output" 'much {"output":'
heard "terminals: found by the image's own PATH" 'image-path {"terminalId":"term-7"}'
heard "terminals: a wait withdrawn" 'withdrawn {"code":-32800'
plain --use-fs --use-terminal
cf "the reference harness through the client" 0 run "${AGENT[@]}" --fs --terminal --prompt x
nd "client: file and terminal" "$(type_is tool_result) | map(.result.read_back_equal, .result.output) | contains([true, \"hello from a terminal\\n\"])"
cf "nothing is offered by default" 0 run "${AGENT[@]}" --prompt x
nd "default: no tool of the client" "$(type_is tool_use) | length == 1"

# ---- cancel, interrupt -----------------------------------------------------------------------------------
wire cancel-next 0 --prompt a --prompt b --cancel-after 300ms
nd "cancel, then a new prompt" "$(type_is finished) | map(.stop_reason) == [\"interrupted\", \"end_turn\"]"
nd "cancel: the tail is taken" '[.[] | select(.turn == 1) | .observation | select(.type == "observation.agent_message") | .payload.content] | add == "so far and no further"'
script cancel-endures
cf "cancel-endures" 0 run "${SCRIPT[@]}" --prompt a --cancel-after 300ms
nd "cancel-endures: interrupted, whatever it says" "$(type_is finished) | map(.stop_reason) == [\"interrupted\"]"
script cancel-deaf
plan "${SCRIPT[@]}" | jq '.options.deadlines_ms.drain = 1500' >"$WORK/plan"
cf "interrupt, not declared" 130 run "${SCRIPT[@]}" --prompt a --interrupt-after 300ms
nd "interrupt, not declared: ended, interrupted" "$(type_is finished) | map(.stop_reason) == [\"interrupted\"]"
wire drain 0 --prompt a --interrupt-after 300ms
nd "drain: settles its own terminal" "$(rule_is cooperative_interrupt_drained passed)"
wire drain-late-answer 0 --prompt a --interrupt-after 300ms
nd "drain-late-answer: the terminal waited" "$(rule_is cooperative_interrupt_drained passed)"
wire drain-refused 0 --prompt a --interrupt-after 300ms
nd "drain-refused: the turn may end by itself; the rule is broken" "$(rule_is cooperative_interrupt_drained failed)"
wire drain-next 0 --prompt a --interrupt-after 300ms --prompt b
nd "drain-next: another turn follows" "$(type_is finished) | length == 2"

# ---- steering -----------------------------------------------------------------------------------------------
wire steer-delivered 0 --prompt a --steer-after 200:left
nd "steer-delivered: one observation" "$(type_is steering) | (map(.disposition) == [\"delivered\"]) and (.[0].event_id | test(\"^evt_[0-9a-f]{32}\$\"))"
wire steer-late 0 --prompt a --steer-after 200:left
nd "steer-late: before the terminal" '[.[] | select(.turn == 1) | .observation.type] | .[-2:] == ["observation.steering", "observation.finished"]'
wire steer-refused 0 --prompt a --steer-after 200:left
nd "steer-refused: no failure of the run" "$(type_is finished) | length == 2"
wire steer-refused-two 0 --prompt a --steer-after 200:left --steer-after 201:right --prompt c
nd "steer-refused-two: both" "$(type_is steering) | map(.disposition) == [\"refused\", \"refused\"]"
heard "steer-refused-two: their contents, in order, are the next prompt" '"text":"left\n\nright"'
heard "steer-refused-two: then what was to come" '"text":"c"'
wire steer-malformed 1 --prompt a --steer-after 200:left
nd "steer-malformed: fails the run" '.[-1].result.error.type == "runtime.harness_failed"'
wire steer-error 1 --prompt a --steer-after 200:left
nd "steer-error: fails the run" '.[-1].result.error.message | contains("Method not found")'
wire cancel-deaf 1 --prompt a --steer-after 200:left
nd "steer, not declared: incompatible" '.[-1].result.error.type == "runtime.harness_incompatible"'
unheard "steer, not declared: nothing was sent" '_checkfu/session/steer'
script steer-delivered
plan "${SCRIPT[@]}" >"$WORK/plan"
drive "the same steer three times" DRIVE_STEER='{"content":"left","id":"evt_0123456789abcdef0123456789abcdef"}' DRIVE_STEER_TIMES=3 "$DRIVE" "$WORK/plan" a
nd "same id: one delivery" '([.[] | select(.steered)] | length == 3) and ([.[].observation? | select(.type == "observation.steering")] | length == 1)'
nd "same id: nothing else is owed" '[.[] | select(.result) | .result.status] == ["ok"]'
nd "same id: told once" '[.[] | select(.steering) | .steering] == [["evt_0123456789abcdef0123456789abcdef", "delivered"]]'
nd "before a turn: refused" '[.[] | select(.early)] | length == 1'
plain --declare=steer
cf "the reference harness is steered" 0 run "${AGENT[@]}" --prompt a --steer-after 1:left
nd "reference: acknowledged" "$(type_is steering) | length <= 1"

# ---- subagents -----------------------------------------------------------------------------------------------
nd_last subagents 0
nd "subagents: ids are minted" "$(type_is subagent_started) | (length == 2) and all(.subagent | test(\"^subg_[0-9a-f]{32}\$\"))"
nd "subagents: a late result keeps its author" "$(type_is tool_result) | .[0].subagent != null"
nd "subagents: the rule holds" "$(rule_is subagent_correlation passed)"
for name in subagent-twice subagent-never subagent-unstarted subagent-undeclared; do
    wire $name 0 --prompt x
    nd "$name: breaks the rule" "$(rule_is subagent_correlation failed)"
done
script subagent-undeclared
cf "conformance of an undeclared emitter" 1 test oci "${SCRIPT[@]}" --json
is "undeclared emitter: fails" "$(check_is subagent_correlation failed)"

# ---- authority ------------------------------------------------------------------------------------------------
printf '{"type":"object","properties":{"answer":{"type":"string"}}}' >"$WORK/schema.json"
printf '{"version":1,"state":"kept"}' >"$WORK/state.json"
authority=(--builtin-tools read,write --context-window 200000 --compaction-trigger 150000 --output-schema "$WORK/schema.json" --resume-state "$WORK/state.json")
wire takes-authority 0 --prompt x "${authority[@]}"
for member in '"checkfu.builtin_tools":["read","write"]' '"checkfu.runtime_config":{"context_window_tokens":200000,"compaction":{"strategy":"native","trigger_tokens":150000}}' \
    '"checkfu.output_schema":{"type":"object"' '"checkfu.resume":{"version":1,"state":"kept"}' '"checkfu.continuity":"same_run_resume"'; do
    heard "session/new carries $member" "$member"
done
wire refuses-authority 1 --prompt x "${authority[@]}"
nd "refuses-authority: incompatible, members named" '.[-1].result.error | (.type == "runtime.harness_incompatible") and (.message | contains("checkfu.builtin_tools, checkfu.continuity, checkfu.runtime_config, checkfu.output_schema, checkfu.resume"))'
script refuses-authority
SCRIPT[-1]=--arg=-e; SCRIPT+=("--arg=expect initialize
answer {\"protocolVersion\":1,\"_meta\":{\"checkfu.capabilities\":{\"builtin_tool_scoping\":\"enforced\"}}}
expect session/new
error -32603 cannot
hang")
cf "authority refused with another code" 1 run "${SCRIPT[@]}" --prompt x --builtin-tools read
nd "authority refused with another code: incompatible" '.[-1].result.error | (.type == "runtime.harness_incompatible") and (.message | contains("checkfu.builtin_tools"))'
wire takes-authority 0 --prompt x
unheard "nothing asked for, nothing sent" '"session/new","params":{"cwd":"/workspace","mcpServers":[],"_meta"'
printf '{"version":2,"state":"kept"}' >"$WORK/bad-state.json"
refuse() { local name=$1; shift; script takes-authority; cf "$name" 1 run "${SCRIPT[@]}" --prompt x -v "$@"
    nd "$name: incompatible" '.[-1].result.error.type == "runtime.harness_incompatible"'; unheard "$name: before session/new" '"method":"session/new"'; }
refuse "malformed: builtin_tools" --builtin-tools read,hammer
refuse "malformed: continuity" --continuity for_ever
refuse "malformed: runtime_config" --context-window 100000001
refuse "malformed: resume" --resume-state "$WORK/bad-state.json"
refuse "resume without same_run_resume" --resume-state "$WORK/state.json" --continuity fresh
script takes-authority
plan "${SCRIPT[@]}" | jq '.options.session_meta = {"checkfu.output_schema": 17}' >"$WORK/plan"
drive "malformed: output_schema" "$DRIVE" "$WORK/plan" x
nd "malformed: output_schema: incompatible" '[.[] | select(.result) | .result.error.type] == ["runtime.harness_incompatible"]'
script proper
for flags in "--builtin-tools read" "--output-schema $WORK/schema.json" "--resume-state $WORK/state.json"; do
    cf "not declared: $flags" 1 run "${SCRIPT[@]}" --prompt x -v $flags
    nd "not declared: $flags: incompatible" '.[-1].result.error | (.type == "runtime.harness_incompatible") and (.message | contains("does not declare"))'
done
plain --declare=all
cf "the reference harness takes it" 0 run "${AGENT[@]}" --prompt x --builtin-tools read --context-window 1000
script settings
cf "mode and config" 0 run "${SCRIPT[@]}" --prompt x -v --mode code --config verbosity=full --config fast=true
heard "mode: set" 'mode {"sessionId":"s-1","modeId":"code"}'
heard "config: a text" '"configId":"verbosity","value":"full"'
heard "config: a boolean" '"value":true,"type":"boolean"'
plain
cf "a mode the agent does not know" 1 run "${AGENT[@]}" --prompt x --mode nonsense

# ---- sessions that the agent keeps, and how one is left ------------------------------------------------------------
script session-latest
cf "the latest session" 0 run "${SCRIPT[@]}" --prompt x -v --working-directory /workspace --session latest --session-end delete
heard "the latest session: its list, by folder" 'page {"cwd":"/workspace"}'
heard "the latest session: the list's second page" 'page {"cwd":"/workspace","cursor":"more"}'
heard "the latest session: resumed" 'resume {"sessionId":"s-new","cwd":"/workspace","mcpServers":[]}'
heard "the latest session: deleted, once it is closed" 'delete {"sessionId":"s-new"}'
nd "the latest session: told" '.[-1].result.session == {"id":"s-new","entered_by":"session/resume","left_by":["session/close","session/delete"],"refused":null}'
script session-load
cf "a session is loaded" 0 run "${SCRIPT[@]}" --prompt x -v --session s-7
heard "a session is loaded: with its roots" '"sessionId":"s-7","cwd":'
nd "a session is loaded: history is no output" '([.[] | tostring | select(contains("an old"))] == []) and .[-1].result.session.entered_by == "session/load"'
cf "a logout that is refused" 1 run "${SCRIPT[@]}" --prompt x --session s-7 --session-end logout
nd "a logout that is refused: is the run's error" '.[-1].result | .session.refused.method == "logout" and .session.left_by == ["session/close"] and (.error.message | contains("the keyring is locked"))'
cf "a session that cannot be resumed" 1 run "${SCRIPT[@]}" --prompt x --session s-7 --session-method resume
says "a session that cannot be resumed" "the agent has no session/resume"
script session-mute
cf "a deletion without an answer" 1 run "${SCRIPT[@]}" --prompt x --session-end delete
nd "a deletion without an answer: says so" '.[-1].result.error.message | contains("session/delete was asked for and not done")'
script session-list-endless
cf "a list without an end" 1 run "${SCRIPT[@]}" --prompt x --working-directory /workspace --session latest
says "a list without an end" "more than 64 pages"
script session-mute
cf "no list, no latest one" 1 run "${SCRIPT[@]}" --prompt x --session latest
says "no list, no latest one" "the agent does not advertise session/list"

printf 'GIF89a' >"$WORK/dot.gif"; printf 'RIFF' >"$WORK/a b.wav"; printf 'a,b\n' >"$WORK/t.csv"; printf '\377\000' >"$WORK/raw.bin"
script attached
cf "attached files" 0 run "${SCRIPT[@]}" --prompt x -v --attach "$WORK/dot.gif" --attach "$WORK/a b.wav" --attach "$WORK/t.csv" --attach "$WORK/raw.bin"
heard "attached: an image" '{"type":"image","data":"R0lGODlh","mimeType":"image/gif"}'
heard "attached: audio" '{"type":"audio","data":"UklGRg==","mimeType":"audio/wav"}'
heard "attached: a text" '{"type":"resource","resource":{"uri":"attachment:t.csv","mimeType":"text/csv","text":"a,b\n"}}'
heard "attached: bytes" '"blob":"/wA="'
script settings
cf "attached, and not taken" 1 run "${SCRIPT[@]}" --prompt x --mode code --config verbosity=full --config fast=true --attach "$WORK/dot.gif"
nd "attached, and not taken: says so" '[.[] | .observation | select(.type == "observation.failed") | .payload.error.message] == ["prompt block 1 is of type \"image\", which the agent does not advertise in promptCapabilities"]'
cf "attached, and not there" 2 run "${SCRIPT[@]}" --prompt x --attach "$WORK/none.gif"

# ---- checkpoints, compaction, custody -----------------------------------------------------------------------------
script checkpoints
cf "checkpoints" 0 run "${SCRIPT[@]}" --prompt x --checkpoint-out "$WORK/cp"
check "checkpoints: the latest is kept" jq -e '. == {"version":1,"state":"second"}' "$WORK/cp"
nd "checkpoints: compaction is an observation" "$(type_is context_compacted) | .[0].compacted_messages == 7"
cf "checkpoints, too large" 0 run "${SCRIPT[@]}" --prompt x --prompt y --checkpoint-out "$WORK/cp"
check "checkpoints: too large drops it" test ! -e "$WORK/cp"
plain --declare=native_checkpoint
cf "custody: the first run" 0 run "${AGENT[@]}" --prompt "remember the number seven" --checkpoint-out "$WORK/cp2"
check "custody: a state came" test -s "$WORK/cp2"
cf "custody: the next run" 0 run "${AGENT[@]}" --prompt "go on" --resume-state "$WORK/cp2" --checkpoint-out "$WORK/cp3"
check "custody: it went on from there" grep -q "number seven" "$WORK/cp3"
cf "no state" 2 run "${AGENT[@]}" --prompt x --resume-state "$WORK/no-such"

# ---- MCP servers, through the relay -------------------------------------------------------------------------------
"$B/tests/support/mcp" >"$WORK/mcp" 2>&1 & MCP=$!
for _ in $(seq 50); do MCP_AT=$(head -n 1 "$WORK/mcp"); [ -z "$MCP_AT" ] || break; sleep 0.1; done
plain
cf "mcp: the reference harness connects" 0 run "${AGENT[@]}" --prompt x --mcp "tracker=http://$MCP_AT/mcp/" -vv
check "mcp: the server was asked for its tools" grep -q '"method":"tools/list"' "$WORK/mcp"
check "mcp: at its own address" grep -q '^POST /mcp/ HTTP/1.1' "$WORK/mcp"
check "mcp: the lease's token stays here" sh -c "! grep -qi '^authorization' '$WORK/mcp'"
heard "mcp: the agent is told the relay's address" '"url":"http://127.0.0.1:4180/mcp/tracker"'
unheard "mcp: the token is in no frame shown" 'Bearer cfr_'
nd "mcp: rows of the ledger, no model calls" '[.[-1].result.model_calls[] | select(.path == "/mcp/tracker")] | length >= 2 and all(.probe)'
printf '{"rules":[{"when":{"user":"the tracker"},"times":1,"say":[{"tool":{"name":"mcp__tracker__seven","input":{}}}]}]}' >"$WORK/model.json"
plain --declare=subagents
cf "mcp: the model calls a tool of it" 0 run "${AGENT[@]}" --prompt "ask the tracker" --mcp "tracker=http://$MCP_AT/mcp" --model-script "$WORK/model.json"
nd "mcp: the tool's answer came back" "$(type_is tool_result) | map(select(.result == \"seven\")) | length == 1"
nd "mcp: counted in the turn's telemetry" "$(type_is finished) | .[0].turn.mcp_calls == 1"
check "mcp: the server carried it out" grep -q '"method":"tools/call"' "$WORK/mcp"
plain
"$CF" test oci "${AGENT[@]}" --print-plan --mcp "tracker=http://$MCP_AT/mcp" |
    jq '.options.mcp[0].headers = [{"name":"X-Key","value":"planted-secret"}]' >"$WORK/plan"
drive "mcp: headers" "$DRIVE" "$WORK/plan" hello
check "mcp: the author's headers are added outside" grep -q '^X-Key: planted-secret' "$WORK/mcp"
check "mcp: and are not told to the agent" sh -c "! grep -q planted-secret '$WORK/out'"
kill "$MCP"
cf "mcp: a server that is not there" 1 run "${AGENT[@]}" --prompt x --mcp "tracker=http://127.0.0.1:9/mcp"
cf "mcp: no URL" 2 run "${AGENT[@]}" --prompt x --mcp tracker
script proper
cf "mcp: an agent without that transport" 1 run "${SCRIPT[@]}" --prompt x --mcp "tracker=http://127.0.0.1:9/mcp"
nd "mcp: named" '.[-1].result.error | (.type == "runtime.harness_incompatible") and (.message | contains("tracker"))'
cf "mcp: the execution locus" 1 test oci "${SCRIPT[@]}" --json --mcp "tracker=http://127.0.0.1:9/mcp"
is "mcp: a named skip" "$(check_is execution_locus skipped)"

# ---- other blocks ----------------------------------------------------------------------------------------------------
blocks='[{"type":"image","data":"aGk=","mimeType":"image/png"},{"type":"audio","data":"aGk=","mimeType":"audio/wav"},{"type":"resource","resource":{"uri":"file:///x","text":"inside"}}]'
plain --accept-media
plan "${AGENT[@]}" >"$WORK/plan"
drive "image, audio, embedded resource" DRIVE_BLOCKS="$blocks" "$DRIVE" "$WORK/plan" hello
nd "blocks: taken" '[.[] | select(.turn) | .turn.outcome] == ["finished"]'
plain
plan "${AGENT[@]}" >"$WORK/plan"
drive "an image that the agent does not take" DRIVE_BLOCKS="$blocks" "$DRIVE" "$WORK/plan" hello
nd "blocks: refused before anything is sent" '[.[] | select(.turn) | .turn.error.type] == ["runtime.harness_incompatible"]'

# ---- staged files --------------------------------------------------------------------------------------------------
printf '# readme\n' >"$WORK/a b.md"; printf '{}' >"$WORK/c.json"
wire takes-authority 0 --prompt x --prompt y --file "$WORK/a b.md:docs/a b.md" --file "$WORK/c.json:/tmp/c.json"
heard "links: after the text, in flag order" '"prompt":[{"type":"text","text":"x"},{"type":"resource_link","name":"a b.md","uri":"file:///workspace/docs/a%20b.md","size":9,"mimeType":"text/markdown"},{"type":"resource_link","name":"c.json","uri":"file:///tmp/c.json","size":2,"mimeType":"application/json"}]'
heard "links: in the first prompt only" '"prompt":[{"type":"text","text":"y"}]'
wire proper 0 --prompt x --file "$WORK/c.json:c.json"
unheard "links: not for who does not declare them" 'resource_link'
plain --declare=staged_files
cf "the reference harness reads them" 0 run "${AGENT[@]}" --prompt x --file "$WORK/a b.md:docs/a b.md" --collect "$WORK/staged"
check "staged: nobody may write it" test "$(stat -c %a "$WORK/staged/docs/a b.md")" = 444

# ---- dying -----------------------------------------------------------------------------------------------------------
nd_last dies-killed 1
nd "dies-killed: the signal" '.[-1].result | (.error.message | contains("signal 9")) and (.harness.exit.signal == 9) and (.harness.exit.oom == "no") and (.error.message | contains("not for want of memory"))'
nd_last dies-137 1
nd "dies-137: an exit code" '.[-1].result | (.error.message | contains("exited with code 137")) and (.harness.exit.code == 137) and (.harness.exit.oom == "no")'
wire dies-oom 1 --prompt x --memory 64m
nd "dies-oom: out of memory" '.[-1].result | (.error.message | contains("out of memory")) and (.harness.exit.oom == "yes")'
nd "dies-oom: its update is not lost, the last words are there" "($(message 'so far so good')) and (.[-1].result.harness.stderr_tail | length > 0)"

# ---- conformance --------------------------------------------------------------------------------------------------------
plain --declare=all
cf "everything declared" 0 test oci "${AGENT[@]}" --drain --json
is "all: every axis proven" '.declared.axes | length == 3 and all(.proven)'
for id in steering_correlation steering_delivered cooperative_interrupt_drained subagent_correlation; do
    is "all: $id passed" "$(check_is $id passed)"
done
cp "$WORK/out" "$WORK/result.json"
check "all: the result conforms to its schema" sh -c "'$CF' schema check --schema proto/diagnostic-result.schema.json '$WORK/result.json' | jq -e .valid"
cf "everything declared, for eyes" 0 test oci "${AGENT[@]}" --plain
check "all, for eyes: declared, exercised and proven" grep -qE '^ +\+ subagents +observed +yes +[0-9]+ started, all settled' "$WORK/out"
check "all, for eyes: declared, not exercised" grep -qE '^ +- interrupt +cooperative +- +skipped: ' "$WORK/out"
says "all, for eyes" "--drain"
script exercise-steer
cf "exercise-steer" 0 test oci "${SCRIPT[@]}" --json
is "exercise-steer: delivered" "$(check_is steering_delivered passed)"
script exercise-steer-refused
cf "exercise-steer-refused" 1 test oci "${SCRIPT[@]}" --json
is "exercise-steer-refused: fails that check" "($(check_is steering_delivered failed)) and ($(check_is prompt_exchange passed))"
script exercise-drain
cf "exercise-drain" 0 test oci "${SCRIPT[@]}" --json --drain
is "exercise-drain: drained" "$(check_is cooperative_interrupt_drained passed)"
cf "exercise-drain, not asked for" 0 test oci "${SCRIPT[@]}" --json
is "exercise-drain: opt-in" "$(check_is cooperative_interrupt_drained skipped)"
script exercise-drain-refused
cf "exercise-drain-refused" 1 test oci "${SCRIPT[@]}" --json --drain
is "exercise-drain-refused: fails" "($(check_is cooperative_interrupt_drained failed)) and .blame == \"harness\""
script exercise-steer-mute; later exercise-steer-mute 1 test oci "${SCRIPT[@]}" --json
script exercise-drain-stuck; later exercise-drain-stuck 1 test oci "${SCRIPT[@]}" --json --drain
script proper
cf "undeclared" 0 test oci "${SCRIPT[@]}" --json
is "undeclared: steering absent, the envelope as it is" "($(check_is steering_delivered passed)) and (.capability_set | has(\"subagents\") | not) and .capability_set.mid_run_input == \"unsupported\""

joined exercise-steer-mute
is "exercise-steer-mute: the run fails" "$(check_is steering_delivered failed)"
joined exercise-drain-stuck
is "exercise-drain-stuck: not inside the window" "$(check_is cooperative_interrupt_drained failed)"
joined steer-unanswered
nd "steer-unanswered: never a maybe" '.[-1].result.error | (.type == "runtime.harness_failed") and (.message | contains("never acknowledged"))'
joined slow-session
says "slow-session: shown" "session ... still"
nd "slow-session: no failure" "$(type_is finished) | length == 1"
audit "acp"
finish

#!/usr/bin/env bash
# A run in a journal: its claim is there while it lives and gone when it is over or dead, others' claims
# are warned of and nothing more, and no word of a prompt, a secret or a harness is in any event.
. tests/integration/lib.sh
! readelf -l "$(command -v busybox || echo /none)" 2>/dev/null | grep -q INTERP && command -v busybox >/dev/null || { echo "SKIPPED voice: no static busybox (apt-get install busybox-static)"; ok "nothing to do"; finish; exit 0; }

# ---- a harness that is a shell, two people, and journals of their project ---------------------------
mkdir "$WORK/context"
cp "$(command -v busybox)" "$WORK/context/busybox"
printf 'FROM scratch\nCOPY busybox /bin/busybox\nCOPY busybox /bin/sh\nUSER 10001:10001\n' >"$WORK/context/Dockerfile"
# sh_run SCRIPT: launch flags of a shell that gets the prompt on stdin
sh_run() { L=(--name t --build-context "$WORK/context" --working-directory /workspace --protocol oneshot-v1 --entrypoint /bin/sh
    --prompt-transport stdin --output-mode text --argv=-c "--argv=$1"); }
PROJECT=11111111-2222-4333-8444-555555555555
for who in ada bob eve; do "$CF" correspond keygen --out "$WORK/$who.key" >"$WORK/$who.pub"; done
jq -s . "$WORK/ada.pub" "$WORK/bob.pub" >"$WORK/keyring"
# new_journal NAME: sets J and ADA, the flags with which ada speaks
new_journal() {
    J=$WORK/$1
    "$CF" correspond journal init "$J" --project $PROJECT --keyring "$WORK/keyring" >/dev/null
    ADA=(--journal "$J" --identity "$WORK/ada.key" --repository-id repo --thread-id t)
    BOB=(--journal "$J" --identity "$WORK/bob.key" --repository-id repo --thread-id t)
}
nd() { if jq -es "$2" "$WORK/out" >/dev/null 2>&1; then ok "$1"; else bad "$1: not $2" "$(tail -n 1 "$WORK/out" | head -c 2500)"; fi; }
events() { "$CF" correspond journal list "$J" --limit 200 | jq -c '.events[]'; }
claims() { "$CF" correspond journal claims "$J" --repository repo | jq -c '[.claims[] | {claim_id, generation, paths: .scope.paths}]'; }
kinds() { events | jq -r .event.kind | tr '\n' ' '; }
has() { # has NAME JQ: true of the array of the journal's records
    if events | jq -es "$2" >/dev/null 2>&1; then ok "$1"; else bad "$1: not $2" "$(events | jq -c '[.event.kind, .event.body, .lineage_status]')"; fi
}
sound() { # sound NAME: the journal verifies, and so does each event by itself
    check "$1: the journal verifies" sh -c "'$CF' correspond journal verify '$J' | jq -e .valid"
    local bad=0
    events | jq -c .event >"$WORK/events"
    while read -r event; do printf '%s' "$event" | "$CF" correspond verify --keyring "$WORK/keyring" --project $PROJECT >/dev/null || bad=$((bad + 1)); done <"$WORK/events"
    check "$1: each event verifies" test $bad = 0
}
wait_for() { local i; for i in $(seq 300); do grep -q "$2" "$1" 2>/dev/null && return; sleep 0.05; done; }
# start ARGS...: cfrunner run in the background, stdout to $WORK/out, stderr to $WORK/err; sets PID
start() { : >"$WORK/err"; "$CF" run "$@" >"$WORK/out" 2>"$WORK/err" & PID=$!; }

# ---- a whole run -----------------------------------------------------------------------------------
new_journal whole
sh_run 'cat >/dev/null; mkdir -p d; printf abc >d/b; printf "" >a; echo done'
cf "a run in a journal" 0 run "${L[@]}" "${ADA[@]}" --claim-path src --claim-path docs/specs --collect "$WORK/out1" --prompt one --prompt two
sound "a run"
has "the claim is opened first, released and closed last" '[.[].event.kind] | .[0] == "claim.open" and .[-2:] == ["claim.release", "close"]'
has "all lineage is valid, nothing is missing" 'all(.[]; (.lineage_status | . == "valid" or . == "not_applicable") and .missing_parents == [])'
has "each event has the paths, the thread, no authority" 'all(.[].event; .scope.paths == ["src", "docs/specs"] and .thread_id == "t" and .authority == {automatic_action: "never", grants: []})'
has "progress names phases, turns and the image" '[.[].event | select(.kind == "progress").body.summary] | (map(test(": image sha256:[0-9a-f]{64}, built")) | any) and (map(endswith(": turn 1")) | any) and (map(endswith(": turn 2")) | any) and (map(endswith(": sandbox")) | any)'
has "the close says how it went" '.[-1].event.body.summary | test(": ok, 2 turn\\(s\\), .* 2 file\\(s\\) collected, teardown proven")'
digests=$(cd "$WORK/out1" && find . -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -0 sha256sum -z -- | tr '\0' '\n' | cut -c1-64 | tr '\n' ' ')
list=$(cd "$WORK/out1" && find . -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -0 sha256sum -z -- | sha256sum | cut -c1-64)
check "each file, and the list of all, is offered by its digest" test "$(events | jq -r 'select(.event.kind == "artifact.offer").event.body.artifact | select(.kind == "content_digest").digest[7:]' | tr '\n' ' ')" = "$digests$list "
nd "the result names the files of the offers" '.[-1].result.correspondence | .complete and .failed == 0 and [.offered[].path] == ["a", "d/b"] and .list_offered'
jq -c '.result // empty' "$WORK/out" >"$WORK/result.json"
check "the result conforms to its schema" sh -c "'$CF' schema check --schema proto/run-result.schema.json '$WORK/result.json' | jq -e .valid"
check "events conform to their schema" sh -c "while read -r e; do printf '%s' \"\$e\" >'$WORK/e.json'; '$CF' schema check --schema proto/correspondence-event.schema.json '$WORK/e.json' | jq -e .valid || exit 1; done <'$WORK/events'"
check "no claim is left" test "$(claims)" = '[]'
audit "a run"

# ---- what it never says ------------------------------------------------------------------------------
new_journal secrets
printf planted-content >"$WORK/planted-content"
sh_run 'prompt=$(cat); echo "$prompt" >"$prompt"; echo planted-in-file >planted-name; echo planted-stdout; echo planted-stderr >&2'
cf "a run full of secrets" 0 run "${L[@]}" "${ADA[@]}" --claim-path src --collect "$WORK/out2" --env KEY=planted-env --file "$WORK/planted-content:planted-target" --prompt planted-prompt
check "what the harness made is there" test -f "$WORK/out2/planted-prompt"
check "nothing planted is in the journal" sh -c "! grep -rqa planted '$J'"
check "no secret key is in the journal" sh -c "! grep -rqaF '$(jq -r .seed_b64url "$WORK/ada.key")' '$J' '$WORK/out' '$WORK/err'"
sh_run 'cat >/dev/null; echo planted-death >&2; exit 3'
cf "a run that fails" 1 run "${L[@]}" "${ADA[@]}" --claim-path src --prompt planted-prompt
check "nor of a failure's text" sh -c "! grep -rqa planted '$J'"
has "the close says the type of the failure" '.[-1].event.body.summary | test(": failed, runtime.harness_failed, 1 turn")'

# ---- while it lives, and what others see -----------------------------------------------------------
new_journal live
sh_run 'cat >/dev/null; sleep 60'
start "${L[@]}" "${ADA[@]}" --claim-path src --claim-ttl 3s --prompt x
wait_for "$WORK/err" 'turn \.\.\.'; first_pid=$PID
mine=$(claims)
check "a second terminal sees the claim" sh -c "printf '%s' '$mine' | jq -e 'length == 1 and .[0].paths == [\"src\"]'"
id=$(printf '%s' "$mine" | jq -r '.[0].claim_id')
mv "$WORK/err" "$WORK/err.first"; mv "$WORK/out" "$WORK/out.first"
sh_run 'cat >/dev/null; echo done'
cf "an overlapping claim is no obstacle" 0 run "${L[@]}" "${BOB[@]}" --claim-path src/server --prompt x
says "the overlap is told on stderr" "claim_overlap: live claim $id of identity $(jq -r .identity_id "$WORK/ada.pub") in thread t overlaps on src until "
nd "the overlap is a finding, and in the result" ".[-1].result | ([.findings[] | select(.id == \"claim_overlap\")] | length == 1) and .correspondence.overlaps[0].claim_id == \"$id\" and .correspondence.complete"
cf "a claim beside it" 0 run "${L[@]}" "${BOB[@]}" --claim-path src-old --prompt x
nd "is no overlap" '.[-1].result | .findings == [] and .correspondence.overlaps == []'
sleep 2.5
check "the claim was renewed past its time" sh -c "'$CF' correspond journal claims '$J' --repository repo | jq -e '.claims[0] | .claim_id == \"$id\" and .generation > 2'"
kill -9 $first_pid; wait $first_pid 2>/dev/null
check "after SIGKILL the claim still stands" test "$(claims | jq length)" = 1
sleep 3.2
check "and expires by itself" test "$(claims)" = '[]'
sleep 1
cf "reap" 0 reap --json
sound "two people and a death"
audit "a death"

# ---- ends ------------------------------------------------------------------------------------------
new_journal ends
sh_run 'cat >/dev/null; sleep 60'
start "${L[@]}" "${ADA[@]}" --claim-path . --prompt x
wait_for "$WORK/err" 'turn \.\.\.'; kill -INT $PID; got=0; wait $PID || got=$?
check "SIGINT: exit 130" test $got = 130
has "SIGINT: released and closed" '[.[].event.kind][-2:] == ["claim.release", "close"] and (.[-1].event.body.summary | test("teardown proven"))'
start "${L[@]}" "${ADA[@]}" --claim-path . --prompt x
wait_for "$WORK/err" 'journal \.\.\.'; kill -INT $PID; got=0; wait $PID || got=$?
check "SIGINT at the beginning: exit 130" test $got = 130
check "SIGINT at the beginning: no claim is left" test "$(claims)" = '[]'
cf "no engine" 3 run "${L[@]}" "${ADA[@]}" --claim-path . --prompt x --engine unix:///nonexistent/docker.sock
check "no engine: no claim is left" test "$(claims)" = '[]'
has "no engine: the close says so" '.[-1].event.body.summary | test(": failed, runtime.runner_unavailable, 0 turn")'
sh_run 'cat >/dev/null; sleep 2; echo done'
start "${L[@]}" "${ADA[@]}" --claim-path . --claim-ttl 3s --prompt x
wait_for "$WORK/err" 'turn \.\.\.'
flock "$J/lock" sh -c "echo \$\$ >'$WORK/holder'; exec sleep 30" & lock=$!
got=0; wait $PID || got=$?
kill $(cat "$WORK/holder"); wait $lock 2>/dev/null
check "a journal that cannot be written stops no run" test $got = 0
nd "but the result says it is not complete" '.[-1].result | .status == "ok" and (.correspondence.complete | not) and .correspondence.failed > 0 and ([.findings[] | select(.id == "journal")] | length == 1)'
audit "ends"

# ---- the schemas and the contract's own bodies -----------------------------------------------------
new_journal schemas
fits() { "$CF" schema check --schema "proto/correspondence-$1.schema.json" "$2" | jq -e .valid >/dev/null; }
check "a keyring conforms to its schema" fits keyring "$WORK/keyring"
head -n 1 "$WORK/events" >"$WORK/one"
"$CF" correspond journal append "$J" <"$WORK/one" >"$WORK/receipt"
check "a receipt conforms to its schema" fits receipt "$WORK/receipt"
wrong=""
while read -r body; do
    jq -c --argjson b "$body" '. * {kind: $b.kind} | .body = $b.body' "$WORK/one" >"$WORK/e.json"; fits event "$WORK/e.json" || wrong="$wrong $(jq -r .kind "$WORK/e.json")"
done < <(jq -c '.body_matrix[]' fixtures/agent-correspondence-0.1-vectors.json)
check "the contract's 21 bodies conform:$wrong" test -z "$wrong"
jq -c '.receipt = 1' "$WORK/one" >"$WORK/e.json"; check "an unknown member does not" sh -c "! '$CF' schema check --schema proto/correspondence-event.schema.json '$WORK/e.json'"
jq -c '.body.grants = []' "$WORK/one" >"$WORK/e.json"; check "nor one in a body" sh -c "! '$CF' schema check --schema proto/correspondence-event.schema.json '$WORK/e.json'"

# ---- two at once, in one journal ---------------------------------------------------------------------
new_journal both
sh_run 'cat >/dev/null; sleep 1; echo done'
"$CF" run "${L[@]}" "${ADA[@]}" --claim-path a --prompt x >"$WORK/a" 2>/dev/null & a=$!
"$CF" run "${L[@]}" "${BOB[@]}" --claim-path b --prompt x >"$WORK/b" 2>/dev/null & b=$!
wait $a; ra=$?; wait $b; rb=$?
check "two at once are well" test $ra$rb = 00
check "both accounts are complete" sh -c "tail -qn 1 '$WORK/a' '$WORK/b' | jq -es 'all(.[]; .result.correspondence.complete)'"
sound "two at once"

# ---- what is refused, before an engine is asked -----------------------------------------------------
new_journal refused
no() { local name=$1 text=$2; shift 2; cf "$name" 2 run "${L[@]}" --prompt x --engine unix:///nonexistent "$@"; says "$name" "$text"; }
no "no claim path" "--claim-path is missing" "${ADA[@]}"
no "a path alone" "--journal is missing" --claim-path src
no "a journal that is none" "/none" --journal "$WORK/none" --identity "$WORK/ada.key" --repository-id r --thread-id t --claim-path src
no "a key that the journal does not know" "does not know the identity's signing key" --journal "$J" --identity "$WORK/eve.key" --repository-id r --thread-id t --claim-path src
no "a path that is not normalized" "path_not_normalized" "${ADA[@]}" --claim-path ../up
no "a claim too short" "claim_ms" "${ADA[@]}" --claim-path src --claim-ttl 1s
check "none of them is in the journal" test "$(kinds)" = ""
cf "test oci has no journal" 2 test oci "${ONESHOT[@]}" --journal "$J"
finish

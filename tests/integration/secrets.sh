#!/usr/bin/env bash
# Planted secrets are looked for wherever a run leaves words: what the Engine shows of its
# container, its events and logs, ours at -vv, results, reports, recordings, state. That a lease
# ends with its run, and is refused with 401 and a row in the ledger, is shown in tests/relay.
. tests/integration/lib.sh

# Planted: in the host's environment, in what is handed to the harness, in the docker client's
# file, in a connection file beside what we read of it.
export ANTHROPIC_API_KEY=planted-anthropic-7d1f OPENAI_API_KEY=planted-openai-7d1f CF_PLANTED=planted-host-7d1f
export AWS_SECRET_ACCESS_KEY=planted-cloud-7d1f DOCKER_CONFIG=$WORK/docker
mkdir -p "$DOCKER_CONFIG" "$WORK/found"
printf '{"auths":{"registry.example:5000":{"auth":"%s"}}}' "$(printf 'user:planted-registry-7d1f' | base64 -w0)" >"$DOCKER_CONFIG/config.json"
printf '{"defaults":{"sandbox":"s-1","model":"m-1"},"token":"planted-connection-7d1f"}' >"$WORK/connection.json"
HOST="planted-anthropic-7d1f planted-openai-7d1f planted-host-7d1f planted-cloud-7d1f planted-registry-7d1f planted-connection-7d1f"
HOST+=" $(printf 'user:planted-registry-7d1f' | base64 -w0)"
flags=(--connection-file "$WORK/connection.json" --env HARNESS_SECRET=planted-given-7d1f)
[ -z "$("$CF" test oci --help-all | grep -e '--record')" ] || flags+=(--record "$WORK/found/recording.cfr")

# silent NAME DIRECTORY VALUE...: no value is in any file there, as it is, in base64 or reversed by JSON's escapes.
silent() {
    local name=$1 where=$2 value hits="" encoded; shift 2
    for value; do
        encoded=$(printf %s "$value" | base64 -w0)
        hits+=$(grep -rlaF -e "$value" -e "${encoded%%=*}" "$where" | sed "s/^/$value: /")
    done
    if [ -z "$hits" ]; then ok "$name"; else bad "$name" "$hits"; fi
}

since=$(date +%s)
# look NAME FLAGS...: a run that stands in its turn is looked at from everywhere, then interrupted.
look() {
    local name=$1 pid id process _; shift
    "$CF" test oci "$@" "${flags[@]}" -vv --json >"$WORK/found/$name.out" 2>"$WORK/found/$name.err" & pid=$!
    for _ in $(seq 400); do grep -q "turn ..." "$WORK/found/$name.err" && break; sleep 0.02; done
    for _ in $(seq 100); do
        process=$(grep -lsz '^HARNESS_SECRET=planted-given-7d1f' /proc/[0-9]*/environ | head -n 1)
        [ -z "$process" ] || break; sleep 0.05
    done
    check "$name: its process has what it was given" test -n "$process"
    tr '\0' '\n' <"$process" >"$WORK/environ"
    TOKEN=$(sed -n 's/^ANTHROPIC_API_KEY=//p' "$WORK/environ")
    check "$name: its token is a lease, not the host's key" test ${#TOKEN} -ge 16 -a "$TOKEN" != "$ANTHROPIC_API_KEY"
    check "$name: nothing of the host's environment is in the harness's" \
        test -z "$(for v in $HOST; do grep -F -- "$v" "$WORK/environ"; done)"
    id=$(engine "/containers/json?filters=%7B%22label%22%3A%5B%22com.checkfu.runner%22%5D%7D" | jq -r '.[0].Id')
    engine "/containers/$id/json" >"$WORK/found/$name.inspect"
    check "$name: the container was looked at" jq -e .Config "$WORK/found/$name.inspect"
    engine "/containers/$id/top" >"$WORK/found/$name.top"
    curl -s --unix-socket "${DOCKER_HOST#unix://}" "http://d/v1.41/containers/$id/logs?stdout=1&stderr=1" >"$WORK/found/$name.logs"
    "$CF" ps --json >"$WORK/found/$name.ps" 2>&1
    tr '\0' '\n' <"/proc/$(engine "/containers/$id/json" | jq .State.Pid)/cmdline" >"$WORK/found/$name.init"
    cp -r "$CFRUNNER_STATE_DIR" "$WORK/found/$name.state"
    kill -INT $pid; wait $pid
    silent "$name: the lease token is nowhere" "$WORK/found" "$TOKEN"
    # The harness's own command line is the author's; what is in its environment is not for the Engine.
    silent "$name: what was given by --env is nowhere" "$WORK/found" planted-given-7d1f
}
fault stall; look one-shot "${FAULT[@]}"
fault_acp stall-acp; look acp "${FAULT[@]}"

# Whole runs: their reports and results, good and bad, at every verbosity.
run_all() { # run_all NAME FLAGS...
    local name=$1 form; shift
    for form in --json --plain "--plain -v" "--plain -vv" "--json --print-plan"; do
        # shellcheck disable=SC2086
        timeout 60 "$CF" test oci "$@" "${flags[@]}" $form >"$WORK/found/$name$form.out" 2>"$WORK/found/$name$form.err"
    done
    timeout 60 "$CF" run --prompt hello "$@" --env HARNESS_SECRET=planted-given-7d1f -vv >"$WORK/found/$name.run" 2>"$WORK/found/$name.run.err"
}
fault proper; run_all good "${FAULT[@]}"
fault_acp segv-acp; run_all bad "${FAULT[@]}"
# The core of an error: an engine that is none, a registry that is none.
"$CF" test oci "${FAULT[@]}" "${flags[@]}" --engine unix:///nowhere -vv --json >"$WORK/found/none.out" 2>"$WORK/found/none.err"
"$CF" test oci --name x --image "registry.example:5000/x@sha256:$(printf '0%.0s' $(seq 64))" --entrypoint /x --protocol acp-v1 \
    --timeout 10s -vv --json >"$WORK/found/registry.out" 2>"$WORK/found/registry.err"
engine "/events?since=$since&until=$(date +%s)" >"$WORK/found/events"
check "the events were looked at" grep -q com.checkfu.runner "$WORK/found/events"
# shellcheck disable=SC2086
silent "what is the host's is nowhere" "$WORK/found" $HOST
# The plan, and the command that repeats a run, show the author his own flags; nothing else does.
rm -f "$WORK"/found/*print-plan* "$WORK"/found/*plain*.out
for result in "$WORK"/found/*--json.out; do jq 'del(.next_steps)' "$result" >"$WORK/x" && mv "$WORK/x" "$result"; done
silent "what was given by --env is nowhere, in any report" "$WORK/found" planted-given-7d1f
check "the search would have found it" sh -c "echo planted-given-7d1f >'$WORK/found/x' && grep -rqaF planted-given-7d1f '$WORK/found'"
audit "secrets"
finish

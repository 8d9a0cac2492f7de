#!/usr/bin/env bash
# What people get wrong, each with its own message and exit code.
. tests/integration/lib.sh

# ---- what can be seen without an engine: exit 2 ------------------------------------------
cf "unknown command" 2 rnu; says "unknown command" "did you mean run?"
cf "unknown command, --json" 2 tset --json; is "unknown command: one document" '.status == "error" and .exit_code == 2'
cf "unknown flag" 2 test oci --nam x; says "unknown flag" "did you mean --name"
cf "missing name" 2 test oci --image a@sha256:0; says "missing name" "--name is missing"
cf "missing entrypoint" 2 test oci --name x --build-context "$CTX/fault" --protocol acp-v1
says "missing entrypoint" "--entrypoint is missing"
cf "missing protocol" 2 test oci --name x --build-context "$CTX/fault" --entrypoint /x; says "missing protocol" "--protocol is missing"
cf "missing image" 2 test oci --name x --entrypoint /x --protocol acp-v1; says "missing image" "--build-context"
cf "relative entrypoint" 2 test oci --name x --build-context "$CTX/fault" --entrypoint opt/x --protocol acp-v1
says "relative entrypoint" "plain absolute path"
cf "tag instead of digest" 2 test oci --name x --image busybox:latest --entrypoint /x --protocol acp-v1
says "tag instead of digest" "docker inspect"
cf "value missing" 2 test oci --name --image x; says "value missing" "needs a value"
mkdir -p "$WORK/empty"
cf "empty build context" 2 test oci --name x --build-context "$WORK/empty" --entrypoint /x --protocol acp-v1
says "empty build context" "is empty"
cf "no such build context" 2 test oci --name x --build-context "$WORK/none" --entrypoint /x --protocol acp-v1
mkdir -p "$WORK/nodf"; touch "$WORK/nodf/x"
cf "context without Dockerfile" 2 test oci --name x --build-context "$WORK/nodf" --entrypoint /x --protocol acp-v1
says "context without Dockerfile" "has no Dockerfile"
cf "placeholder rule" 2 test oci --name x --build-context "$CTX/fault" --entrypoint /x --protocol oneshot-v1 \
    --prompt-transport argv_path --output-mode text
says "placeholder rule" "{prompt_path}"
cf "json on refusal" 2 test oci --nonsense --json; is "json on refusal: one document" '.status == "error" and .exit_code == 2'

# ---- the image: exit 1 ----------------------------------------------------------------------
fault proper
entry() { # entry NAME PATH WORD
    cf "$1" 1 test oci --name fault --build-context "$CTX/fault" --entrypoint "$2" --protocol oneshot-v1 \
        --prompt-transport stdin --output-mode text --json
    says "$1" "$3"; is "$1: blames the harness" '.blame == "harness" and .status == "failed"'
}
entry "entrypoint not in the image" /opt/fault/bin/none "/opt/fault/bin/none"
entry "entrypoint not executable" /opt/fault/bin/not-executable "not executable"
entry "entrypoint for another architecture" /opt/fault/bin/wrong-arch "is a program for"
entry "entrypoint is a folder" /opt/fault/bin/folder "folder"
entry "interpreter missing" /opt/fault/bin/bad-interpreter "interpreter"
entry "loader missing" /opt/fault/bin/needs-loader "loader"
entry "dangling link" /opt/fault/bin/dangling "dangling"
entry "empty file" /opt/fault/bin/empty "empty"
entry "plain text" /opt/fault/bin/plain-text "#!"
cf "working directory is created" 0 test oci "${FAULT[@]}" --working-directory /made/for/us --json
cf "working directory that cannot be" 1 test oci "${FAULT[@]}" --working-directory /proc --json
says "working directory that cannot be" "/proc"

mkdir -p "$WORK/failing"; printf 'FROM scratch\nCOPY nothing-here /x\n' >"$WORK/failing/Dockerfile"
cf "Dockerfile that fails" 1 test oci --name x --build-context "$WORK/failing" --entrypoint /x --protocol acp-v1 --json
says "Dockerfile that fails" "nothing-here"
audit "image mistakes"

# ---- the engine: exit 3 ---------------------------------------------------------------------
digest=sha256:$(printf '%064d' 7)
cf "unknown digest" 3 test oci --name x --image "127.0.0.1:9/none@$digest" --entrypoint /x --protocol acp-v1 --json
is "unknown digest: blames the engine" '.blame == "engine" and .status == "error"'
cf "never pulled" 3 test oci --name x --image "127.0.0.1:9/none@$digest" --entrypoint /x --protocol acp-v1 --pull never
cf "engine not running" 3 test oci "${ACP[@]}" --engine "unix://$WORK/no.sock" --json; says "engine not running" "no.sock"
python=$(command -v python3 || true)
if [ -n "$python" ]; then
    "$python" -c "
import socket,sys,os
s=socket.socket(socket.AF_UNIX); s.bind('$WORK/old.sock'); s.listen(8)
while True:
    c,_=s.accept(); c.recv(4096)
    c.sendall(b'HTTP/1.1 200 OK\r\nApi-Version: 1.24\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}'); c.close()
" & old=$!
    for _ in $(seq 100); do [ -S "$WORK/old.sock" ] && break; sleep 0.1; done; sleep 0.1
    cf "engine too old" 3 test oci "${ACP[@]}" --engine "unix://$WORK/old.sock"; says "engine too old" "1.24"
    kill $old; wait $old 2>/dev/null
else
    echo "SKIPPED engine too old: no python3 here to play the old engine"
fi
if [ "$(id -u)" = 0 ] && id nobody >/dev/null 2>&1; then
    sock=${DOCKER_HOST#unix://}; mode=$(stat -c %a "$sock"); chmod 0660 "$sock"
    chmod 0777 "$WORK"; cp "$CF" "$WORK/cfrunner"; chmod 0755 "$WORK/cfrunner"
    got=0; (cd "$WORK" && setpriv --reuid=nobody --regid=nogroup --clear-groups env CFRUNNER_STATE_DIR="$WORK/nobody" \
        ./cfrunner test oci --name x --image "a/b@$digest" --entrypoint /x --protocol acp-v1) >"$WORK/out" 2>"$WORK/err" || got=$?
    chmod "$mode" "$sock"
    check "socket without permission: exit 3" test $got = 3
    says "socket without permission" "group"
fi

# ---- what the harness does: exit 1 -----------------------------------------------------------
wrong() { # wrong NAME WORD
    cf "$1" 1 test oci "${FAULT[@]}" --json; says "$1" "$2"; is "$1: blames the harness" '.blame == "harness"'
    is "$1: teardown proven all the same" '.teardown.proven'
}
fault exit0; wrong "exits at once with 0" "printed nothing"
fault exit3; wrong "exits at once with 3" "code 3"
fault_acp exit0; wrong "acp: exits at once with 0" "exited with code 0"
fault_acp exit3; wrong "acp: exits at once with 3" "exited with code 3"
fault_acp ignore-term
FAULT+=(--start-timeout 2s); wrong "acp: never answers, no bytes" "no bytes were seen"
fault_acp cat
FAULT+=(--start-timeout 2s); wrong "acp: cat" "initialize"
fault_acp banner; cf "acp: banner first" 0 test oci "${FAULT[@]}" --json; is "acp: banner is a finding with its line" '[.findings[] | select(.id == "stdout_pollution" and .frame == 1)] | length == 1'
fault_acp close-stdout; wrong "acp: closes stdout and lives on" "stdout"
fault close-stdout; FAULT+=(--turn-timeout 5s); wrong "closes stdout and lives on" "turn"
fault_acp ignore-term-acp; cf "acp: ignores SIGTERM and end of input" 0 test oci "${FAULT[@]}" --json
fault double-fork; cf "double-forked child that holds stdout" 0 test oci "${FAULT[@]}" --json
fault double-fork-exit; wrong "double-forks and exits" "printed nothing"
fault eat-memory; FAULT+=(--memory 64m); wrong "killed by the memory limit" "memory"
is "memory: OOM is told apart" '.harness.exit.oom == "yes"'
fault narrate; wrong "narrates without the model" "no model call"
is "narrate: fails process_exchange" '[.checks[] | select(.id == "process_exchange").status] == ["failed"]'
fault_acp narrate-acp; wrong "acp: narrates without the model" "no model call"
is "narrate-acp: fails prompt_exchange" '[.checks[] | select(.id == "prompt_exchange").status] == ["failed"]'
fault drop-answer; wrong "drops the answer" "dropped"
fault_acp drop-answer-acp; wrong "acp: drops the answer" "dropped"
is "drop: the model plane was reached all the same" '[.checks[] | select(.id == "model_plane_reached").status] == ["passed"]'
fault segv; wrong "SIGSEGV" "signal 11"
fault_acp kill-acp; wrong "acp: SIGKILL in the turn" "signal 9"
fault_acp exit-acp 7; wrong "acp: exit 7 in the turn" "code 7"
fault stall; FAULT+=(--turn-timeout 3s); wrong "stalls" "did not end within"
fault stderr-flood 64; cf "64 MiB on stderr" 0 test oci "${FAULT[@]}" --json
fault fork-bomb; FAULT+=(--turn-timeout 5s --pids 64); cf "fork bomb" 1 test oci "${FAULT[@]}" --json
fault stall; FAULT+=(--timeout 4s); cf "whole deadline" 5 test oci "${FAULT[@]}" --json
audit "harness faults"
finish

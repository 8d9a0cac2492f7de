# lib.sh: sourced by every integration test. An Engine answers at DOCKER_HOST (docker/engine/with-engine).
# Each test file ends with `finish`, which prints "N passed, N failed" and fails when one failed.
set -u
B=${CF_BUILD:-build}
CF=$B/cfrunner
CTX=$B/context
WORK=$(mktemp -d)
export CFRUNNER_STATE_DIR=$WORK/state
passed=0 failed=0
trap 'rm -rf "$WORK"' EXIT

ok() { passed=$((passed + 1)); printf 'ok    %s\n' "$1"; }
bad() { failed=$((failed + 1)); printf 'FAIL  %s\n' "$1"; [ $# -lt 2 ] || printf '%s\n' "$2" | sed 's/^/      /' | head -n 30; }

# check NAME COMMAND...: passes when the command does.
check() {
    local name=$1; shift
    if "$@" >"$WORK/check.out" 2>&1; then ok "$name"; else bad "$name" "$(cat "$WORK/check.out")"; fi
}

# cf NAME WANTED_EXIT ARGS...: runs cfrunner, bounded, keeps stdout in $WORK/out, stderr in $WORK/err.
cf() {
    local name=$1 want=$2 got=0; shift 2
    timeout -k 5 "${CF_TEST_TIMEOUT:-90}" "$CF" "$@" >"$WORK/out" 2>"$WORK/err" || got=$?
    if [ "$got" = "$want" ]; then ok "$name: exit $want"; else
        bad "$name: exit $got, wanted $want" "$(tail -n 12 "$WORK/err"; head -c 3000 "$WORK/out")"; fi
}

# says NAME TEXT: the last run's stdout or stderr holds TEXT.
says() {
    if grep -qF -- "$2" "$WORK/out" "$WORK/err"; then ok "$1: says '$2'"; else
        bad "$1: does not say '$2'" "$(tail -n 5 "$WORK/err"; head -c 1500 "$WORK/out")"; fi
}

# is NAME JQ: the last run's stdout is one JSON document for which the filter is true.
is() {
    if jq -es 'length == 1' "$WORK/out" >/dev/null 2>&1 && jq -e "$2" "$WORK/out" >/dev/null 2>&1; then ok "$1"; else
        bad "$1: not $2" "$(head -c 2500 "$WORK/out")"; fi
}

engine() { curl -sf --unix-socket "${DOCKER_HOST#unix://}" "http://d/v1.41$1"; }

# audit NAME: the engine holds nothing that carries our label, and no image that was not there before.
audit() {
    local left filter='filters=%7B%22label%22%3A%5B%22com.checkfu.runner%22%5D%7D'
    left=$(engine "/containers/json?all=1&$filter" | jq -r '.[].Id'
           engine "/volumes?$filter" | jq -r '.Volumes[]?.Name'
           engine "/networks?$filter" | jq -r '.[].Id'
           engine "/images/json?all=1&$filter" | jq -r '.[].Id'
           engine "/images/json?all=1" | jq -r '.[].Id' | sort | comm -13 "$WORK/images" -)
    if [ -z "$left" ]; then ok "$1: nothing is left"; else bad "$1: left behind" "$left"; fi
}
remember_images() { engine "/images/json?all=1" | jq -r '.[].Id' | sort >"$WORK/images"; }
remember_images

finish() {
    printf '%s: %d passed, %d failed\n' "$(basename "$0" .sh)" "$passed" "$failed"
    [ "$failed" = 0 ] && [ "$passed" -gt 0 ]
}

# The two reference harnesses' launch flags.
ONESHOT=(--name custom-oneshot --build-context "$CTX/oneshot-harness" --entrypoint /opt/checkfu/bin/checkfu-oneshot
    --protocol oneshot-v1 --argv=--output-mode --argv=stream_json --argv=--prompt-path '--argv={prompt_path}'
    '--argv={resume_flag}' --prompt-transport argv_path --output-mode stream_json --resume-flag=--resume
    --output-schema-flag=--output-schema --output-schema-transport argv_path --working-directory /workspace)
ACP=(--name custom-acp --build-context "$CTX/acp-harness" --entrypoint /opt/custom/bin/acp-agent --protocol acp-v1
    --arg=--stdio --working-directory /workspace)
# fault MODE...: launch flags of the wrong harness, one-shot; fault_acp: the same over ACP.
fault() {
    FAULT=(--name fault --build-context "$CTX/fault" --entrypoint /opt/fault/bin/fault --protocol oneshot-v1
        --prompt-transport stdin --output-mode text)
    local arg; for arg; do FAULT+=("--argv=$arg"); done
}
fault_acp() {
    FAULT=(--name fault --build-context "$CTX/fault" --entrypoint /opt/fault/bin/fault --protocol acp-v1)
    local arg; for arg; do FAULT+=("--arg=$arg"); done
}

# audit.sh: is the verdict one and true, and is the machine as it was.

# judge: one document that says what the exit code says, and a verdict that is true of this kind.
judge() {
    local said
    [ -z "$KILLED$HUNG" ] || return 0
    [[ " $TRUE " == *" $EXIT "* ]] || WRONG+=" exit $EXIT, true are $TRUE"
    said=$(jq -rs --argjson exit "$EXIT" --arg blames " $BLAME " '
        if length != 1 or (.[0]|type) != "object" then "not one document" else .[0] |
        (if .exit_code != $exit then "the document says exit \(.exit_code), it was \($exit)" else empty end),
        (if $exit == 0 then
            (if .status != "passed" or .blame != "none" then "exit 0, and \(.status), blame \(.blame)" else empty end),
            (if ([.checks[]|select(.status == "passed")]|length) < 4 then "green with nothing proven" else empty end),
            (if .teardown.proven then empty else "passed without a proven teardown" end)
         elif $exit == 130 then empty
         else
            (if .status == "passed" then "exit \($exit), and passed" else empty end),
            (.blame as $b | if $blames|contains(" \($b) ") then empty else "blames \($b), true are\($blames)" end),
            (if ([.error.message?, (.checks[]|select(.status == "failed")|.error.message?, .summary)] | map(. // "" | length) | max // 0) < 10 then "no word about why" else empty end)
         end),
        # What is left is exit 4, and named with the line that removes it.
        (if (.teardown.left? // [] | length) > 0 and $exit != 4 then "something left, and exit \($exit)" else empty end),
        (if [.teardown.left[]?|select((.remove // "") == "")] != [] then "left without a line that removes it" else empty end)
        end' "$SLOT/out" 2>&1 | tr '\n' ';')
    WRONG+=${said:+" $said"}
}

stops_within_ms() { # the dead man's switch: nothing of this owner runs any more
    local until=$((${EPOCHREALTIME/./} + $1 * 1000))
    while ((${EPOCHREALTIME/./} < until)); do
        container || return 0
        nap 0.05
    done
    LEAKED+=" still running $1 ms after the runner was killed"
}

# ask PATH...: the Engine's answers, one JSON value after another
ask() {
    local path urls=()
    for path; do urls+=("http://d/v1.41$path"); done
    curl -sf -m 20 --unix-socket "${DOCKER_HOST#unix://}" "${urls[@]}"
}
owned() { # everything of this slot's owner
    local owner filter
    { read -r owner <"$CFRUNNER_STATE_DIR/owner-id"; } 2>/dev/null || return 0
    filter="filters=%7B%22label%22%3A%5B%22com.checkfu.runner.owner%3D$owner%22%5D%7D"
    ask "/containers/json?all=1&$filter" "/volumes?$filter" "/images/json?all=1&$filter" |
        jq -r 'if type == "array" then .[] | (.Name // .Id) else .Volumes[]?.Name end'
}
# The harness's own processes on this host, by what only they have in their environment.
inside() { grep -lsz "CF_CAMPAIGN=$TOKEN" /proc/[0-9]*/environ; }

# own_audit: what this very run left. A proven teardown left nothing at that moment; everything
# else is reap's, which has as long as an Engine needs to finish what was already asked of it.
own_audit() {
    local left _
    left=$(owned; inside)
    if [ -n "$left" ] && [ -z "$KILLED" ] && jq -e .teardown.proven "$SLOT/out" >/dev/null 2>&1; then
        LEAKED+=" called proven: ${left//$'\n'/, }"
    fi
    if [ -n "$KILLED$left" ]; then
        for _ in 1 2 3 4 5 6 7 8; do
            timeout 30 "$CF" reap --json >"$SLOT/reap" 2>"$SLOT/reap.err" || sleep 1
            left=$(owned; inside)
            [ -n "$left" ] || break
            sleep 0.5
        done
        [ -z "$left" ] || LEAKED+=" after reap: ${left//$'\n'/, }"
    fi
    # A lock file younger than some seconds may be about to be locked: that one is the next reap's.
    left=$(find "$CFRUNNER_STATE_DIR/runs" -type f -mmin +0.5 2>/dev/null)
    [ -z "$left" ] || LEAKED+=" state: ${left//$'\n'/, }"
    left=$(ls -A "$SLOT/tmp"); [ -z "$left" ] || LEAKED+=" temporary files: ${left//$'\n'/, }"
    rm -rf "${SLOT:?}/tmp"
}

# What the machine holds while nothing runs.
census() {
    ask "/containers/json?all=1" /volumes /networks "/images/json?all=1" |
        jq -r 'if type == "array" then .[] | (.Name // .Id) else .Volumes[]?.Name end'
    grep -lsz "^$CF_ENGINE_DIR.*/containerd.sock\$" /proc/[0-9]*/cmdline # only a shim has it as an argument
    ss -Hltnp | grep cfrunner
}
baseline() { census | sort >"$WORK/baseline"; }

# shared_audit: the same as before the pair, within as long as an Engine needs to clear up. Whose runner
# was killed has nobody who waits for it: a step of a build that the Engine still ended after reap had
# looked bears our labels, and is the next reap's.
shared_audit() {
    local i slot now
    for i in $(seq 50); do
        now=$(census | sort | comm -13 "$WORK/baseline" -)
        [ -n "$now" ] || return 0
        for slot in a b; do
            ((i % 10 != 0)) || [ ! -e "$WORK/$slot/killed" ] ||
                CFRUNNER_STATE_DIR=$WORK/state.$slot timeout 30 "$CF" reap >/dev/null 2>&1
        done
        sleep 0.1
    done
    SHARED=" beside both: ${now//$'\n'/, }"
    census | sort >"$WORK/baseline" # so that one leak is told once
}

# At the end nothing is young any more.
last_audit() {
    local slot left
    sleep 6
    for slot in a b; do
        CFRUNNER_STATE_DIR=$WORK/state.$slot "$CF" reap --json >/dev/null 2>&1
        left=$(ls "$WORK/state.$slot/runs" 2>/dev/null)
        [ -z "$left" ] || { echo "left in the state: $left"; return 1; }
    done
}

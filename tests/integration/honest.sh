#!/usr/bin/env bash
# Told honestly: each fault of a harness and each limit has its exit code, its blame and its own
# words, from `test oci` and from `run` alike; a run that showed nothing is never green; --json is
# one document on every path; reap takes what is dead and nothing else.
. tests/integration/lib.sh
. tests/support/publish.sh
check "the image is made" publish honest/fault "$CTX/fault"; IMAGE=$REF
remember_images
AT=(--name honest --image "$IMAGE" --pull never --entrypoint /opt/fault/bin/fault)
modes() { # modes MODE [ARGUMENT...]: MODE-acp is spoken to over ACP
    L=("${AT[@]}"); local word
    case $1 in
        *-acp | banner) L+=(--protocol acp-v1); for word; do L+=("--arg=$word"); done ;;
        *) L+=(--protocol oneshot-v1 --prompt-transport stdin --output-mode text); for word; do L+=("--argv=$word"); done ;;
    esac
}

# ---- each fault: MODE|FLAGS|EXIT|BLAME|TYPE|WORDS --------------------------------------------------
# TYPE is the contract's error type, in `run` as in `test oci`; WORDS are in the message.
while IFS='|' read -r mode flags exit blame type words; do
    read -ra m <<<"$mode"; read -ra f <<<"$flags"; modes "${m[@]}"
    cf "$mode" "$exit" run --prompt x "${L[@]}" "${f[@]}" --grace 2s
    tail -n 1 "$WORK/out" | jq .result >"$WORK/result"
    why=$(jq -r --arg blame "$blame" --arg type "$type" --arg words "$words" --argjson exit "$exit" '
        (.error // ([.turns[].error | values] | last)) as $e |
        (if (.status == "ok") != ($exit == 0) then "status \(.status), exit \($exit)" else empty end),
        (if $exit == 0 then empty else
            (if $e.blame != $blame then "blames \($e.blame)" else empty end),
            (if $e.type != $type then "type \($e.type)" else empty end),
            (if ($e.message | contains($words)) then empty else "says \($e.message)" end),
            (if ($e.fix | length) > 3 then empty else "no fix" end) end),
        (if .teardown.proven then empty else "teardown not proven" end)' "$WORK/result" 2>&1)
    if [ -z "$why" ]; then ok "$mode: $type, '$words'"; else bad "$mode" "$why"; fi
    "$CF" schema check --schema proto/run-result.schema.json "$WORK/result" >"$WORK/check.out" 2>&1
    check "$mode: the result is in its schema" jq -e .valid "$WORK/check.out"
done <<'TABLE'
print hello||0|none||
exit0||1|harness|runtime.harness_failed|printed nothing
exit3||1|harness|runtime.harness_failed|code 3
segv||1|harness|runtime.harness_failed|signal 11
segv-acp||1|harness|runtime.harness_failed|signal 11
kill-acp||1|harness|runtime.harness_failed|signal 9 (Killed), and not for want of memory
child-eats|--memory 64m|1|harness|runtime.harness_failed|code 3, after a process that it started was ended, out of memory (limit 64 MiB)
eat-memory|--memory 64m|1|harness|runtime.harness_failed|out of memory (limit 64 MiB)
eat-memory-acp|--memory 64m|1|harness|runtime.harness_failed|out of memory (limit 64 MiB)
stall|--turn-timeout 1s|1|harness|runtime.turn_deadline_exceeded|did not end within 1 s
stall-acp|--turn-timeout 60s --idle-timeout 1s|1|harness|runtime.turn_deadline_exceeded|idle
stall|--timeout 4s|5|harness|runtime.turn_deadline_exceeded|
print-lots 8|--output-limit 2m|1|harness|budget.exceeded|on stdout
fill-disk 256|--disk 16m|1|harness|budget.exceeded|bytes of disk
fill-at-once 256|--disk 16m|1|harness|budget.exceeded|bytes of disk
fill-unlinked 256|--disk 16m --turn-timeout 20s|1|harness|budget.exceeded|bytes of disk
fork-bomb|--pids 64 --turn-timeout 2s|1|harness|runtime.turn_deadline_exceeded|its limit of 64 processes was reached
fork-refused|--pids 64|1|harness|budget.exceeded|code 5, after its limit of 64 processes was reached
TABLE

# A fifth of a cpu, and a harness that would take a whole one.
modes spin
cf "a fifth of a cpu" 0 run --prompt x "${L[@]}" --cpus 0.2
used=$(tail -n 1 "$WORK/out" | jq '.result.harness.exit | .user_us + .system_us')
check "a fifth of a cpu: no more was had in its second ($((used / 1000)) ms)" test "$used" -gt 0 -a "$used" -lt 600000

# What is left of the budget is in the environment: never more than the smallest that holds.
modes env CHECKFU_DEADLINE_MS
cf "budget in the environment" 0 run --prompt x "${L[@]}" --turn-timeout 7s --timeout 60s
left=$(jq -r '.observation.payload.content? // empty' "$WORK/out" | tr -dc 0-9)
check "budget in the environment: the turn's, when that is the smaller ($left ms)" test "${left:-0}" -gt 0 -a "${left:-0}" -le 7000
cf "budget in the environment" 0 run --prompt x "${L[@]}" --turn-timeout 60s --timeout 20s
left=$(jq -r '.observation.payload.content? // empty' "$WORK/out" | tr -dc 0-9)
check "budget in the environment: the whole command's, when that is ($left ms)" test "${left:-0}" -gt 0 -a "${left:-0}" -lt 20000
audit "the table"

# ---- nothing shown is nothing proven ---------------------------------------------------------------
modes proper
for line in "engine ..." "image ..." "sandbox ..."; do
    "$CF" test oci "${L[@]}" --json >"$WORK/out" 2>"$WORK/err" & pid=$!
    for _ in $(seq 400); do grep -qF "$line" "$WORK/err" && break; sleep 0.01; done
    kill -INT $pid; got=0; wait $pid || got=$?
    # On a fast machine it may be over before the signal: then it is wholly green.
    is "interrupted at $line: exit $got, and green only when all is proven" \
        ".exit_code == $got and ((.status == \"passed\") == ($got == 0)) and ($got != 0 or ([.checks[] | select(.status == \"passed\")] | length) > 4)"
done
digest=sha256:$(printf '%064d' 7)
cf "no image" 3 test oci --name x --image "127.0.0.1:9/none@$digest" --entrypoint /x --protocol acp-v1 --pull never --json
is "no image: no check passed, and it is an error" '.status == "error" and ([.checks[] | select(.id != "teardown_drained" and .status == "passed")] == [])'

# ---- one document on every path --------------------------------------------------------------------
one() { # one NAME EXIT ARGS...
    cf "$1" "$2" "${@:3}"
    is "$1: one document" 'type == "object"'
}
one "reap, no engine" 3 reap --json --engine unix:///none
one "ps, no engine" 3 ps --json --engine unix:///none
one "reap, a state folder that is none" 2 reap --json --state-dir /proc/none
one "test oci, a state folder that is none" 2 test oci "${L[@]}" --json --state-dir /proc/none
is "test oci, a state folder that is none: an error, and no fault of the harness" '.status == "error" and .blame != "harness"'
one "run, a state folder that is none" 2 run --prompt x "${L[@]}" --state-dir /proc/none
one "reap, a flag that is none" 2 reap --json --nonsense
one "run, a flag that is none" 2 run --nonsense
cf "run, no engine" 3 run --prompt x "${L[@]}" --engine unix:///none
check "run, no engine: each line is a document, the last one the result" jq -es '(.[-1].result.status == "failed") and ([.[] | select(.result)] | length) == 1' "$WORK/out"
one "test oci, a flag that is none" 2 test oci --json --nonsense
one "test oci, no engine" 3 test oci "${L[@]}" --json --engine unix:///none
# A descriptor that was closed is no place for a socket; a result that stdout does not take is none.
modes proper
bare() { timeout -k 5 60 "$CF" "$@"; }
good="test oci ${L[*]} --json"
got=0; bare $good <&- 2>&- >"$WORK/out" || got=$?
check "stdin and stderr closed: exit 0 (it is $got)" test $got = 0
is "stdin and stderr closed: one document" '.status == "passed" and .teardown.proven'
for place in "a full disk" "closed"; do
    for what in "$good" "ps --json" "run --prompt x ${L[*]}"; do
        got=0
        if [ "$place" = closed ]; then bare $what >&- 2>"$WORK/err" || got=$?; else bare $what >/dev/full 2>"$WORK/err" || got=$?; fi
        check "${what%% -*}, stdout $place: exit 4 (it is $got)" test $got = 4
        check "${what%% -*}, stdout $place: and says so" test -s "$WORK/err"
    done
done
audit "closed descriptors"
# The disk under the state folder is full: neither the engine's doing nor the harness's.
mkdir "$WORK/small"
if unshare -m mount -t tmpfs -o size=64k none "$WORK/small" 2>/dev/null; then
    got=0
    unshare -m sh -c 'mount -t tmpfs -o mode=0700,size=64k none "$0" && exec timeout -k 5 60 "$@" --state-dir "$0"' "$WORK/small" \
        "$CF" test oci "${ACP[@]}" --json >"$WORK/out" 2>"$WORK/err" || got=$?
    check "no room for a built image in the state folder: exit 4 (it is $got)" test $got = 4
    is "no room for a built image in the state folder: blames the runner, and says what to do" \
        '.blame == "runner" and .teardown.proven and (.error.fix | test("state folder"))'
    audit "no room in the state folder"
else
    echo "SKIPPED no room in the state folder: nothing may be mounted here"
fi
# An engine that never answers, and a signal then.
mkfifo "$WORK/hold"
"$B/tests/support/spoil" "$DOCKER_HOST" HEAD /_ping hang 0 0 999 >"$WORK/spoil" & spoil=$!
for _ in $(seq 200); do [ -s "$WORK/spoil" ] && break; sleep 0.02; done
for what in "reap --json" "ps --json" "test oci ${L[*]} --json"; do
    for signal in INT TERM HUP QUIT; do
        read -ra words <<<"$what"
        timeout -k 5 60 "$CF" "${words[@]}" --engine "$(head -n 1 "$WORK/spoil")" >"$WORK/out" 2>"$WORK/err" & pid=$!
        sleep 0.4; kill -$signal "$(pgrep -P $pid | head -n 1)"; got=0; wait $pid || got=$?
        check "${what%% --*}, SIG$signal while the engine is silent: exit 130 (it is $got)" test $got = 130
        is "${what%% --*}, SIG$signal: one document" 'type == "object"'
    done
done
cat >"$WORK/matrix.json" <<END
{"schema_version": 1, "images": [{"name": "x", "image": "$IMAGE", "protocols": ["p"]}], "protocols": [{"name": "p", "release":
 {"protocol": "oneshot-v1", "entrypoint": "/x", "argv": [], "prompt_transport": "stdin", "output_mode": "text"}}],
 "options": [{"name": "usual"}]}
END
for what in "doctor --json" "test matrix $WORK/matrix.json --json" "run --prompt x ${L[*]}"; do
    read -ra words <<<"$what"
    DOCKER_HOST=$(head -n 1 "$WORK/spoil") timeout -k 5 60 "$CF" "${words[@]}" >"$WORK/out" 2>"$WORK/err" & pid=$! BEGAN=$EPOCHREALTIME
    sleep 0.4; kill -QUIT "$(pgrep -P $pid | head -n 1)"; got=0; wait $pid || got=$?
    took=$(((${EPOCHREALTIME/./} - ${BEGAN/./}) / 1000))
    check "${what%% --*}, SIGQUIT while the engine is silent: exit 130 (it is $got)" test $got = 130
    check "${what%% --*}, SIGQUIT: at once ($took ms)" test $took -lt 8000
    is "${what%% --*}, SIGQUIT: one document, or the run's last line" '(.exit_code // 130) == 130'
done
kill $spoil; wait $spoil 2>/dev/null

# ---- reap ------------------------------------------------------------------------------------------
api() { curl -s --unix-socket "${DOCKER_HOST#unix://}" -X "$1" -H 'Content-Type: application/json' ${3:+-d "$3"} "http://d/v1.41$2"; }
hex() { printf "$1%.0s" $(seq 32); }
plant() { # plant OWNER RUN DEADLINE [SCHEMA [PROCESS]]: a container with these labels; its id
    api POST "/containers/create?name=planted-$2${4-}" "$(jq -nc --arg image "$IMAGE" --arg o "$1" --arg r "$2" --arg d "$3" --arg s "${4:-1}" \
        --arg p "${5:-0-0:1:1:1}" --arg n "planted-$2${4-}" '{Image:$image, Entrypoint:["/x"], Labels:{"com.checkfu.runner":"",
        "com.checkfu.runner.schema":$s, "com.checkfu.runner.owner":$o, "com.checkfu.runner.run":$r,
        "com.checkfu.runner.sandbox":$n, "com.checkfu.runner.process":$p,
        "com.checkfu.runner.created":"2020-01-01T00:00:00Z", "com.checkfu.runner.deadline":$d}}')" | jq -r .Id
}
there() { [ "$(curl -s -o /dev/null -w '%{http_code}' --unix-socket "${DOCKER_HOST#unix://}" "http://d/v1.41/containers/$1/json")" = 200 ]; }
mine=$(cat "$CFRUNNER_STATE_DIR/owner-id")
past=2020-01-02T00:00:00Z future=2999-01-01T00:00:00Z
dead=$(plant "own_$(hex a)" "run_$(hex 1)" $past)
foreign=$(plant "own_$(hex a)" "run_$(hex 2)" $future)
strange=$(plant "own_$(hex a)" "run_$(hex 3)" $past 2)
forged=$(plant "own_../../etc" "run_$(hex 4)" $past)
elsewhere=$(plant "$mine" "run_$(hex 5)" $future 1 "11111111-1111-1111-1111-111111111111:1:1:1")
inherits=$(api POST /containers/create?name=somebodys "$(api GET "/containers/$dead/json" | jq -c '{Image, Entrypoint: ["/x"], Labels: .Config.Labels}')" | jq -r .Id)
bare=$(api POST /containers/create '{"Image":"'"$IMAGE"'","Entrypoint":["/x"]}' | jq -r .Id)
modes stall
"$CF" run --prompt x "${L[@]}" >"$WORK/live.out" 2>"$WORK/live.err" & live=$!
for _ in $(seq 400); do grep -q "turn ..." "$WORK/live.err" && break; sleep 0.02; done
cf "ps" 0 ps --json
is "ps: this installation's alone, the live one told as live, the one from elsewhere as not to be judged" \
    "([.[] | select(.live)] | length) == 2 and ([.[].run] | contains([\"run_$(hex 5)\"]))"
cf "ps as a table" 0 ps; says "ps as a table" "live"
cf "reap of our own" 0 reap --json
is "reap of our own: nothing of ours is dead" '.dead == [] and .removed == []'
cf "reap, dry, of all" 0 reap --all-dead-owners --dry-run --json
is "reap, dry, of all: one is dead, and why" "([.dead[].run] == [\"run_$(hex 1)\"]) and (.dead[0].why | test(\"deadline\")) and .removed == []"
check "dry: it is still there" there "$dead"
cf "reap of all dead owners" 0 reap --all-dead-owners --json
is "reap of all dead owners: exactly that one went" "[.removed[].id] == [\"$dead\"]"
check "it is gone" eval "! there $dead"
for kept in "another owner's that lives:$foreign" "of a form we do not know:$strange" "with a forged owner:$forged" \
    "ours, begun in another place:$elsewhere" "somebody else's that inherited all labels:$inherits" "unlabelled:$bare"; do
    check "kept: ${kept%:*}" there "${kept##*:}"
done
CFRUNNER_STATE_DIR=$WORK/other cf "a sibling's reap" 0 reap --all-dead-owners --json
check "the live run lives" kill -0 $live
kill -INT $live; got=0; wait $live || got=$?
check "and ends as it was told to: exit 130 (it is $got)" test $got = 130
for id in "$foreign" "$strange" "$forged" "$elsewhere" "$inherits" "$bare"; do api DELETE "/containers/$id?force=1" >/dev/null; done
audit "reap"

# ---- what the host shows ----------------------------------------------------------------------------
modes stall
"$CF" test oci "${L[@]}" --turn-timeout 2s --json >"$WORK/out" 2>"$WORK/err" & pid=$!
for _ in $(seq 400); do grep -q "turn ..." "$WORK/err" && break; sleep 0.02; done
id=$(engine '/containers/json?filters=%7B%22label%22%3A%5B%22com.checkfu.runner%22%5D%7D' | jq -r '.[0].Id')
groups() { grep -ls "$1" /proc/[0-9]*/cgroup; find /sys/fs/cgroup -type d -name "*$1*" 2>/dev/null; }
seen=$(groups "$id")
wait $pid
if [ -z "$seen" ]; then echo "SKIPPED control group: this host does not show the engine's"; else
    is "the control group was seen, and is gone" '.teardown.host == "gone" and .teardown.proven'
    check "no process and no group of that container is on the host" test -z "$(groups "$id")"
fi
unpublish
finish

#!/usr/bin/env bash
# oneshot-v1, whole: arguments, prompts, output, schema, state, hooks, files, on a real Engine. The
# harness is most often the image's own shell (a static busybox of this machine), so that a test
# shows on one line what the harness does.
. tests/integration/lib.sh
! readelf -l "$(command -v busybox || echo /none)" 2>/dev/null | grep -q INTERP && command -v busybox >/dev/null || { echo "SKIPPED oneshot: no static busybox (apt-get install busybox-static)"; ok "nothing to do"; finish; exit 0; }
CF_TEST_TIMEOUT=180

nd() { if jq -es "$2" "$WORK/out" >/dev/null 2>&1; then ok "$1"; else bad "$1: not $2" "$(head -c 2500 "$WORK/out")"; fi; }
said() { jq -rj 'select(.observation.type == "observation.agent_message") | .observation.payload.content' "$WORK/out"; }
tells() { # tells NAME TEXT: the harness's messages, joined, are TEXT
    if [ "$(said; echo .)" = "$2." ]; then ok "$1"; else bad "$1" "wanted: $(printf %s "$2" | head -c 300)
got:    $(said | head -c 300)"; fi
}
failed_with() { # failed_with NAME TYPE TEXT: the turn ended so, and says why
    nd "$1: $2" "[.[] | .observation // empty | select(.type | test(\"failed|retryable\")) | .payload.error.type] == [\"$2\"]"
    if jq -rs '.[] | .observation.payload.error.message // empty' "$WORK/out" | grep -qF -- "$3"; then ok "$1: says '$3'"; else
        bad "$1: does not say '$3'" "$(jq -cs '.[] | .observation.payload.error // empty' "$WORK/out")"; fi
}
changed() { jq -r 'select(.observation.type == "observation.file_changed") | .observation.payload | .event + " " + .path' "$WORK/out"; }
collected() { jq -s '.[-1].result.collected[0]' "$WORK/out"; }
hooks() { jq -c 'select(.observation.type == "observation.lifecycle_hook") | .observation.payload' "$WORK/out"; }
peak() { # peak NAME LIMIT_MIB ARGS...: runs cfrunner and watches how much memory it ever held
    local name=$1 limit=$2 hwm=0 now pid got=0; shift 2
    timeout -k 5 "$CF_TEST_TIMEOUT" "$CF" "$@" >"$WORK/out" 2>"$WORK/err" & pid=$!
    while kill -0 $pid 2>/dev/null; do
        now=$(awk '/VmHWM/ { print $2 }' /proc/"$(pgrep -P $pid | head -n 1)"/status 2>/dev/null)
        [ "${now:-0}" -le $hwm ] || hwm=$now
        sleep 0.05
    done
    wait $pid || got=$?
    [ $got = 0 ] && ok "$name: exit 0" || bad "$name: exit $got" "$(tail -n 5 "$WORK/err")"
    if [ $hwm -gt 0 ] && [ $hwm -lt $((limit * 1024)) ]; then ok "$name: at most $((hwm / 1024)) MiB held"; else bad "$name: $hwm KiB held, limit $limit MiB"; fi
}

# ---- the image: a shell and the reference wrapper, published once, pulled by its digest -------------
root=$WORK/root; mkdir -p "$root/bin" "$root/opt/checkfu/bin" "$root/opt/fault/bin" "$root/etc"
cp "$(command -v busybox)" "$root/bin/busybox"; ln "$root/bin/busybox" "$root/bin/sh"
cp "$B/checkfu-oneshot" "$root/opt/checkfu/bin/"; cp "$B/fault" "$root/opt/fault/bin/"; echo secret >"$root/etc/shadow"; chmod 600 "$root/etc/shadow"
tar --owner=0 --group=0 -C "$root" -cf "$WORK/root.tar" .
"$B/tests/support/registry" >"$WORK/address" 2>/dev/null & REGISTRY=$!
for _ in $(seq 100); do read -r ADDRESS <"$WORK/address" && break; sleep 0.1; done
api() { curl -s -m 120 --unix-socket "${DOCKER_HOST#unix://}" -X "$1" "${@:3}" "http://d/v1.41$2"; }
publish() { # publish NAME DOCKERFILE_LINE...: sets IMAGE
    mkdir -p "$WORK/context.$1"; ln "$WORK/root.tar" "$WORK/context.$1/"
    printf '%s\n' 'FROM scratch' 'ADD root.tar /' "${@:2}" >"$WORK/context.$1/Dockerfile"
    tar -C "$WORK/context.$1" -c . | api POST "/build?t=$ADDRESS/$1:t&rm=1&forcerm=1" -T - -H 'Content-Type: application/x-tar' >/dev/null
    api POST "/images/$ADDRESS/$1/push?tag=t" -H 'X-Registry-Auth: e30=' >/dev/null
    IMAGE=$(engine "/images/$ADDRESS/$1:t/json" | jq -r --arg name "$ADDRESS/$1@" '[.RepoDigests[] | select(startswith($name))][0]')
}
cleanup() {
    api GET '/images/json' | jq -r '.[] | ((.RepoTags // []) + (.RepoDigests // []))[]' | grep -F "$ADDRESS/" |
        while read -r name; do api DELETE "/images/$name?force=1" >/dev/null; done
    kill "$REGISTRY" 2>/dev/null; wait "$REGISTRY" 2>/dev/null
}
trap 'cleanup; rm -rf "$WORK"' EXIT
publish shell 'USER 10001:10001'; SHELL_IMAGE=$IMAGE
publish volume 'USER 10001:10001' 'VOLUME /data'; VOLUME_IMAGE=$IMAGE

BASE=(--name t --image "$SHELL_IMAGE" --working-directory /workspace --protocol oneshot-v1)
# sh_stdin SCRIPT ARGS...: the shell with the prompt on stdin, text out; sh_path: prompt in a file, stream_json
sh_stdin() { L=("${BASE[@]}" --entrypoint /bin/sh --prompt-transport stdin --output-mode text --argv=-c "--argv=$1" --argv=sh); shift; local a; for a; do L+=("--argv=$a"); done; }
sh_path() { L=("${BASE[@]}" --entrypoint /bin/sh --prompt-transport argv_path --output-mode stream_json --argv=-c "--argv=$1" --argv=sh '--argv={prompt_path}'); shift; local a; for a; do L+=("--argv=$a"); done; }
REF=("${BASE[@]}" --entrypoint /opt/checkfu/bin/checkfu-oneshot --argv=--output-mode --argv=stream_json --argv=--prompt-path '--argv={prompt_path}' '--argv={resume_flag}'
    --prompt-transport argv_path --output-mode stream_json --resume-flag=--resume --output-schema-flag=--output-schema)
FINISH='echo "{\"type\":\"observation.finished\",\"payload\":{\"stop_reason\":\"end_turn\"}}"'
message() { printf 'printf "%%s\\n" "{\\"type\\":\\"observation.agent_message\\",\\"payload\\":{\\"content\\":\\"%s\\"}}"' "$1"; }

part() { printf '      -- %s\n' "$*"; }
part arguments
show='for a; do printf "<%s>" "$a"; done'
odd=("" " " $'tab\there' $'two\nlines' "é 🌊" '$HOME' '*' '{other}' "it's" '"' '\' "--flag")
sh_stdin "$show" "${odd[@]}"
cf "odd arguments" 0 run "${L[@]}" --prompt x
tells "odd arguments arrive to the letter" "$(printf '<%s>' "${odd[@]}")"
long=$(head -c 65536 /dev/zero | tr '\0' a)
sh_stdin 'printf "%s %s" ${#1} "$(printf %s "$1" | tr -d a | wc -c)"' "$long"
cf "an argument of 65,536 bytes" 0 run "${L[@]}" --prompt x
tells "an argument of 65,536 bytes arrives" "65536 0"
sh_stdin : "${long}a"
cf "an argument of 65,537 bytes" 2 run "${L[@]}" --prompt x; says "an argument of 65,537 bytes" "65,536"
sh_stdin : "$long" "$(head -c 65400 /dev/zero | tr '\0' b)" "$(head -c 300 /dev/zero | tr '\0' c)"
cf "arguments over 131,072 bytes together" 2 run "${L[@]}" --prompt x; says "arguments over 131,072 bytes together" "131,072"
many=(); for i in $(seq 253); do many+=("$i"); done
sh_stdin 'printf %s $#' "${many[@]}"
cf "256 arguments" 0 run "${L[@]}" --prompt x; tells "256 arguments arrive" 253
sh_stdin : "${many[@]}" more
cf "257 arguments" 2 run "${L[@]}" --prompt x; says "257 arguments" "256"
value=$(head -c 131069 /dev/zero | tr '\0' v)
sh_stdin 'printf %s ${#K}'
printf '%s' "--env=K=$value" >"$WORK/env"
cf "K=V of 131,071 bytes" 0 run "${L[@]}" --prompt x "--env=K=$(head -c 131000 /dev/zero | tr '\0' v)"
tells "K=V of 131,071 bytes arrives" 131000
# the kernel lets no caller pass one string of 131,072 bytes: options beyond come from an embedder
cf "plan of a long K=V" 0 run "${L[@]}" --prompt x "--env=K=${value:0:131060}" --print-plan
sh_stdin : ; L+=(--output-schema-flag=--schema --output-schema-transport argv_json)
jq -n '{type:"object",properties:{a:{type:"string",description:("x" * 65600)}}}' >"$WORK/big-schema"
cf "a schema that no argument holds" 2 run "${L[@]}" --prompt x --output-schema "$WORK/big-schema"
says "a schema that no argument holds" "--output-schema"

part prompts
head -c 6300000 /dev/urandom | base64 -w 0 | head -c 8388608 >"$WORK/8mib"; sum=$(sha256sum <"$WORK/8mib" | cut -c1-64)
sh_stdin 'sha256sum | cut -c1-64 | tr -d "\n"'
cf "8 MiB on stdin" 0 run "${L[@]}" --prompt "@$WORK/8mib"; tells "8 MiB arrive, and the end of file" "$sum"
sh_stdin 'sleep 1; printf fine'
cf "8 MiB that nobody reads" 0 run "${L[@]}" --prompt "@$WORK/8mib"; tells "8 MiB that nobody reads do no harm" fine
sh_stdin 'exec <&-; sleep 1; printf fine'
cf "8 MiB to a closed stdin" 0 run "${L[@]}" --prompt "@$WORK/8mib"; tells "8 MiB to a closed stdin do no harm" fine
sh_stdin 'head -c 10; sleep 1'
cf "8 MiB of which ten are read" 0 run "${L[@]}" --prompt "@$WORK/8mib"; tells "8 MiB of which ten are read" "$(head -c 10 "$WORK/8mib")"
printf ' é\n\n\t🌊 \r\n\n' >"$WORK/odd"
sh_stdin 'od -An -tx1 | tr -d " \n"'
cf "an odd prompt on stdin" 0 run "${L[@]}" --prompt "@$WORK/odd"; tells "an odd prompt arrives to the letter" "$(od -An -tx1 <"$WORK/odd" | tr -d ' \n')"
sh_path "m=\$(stat -c '%a %F' .checkfu .checkfu/prompt.txt | tr '\n' ' '); $(message '$m$1 $(od -An -tx1 "$1" | tr -d " \n")')"
cf "an odd prompt in a file" 0 run "${L[@]}" --prompt "@$WORK/odd"
tells "the file has its modes and its bytes" "755 directory 444 regular file /workspace/.checkfu/prompt.txt $(od -An -tx1 <"$WORK/odd" | tr -d ' \n')"
cf "an 8 MiB prompt in a file" 0 run "${BASE[@]}" --entrypoint /bin/sh --prompt-transport argv_path --output-mode text --argv=-c '--argv=sha256sum <"$0" | cut -c1-64 | tr -d "\n"' '--argv={prompt_path}' --prompt "@$WORK/8mib"
tells "8 MiB in a file arrive" "$sum"

part turns and state
again='n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) >n; printf "%s[%s]%s;" "$n" "$*" "$(ls -A .checkfu 2>/dev/null | tr "\n" " ")"'
L=("${BASE[@]}" --entrypoint /bin/sh --prompt-transport stdin --output-mode text --resume-flag=--go-on --argv=-c "--argv=$again" --argv=sh --argv=a '--argv={resume_flag}' --argv=b)
cf "three turns" 0 run "${L[@]}" --prompt 1 --prompt 2 --prompt 3 --state-out "$WORK/s1"
tells "the flag comes from the second turn on, the state stays" "0[a b];1[a --go-on b];2[a --go-on b];"
check "the state is saved" test "$(cat "$WORK/s1/n")" = 3
cf "another sandbox" 0 run "${L[@]}" --prompt 4 --state-in "$WORK/s1" --state-out "$WORK/s2"
tells "another sandbox goes on where the first ended" "3[a --go-on b];"
check "its state is saved in turn" test "$(cat "$WORK/s2/n")" = 4
sh_stdin :; cf "a state without a resume flag" 2 run "${L[@]}" --prompt x --state-in "$WORK/s1"; says "a state without a resume flag" "resume flag"
cf "state out of a folder in use" 2 run "${REF[@]}" --output-schema-transport argv_path --prompt x --state-out "$WORK/s1"; says "state out of a folder in use" "not empty"
cf "the reference wrapper, turn 1" 0 run "${REF[@]}" --output-schema-transport argv_path --prompt "first" --state-out "$WORK/r1"
cf "the reference wrapper, turn 2 elsewhere" 0 run "${REF[@]}" --output-schema-transport argv_path --prompt "second" --state-in "$WORK/r1" --state-out "$WORK/r2"
check "the reference wrapper counts on" test "$(jq -c '[.schema_version,.turn]' "$WORK/r1/.checkfu/state.json" "$WORK/r2/.checkfu/state.json" | tr '\n' ' ')" = "[1,1] [1,2] "
sh_stdin 'ls -A .checkfu | tr "\n" " "; cat .checkfu/mine'
cf "the folder is left to the harness" 0 run "${BASE[@]}" --entrypoint /bin/sh --prompt-transport argv_path --output-mode text --argv=-c '--argv=ls -A .checkfu | tr "\n" " "; echo keep >.checkfu/mine' --argv=sh '--argv={prompt_path}' --prompt 1 --prompt 2
tells "the prompt's file goes after its turn, the harness's stays" "prompt.txt mine prompt.txt "

part output
sh_path "$(message one); sleep 2; $(message two); $FINISH"
cf "incremental" 0 run "${L[@]}" --prompt x
nd "an observation leaves while the process still runs" '[.[] | select(.observation.type == "observation.agent_message") | .at_ms] | .[1] - .[0] > 1500'
sh_path "$(message early); $FINISH; printf '\\n \\n'"; cf "blank lines after the end" 0 run "${L[@]}" --prompt x
sh_path "$(message one); printf '{\"type\":\"observation.finished\",\"payload\":{\"stop_reason\":\"end_turn\"}}'"
cf "last line without newline" 0 run "${L[@]}" --prompt x; nd "last line without newline is read" '[.[] | select(.observation.type == "observation.finished")] | length == 1'
sh_path "$(message one)"; cf "no finished line" 0 run "${L[@]}" --prompt x
nd "exit 0 makes the finished" '[.[] | select(.observation.type == "observation.finished") | .observation.payload.stop_reason] == ["end_turn"]'
sh_path "$FINISH; $(message late)"; cf "output after finished" 1 run "${L[@]}" --prompt x; failed_with "output after finished" runtime.harness_failed "after observation.finished"
sh_path "$(message one); echo '{\"type\":\"observation.steering\",\"payload\":{}}'"; cf "a member of the runner's" 1 run "${L[@]}" --prompt x
failed_with "a member of the runner's" runtime.harness_failed "line 2"
sh_path "printf 'Traceback %0300d\\n' 7"; cf "a line that is not JSON" 1 run "${L[@]}" --prompt x
failed_with "a line that is not JSON" runtime.harness_failed "$(printf 'Traceback %0189d' 0)"
sh_path "echo '{\"type\":\"observation.tool_use\",\"payload\":{\"tool\":\"bash\",\"tool_use_id\":\"1\",\"args\":{}}}'"; cf "a tool without its prefix" 1 run "${L[@]}" --prompt x
failed_with "a tool without its prefix" runtime.harness_failed "harness:"
sh_stdin 'printf "a\377b\303"'; cf "invalid UTF-8" 0 run "${L[@]}" --prompt x; tells "invalid UTF-8 is repaired" $'a\xef\xbf\xbdb\xef\xbf\xbd'
nd "and counted" '[.[-1].result.findings[] | select(.text | test("2 invalid UTF-8"))] | length == 1'
sh_stdin 'head -c 600000 /dev/zero | tr "\0" x'; cf "600,000 characters" 0 run "${L[@]}" --prompt x
nd "text is split at the bound only" '[.[] | select(.observation.type == "observation.agent_message") | .observation.payload.content | length] == [262144, 262144, 75712]'
sh_stdin :; cf "no output" 1 run "${L[@]}" --prompt x; failed_with "no output" runtime.harness_failed "printed nothing"
sh_stdin 'echo out; echo "the reason" >&2; exit 7'; cf "exit 7" 1 run "${L[@]}" --prompt x; failed_with "exit 7" runtime.harness_failed "code 7"
nd "stderr is kept" '.[-1].result.harness.stderr_tail | test("the reason")'
sh_path "$(message one); $FINISH; exit 4"; cf "exit 4 after finished" 1 run "${L[@]}" --prompt x; failed_with "exit 4 after finished" runtime.harness_failed "code 4"
cf "out of memory" 1 run "${BASE[@]}" --entrypoint /opt/fault/bin/fault --argv=eat-memory --prompt-transport stdin --output-mode text --memory 64m --prompt x
failed_with "out of memory" runtime.harness_failed "out of memory (limit 64 MiB)"
sh_stdin 'sleep 60'; cf "the turn's deadline" 1 run "${L[@]}" --prompt x --turn-timeout 1s; failed_with "the turn's deadline" runtime.turn_deadline_exceeded "within 1 s"
cf "the idle deadline" 1 run "${L[@]}" --prompt x --idle-timeout 1s; failed_with "the idle deadline" runtime.turn_deadline_exceeded "idle"
sh_stdin 'for i in 1 2 3 4; do sleep 0.5; echo $i >&2; done; echo fine'; cf "stderr is life" 0 run "${L[@]}" --prompt x --idle-timeout 1s
cf "a program that is not there" 1 run "${BASE[@]}" --entrypoint /opt/none --prompt-transport stdin --output-mode text --prompt x
sh_stdin 'dd if=/dev/zero bs=1048576 count=2048 >&2; printf fine'
peak "2 GiB on stderr" 60 run "${L[@]}" --prompt x; tells "2 GiB on stderr block nobody" fine

part output schema
echo '{"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"],"additionalProperties":false}' >"$WORK/schema"
schema_turn() { L=("${BASE[@]}" --entrypoint /bin/sh --prompt-transport stdin --output-mode text --output-schema-flag=--schema --output-schema-transport "$1" --argv=-c "--argv=$2" --argv=sh --output-schema "$WORK/schema" --prompt x); }
schema_turn argv_json 'printf %s "{\"answer\":\"$1 $(printf %s "$2" | wc -c)\"}"'; cf "schema as an argument" 0 run "${L[@]}"
tells "the schema comes as an argument, compact" "{\"answer\":\"--schema $(jq -cj . "$WORK/schema" | wc -c)\"}"
schema_turn argv_path 'printf %s "{\"answer\":\"$1 $2 $(stat -c %a "$2") $(wc -c <"$2")\"}"'; cf "schema as a file" 0 run "${L[@]}"
tells "the schema comes as a file" "{\"answer\":\"--schema /workspace/.checkfu/output-schema.json 444 $(jq -cj . "$WORK/schema" | wc -c)\"}"
schema_turn argv_path 'printf %s "{\"answer\":5}"'; cf "an answer the schema refuses" 1 run "${L[@]}"; failed_with "an answer the schema refuses" runtime.harness_failed "/answer"
schema_turn argv_path 'printf nonsense'; cf "an answer that is not JSON" 1 run "${L[@]}"; failed_with "an answer that is not JSON" runtime.harness_failed "output schema"
echo '{"type":"object","properties":{"a":{"$ref":"#/properties/a"}}}' >"$WORK/cyclic"
cf "a schema outside the profile" 2 run "${REF[@]}" --output-schema-transport argv_path --prompt x --output-schema "$WORK/cyclic"

part hooks
H=("${BASE[@]}" --entrypoint /bin/sh --prompt-transport stdin --output-mode text --argv=-c '--argv=cat made; echo turn >>made' --prompt x)
hooked() { # hooked NAME EXIT WANTED ARGS...: outcomes in order, as phase:ordinal:outcome:exit_code
    local name=$1 code=$2 want=$3; shift 3
    cf "$name" "$code" run "${H[@]}" "$@"
    local got; got=$(hooks | jq -r '"\(.phase[0:4]):\(.ordinal):\(.outcome):\(.exit_code)"' | tr '\n' ' ')
    [ "$got" = "$want " ] && ok "$name: $want" || bad "$name: hooks" "wanted $want
got    $got"
    jq -c 'select(.observation.type == "observation.lifecycle_hook") | .observation' "$WORK/out" | while read -r line; do
        printf '%s' "$line" >"$WORK/o.json"; "$CF" validate observation "$WORK/o.json" >/dev/null || echo "$line"; done >"$WORK/wrong"
    check "$name: in the contract" test ! -s "$WORK/wrong"
}
hooked "hooks pass" 0 "post:0:passed:0 post:1:passed:0 pre_:0:passed:0" --hook-post-materialize 'echo hook >made' \
    --hook-post-materialize '["/bin/busybox","printf","%s|","a b",""]' --hook-pre-writeback 'cat made; echo late >>made' --collect "$WORK/h1"
tells "a hook runs before the first turn" $'hook\n'
check "a hook runs after the last turn, before collection" test "$(tr '\n' ' ' <"$WORK/h1/made")" = "hook turn late "
nd "an exact argv is exact" '[.[] | .observation // empty | select(.type == "observation.lifecycle_hook") | .payload.output] | .[1] == "a b||" and .[2] == "hook\nturn\n"'
nd "hooks stand outside the grammar" '[.[-1].result.grammar[] | select(.status == "failed")] == []'
hooked "a hook fails" 1 "post:0:failed:3 post:1:skipped:null pre_:0:skipped:null" --hook-post-materialize 'exit 3' --hook-post-materialize true --hook-pre-writeback true
nd "a failed hook ends the run" '.[-1].result.error.message | test("hook 0 of post_materialize .* exited with code 3")'
hooked "on failure: continue" 0 "post:0:failed:3 post:1:passed:0" --hook-on-failure continue --hook-post-materialize 'exit 3' --hook-post-materialize 'echo >made'
hooked "a hook is killed" 1 "post:0:failed:null" --hook-post-materialize 'kill -9 $$'
hooked "a hook takes too long" 1 "post:0:timed_out:null post:1:skipped:null" --hook-timeout 1s --hook-post-materialize 'echo begun; sleep 30' --hook-post-materialize true
nd "what it printed is told" '[.[] | .observation // empty | select(.type == "observation.lifecycle_hook") | .payload.output][0] == "begun\n"'
hooked "a program that is not there" 1 "post:0:slot_unavailable:null" --hook-post-materialize '["/none"]'
hooked "the same, on" 0 "post:0:slot_unavailable:null post:1:passed:0" --hook-on-failure continue --hook-post-materialize '["/none"]' --hook-post-materialize 'echo >made'
hooked "a hook before collection fails" 1 "pre_:0:failed:1 pre_:1:skipped:null" --hook-pre-writeback 'test -f none' --hook-pre-writeback true --collect "$WORK/h2"
check "then nothing is collected, and the folder goes" test ! -e "$WORK/h2"
hooked "output is cut" 0 "post:0:passed:0" --hook-post-materialize 'echo >made; head -c 9000 /dev/zero | tr "\0" o'
nd "at 8,192, with the mark" '[.[] | .observation // empty | select(.type == "observation.lifecycle_hook") | .payload | [(.output | length), .output_truncated]][0] == [8192, true]'
hooked "100 MiB of output" 0 "post:0:passed:0" --hook-post-materialize 'echo >made; head -c 100000000 /dev/zero'
hooked "a hook leaves a child that holds its output" 0 "post:0:passed:0" --hook-post-materialize 'echo >made; sleep 100 & echo ok'
cf "hooks see no token" 0 run "${H[@]}" --hook-post-materialize 'env >made' --env MINE=1
check "hooks see no token, and the author's variables" sh -c "! jq -r '.observation.payload.content // empty' '$WORK/out' | grep -q 'API_KEY\|TOKEN' && jq -r '.observation.payload.content // empty' '$WORK/out' | grep -q '^MINE=1'"
cf "an image without a shell" 1 run "${ONESHOT[@]}" --prompt x --hook-post-materialize 'true'; says "an image without a shell" "JSON array"
args=(); for i in $(seq 17); do args+=(--hook-pre-writeback true); done
cf "17 hooks" 2 run "${H[@]}" "${args[@]}"; says "17 hooks" "at most 16"
cf "a hook's timeout over an hour" 2 run "${H[@]}" --hook-post-materialize true --hook-timeout 3601s
cf "a hook that is no JSON" 2 run "${H[@]}" --hook-post-materialize '[ -f x ]'; says "a hook that is no JSON" "test ..."

part files in
mkdir -p "$WORK/in/sub/empty"; printf 'exact\n\n' >"$WORK/in/a"; printf x >"$WORK/in/sub/run"; chmod 750 "$WORK/in/sub/run"; chmod 500 "$WORK/in/sub"; chmod 400 "$WORK/in/a"
ln -s sub/run "$WORK/in/link"; ln -s /etc/shadow "$WORK/in/out"; printf y >"$WORK/in/$(printf 'od\377d')"
sh_stdin 'find d -exec stat -c "%N %a %F" {} + | sort | tr -s "\n" ";"; cat d/a; cat e/f/g; cat /tmp/t; cat dir/a'
cf "files and folders go in" 0 run "${L[@]}" --prompt x --file "$WORK/in:d" --file "$WORK/in/a:e/f/g" --file "$WORK/in/a:/tmp/t" --file "$WORK/in/a:dir/"
check "modes and links are kept" test "$(said | head -c 400 | tr ';' '\n' | LC_ALL=C grep -caE "^('?d'? 755 directory|'?d/a'? 400 regular file|'?d/sub'? 700 directory|'?d/sub/empty'? 755 directory|'?d/sub/run'? 750 regular file|'?d/link'? -> '?sub/run'? 777 symbolic link|'?d/out'? -> '?/etc/shadow'? 777 symbolic link)")" = 7
nd "the result counts them" '.[-1].result.staged == {"files": 6, "folders": 3, "symlinks": 2, "bytes": 30}'
chmod 700 "$WORK/in/sub"
head -c 300000000 /dev/urandom >"$WORK/big"; sum=$(sha256sum <"$WORK/big" | cut -c1-64)
sh_stdin 'sha256sum <big | cut -c1-64 | tr -d "\n"'
peak "300 MB in and out" 40 run "${L[@]}" --prompt x --file "$WORK/big:big" --collect "$WORK/c-big"
tells "300 MB arrive" "$sum"
check "300 MB come back" test "$(sha256sum <"$WORK/c-big/big" | cut -c1-64)" = "$sum"
rm -rf "$WORK/c-big" "$WORK/big"
mkfifo "$WORK/in/pipe"
cf "a fifo in a folder" 2 run "${L[@]}" --prompt x --file "$WORK/in:d"; says "a fifo in a folder" "pipe"
cf "a file that is not there" 2 run "${L[@]}" --prompt x --file "$WORK/none:d"; says "a file that is not there" "none"
cf "a target that is not ours" 2 run "${L[@]}" --prompt x --file "$WORK/odd:/proc/x"; says "a target that is not ours" "not a place"
cf "a target that climbs" 2 run "${L[@]}" --prompt x --file "$WORK/odd:a/../../x"; says "a target that climbs" ".."
cf "a target that may not be written" 1 run "${L[@]}" --prompt x --file "$WORK/odd:/etc/x"; says "a target that may not be written" "/etc/x"
cf "no target" 2 run "${L[@]}" --prompt x --file "$WORK/odd"; says "no target" "SRC:DST"

part files out
hostile='mkdir -p good/deep; echo a >good/deep/a; chmod 640 good/deep/a; echo set >good/suid; chmod 4755 good/suid; ln -s /etc/shadow shadow; ln -s / rootlink; ln -s . loop
mkfifo fifo; mkdir closed; echo x >closed/x; chmod 000 closed; echo n >noread; chmod 000 noread; dd if=/dev/zero of=sparse bs=1 count=1 seek=1099511627775 2>/dev/null
printf nl >"$(printf "new\nline")"; printf bad >"$(printf "b\377d")"; nc -l -s 127.0.0.1 -p 5555 >/dev/null 2>&1 &
i=0; d=.; while [ $i -lt 140 ]; do d=$d/d; i=$((i + 1)); done; mkdir -p $d; echo bottom >$d/x; printf done'
sh_stdin "$hostile"; cf "a hostile tree" 0 run "${L[@]}" --prompt x --collect "$WORK/c1"
refused() { check "refused and named: $1 ($2)" sh -c 'jq -s ".[-1].result.collected[0]" "$0" | jq -e --arg p "$1" --arg w "$2" ".refused[] | select(.path == \$p and (.why | test(\$w)))"' "$WORK/out" "$1" "$2"; }
refused shadow symlink; refused rootlink symlink; refused loop symlink; refused fifo fifo; refused closed denied; refused noread denied; refused sparse "1099511627776 bytes"
check "refused and named: a tree too deep" sh -c 'jq -s ".[-1].result.collected[0].refused" "$0" | jq -e ".[] | select(.why | test(\"too deep\"))"' "$WORK/out"
check "nothing but folders and files came out" test -z "$(find "$WORK/c1" ! -type f ! -type d)"
check "the good ones came whole" test "$(cat "$WORK/c1/good/deep/a" "$WORK/c1/"$'new\nline' "$WORK/c1/"$'b\xffd' | tr -d '\n')" = "anlbad"
check "no set-uid, modes else kept" test "$(stat -c %a "$WORK/c1/good/suid" "$WORK/c1/good/deep/a" | tr '\n' ' ')" = "755 640 "
check "the machine's own shadow was not read" sh -c "! grep -rqs secret '$WORK/c1'"
jq -c '.result // empty' "$WORK/out" >"$WORK/result.json"
check "the result conforms to its schema" sh -c "'$CF' schema check --schema proto/run-result.schema.json '$WORK/result.json' | jq -e .valid"
sh_stdin 'i=0; while [ $i -lt 20 ]; do head -c 100000 /dev/zero >f$i; i=$((i + 1)); done; printf done'
cf "bytes are bounded" 0 run "${L[@]}" --prompt x --collect "$WORK/c2" --collect-limit 1m
nd "what fits came, what does not is named" '.[-1].result.collected[0] | .files == 10 and (.refused | length) == 10 and .complete == false'
check "never more than the limit" test "$(du -sb --apparent-size "$WORK/c2" | cut -f1)" -le 1100000
cf "into a folder in use" 2 run "${L[@]}" --prompt x --collect "$WORK/c2"; says "into a folder in use" "not empty"
mkdir -m 777 "$WORK/open"; cf "into a folder that others may write" 2 run "${L[@]}" --prompt x --collect "$WORK/open"; says "into a folder that others may write" "others may write"
sh_stdin 'echo made >f; exit 3'; cf "a failed turn's files" 1 run "${L[@]}" --prompt x --collect "$WORK/c3"; check "a failed turn's files come out" test "$(cat "$WORK/c3/f")" = made
sh_stdin 'echo made >f; (while :; do date >>f; done) & sleep 60'; cf "a late turn's files" 1 run "${L[@]}" --prompt x --collect "$WORK/c4" --turn-timeout 1s
check "a late turn's files come out" test -s "$WORK/c4/f"
cf "out of memory: files" 1 run "${BASE[@]}" --entrypoint /bin/sh --argv=-c '--argv=echo kept >f; exec /opt/fault/bin/fault eat-memory' --prompt-transport stdin --output-mode text --memory 64m --prompt x --collect "$WORK/c5"
check "files outlive the OOM" test "$(cat "$WORK/c5/f")" = kept

part file changes
sh_stdin 'n=$(cat count 2>/dev/null || echo 0); echo $((n + 1)) >count; if [ $n = 0 ]; then mkdir d; echo >d/new; echo 1 >same; touch gone; else rm gone; echo 2 >>same; ln -s x l; mv d/new d/moved; fi; echo $n'
cf "file changes" 0 run "${L[@]}" --prompt 1 --prompt 2
check "created, modified, deleted, each turn by itself" test "$(changed | tr '\n' ';')" = "create /workspace/count;create /workspace/d/new;create /workspace/gone;create /workspace/same;modify /workspace/count;create /workspace/d/moved;delete /workspace/d/new;delete /workspace/gone;create /workspace/l;modify /workspace/same;"
nd "they come before the terminal" '[.[] | select(.turn == 1) | .observation.type] | .[-1] == "observation.finished" and (.[1:-1] | unique) == ["observation.file_changed"]'
sh_path "echo x >told; echo y >untold; echo '{\"type\":\"observation.file_changed\",\"payload\":{\"event\":\"create\",\"path\":\"told\"}}'"
cf "the harness told one itself" 0 run "${L[@]}" --prompt x
check "once only" test "$(changed | tr '\n' ';')" = "create told;create /workspace/untold;"
L=("${BASE[@]:0:2}" --image "$VOLUME_IMAGE" --protocol oneshot-v1 --working-directory /data/w --entrypoint /bin/sh --prompt-transport stdin --output-mode text --argv=-c '--argv=touch here; echo x')
cf "in a volume" 0 run "${L[@]}" --prompt x; check "a volume's changes are seen" test "$(changed)" = "create /data/w/here"
sh_stdin 'mkdir many; cd many; seq 100001 | xargs touch; echo x'
peak "over 100,000 entries" 120 run "${L[@]}" --prompt 1 --prompt 2
nd "one finding, no changes" '([.[-1].result.findings[] | select(.id == "file_changes_unknown")] | length) == 1 and ([.[] | select(.observation.type == "observation.file_changed")] | length) == 0'

part "init, and a wrapper that lies"
for kind in oneshot acp; do
    check "init $kind" "$CF" init $kind --directory "$WORK/my $kind"
    cp "$WORK/check.out" "$WORK/command"; sed -i "s#^cfrunner#timeout 100 '$CF'#; s#--working-directory#--json --working-directory#" "$WORK/command"
    check "init $kind: the command it prints is green" sh -c "sh '$WORK/command' >'$WORK/out'"
    is "init $kind: all proven" '.status == "passed" and ([.checks[] | select(.status == "failed")] == [])'
done
is_check() { is "$1" "[.checks[] | select(.id == \"$2\") | .status] == [\"$3\"]"; }
cp -r "$WORK/my oneshot" "$WORK/deaf"; sed -i 's/--resume) resume=yes/--resume)/' "$WORK/deaf/checkfu-oneshot"
D=(--name deaf --entrypoint /opt/checkfu/bin/checkfu-oneshot "${ONESHOT[@]:6}")
cf "a wrapper that ignores --resume" 1 test oci "${D[@]}" --build-context "$WORK/deaf" --json; is_check "resume is told apart" resume failed
cp -r "$WORK/my oneshot" "$WORK/loose"; sed -i 's/^answer=\$(ask.*/&; answer="\\"$(printf %s "$answer" | sed s,^.,,)"/; s/{"content":%s}}\\n. "\$answer"/{"content":"no JSON at all"}}\\n'"'"'/' "$WORK/loose/checkfu-oneshot"
cf "a wrapper that ignores the schema" 1 test oci "${D[@]}" --build-context "$WORK/loose" --json; is "output_schema is no pass" '[.checks[] | select(.id == "output_schema") | .status] != ["passed"]'
cf "init twice" 2 init oneshot --directory "$WORK/my oneshot"; says "init twice" "File exists"
cf "init nothing" 2 init; says "init nothing" "oneshot or acp"

part signals
sh_stdin 'sleep 60'
timeout 60 "$CF" run "${L[@]}" --prompt x --hook-post-materialize 'sleep 50' --hook-pre-writeback 'true' --collect "$WORK/c9" >"$WORK/out" 2>"$WORK/err" & pid=$!
for _ in $(seq 100); do grep -q hooks "$WORK/err" && break; sleep 0.1; done; sleep 0.3; pkill -INT -P $pid; wait $pid; [ $? = 130 ] && ok "interrupted in a hook: exit 130" || bad "interrupted in a hook" "$(tail -n 3 "$WORK/err")"
nd "the hook is told as skipped" '[.[] | .observation // empty | select(.type == "observation.lifecycle_hook") | .payload.outcome] | unique == ["skipped"]'
check "no folder is left" test ! -e "$WORK/c9"
cleanup
audit oneshot
finish

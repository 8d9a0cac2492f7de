# kinds.sh: what a run of the campaign can be, and which verdicts are the truth about it.
# A kind is in the list as often as it should come up.
KINDS=(normal normal normal normal normal normal normal-build normal-build harness harness harness harness
    harness harness wire wire wire wire wire
    runner-killed runner-killed runner-killed runner-interrupted runner-interrupted runner-terminated
    container-removed container-killed container-paused container-renamed container-stopped
    reply-spoiled reply-spoiled reply-spoiled reply-spoiled build-spoiled engine-gone
    engine-paused engine-killed)
[ -z "${CAMPAIGN_KINDS-}" ] || read -ra KINDS <<<"$CAMPAIGN_KINDS" # to look at some alone

# A harness fault: MODE, the exit codes that are true, further flags.
HARNESS=(
    "exit0:1" "exit3:1" "cat:1" "cat-acp:1" "banner:0 1" "junk-acp 200:0 1"
    "close-stdout:1:--turn-timeout 1s" "ignore-term:1:--turn-timeout 1s" "ignore-term-acp:0 1:"
    "double-fork:0 1" "double-fork-acp:0 1" "double-fork-exit:1"
    "eat-memory:1:--memory 64m" "eat-memory-acp:1:--memory 64m" "segv:1" "segv-acp:1" "kill-acp:1" "exit-acp 3:1"
    "narrate:1" "narrate-acp:1" "drop-answer:1" "drop-answer-acp:1" "print-lots 8:1:--output-limit 2m"
    "print hello:1" "fail 7 broken:1" "stall:1:--turn-timeout 1s" "stall-acp:1:--turn-timeout 1s"
    "stderr-flood 4:0 1" "fill-disk 256:1:--disk 16m" "fork-bomb:1:--pids 64 --turn-timeout 2s"
    "not-executable:1" "wrong-arch:1" "needs-loader:1" "bad-interpreter:1" "plain-text:1" "empty:1" "folder:1" "dangling:1"
)

# A request of the Engine, and where in its story: METHOD TEXT SKIP.
REQUESTS=("GET /images/ 0" "POST /containers/create 0" "GET /json 1" "HEAD /archive 0" "PUT /archive 0"
    "POST /attach 0" "POST /wait 0" "POST /start 0" "DELETE /containers/ 0" "GET /containers/json 0"
    "GET /containers/json 1" "GET /volumes? 0" "HEAD /_ping 0" "GET /info 0")
BUILD_REQUESTS=("POST /build 0" "POST /tag 0" "POST /push 0" "DELETE /images/ 0" "GET /images/ 0" "GET /images/json 0")
FAULTS=("status 500" "status 404" "status 409" hang reset garbage lost-hang lost-reset cut slow)
LINES=("engine" "image" "relay" "sandbox" "session" "turn" "teardown")

prepare() {
    publish campaign/fault "$CTX/fault" && FAULT_IMAGE=$REF &&
        publish campaign/wire "$CTX/acp-script" && WIRE_IMAGE=$REF &&
        publish campaign/oneshot "$CTX/oneshot-harness" && ONESHOT_IMAGE=$REF &&
        publish campaign/acp "$CTX/acp-harness" && ACP_IMAGE=$REF || return 1
    WIRES=(); local script
    for script in "$CTX"/acp-script/wire/*.acps; do WIRES+=("$(basename "$script" .acps)"); done
}

# launch flags
of_fault() { # of_fault MODE [ARGUMENT...]
    ARGS=(--name campaign --entrypoint /opt/fault/bin/fault --image "$FAULT_IMAGE" --pull never)
    case $1 in
        not-executable | wrong-arch | needs-loader | bad-interpreter | plain-text | empty | folder | dangling)
            ARGS[3]=/opt/fault/bin/$1; ARGS+=(--protocol acp-v1) ;;
        banner | *-acp) ARGS+=(--protocol acp-v1); [ "$1" != cat-acp ] || set -- cat; local a; for a; do ARGS+=("--arg=$a"); done ;;
        *) ARGS+=(--protocol oneshot-v1 --prompt-transport stdin --output-mode text); local a; for a; do ARGS+=("--argv=$a"); done ;;
    esac
}
of_wire() {
    ARGS=(--name campaign --image "$WIRE_IMAGE" --pull never --entrypoint /opt/script/bin/acp-script
        --protocol acp-v1 "--arg=/opt/script/wire/$1.acps" --turn-timeout 2s)
}
of_oneshot() {
    ARGS=(--name campaign --entrypoint /opt/checkfu/bin/checkfu-oneshot --protocol oneshot-v1
        --argv=--output-mode --argv=stream_json --argv=--prompt-path '--argv={prompt_path}' '--argv={resume_flag}'
        --prompt-transport argv_path --output-mode stream_json --resume-flag=--resume "$@")
}
of_acp() { ARGS=(--name campaign --entrypoint /opt/custom/bin/acp-agent --protocol acp-v1 --arg=--stdio "$@"); }
of_normal() { # of_normal PICK [build]
    local image
    case $(($1 % 4)) in
        0) of_fault proper; image=fault ;;
        1) of_fault proper-acp; image=fault ;;
        2) image=(--image "$ONESHOT_IMAGE" --pull never); [ $# = 1 ] || image=(--build-context "$CTX/oneshot-harness")
           of_oneshot "${image[@]}" ;;
        3) image=(--image "$ACP_IMAGE" --pull never); [ $# = 1 ] || image=(--build-context "$CTX/acp-harness")
           of_acp "${image[@]}" ;;
    esac
}

# begin BOUND_S [FLAG...]: cfrunner with ARGS in the background, PID; it should have ended after BOUND_S.
begin() {
    BOUND=$1; shift
    "$CF" test oci "${ARGS[@]}" --env "CF_CAMPAIGN=$TOKEN" --json --grace 3s --timeout 25s "$@" \
        >"$SLOT/out" 2>"$SLOT/err" & PID=$!
    BEGAN=$EPOCHREALTIME
}
shows() { # until stderr shows the line of that phase, or the run is over
    local _ said
    for _ in $(seq 600); do
        said=$(<"$SLOT/err")
        [[ $said != *"cfrunner: $1 ..."* ]] || return 0
        kill -0 "$PID" 2>/dev/null || return 1
        nap 0.03
    done
}
ms() { local s; printf -v s '0.%03d' $(($1 % 400)); nap "$s"; }
finish_run() { # EXIT of the run, HUNG when it outstayed its bound
    local until=$((${EPOCHREALTIME/./} + BOUND * 1000000))
    while kill -0 "$PID" 2>/dev/null; do
        if ((${EPOCHREALTIME/./} > until)); then
            HUNG=" no end after $BOUND s"
            kill -KILL "$PID"
            break
        fi
        nap 0.05
    done
    EXIT=0; wait "$PID" || EXIT=$?
}
container() { # the run's container id, once it runs
    local owner filter
    { read -r owner <"$CFRUNNER_STATE_DIR/owner-id"; } 2>/dev/null || return 1
    filter="filters=%7B%22label%22%3A%5B%22com.checkfu.runner.owner%3D$owner%22%5D%7D"
    ID=$(engine "/containers/json?$filter" | jq -r '.[0].Id // empty')
    [ -n "$ID" ]
}
post() { curl -s -m 20 -o /dev/null --unix-socket "${DOCKER_HOST#unix://}" -X "$1" "http://d/v1.41$2"; }

# play KIND PICK: runs it. TRUE is the list of exit codes that are true, BLAME of the blames; a
# KILLED run has no verdict.
play() {
    local kind=$1 pick=$2 entry rest line upstream
    KILLED="" BLAME="none harness" TRUE=0
    case $kind in
        normal) of_normal "$pick"; BLAME=none; begin 45 --turn-timeout 15s; finish_run ;;
        normal-build) of_normal $((pick | 2)) build; BLAME=none; begin 45; finish_run ;;
        harness)
            entry=${HARNESS[pick % ${#HARNESS[@]}]}; WHAT="$kind ${entry%%:*}"
            rest=${entry#*:}; TRUE=${rest%%:*}; rest=${rest#"$TRUE"}; rest=${rest#:}
            # shellcheck disable=SC2086
            of_fault ${entry%%:*}
            # shellcheck disable=SC2086
            begin 45 $rest; finish_run ;;
        wire)
            entry=${WIRES[pick % ${#WIRES[@]}]}; WHAT="$kind $entry"
            of_wire "$entry"; TRUE="0 1"; rest=25s
            # They outlast any patience: one by itself, two by waiting for what only --session asks.
            case $entry in slow-session | session-latest | session-list-endless | session-load) TRUE=5; rest=5s ;; esac
            begin 45 --timeout "$rest"; finish_run ;;
        runner-killed | runner-interrupted | runner-terminated)
            line=${LINES[pick % ${#LINES[@]}]}; WHAT="$kind at $line + $((pick / 7 % 400)) ms"
            if ((pick % 3 == 0)); then of_normal $((pick | 2)) build; else of_fault stall; fi
            begin 45; shows "$line"; ms $((pick / 7)); TRUE="130 0"
            case $kind in
                runner-killed) kill -KILL "$PID" && KILLED=yes; wait "$PID" 2>/dev/null; EXIT=$?
                    [ $EXIT = 137 ] && stops_within_ms 3000 || { KILLED=""; TRUE="0"; } ;;
                runner-interrupted) kill -INT "$PID"; finish_run ;;
                *) kill -TERM "$PID"; finish_run ;;
            esac ;;
        container-*)
            of_fault stall; begin 45 --turn-timeout 2s; shows turn; ms "$pick"
            TRUE=1 BLAME="harness engine runner"
            if container; then
                case $kind in
                    # Its end is not the harness's doing; who removes a container speaks for the Engine.
                    container-removed) post DELETE "/containers/$ID?force=1&v=1"; TRUE="1 3" ;;
                    container-killed) post POST "/containers/$ID/kill"; TRUE="1 3" ;;
                    container-stopped) post POST "/containers/$ID/stop?t=1"; TRUE="1 3" ;;
                    container-paused) post POST "/containers/$ID/pause"; TRUE="1 3" ;;
                    container-renamed) post POST "/containers/$ID/rename?name=renamed-$TOKEN" ;;
                esac
            fi
            finish_run ;;
        reply-spoiled | build-spoiled | engine-gone)
            line=${REQUESTS[pick % ${#REQUESTS[@]}]} entry=${FAULTS[pick / 100 % ${#FAULTS[@]}]}
            of_fault proper
            if [ $kind = build-spoiled ]; then
                line=${BUILD_REQUESTS[pick % ${#BUILD_REQUESTS[@]}]}; of_oneshot --build-context "$CTX/oneshot-harness"
            fi
            [ $kind != engine-gone ] || entry=die
            WHAT="$kind $line $entry"
            # shellcheck disable=SC2086
            set -- $line $entry
            upstream=$DOCKER_HOST
            "$B/tests/support/spoil" "$DOCKER_HOST" "$1" "$2" "$4" "${5:-500}" "$3" 1 >"$SLOT/spoil" & SPOIL=$!
            while [ ! -s "$SLOT/spoil" ] && kill -0 $SPOIL; do nap 0.02; done
            DOCKER_HOST=$(head -n 1 "$SLOT/spoil"); export DOCKER_HOST
            [ -n "$DOCKER_HOST" ] || WRONG+=" nothing spoils"
            # One spoiled reply is waited for, asked again, or told: exit 0, 3, 4 or 5; never the harness's fault.
            TRUE="0 3 4 5" BLAME="none engine runner"
            # A build that falls silent cannot be told from a step of the Dockerfile that hangs.
            case $WHAT in build-spoiled*/build*hang*) BLAME+=" harness" ;; esac
            begin 60 --start-timeout 6s; finish_run
            export DOCKER_HOST=$upstream
            kill $SPOIL; wait $SPOIL 2>/dev/null ;;
        engine-paused) of_fault proper; begin 45; TRUE="0" BLAME=none; : >"$SLOT/begun"; finish_run ;;
        engine-killed) of_fault stall; begin 45 --turn-timeout 10s; shows turn; : >"$SLOT/begun"
            TRUE="3 4" BLAME="engine runner"; finish_run ;;
    esac
}

# ---- the Engine itself, for a pair ---------------------------------------------------------------
dockerd_pid() { cut -d' ' -f1 "$CF_ENGINE_DIR/started"; }
shake() { # shake KIND PICK
    local pid slot _ words
    pid=$(dockerd_pid)
    for slot in a b; do
        for _ in $(seq 400); do [ ! -e "$WORK/$slot/begun" ] || break; nap 0.02; done
    done
    ms "$2"
    if [ "$1" = engine-paused ]; then
        kill -STOP "$pid"; sleep 2; kill -CONT "$pid"
        return
    fi
    mapfile -d '' -t words <"/proc/$pid/cmdline"
    kill -KILL "$pid"
    sleep "1.$(($2 % 10))"
    # A containerd that nobody waits for stays a zombie, which the next dockerd takes for a live one.
    rm -f "$CF_ENGINE_DIR/docker.pid" "$(dirname "${DOCKER_HOST#unix://}")/exec/containerd/containerd.pid"
    setsid "${words[@]}" >>"$CF_ENGINE_DIR/log" 2>&1 </dev/null & pid=$!
    disown
    echo "$pid $(sed 's/.*) //' "/proc/$pid/stat" | cut -d' ' -f20)" >"$CF_ENGINE_DIR/started"
    for _ in $(seq 300); do engine /_ping >/dev/null && return; sleep 0.1; done
    echo "campaign: dockerd did not come back" >&2
}

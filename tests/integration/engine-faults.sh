#!/usr/bin/env bash
# An Engine that spoils one request, or all of a kind, under the whole program: exit code and blame
# of each are in the tables. tests/sandbox/test_live_faults.c does the same below, with every
# request of a sandbox's story; the campaign draws them at random. CF_FAULTS=all: every pair.
. tests/integration/lib.sh
. tests/support/publish.sh

check "the images are made" publish faults/harness "$CTX/fault"; IMAGE=$REF
remember_images
AT=(--name fault --image "$IMAGE" --pull never --entrypoint /opt/fault/bin/fault --protocol oneshot-v1
    --prompt-transport stdin --output-mode text)
BUILT=("${ONESHOT[@]}")
HOST=$DOCKER_HOST

# spoiled METHOD TEXT SKIP FAULT STATUS TIMES FLAGS...: exit in GOT, milliseconds in TOOK, hits in HITS
spoiled() {
    local method=$1 text=$2 skip=$3 fault=$4 status=$5 times=$6 pid url="" _ began=$EPOCHREALTIME; shift 6
    : >"$WORK/spoil" # or the last one's answer is read
    "$B/tests/support/spoil" "$HOST" "$method" "$text" "$fault" "$status" "$skip" "$times" >"$WORK/spoil" & pid=$!
    for _ in $(seq 200); do url=$(head -n 1 "$WORK/spoil"); [ -z "$url" ] || break; sleep 0.02; done
    GOT=0
    timeout -k 5 90 "$CF" test oci "$@" --engine "$url" --json --grace 3s --start-timeout 5s >"$WORK/out" 2>"$WORK/err" || GOT=$?
    TOOK=$(((${EPOCHREALTIME/./} - ${began/./}) / 1000))
    kill $pid 2>/dev/null; wait $pid 2>/dev/null
    HITS=$(sed -n 's/^hits //p' "$WORK/spoil")
}
# verdict NAME EXITS BLAMES: the exit code and the blame are among these, the document says the same, and
# what is left is 4 and has its line.
verdict() {
    local why=""
    [[ " $2 " == *" $GOT "* ]] || why="exit $GOT, wanted $2"
    why+=$(jq -rs --argjson exit "$GOT" --arg blames " $3 " 'if length != 1 then " not one document" else .[0] |
        (if .exit_code != $exit then " says exit \(.exit_code)" else empty end),
        (.blame as $b | if $blames|contains(" \($b) ") then empty else " blames \($b)" end),
        (if $exit == 0 and (.status != "passed" or (.teardown.proven|not)) then " green and not proven" else empty end),
        (if (.teardown.left? // []|length) > 0 and $exit != 4 then " something left, and not exit 4" else empty end),
        (if [.teardown.left[]?|select((.remove // "") == "")] != [] then " no line to remove what is left" else empty end)
        end' "$WORK/out" 2>&1)
    if [ -z "$why" ]; then ok "$1: exit $GOT"; else
        bad "$1:$why (hits $HITS, $TOOK ms)" "$(tail -n 4 "$WORK/err"; jq -c '{status,blame,exit_code,error,teardown}' "$WORK/out" 2>/dev/null | head -c 1200)"; fi
}
reaped() { "$CF" reap --json >"$WORK/reap" 2>&1 || { sleep 1; "$CF" reap --json >"$WORK/reap" 2>&1; }; audit "$1"; }

# What is decided by rule: METHOD TEXT SKIP. One spoiled answer is asked again, got over, or told;
# it is never the harness's fault, and never a hang.
requests=("GET /_ping 0" "HEAD /_ping 0" "GET /version 0" "GET /info 0" "GET /networks 0" "GET /networks 1" "GET /images/ 0" "POST /containers/create 0" "GET /json 1"
    "HEAD /archive 0" "PUT /archive 0" "POST /attach 0" "POST /wait 0" "POST /start 0"
    "DELETE /containers/ 0" "GET /containers/json 0" "GET /containers/json 1" "GET /volumes? 0")
faults=("status 500" "status 404" "status 409" "hang 0" "reset 0" "garbage 0" "cut 0" "slow 0" "lost-reset 0")
turn=${CF_FAULTS_TURN:-5} # which seventh of the pairs; CF_FAULTS=all plays them all
for i in "${!requests[@]}"; do
    for j in "${!faults[@]}"; do
        [ "${CF_FAULTS-}" = all ] || [ $(((i * 9 + j) % 7)) = "$turn" ] || continue
        read -r method text skip <<<"${requests[i]}"; read -r fault status <<<"${faults[j]}"
        spoiled "$method" "$text" "$skip" "$fault" "$status" 1 "${AT[@]}" --argv=proper
        verdict "$method $text, $fault $status" "0 3 4" "none engine runner"
        check "$method $text, $fault $status: ended in time ($TOOK ms)" test "$TOOK" -lt 45000
    done
done
# What a build asks besides: the image is made, sent to us, taken back by its digest, and removed.
builds=("GET /images/json 0" "GET /images/json 1" "POST /build 0" "GET /images/json 3" "POST /push 0" "DELETE /images/127 0"
    "POST /images/create 0" "GET /images/127 0" "GET /images/json 5" "DELETE /images/sha256 0" "DELETE /images/sha256 3" "GET /images/json 6")
for i in "${!builds[@]}"; do
    for j in "${!faults[@]}"; do
        [ "${CF_FAULTS-}" = all ] || continue # the campaign draws some of them
        read -r method text skip <<<"${builds[i]}"; read -r fault status <<<"${faults[j]}"
        spoiled "$method" "$text" "$skip" "$fault" "$status" 1 "${BUILT[@]}" --timeout 30s
        exits="0 3 4" blames="none engine runner"
        # A build that falls silent cannot be told from a step of the Dockerfile that hangs.
        [ "$fault" != hang ] || exits+=" 5" # the whole run's deadline, and the Engine had it
        [ "$text $fault" != "/build hang" ] || exits+=" 1" blames+=" harness"
        verdict "a build's $method $text ($skip), $fault $status" "$exits" "$blames"
        check "a build's $method $text ($skip), $fault $status: ended in time ($TOOK ms), and met its request" test "$TOOK" -lt 60000 -a "${HITS:-0}" -ge 1
    done
done
reaped "spoiled once"

# What has one right answer: NAME|METHOD TEXT SKIP FAULT STATUS TIMES|EXIT|BLAME|launch flags
while IFS='|' read -r name how exits blames launch; do
    read -r method text skip fault status times <<<"$how"
    case $launch in build) flags=("${BUILT[@]}") ;; *) flags=("${AT[@]}" --argv="$launch") ;; esac
    spoiled "$method" "$text" "$skip" "$fault" "$status" "$times" "${flags[@]}"
    verdict "$name" "$exits" "$blames"
    check "$name: the fault met its request" test "${HITS:-0}" -ge 1
done <<'TABLE'
the engine refuses to make a container|POST /containers/create 0 status 500 9|3|engine|proper
the engine refuses to start|POST /start 0 status 500 9|3|engine|proper
the attach is refused|POST /attach 0 status 500 9|3|engine|proper
the archive is refused|PUT /archive 0 status 500 9|3|engine|proper
the build is refused|POST /build 0 status 500 9|3|engine|build
the build breaks off|POST /build 0 cut 0 9|3|engine|build
the push is refused|POST /push 0 status 500 9|3|engine|build
the engine goes away at the build|POST /build 0 die 0 1|3 4|engine runner|build
the engine goes away before there is a container|POST /containers/create 0 die 0 1|3 4|engine|proper
the engine goes away at the start|POST /start 0 die 0 1|4|engine|proper
a removal is refused for good|DELETE /containers/ 0 status 500 99|4|runner|proper
a removal conflicts for good|DELETE /containers/ 0 status 409 99|4|runner|proper
a removal is not answered|DELETE /containers/ 0 hang 0 99|4|runner|proper
the last look is refused|GET /containers/json 1 status 500 99|4|runner|proper
a harness's fault stays one|DELETE /containers/ 0 status 500 1|1|harness|segv
TABLE
# The line for what is left does what it says, once the engine is well again.
spoiled DELETE /containers/ 0 status 500 99 "${AT[@]}" --argv=proper
line=$(jq -r '[.teardown.left[]|select(.kind == "container")][0].remove // empty' "$WORK/out")
check "a container that is left has one line" test -n "$line"
check "and the line names what it removes" grep -qE 'cfrunner|docker|curl' <<<"$line"
reaped "for good"

# ---- somebody else holds what is ours --------------------------------------------------------------
api() { curl -s --unix-socket "${HOST#unix://}" -X "$1" -H 'Content-Type: application/json' ${3:+-d "$3"} "http://d/v1.41$2"; }
hold() { # hold JQ_OF_THE_LISTED_CONTAINER BODY: a foreign container made while the run stands in its turn
    local _ id="" label='filters=%7B%22label%22%3A%5B%22com.checkfu.runner%22%5D%7D'
    for _ in $(seq 400); do grep -q "turn ..." "$WORK/err" && break; sleep 0.02; done
    id=$(engine "/containers/json?$label" | jq -r '.[0].Id')
    HELD=$(engine "/containers/$id/json" | jq -r "$1")
    FOREIGN=$(api POST /containers/create "${2//HELD/$HELD}" | jq -r .Id)
}
mkdir -p "$WORK/volume"; cp -a "$CTX/fault/." "$WORK/volume/"; echo 'VOLUME /data' >>"$WORK/volume/Dockerfile"
V=(--name held --build-context "$WORK/volume" --entrypoint /opt/fault/bin/fault --protocol oneshot-v1
    --prompt-transport stdin --output-mode text --argv=stall --turn-timeout 4s --grace 3s --json)
for what in volume image; do
    "$CF" test oci "${V[@]}" >"$WORK/out" 2>"$WORK/err" & pid=$!
    case $what in
        volume) hold '.Mounts[0].Name' '{"Image":"'"$IMAGE"'","Entrypoint":["/x"],"HostConfig":{"Mounts":[{"Type":"volume","Source":"HELD","Target":"/d"}]}}' ;;
        image) hold '.Image' '{"Image":"HELD","Entrypoint":["/opt/fault/bin/fault","ignore-term"],"HostConfig":{"NetworkMode":"none"}}'
            api POST "/containers/$FOREIGN/start" >/dev/null ;; # of one that does not run, an image can be removed
    esac
    GOT=0; wait $pid || GOT=$?
    HITS=- TOOK=-
    verdict "somebody else holds the $what" 4 runner
    is "somebody else holds the $what: it is named" "[.teardown.left[]|select(.kind == \"$what\")] != []"
    api DELETE "/containers/$FOREIGN?force=1" >/dev/null
    line=$(jq -r "[.teardown.left[]|select(.kind == \"$what\")][0].remove" "$WORK/out")
    if command -v docker >/dev/null || [[ $line != docker* ]]; then
        check "somebody else holds the $what: the line removes it once it is free" bash -c "PATH=$(realpath "$B"):\$PATH; $line"
    else
        echo "SKIPPED the line for the $what: no docker client"
    fi
    reaped "the $what"
done
unpublish
finish

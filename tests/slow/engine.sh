#!/usr/bin/env bash
# What can befall the Engine in the middle of a turn, on a real one: killed and restarted with and
# without live-restore, stopped for half a minute, its shim killed, the container taken from under
# us. Each verdict is true, each harness ends, nothing is left. (Killed for good: dockerd.sh.)
. tests/support/private-engine.sh
check "the image is made" publish slow/fault "$CTX/fault"; IMAGE=$REF
remember_images
dockerd_words

for how in plain live-restore; do
    TOKEN=$how
    flags=(); [ $how = plain ] || flags=(--live-restore)
    end_dockerd TERM; launch_dockerd "${flags[@]}" || bad "$how: dockerd came up"
    begin stall --turn-timeout 60s; shows turn; check "$how: the harness stands in its turn" until_alive
    end_dockerd KILL; sleep 1.5; launch_dockerd "${flags[@]}" || bad "$how: dockerd came back"
    over
    verdict "dockerd killed and back in 1.5 s, $how" "3 4" "engine runner"
    check "dockerd killed, $how: the harness is dead within cf-init's patience" dead_within 45
    reaped "dockerd killed, $how"
done
end_dockerd TERM; launch_dockerd

# Half a minute of silence, while the sandbox is made, and in the turn.
TOKEN=stopped-early; begin proper --start-timeout 90s; shows sandbox
kill -STOP "$(dockerd_pid)"; sleep 30; kill -CONT "$(dockerd_pid)"
# An Engine that answers nothing for 15 s is taken for gone, and is still stopped when it should tear
# down: then what is left is named, and is reap's.
over; verdict "dockerd stopped for 30 s while the sandbox is made" "0 3 4" "none engine runner"
reaped "stopped while the sandbox is made"
TOKEN=stopped-late; begin stall --turn-timeout 50s; shows turn; until_alive
kill -STOP "$(dockerd_pid)"; sleep 30; kill -CONT "$(dockerd_pid)"
over
# 30 s is as long as either side waits: it ends as the Engine's fault, or the harness's own deadline comes.
verdict "dockerd stopped for 30 s in the turn" "1 3 4" "engine harness runner"
check "it is the engine, or the turn's deadline" jq -e '.blame != "harness" or ([.checks[].error?.message | values | test("within 50 s")] | any)' "$WORK/out"
check "stopped in the turn: the harness is dead" dead_within 45
reaped "stopped in the turn"

# The shim is what stands between containerd and the container.
TOKEN=shim; begin stall --turn-timeout 40s; shows turn; until_alive
id=$(container_id)
shim=$(pgrep -f "containerd-shim.*$id" | head -n 1)
check "the container has a shim" test -n "$shim"
kill -KILL "$shim"
over; verdict "the shim is killed" "3" "engine"
check "the shim is killed: the turn did not outlast it by much ($TOOK ms)" test "$TOOK" -lt 35000
check "the shim is killed: the harness is dead" dead_within 45
reaped "the shim is killed"

# Somebody else's hands: WHAT|METHOD PATH|EXITS|BLAMES|WORDS
while IFS='|' read -r what request exits blames words; do
    TOKEN=$what; begin stall --turn-timeout 4s; shows turn; until_alive
    id=$(container_id); read -r method path <<<"${request//ID/$id}"
    curl -s -m 30 -o /dev/null --unix-socket "${DOCKER_HOST#unix://}" -X "$method" "http://d/v1.41$path"
    over
    verdict "container $what" "$exits" "$blames"
    check "container $what: says '$words'" grep -qF "$words" "$WORK/out"
    check "container $what: it took the turn's deadline and grace at most ($TOOK ms)" test "$TOOK" -lt 30000
    reaped "container $what"
done <<'TABLE'
removed|DELETE /containers/ID?force=1&v=1|3|engine|removed
killed|POST /containers/ID/kill|3|engine|killed through the engine by somebody else
killed by TERM|POST /containers/ID/kill?signal=TERM|1|harness|did not end within
stopped|POST /containers/ID/stop?t=1|3|engine|by somebody else
paused|POST /containers/ID/pause|3|engine|paused by somebody else
renamed|POST /containers/ID/rename?name=somebodys|1|harness|did not end within
restarted|POST /containers/ID/restart?t=0|3|engine|closed by the engine
updated|POST /containers/ID/update|1|harness|did not end within
TABLE
unpublish
finish

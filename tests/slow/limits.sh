#!/usr/bin/env bash
# Large amounts: 10 GiB printed under its limit and over it, 100,000 files collected. Memory is
# bounded, throughput steady, and each limit told by its own error.
. tests/integration/lib.sh
. tests/support/publish.sh
check "the image is made" publish slow/fault "$CTX/fault"; IMAGE=$REF
remember_images
at() { L=(--name large --image "$IMAGE" --pull never --entrypoint /opt/fault/bin/fault --protocol oneshot-v1
    --prompt-transport stdin --output-mode text); local a; for a; do L+=("--argv=$a"); done; }
held() { # held NAME LIMIT_MIB ARGS...: runs cfrunner, its observations counted and thrown away; GOT, TOOK_S
    local name=$1 limit=$2 hwm=0 now pid child; shift 2
    local began=$SECONDS
    { timeout -k 5 1500 "$CF" "$@" 2>"$WORK/err" & echo $! >"$WORK/pid"; wait $!; echo $? >"$WORK/got"; } |
        tee >(tail -n 1 >"$WORK/out") | wc -c >"$WORK/bytes" & pid=$!
    sleep 0.5; child=$(pgrep -P "$(cat "$WORK/pid")" | head -n 1)
    while kill -0 $pid 2>/dev/null; do
        now=$(awk '/VmHWM/ { print $2 }' "/proc/$child/status" 2>/dev/null)
        [ "${now:-0}" -le $hwm ] || hwm=$now
        sleep 0.3
    done
    wait $pid; sleep 0.2
    GOT=$(cat "$WORK/got") TOOK_S=$((SECONDS - began))
    if [ $hwm -gt 0 ] && [ $hwm -lt $((limit * 1024)) ]; then ok "$name: at most $((hwm / 1024)) MiB held"; else bad "$name: $hwm KiB held, limit $limit MiB"; fi
}
at print-lots 10240
held "10 GiB under the limit" 80 run --prompt x "${L[@]}" --output-limit 11g --turn-timeout 1200s --timeout 1400s
check "10 GiB under the limit: exit 0 (it is $GOT)" test "$GOT" = 0
check "10 GiB under the limit: every byte was told ($(($(cat "$WORK/bytes") >> 20)) MiB of NDJSON in $TOOK_S s)" test "$(cat "$WORK/bytes")" -gt $((10240 * 1048576))
check "10 GiB under the limit: teardown proven" jq -e '.result.teardown.proven and .result.harness.stdout_bytes == 10737418240' "$WORK/out"
held "10 GiB over the default limit" 80 run --prompt x "${L[@]}" --turn-timeout 600s
check "10 GiB over the default limit: exit 1 (it is $GOT)" test "$GOT" = 1
check "10 GiB over the default limit: its own error" jq -e '.result.error.type == "budget.exceeded" and (.result.error.message | test("on stdout"))' "$WORK/out"
at many-files 100000
held "100,000 files" 80 run --prompt x "${L[@]}" --collect "$WORK/many" --turn-timeout 300s --timeout 1200s
n=$(find "$WORK/many" -type f | wc -l)
check "100,000 files: all of them came ($n)" jq -e --argjson n "$n" '.result.collected[0] | .files == 100000 and $n == 100000 and .complete' "$WORK/out"
audit "large amounts"
unpublish
finish

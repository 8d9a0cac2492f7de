#!/usr/bin/env bash
# test matrix: cells so many at a time, one table, excuses and stale ones, what is different since the last
# result, the exit code of the worst.
. tests/integration/lib.sh
. tests/support/publish.sh
check "the image is made" publish matrix/fault "$CTX/fault"
remember_images

conforms() { "$CF" schema check --schema "proto/$1.schema.json" "$2" | jq -e .valid; }
cp -r "$CTX/acp-harness" "$WORK/agent"
cat >"$WORK/m.json" <<END
{"schema_version": 1, "name": "nightly", "concurrency": 2,
 "images": [{"name": "agent", "build_context": "agent", "protocols": ["acp"]},
            {"name": "fault", "image": "$REF", "protocols": ["tells", "proper"]}],
 "protocols": [
  {"name": "acp", "release": {"protocol": "acp-v1", "entrypoint": "/opt/custom/bin/acp-agent", "arguments": ["--stdio"]}},
  {"name": "tells", "release": {"protocol": "oneshot-v1", "entrypoint": "/opt/fault/bin/fault", "argv": ["narrate"],
    "prompt_transport": "stdin", "output_mode": "text"}},
  {"name": "proper", "release": {"protocol": "oneshot-v1", "entrypoint": "/opt/fault/bin/fault", "argv": ["proper"],
    "prompt_transport": "stdin", "output_mode": "text"}}],
 "options": [{"name": "usual"}, {"name": "small", "options": {"limits": {"memory_bytes": 268435456, "pids": 64}}}],
 "exclude": [{"image": "fault", "options": "small"}]}
END
check "the file conforms to its schema" conforms matrix "$WORK/m.json"
awk '/^## / { on = $0 == "## Many at once" } on && /^```json/ { in_it = 1; next } /^```/ { in_it = 0 } on && in_it' README.md >"$WORK/readme.json"
check "README's example conforms, too" conforms matrix "$WORK/readme.json"

cf "a matrix" 1 test matrix "$WORK/m.json" --json --last "$WORK/last" --results "$WORK/results"
cp "$WORK/out" "$WORK/first"
check "its result conforms to its schema" conforms matrix-result "$WORK/first"
is "a matrix: its cells, in order" '[.cells[].cell] == ["agent/acp/usual","agent/acp/small","fault/tells/usual","fault/proper/usual"]'
is "a matrix: their verdicts" '[.cells[].status] == ["passed","passed","failed","passed"] and .counts.failed == 1 and .counts.passed == 3'
is "a matrix: nothing to compare with yet" '.diff == null'
check "each cell was said" test "$(grep -c '^cfrunner: [a-z]*/' "$WORK/err")" = 4
check "the last result is there" cmp "$WORK/last" "$WORK/first"
check "each cell's diagnostic is there" conforms diagnostic-result "$WORK/results/agent--acp--small.json"
check "the options were the cell's" jq -e '.limits.memory_bytes == 268435456' "$WORK/results/agent--acp--small.json"
check "and not the other's" jq -e '.limits.memory_bytes != 268435456' "$WORK/results/agent--acp--usual.json"
audit "a matrix"

# All that fails is excused; then one of the excuses is stale.
jq '{schema_version: 1, excuses: [.cells[] | .cell as $c | .checks[] | select(.status == "failed") | {cell: $c, check: .id, reason: "it only tells stories"}]}' \
    "$WORK/first" >"$WORK/baseline"
check "the baseline conforms to its schema" conforms matrix-baseline "$WORK/baseline"
jq '.images |= map(select(.name == "fault"))' "$WORK/m.json" | jq '.exclude = [{options: "small"}] | .protocols |= map(select(.name != "acp"))' >"$WORK/f.json"
cf "all is excused" 0 test matrix "$WORK/f.json" --json --baseline "$WORK/baseline" --last "$WORK/last"
is "excused, with the reason" '[.cells[].status] == ["excused","passed"] and ([.cells[0].checks[]|select(.status=="failed").excused]|all(. == "it only tells stories"))'
is "against the last result: better, and two are gone" '[.diff.changes[]|[.cell,.change]] == [["fault/tells/usual","better"],["agent/acp/usual","gone"],["agent/acp/small","gone"]]'
jq '.protocols[0].release.argv = ["proper"]' "$WORK/f.json" >"$WORK/p.json"
cf "a stale excuse fails" 1 test matrix "$WORK/p.json" --plain --baseline "$WORK/baseline" --last "$WORK/last"
says "a stale excuse fails" "STALE   fault/tells/usual process_exchange: it passes now"
says "a stale excuse fails" "better  fault/tells/usual: excused -> passed"
check "the table fits 80 columns" awk 'length > 80 { bad = 1 } END { exit bad || NR == 0 }' "$WORK/out"
check "the verdict is last" sh -c "tail -n 1 '$WORK/out' | grep -q '^ FAIL  2 cells: 2 passed, 0 excused, 0 failed, 0 error; 3 stale   exit 1'"

# The worst counts, nothing excuses an engine, and what is wrong in a file is seen before anything runs.
cf "no engine" 3 test matrix "$WORK/f.json" --json --baseline "$WORK/baseline" --engine unix:///nowhere/docker.sock
is "no engine: no excuse, and none is stale" '[.cells[].status] == ["error","error"] and .stale == [] and .exit_code == 3'
cp "$WORK/last" "$WORK/kept"
for what in '.images[0].build_context = "x"' '.protocols[0].release.entrypoint = "relative"' '.options = []' '.surprise = 1' '.images[0].name = "a/b"'; do
    jq "$what" "$WORK/f.json" >"$WORK/wrong.json"
    cf "wrong: $what" 2 test matrix "$WORK/wrong.json" --json --last "$WORK/last"
done
cf "a last result that is none" 2 test matrix "$WORK/f.json" --last "$WORK/baseline"
cf "no file" 2 test matrix
cf "a folder that cannot be made" 2 test matrix "$WORK/f.json" --results /proc/nowhere
check "the last result is untouched" cmp "$WORK/last" "$WORK/kept"

jq '.protocols |= map(.release.argv = ["stall"])' "$WORK/f.json" >"$WORK/stall.json"
"$CF" test matrix "$WORK/stall.json" --json --concurrency 1 --last "$WORK/last" >"$WORK/out" 2>"$WORK/err" & pid=$!
for _ in $(seq 200); do [ "$(engine "/containers/json" | jq length)" -gt 0 ] && break; sleep 0.05; done
kill -INT $pid; got=0; wait $pid || got=$?
check "interrupted: 130 (it is $got)" test $got = 130
is "interrupted: what was not begun is told" '[.cells[].exit_code] == [130,130]'
check "interrupted: the last result stays" cmp "$WORK/last" "$WORK/kept"
audit "all"
unpublish
finish

#!/usr/bin/env bash
# Every request of a run's story, and of a sandbox's, spoiled in every way: what `make test` draws a
# seventh and a fourth of.
. tests/integration/lib.sh
if CF_FAULTS=all CF_BUILD=$B timeout -k 10 7200 bash tests/integration/engine-faults.sh >"$WORK/whole" 2>&1; then
    ok "whole programs: $(tail -n 1 "$WORK/whole")"; else bad "whole programs" "$(grep -A 4 '^FAIL' "$WORK/whole"; tail -n 1 "$WORK/whole")"; fi
check "whole programs: all pairs were played" test "$(grep -c '^ok.*: exit' "$WORK/whole")" -ge 250
if CF_FAULTS=all timeout -k 10 7200 "$B/tests/sandbox/test_live_faults" >"$WORK/below" 2>&1; then
    ok "sandboxes: $(tail -n 1 "$WORK/below")"; else bad "sandboxes" "$(tail -n 20 "$WORK/below")"; fi
check "sandboxes: all pairs were played" test "$(grep -c ' left, closed in ' "$WORK/below")" -ge 180
finish

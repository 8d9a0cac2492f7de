#!/usr/bin/env bash
# Sixty runs of the campaign (tests/campaign/campaign), on a private Engine of its own.
. tests/integration/lib.sh

seed=${CAMPAIGN_SEED:-7} # the same sixty each time; CAMPAIGN_SEED plays others
if timeout -k 30 "${CAMPAIGN_S:-600}" tests/campaign/campaign "$B" "${CAMPAIGN_RUNS:-60}" "$seed" >"$WORK/table" 2>&1; then
    grep '^SKIPPED' "$WORK/table"
    ok "sixty runs, seed $seed: nothing leaked, nothing hung, no wrong verdict"
else
    bad "sixty runs, seed $seed" "$(cat "$WORK/table")"
fi
cat "$WORK/table"
finish

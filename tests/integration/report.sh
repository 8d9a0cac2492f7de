#!/usr/bin/env bash
# The page of --report: made by test oci, run and replay; bounded, without secrets, inert; then looked at in
# a headless Chromium. CF_SHOTS=DIR keeps pictures.
. tests/integration/lib.sh
P=$WORK/pages; mkdir "$P"
size() { stat -c %s "$1"; }

cf "a good one" 0 test oci "${ACP[@]}" --arg=--declare=steer,interrupt,subagents --drain --json --report "$P/good.html" --record "$P/good.cfr"
cp "$WORK/out" "$P/good.json"
check "good: under 300 KB" test "$(size "$P/good.html")" -lt 300000
check "good: its owner's alone" test "$(stat -c %a "$P/good.html")" = 600
fault exit3; cf "a bad one" 1 test oci "${FAULT[@]}" --json --report "$P/bad.html"
cp "$WORK/out" "$P/bad.json"
cf "a run" 0 run "${ONESHOT[@]}" --prompt hello --report "$P/run.html"
cf "a run with eyes" 0 run "${ACP[@]}" --prompt hello -v --report "$P/run-v.html"
says "a run with eyes" "f1 ->"
cf "no image" 3 test oci --name none --image "127.0.0.1:9/none@sha256:$(printf '%064d' 0)" --entrypoint /x \
    --protocol oneshot-v1 --prompt-transport stdin --output-mode text --json --report "$P/none.html"
cf "a recording" 0 replay "$P/good.cfr" --report "$P/replayed.html"
cf "a recording that was cut" 4 replay <(head -c 20000 "$P/good.cfr") --report "$P/cut.html"
# the data of a page, as its own script reads it
data() { sed -n '/<script type="application\/json" id="data">/,/<\/script>/p' "$1" | sed 's/^.*id="data">//; s/<\/script>.*$//'; }
data "$P/good.html" >"$P/good.data"; data "$P/replayed.html" >"$P/replayed.data"
check "its data is JSON" jq -e '.verdict == "PASS" and (.events | length > 50)' "$P/good.data"
story='.events[] | select(.k == "f" or .k == "o" or .k == "c") | [.k, .n, .d, .q, .x]'
jq -c "$story" "$P/good.data" >"$P/story"; jq -c "$story" "$P/replayed.data" >"$P/story-again"
# the recording is sealed before the last frames of the teardown
check "a replay's page tells the same" cmp <(head -n "$(wc -l <"$P/story-again")" "$P/story") "$P/story-again"
check "a replay's page tells all of it" test "$(wc -l <"$P/story-again")" -ge $(($(wc -l <"$P/story") - 2))
check "a replay's page has the same checks" cmp <(jq -c .checks "$P/good.data") <(jq -c .checks "$P/replayed.data")
cf "over what it reads" 2 replay "$P/good.cfr" --report "$P/good.cfr"
check "over what it reads: still there" sh -c "'$CF' validate recording '$P/good.cfr' | jq -e .complete"
cf "a plain wire has no page" 2 replay --wire acp "$P/good.cfr" --report "$P/x.html"
cf "ephemeral" 2 run "${ACP[@]}" --prompt x --retention ephemeral_zdr --report "$P/ephemeral.html"
check "ephemeral: no file" test ! -e "$P/ephemeral.html"
ln -s /dev/full "$P/full"
cf "a disk that is full" 4 test oci "${ACP[@]}" --quiet --report "$P/full"
says "a disk that is full" "No space left on device"

# ---- a harness that says the worst it can ------------------------------------------------------------------
if ! readelf -l "$(command -v busybox || echo /none)" 2>/dev/null | grep -q INTERP && command -v busybox >/dev/null; then
    mkdir "$WORK/context"; cp "$(command -v busybox)" "$WORK/context/busybox"
    printf 'FROM scratch\nCOPY busybox /bin/busybox\nCOPY busybox /bin/sh\nUSER 10001:10001\n' >"$WORK/context/Dockerfile"
    cat >"$WORK/evil.sh" <<'SH'
cat >/dev/null
evil='</script><script>window.hacked=1</script><!--<script><img src=x onerror=window.hacked=2><b class=evil>'
echo "$evil" >&2
echo "$evil"
printf '{"type":"observation.agent_message","payload":{"content":"%s"}}\n' "$evil"
printf 'turned \342\200\256around\342\200\254, \033[2J \001 \377 \363\240\201\201\n'
printf '%01048576d\n' 0 | busybox tr 0 x
echo "$PLANTED $CHECKFU_MODEL_TOKEN"
i=0; while [ $i -lt 4000 ]; do echo "line $i $evil"; i=$((i + 1)); done
SH
    cf "an evil one" 0 run --name 'evil <b class=evil>' --build-context "$WORK/context" --protocol oneshot-v1 --entrypoint /bin/sh \
        --prompt-transport stdin --output-mode text --argv=-c "--argv=$(cat "$WORK/evil.sh")" --env=PLANTED=planted-value-8 \
        --prompt 'ask </script><script>window.hacked=3</script>' --report "$P/evil.html"
    token=$(jq -r '.observation.payload.content // empty' "$WORK/out" | grep -o 'planted-value-8 .*' | head -n 1 | cut -d' ' -f2)
    check "evil: its token was in its words" test "${#token}" -ge 16
    check "evil: no planted value, no token" sh -c "! grep -qaF -e planted-value-8 -e '$token' '$P/evil.html'"
    check "evil: bounded" test "$(size "$P/evil.html")" -lt 300000
    data "$P/evil.html" >"$P/evil.data"
    check "evil: its data is JSON" jq -e '.events | any(.k == "x" and .n > 1000)' "$P/evil.data"
    check "evil: two scripts end, as the page has" test "$(grep -o '</script' "$P/evil.html" | wc -l)" = 2
    check "evil: no raw control, nothing that turns text" sh -c "! grep -qaP '[\x00-\x08\x0b-\x1f\x7f]|\xe2\x80[\x8b-\x8f\xa8-\xae]|\xf3\xa0[\x80\x81]' '$P/evil.html'"
else
    echo "SKIPPED a hostile harness: no static busybox (apt-get install busybox-static)"
fi

# ---- looked at ---------------------------------------------------------------------------------------------
if ! command -v chromium >/dev/null; then
    echo "SKIPPED the page in a browser: no chromium (docker/engine/setup --test)"
elif [ ! -e "$P/evil.html" ]; then
    echo "SKIPPED the page in a browser: it wants the hostile one too"
else
    timeout 300 python3 tests/reports/report.py "$P" ${CF_SHOTS:+"$CF_SHOTS"} >"$WORK/looks" 2>"$WORK/looks.err"
    while read -r word rest; do case $word in ok) ok "$rest" ;; *) bad "$rest" ;; esac; done <"$WORK/looks"
    check "all was looked at" grep -q '^ok all was looked at' "$WORK/looks" || cat "$WORK/looks.err"
fi
audit "report"
finish

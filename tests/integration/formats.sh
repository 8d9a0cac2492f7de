#!/usr/bin/env bash
# needs: network
# The files that other programs read, each read by one: JUnit XML by xmllint, TAP by prove, SARIF by
# Microsoft's schema, Markdown by cmark-gfm, the statement by ajv and another RFC 8785 writer.
. tests/integration/lib.sh
F=$WORK/files; mkdir "$F"
all() { ALL=(--junit "$F/$1.xml" --tap "$F/$1.tap" --sarif "$F/$1.sarif" --summary "$F/$1.md" --statement "$F/$1.statement"); }

# ---- three outcomes: proven, failed by a harness that says the worst it can, no image at all -------------
all good; cf "a good one" 0 test oci "${ONESHOT[@]}" --json "${ALL[@]}"
cp "$WORK/out" "$F/good.json"
all run; cf "a run" 0 run "${ACP[@]}" --prompt hello "${ALL[@]}"
evil=']]></failure><script>alert(1)</script> | `code` [link](http://x) <img src=x onerror=alert(1)> # no directive'
if ! readelf -l "$(command -v busybox || echo /none)" 2>/dev/null | grep -q INTERP && command -v busybox >/dev/null; then
    mkdir "$WORK/context"; cp "$(command -v busybox)" "$WORK/context/busybox"
    printf 'FROM scratch\nCOPY busybox /bin/busybox\nCOPY busybox /bin/sh\nUSER 10001:10001\n' >"$WORK/context/Dockerfile"
    says_it="cat >/dev/null; printf '\\033[2J\\001\\377\\342\\200\\256 end\\n' >&2; echo \"\$PLANTED\" >&2; echo '$evil' >&2; exit 3"
    BAD=(--name 'evil | <b>name</b>' --build-context "$WORK/context" --protocol oneshot-v1 --entrypoint /bin/sh
        --prompt-transport stdin --output-mode text --argv=-c "--argv=$says_it" --env=PLANTED=planted-value-7)
else
    echo "SKIPPED hostile words in files: no static busybox (apt-get install busybox-static)"
    fault exit3; BAD=("${FAULT[@]}")
fi
all bad; cf "a bad one" 1 test oci "${BAD[@]}" --json "${ALL[@]}"
cp "$WORK/out" "$F/bad.json"
all none; cf "no image" 3 test oci --name none --image "127.0.0.1:9/none@sha256:$(printf '%064d' 0)" --entrypoint /x \
    --protocol oneshot-v1 --prompt-transport stdin --output-mode text --json "${ALL[@]}"
check "no image: it says why there is no statement" grep -q 'statement is about an image' "$WORK/err"
check "no image: and there is none" test ! -e "$F/none.statement"
check "no planted value is in any file" sh -c "! grep -raF planted-value-7 '$F' --include='bad.*' --exclude='*.json'"
check "stars stand for it" grep -q '\*\*\*\*\*\*\*' "$F/bad.xml"

# ---- JUnit XML ---------------------------------------------------------------------------------------
for name in good run bad none; do
    check "JUnit, $name: by its schema" xmllint --noout --schema tests/reports/junit.xsd "$F/$name.xml"
done
number() { xmllint --xpath "string($2)" "$F/$1.xml"; }
check "JUnit: a schema that can say no" sh -c "sed 's/<testcase name/<testcase nom/' '$F/good.xml' | xmllint --noout --schema tests/reports/junit.xsd - && exit 1 || exit 0"
check "JUnit: as many cases as checks" test "$(number good 'count(//testcase)')" = "$(jq '.checks | length' "$F/good.json")"
check "JUnit, good: none failed" test "$(number good 'count(//failure) + count(//error)')" = 0
check "JUnit, bad: failures as in the result" test "$(number bad 'count(//failure)')" = "$(jq '[.checks[] | select(.status == "failed")] | length' "$F/bad.json")"
check "JUnit, bad: its own count" test "$(number bad 'count(//failure)')" = "$(number bad '/testsuites/@failures')"
check "JUnit, bad: skips are skips" test "$(number bad 'count(//skipped)')" = "$(jq '[.checks[] | select(.status == "skipped")] | length' "$F/bad.json")"
check "JUnit, no image: an error, not a failure" test "$(number none 'count(//error)') $(number none 'count(//failure)')" = "1 0"

# ---- TAP ------------------------------------------------------------------------------------------------
read_tap() { prove -e cat "$F/$1.tap"; }
check "TAP, good: prove is content" read_tap good
check "TAP, run: prove is content" read_tap run
for name in bad none; do
    read_tap $name >"$WORK/prove" 2>&1; got=$?
    check "TAP, $name: prove is not" test $got != 0
    check "TAP, $name: as a failure, not as a broken plan" sh -c "grep -q 'Failed test' '$WORK/prove' && ! grep -qiE 'parse errors|bad plan' '$WORK/prove'"
done
check "TAP: prove counts the checks" sh -c "prove -e cat '$F/good.tap' | grep -q 'Tests=$(jq '.checks | length' "$F/good.json")'"

# ---- Markdown -------------------------------------------------------------------------------------------
for name in good run bad none; do cmark-gfm --unsafe -e table -e autolink -e tagfilter "$F/$name.md" >"$F/$name.md.html"; done
check "summary: a row a check" test "$(grep -c '^<td>' "$F/good.md.html")" = $((4 * $(jq '.checks | length' "$F/good.json")))
check "summary, bad: a row a check" test "$(grep -c '^<td>' "$F/bad.md.html")" = $((4 * $(jq '.checks | length' "$F/bad.json")))
check "summary, bad: nothing of the harness's became a mark" sh -c "! grep -iE '<(script|img|a |b>)' '$F/bad.md.html'"
check "summary, bad: its words are there all the same" grep -q 'alert(1)' "$F/bad.md.html"
check "summary, good: says PASS" grep -q 'PASS custom' "$F/good.md.html"
cf "a second one" 1 test oci "${BAD[@]}" --quiet --summary "$F/good.md"
check "summary: a second one is added to it" test "$(grep -c '^### ' "$F/good.md")" = 2

# ---- SARIF and the statement -------------------------------------------------------------------------------
check "SARIF, good: no result of a check" jq -e '[.runs[0].results[] | select(.level == "error")] == []' "$F/good.sarif"
check "SARIF, bad: a result each" test "$(jq '[.runs[0].results[] | select(.level == "error")] | length' "$F/bad.sarif")" = "$(jq '[.checks[] | select(.status == "failed")] | length' "$F/bad.json")"
check "SARIF, bad: every check is a rule" sh -c "jq -e --slurpfile r '$F/bad.json' '[.runs[0].tool.driver.rules[].id] as \$ids | \$r[0].checks | all(.id as \$i | \$ids | index(\$i) != null)' '$F/bad.sarif'"
check "SARIF, no image: it did not run" jq -e '.runs[0].invocations[0] | .executionSuccessful == false and .exitCode == 3' "$F/none.sarif"
check "statement: about the image's digest" test "sha256:$(jq -r '.subject[0].digest.sha256' "$F/good.statement")" = "$(jq -r .image.digest "$F/good.json")"
check "statement, good: PASSED" jq -e '.predicate | .result == "PASSED" and .failedTests == [] and .cfrunner.signed == false' "$F/good.statement"
check "statement, run: skips are WARNED" jq -e '.predicate | .result == "WARNED" and (.warnedTests | length > 0)' "$F/run.statement"
check "statement, bad: FAILED, each by name" sh -c "jq -e --slurpfile r '$F/bad.json' '.predicate | .result == \"FAILED\" and .failedTests == [\$r[0].checks[] | select(.status == \"failed\").id]' '$F/bad.statement'"
for name in good run bad; do
    check "statement, $name: by its schema" sh -c "'$CF' schema check --schema proto/test-result-statement.schema.json '$F/$name.statement' | jq -e .valid"
    check "statement, $name: canonical" sh -c "'$CF' correspond canonicalize <'$F/$name.statement' | cmp - '$F/$name.statement'"
done
check "statement: the release's digest" test "$(jq -cS .declared.release "$F/good.json" | tr -d '\n' | sha256sum | cut -d' ' -f1)" = "$(jq -r '.predicate.configuration[] | select(.name == "release").digest.sha256' "$F/good.statement")"
check "statement, run: a release's digest too" jq -e '.predicate.configuration[] | select(.name == "release").digest.sha256 | test("^[0-9a-f]{64}$")' "$F/run.statement"
mkdir -p "$B/readers"; cp tests/reports/* "$B/readers/"
if ! command -v npm >/dev/null || ! command -v node >/dev/null; then echo "SKIPPED other readers of SARIF and of the statement: node or npm is missing"
elif [ ! -d "$B/readers/node_modules/canonicalize" ] && ! timeout 90 npm --prefix "$B/readers" --fetch-retries=0 install --no-audit --no-fund >"$WORK/npm" 2>&1; then
    echo "SKIPPED other readers of SARIF and of the statement: npm cannot install them: $(tail -n 1 "$WORK/npm")"
else
    node "$B/readers/readers.mjs" sarif "$F"/{good,run,bad,none}.sarif >"$WORK/readers" 2>&1
    node "$B/readers/readers.mjs" statement proto/test-result-statement.schema.json "$F"/{good,run,bad}.statement >>"$WORK/readers" 2>&1
    while read -r word text; do case $word in ok) ok "$text" ;; *) bad "$word $text" ;; esac; done <"$WORK/readers"
    check "the readers came to their end" test "$(grep -c ^ok "$WORK/readers")" = 14
fi

# ---- refused, and lost ----------------------------------------------------------------------------------
cf "ephemeral" 2 test oci "${ACP[@]}" --retention ephemeral_zdr --junit "$F/none-of-it.xml"
says "ephemeral" "a report outlives the run"
check "ephemeral: no file" test ! -e "$F/none-of-it.xml"
for flag in ledger state-out; do
    cf "ephemeral, --$flag" 2 test oci "${ONESHOT[@]}" --retention ephemeral_zdr "--$flag" "$F/none-of-it"
    says "ephemeral, --$flag" "outlives the run"
    check "ephemeral, --$flag: no file" test ! -e "$F/none-of-it"
done
cf "nowhere" 2 test oci "${ACP[@]}" --tap /nonexistent/a.tap
says "nowhere" "--tap /nonexistent/a.tap"
cf "twice the same" 2 test oci "${ACP[@]}" --tap "$F/same" --junit "$F/same"
check "twice the same: no file" test ! -e "$F/same"
cf "a recording's" 2 test oci "${ACP[@]}" --tap "$F/same" --record "$F/same"
echo old >"$F/old.tap"
cf "a name that is wrong otherwise" 2 test oci "${ACP[@]}" --tap "$F/old.tap" --record /nonexistent/r.cfr
check "no result of another day is left" test ! -s "$F/old.tap"
ln -s /dev/full "$F/full"
cf "a disk that is full" 4 test oci "${ONESHOT[@]}" --json --tap "$F/full" --junit "$F/beside.xml"
says "a disk that is full" "No space left on device"
is "a disk that is full: the result says so" '.exit_code == 4 and .status == "error" and .blame == "runner" and (.error.message | contains("report file"))'
cp "$WORK/out" "$WORK/result.json"
check "a disk that is full: it conforms" sh -c "'$CF' schema check --schema proto/diagnostic-result.schema.json '$WORK/result.json' | jq -e .valid"
check "a disk that is full: the other file is whole" xmllint --noout --schema tests/reports/junit.xsd "$F/beside.xml"
cf "a run and a disk that is full" 4 run "${ONESHOT[@]}" --prompt x --tap "$F/full"

# ---- interrupted: told as what it is, and no file is green ------------------------------------------------
fault stall
# a shell starts what runs beside it with SIGINT ignored
env --default-signal=INT "$CF" test oci "${FAULT[@]}" --tap "$F/stopped.tap" --junit "$F/stopped.xml" --report "$F/stopped.html" >"$WORK/out" 2>"$WORK/err" & pid=$!
for _ in $(seq 600); do ! grep -q "turn" "$WORK/err" || break; kill -0 $pid 2>/dev/null || break; sleep 0.1; done
sleep 1; kill -INT $pid; wait $pid; got=$?
check "interrupted: exit 130" test $got = 130
check "interrupted: TAP says so" grep -qE '^not ok .*' "$F/stopped.tap"
check "interrupted: with its code" grep -q 'exit 130$' "$F/stopped.tap"
check "interrupted: JUnit by its schema" xmllint --noout --schema tests/reports/junit.xsd "$F/stopped.xml"
check "interrupted: the page says ERROR" grep -q '<title>ERROR fault</title>' "$F/stopped.html"
audit "formats"
finish

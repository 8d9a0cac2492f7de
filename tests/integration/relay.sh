#!/usr/bin/env bash
# The ways out of a sandbox: the door itself under load, the model relay with scripts, caps and an
# upstream, the ledger, and the forward proxy.
. tests/integration/lib.sh

nd() { if jq -es "$2" "$WORK/out" >/dev/null 2>&1; then ok "$1"; else bad "$1: not $2" "$(head -c 2500 "$WORK/out"; tail -n 3 "$WORK/err")"; fi; }
text() { jq -r '.observation.payload.content // empty' "$WORK/out"; }
# door MODE...: the launch flags of a harness that only uses its connections.
door() {
    DOOR=(--name door --build-context "$CTX/door" --entrypoint /opt/door/bin/door --protocol oneshot-v1
        --prompt-transport stdin --output-mode text)
    local arg; for arg; do DOOR+=("--argv=$arg"); done
}
# prints NAME TEXT: what the harness printed holds TEXT.
prints() { if text | grep -qF -- "$2"; then ok "$1"; else bad "$1: does not print '$2'" "$(text | head -n 5; tail -n 3 "$WORK/err")"; fi; }

BIG=${CF_BIG_MIB:-1024} # what is carried each way where much is
"$B/tests/support/provider" --long $((BIG * 1200000)) >"$WORK/provider" 2>&1 & PROVIDER=$!
trap 'kill $PROVIDER 2>/dev/null; rm -rf "$WORK"' EXIT
for _ in $(seq 50); do AT=$(head -n 1 "$WORK/provider"); [ -z "$AT" ] || break; sleep 0.1; done
printf 'sk-planted-key\n' >"$WORK/key"; chmod 600 "$WORK/key"
UP=(--upstream "openai=http://$AT" --upstream "anthropic=http://$AT" --upstream-key-file "$WORK/key")

# ---- the door ---------------------------------------------------------------------------------------
door listen
cf "only loopback listens" 0 run "${DOOR[@]}" --prompt x
check "only loopback listens: one socket" test "$(text | grep -c listens)" = 1
prints "only loopback listens: 127.0.0.1:4180" "listens 0100007F:1054"

door crowd 200
cf "200 connections at once" 0 run "${DOOR[@]}" --prompt x --max-calls-per-turn 300
prints "200 connections at once: each was answered" "200 of 200"
nd "200 connections at once: each is a row" '[.[-1].result.model_calls[] | select(.status == 200)] | length == 200'

door open 60 0
cf "connections that never send" 0 run "${DOOR[@]}" --prompt x --max-calls-per-turn 100
prints "connections that never send: others are served" "60 open, 50 of 50"

door hello
prompts=(); for i in $(seq 200); do prompts+=(--prompt "$i"); done
CF_TEST_TIMEOUT=200 cf "a process's first act, 200 times" 0 run "${DOOR[@]}" "${prompts[@]}"
check "a process's first act: 200 answers" test "$(text | grep -c '^200$')" = 200

door download $((BIG * 1048576))
CF_TEST_TIMEOUT=300 cf "1 GiB from a provider" 0 run "${DOOR[@]}" --prompt x "${UP[@]}" --turn-timeout 250
prints "1 GiB from a provider: all of it" "bytes in"
nd "1 GiB from a provider: counted" ".[-1].result.model_totals.response_bytes >= $BIG * 1048576"
door upload 60 $(((BIG + 59) / 60))
CF_TEST_TIMEOUT=300 cf "1 GiB to a provider" 0 run "${DOOR[@]}" --prompt x "${UP[@]}" --turn-timeout 250
prints "1 GiB to a provider: each body arrived whole" "$(((BIG + 59) / 60)) times 62914560 bytes"
check "1 GiB to a provider: nothing is left of it" test -z "$(find "$CFRUNNER_STATE_DIR" -name 'spool-*')"

door slow
cf "a slow reader stalls no other" 0 run "${DOOR[@]}" --prompt x "${UP[@]}" --max-calls-per-turn 300
prints "a slow reader stalls no other: they went on" "100 of 100 beside it"

# ---- scripts ------------------------------------------------------------------------------------------
cat >"$WORK/script" <<'JSON'
{"otherwise":"refuse","rules":[
 {"name":"first","when":{"user":"hello"},"times":1,"say":[{"thinking":"hm"},{"text":"from the script"}],"delay_ms":50},
 {"name":"then","when":{"user":"hello"},"error":{"status":418,"message":"no tea"}}]}
JSON
body='{"model":"m","messages":[{"role":"user","content":"hello"}]}'
door ask /v1/chat/completions "$body"
cf "a script" 0 run "${DOOR[@]}" --prompt a --prompt b --model-script "$WORK/script"
prints "a script: its first rule" "from the script"
prints "a script: its second" "418"
nd "a script: the rules are named" '[.[-1].result.model_calls[].rule] == ["first","then"]'
cf "a script that is wrong" 2 run "${DOOR[@]}" --prompt a --model-script /etc/hostname
printf '{"rules":[{"sey":[]}]}' >"$WORK/wrong"
cf "a script with a misspelt member" 2 run "${DOOR[@]}" --prompt a --model-script "$WORK/wrong"
says "a script with a misspelt member" "rules[0]: the rule has no member sey"
printf '{"rules":[{"when":{"main":true},"say":[{"text":"{answer}"}]}]}' >"$WORK/lane"
cf "the lane with a script" 0 test oci "${ONESHOT[@]}" --json --model-script "$WORK/lane"
printf '{"rules":[{"when":{"main":true},"say":[{"text":"no"}],"break":{"how":"reset","after_bytes":20}}]}' >"$WORK/cut"
cf "the lane with a model that cuts" 1 test oci "${ONESHOT[@]}" --json --model-script "$WORK/cut"
is "the lane with a model that cuts: the exchange failed" '.checks[] | select(.id == "process_exchange") | .status == "failed"'

# ---- an upstream ----------------------------------------------------------------------------------------
: >"$WORK/provider.seen"
door ask /v1/messages '{"model":"some","max_tokens":5,"messages":[{"role":"user","content":"planted prompt"}]}'
cf "an upstream" 0 run "${DOOR[@]}" --prompt x "${UP[@]}" --ledger "$WORK/ledger"
prints "an upstream: its answer" "200 {"
check "an upstream: it got the real key" grep -q '^x-api-key: sk-planted-key' "$WORK/provider"
check "an upstream: it did not get the lease's token" sh -c "! grep -q 'x-api-key: cfr_' '$WORK/provider'"
nd "an upstream: its usage" '.[-1].result.model_calls[0] | .provider == "anthropic" and .usage == "reported" and .input_tokens == 11 and .output_tokens == 42'
check "an upstream: the key is in no output" sh -c "! grep -rq sk-planted-key '$WORK/out' '$WORK/err' '$WORK/ledger'"
check "the ledger file: one line, a model's" sh -c "jq -e '.kind == \"model\" and .status == 200' '$WORK/ledger' && test \$(wc -l <'$WORK/ledger') = 1"
check "the ledger file: no prompt in it" sh -c "! grep -q planted '$WORK/ledger'"
check "the ledger file: others may not read it" test "$(stat -c %a "$WORK/ledger")" = 600
door show CHECKFU_MODEL_TOKEN OPENAI_BASE_URL OPENAI_API_BASE ANTHROPIC_BASE_URL HTTPS_PROXY MY_URL
cf "the environment" 0 run "${DOOR[@]}" --prompt x "${UP[@]}" --env 'MY_URL={relay}/x?k={token}&v={relay_v1}'
check "the environment: the key is not there" sh -c "! grep -q sk-planted '$WORK/out'"
prints "the environment: with /v1" "OPENAI_BASE_URL=http://127.0.0.1:4180/v1"
prints "the environment: the older name" "OPENAI_API_BASE=http://127.0.0.1:4180/v1"
prints "the environment: without /v1" "ANTHROPIC_BASE_URL=http://127.0.0.1:4180"
prints "the environment: no proxy unless asked" "HTTPS_PROXY=(not set)"
prints "the environment: an own variable" "MY_URL=http://127.0.0.1:4180/x?k=cfr_"

door ask /v1/chat/completions '{"model":"deny","messages":[]}'
cf "an upstream that refuses the key" 1 run "${DOOR[@]}" --prompt x "${UP[@]}"
nd "an upstream that refuses the key: said so" '.[-1].result.error | .type == "model.credential_rejected" and .blame == "upstream"'
door ask /v1/chat/completions '{"model":"some","messages":[]}'
cf "an upstream that is not there" 0 run "${DOOR[@]}" --prompt x --upstream openai=http://127.0.0.1:1
prints "an upstream that is not there: 502" "502 {"
nd "an upstream that is not there: a finding" '[.[-1].result.findings[] | select(.id == "upstream_fault")] | length == 1'
cf "a key in a file that others can read" 2 run "${DOOR[@]}" --prompt x --upstream "openai=http://$AT" --upstream-key-file /etc/hostname
says "a key in a file that others can read" "chmod 600"
cf "a key in a variable that is not set" 2 run "${DOOR[@]}" --prompt x --upstream "openai=http://$AT" --upstream-key-env NO_SUCH_VARIABLE
cf "an upstream without encryption" 2 run "${DOOR[@]}" --prompt x --upstream openai=http://example.com
says "an upstream without encryption" "unencrypted"
cf "a key without an upstream" 2 run "${DOOR[@]}" --prompt x --upstream-key-env HOME
door leave
cf "a client that leaves" 0 run "${DOOR[@]}" --prompt x "${UP[@]}"
nd "a client that leaves: an aborted row, usage in part" '.[-1].result.model_calls[0] | .aborted and .usage != "reported"'

# ---- HTTP/2 and TLS, by a server of another make -----------------------------------------------------------
if command -v lighttpd >/dev/null && command -v openssl >/dev/null && [ -e /usr/lib/lighttpd/mod_openssl.so ]; then
    mkdir "$WORK/tls"
    (cd "$WORK/tls" && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out cert.pem -days 2 \
        -subj /CN=localhost -addext subjectAltName=DNS:localhost && cat key.pem cert.pem >both.pem) 2>/dev/null
    cat >"$WORK/tls/conf" <<CONF
server.document-root = "$WORK/tls"
server.port = 8443
server.bind = "127.0.0.1"
server.modules = ("mod_openssl", "mod_proxy", "mod_accesslog")
ssl.engine = "enable"
ssl.pemfile = "$WORK/tls/both.pem"
server.feature-flags = ("server.h2proto" => "enable")
server.stream-response-body = 2
accesslog.filename = "$WORK/tls/access"
accesslog.format = "%H %r"
proxy.server = ("" => (("host" => "127.0.0.1", "port" => ${AT#*:})))
CONF
    lighttpd -D -f "$WORK/tls/conf" 2>"$WORK/tls/err" & LIGHTTPD=$!
    sleep 0.5
    door ask /v1/messages '{"model":"slow","stream":true,"max_tokens":5,"messages":[{"role":"user","content":"x"}]}'
    cf "an upstream over TLS" 0 run "${DOOR[@]}" --prompt x --upstream anthropic=https://localhost:8443 \
        --upstream-ca "$WORK/tls/cert.pem" --upstream-key-file "$WORK/key"
    prints "an upstream over TLS: its stream" "message_stop"
    nd "an upstream over TLS: its usage" '.[-1].result.model_calls[0] | .streamed and .output_tokens == 42 and .usage == "reported"'
    cf "an upstream nobody vouches for" 0 run "${DOOR[@]}" --prompt x --upstream anthropic=https://localhost:8443 --upstream-key-file "$WORK/key"
    nd "an upstream nobody vouches for: a TLS fault" '.[-1].result.model_calls[0] | .fault == "tls" and .status == 502'
    kill $LIGHTTPD; wait $LIGHTTPD 2>/dev/null
    check "an upstream over TLS: it was HTTP/2" grep -q '^HTTP/2' "$WORK/tls/access"
else
    echo "SKIPPED an upstream over TLS and HTTP/2: lighttpd with mod_openssl is not installed"
fi

door ask /v1/chat/completions '{"model":"pause","stream":true,"messages":[]}'
cf "an upstream that goes silent in a turn" 1 run "${DOOR[@]}" --prompt x "${UP[@]}" --turn-timeout 3s
nd "an upstream that goes silent in a turn: it is blamed" '.[-1].result.error | .type == "runtime.turn_deadline_exceeded" and .blame == "upstream" and (.message | contains("the model was silent for"))'

# ---- base URLs that are one level off, and what comes after the lease ------------------------------------------
cf "a base URL with /v1 twice" 1 test oci "${ONESHOT[@]}" --json --env 'OPENAI_BASE_URL={relay_v1}/v1'
is "a base URL with /v1 twice: each check that fails says which variable" '[.checks[] | select(.id == "process_exchange" or .id == "model_plane_reached") | .status == "failed" and (.fix | contains("OPENAI_BASE_URL should not end in /v1"))] == [true, true]'
is "a base URL with /v1 twice: a finding, and rows" '(.findings[0].id == "relay_refused") and all(.model_calls[]; .status == 404 and .refused == "path")'
door ask /chat/completions "$body"
cf "a base URL without /v1" 0 run "${DOOR[@]}" --prompt x
prints "a base URL without /v1: the dialect's own 404" '404 {"error":{"message":'
says "a base URL without /v1" "OPENAI_BASE_URL should end in /v1"
script() { SCRIPT=(--name script --build-context "$CTX/acp-script" --entrypoint /opt/script/bin/acp-script --protocol acp-v1 --arg=-e "--arg=$1"); }
script "$(printf 'handshake\nexpect session/prompt\nstderr getaddrinfo ENOTFOUND api.vendor.example\nend-turn\n')"
cf "a client that goes past the relay" 1 test oci "${SCRIPT[@]}" --json
is "a client that goes past the relay: the hint" '.checks[] | select(.id == "prompt_exchange") | .fix | contains("seems to ignore the base URL")'
cf "a client that goes past the proxy" 1 test oci "${SCRIPT[@]}" --json --allow-host good.test
is "a client that goes past the proxy: the hint" '.checks[] | select(.id == "prompt_exchange") | .fix | contains("or HTTPS_PROXY")'
script "$(printf 'handshake\nturn\nexpect session/close\nanswer {}\ndrain\nmodel\n')"
cf "a call after the end" 0 run "${SCRIPT[@]}" --prompt x
nd "a call after the end: 401, and a row" '.[-1].result.model_calls | length == 2 and .[0].status == 200 and (.[1] | .status == 401 and .refused == "lease")'
door hello
cf "a lease that is over at once" 1 run "${DOOR[@]}" --prompt a --prompt b --lease-time 1ms
nd "a lease that is over at once: budget.exceeded" '.[-1].result | .error.type == "budget.exceeded" and .model_calls[0].refused == "cap"'

# ---- what a harness claims to have used -----------------------------------------------------------------------
printf '{"rules":[{"say":[{"text":"hi"}],"usage":{"input_tokens":11,"output_tokens":42}}]}' >"$WORK/counted"
claims() { # NAME FINDINGS INPUT OUTPUT: an agent that asks once, for 11 and 42 tokens, and claims these
    local usage="{\"inputTokens\":$3,\"outputTokens\":$4,\"totalTokens\":$(($3 + $4))}"
    script "$(printf 'handshake\nexpect session/prompt\nmodel\nchunk ${answer}\nsend %s\n' \
        "{\"jsonrpc\":\"2.0\",\"id\":\${prompt_id},\"result\":{\"stopReason\":\"end_turn\",\"usage\":$usage}}")"
    cf "$1" 0 run "${SCRIPT[@]}" --prompt x --model-script "$WORK/counted"
    nd "$1: $2 finding(s)" "[.[-1].result.findings[] | select(.id == \"usage_differs\")] | length == $2"
}
claims "a claim that is right" 0 11 42
claims "a claim that is wrong" 1 11 7
says "a claim that is wrong" "claims 11 input and 7 output tokens for turn 1; the relay counted 11 and 42"

# ---- caps ---------------------------------------------------------------------------------------------------
door hello
cf "a cap on calls" 1 run "${DOOR[@]}" --prompt a --prompt b --prompt c --max-calls 2
nd "a cap on calls: budget.exceeded" '.[-1].result.error.type == "budget.exceeded"'
nd "a cap on calls: two turns were served" '[.[-1].result.model_calls[] | select(.refused == null)] | length == 2'
door open 0 0
cf "a cap on the turn's calls" 1 run "${DOOR[@]}" --prompt a --max-calls-per-turn 10
prints "a cap on the turn's calls: so many were served" "10 of 50"
nd "a cap on the turn's calls: the run's budget is another" '.[-1].result.error.type != "budget.exceeded"'
door ask /v1/chat/completions "$body"
cf "a list of models" 0 run "${DOOR[@]}" --prompt a --allow-model other
prints "a list of models: the others are refused" "400 {"
nd "a list of models: recorded" '.[-1].result.model_calls[0].refused == "model"'
printf '{"currency":"USD","models":{"m":{"input":1000,"output":5000}}}' >"$WORK/prices"
cf "cost" 0 run "${DOOR[@]}" --prompt a --price-file "$WORK/prices"
nd "cost: counted" '.[-1].result.model_totals.cost > 0'
cf "a cap on cost" 1 run "${DOOR[@]}" --prompt a --prompt b --price-file "$WORK/prices" --max-cost 0.001
nd "a cap on cost: budget.exceeded" '.[-1].result.error | .type == "budget.exceeded" and (.message | contains("USD"))'
cf "a cap on cost without prices" 2 run "${DOOR[@]}" --prompt a --max-cost 1

# ---- the forward proxy: a second network stands for the world ---------------------------------------------------
world=cfw$$
if ip netns add "$world" 2>/dev/null && ip link add "$world" type veth peer name "${world}p" 2>/dev/null; then
    trap 'kill $PROVIDER $FAR 2>/dev/null; ip link del $world 2>/dev/null; ip netns del $world 2>/dev/null; rm -rf "$WORK"' EXIT
    ip link set "${world}p" netns "$world"
    ip addr add 203.0.113.1/24 dev "$world"; ip link set "$world" up
    ip -n "$world" addr add 203.0.113.2/24 dev "${world}p"; ip -n "$world" addr add 10.213.0.2/24 dev "${world}p"
    ip -n "$world" link set "${world}p" up; ip -n "$world" link set lo up
    ip route add 10.213.0.0/24 dev "$world"
    ip netns exec "$world" "$B/tests/support/provider" --address 0.0.0.0 --port 443 --echo 7 >"$WORK/far" 2>&1 & FAR=$!
    sleep 0.3
    printf '127.0.0.1 localhost\n203.0.113.2 good.test\n10.213.0.2 inside.test\n203.0.113.2 mixed.test\n10.213.0.2 mixed.test\n203.0.113.1 own.test\n' >"$WORK/hosts"
    # named ARGS...: cfrunner with those names; the rest of the system does not see them.
    cat >"$WORK/named" <<SH
#!/bin/sh
mount --bind "$WORK/hosts" /etc/hosts && exec "$CF" "\$@"
SH
    chmod +x "$WORK/named"
    OPEN=(--allow-host good.test --allow-host good.test:7 --allow-host inside.test --allow-host mixed.test --allow-host own.test)
    real=$CF; CF=unshare; pre=(-m --propagation private "$WORK/named")

    door listen
    cf "with the proxy" 0 "${pre[@]}" run "${DOOR[@]}" --prompt x "${OPEN[@]}"
    prints "with the proxy: it listens on loopback" "listens 0100007F:1055"
    check "with the proxy: two sockets" test "$(text | grep -c listens)" = 2
    door show HTTPS_PROXY http_proxy NO_PROXY
    cf "with the proxy: the environment" 0 "${pre[@]}" run "${DOOR[@]}" --prompt x "${OPEN[@]}"
    prints "with the proxy: HTTPS_PROXY" "HTTPS_PROXY=http://127.0.0.1:4181"
    prints "with the proxy: http_proxy" "http_proxy=http://127.0.0.1:4181"
    prints "with the proxy: NO_PROXY" "NO_PROXY=127.0.0.1,localhost"
    door connect good.test:7 "over and back"
    cf "an allowed name" 0 "${pre[@]}" run "${DOOR[@]}" --prompt x "${OPEN[@]}" --ledger "$WORK/ledger"
    prints "an allowed name: both ways, after a half-close" "200 over and backbye"
    nd "an allowed name: a row" '.[-1].result.egress | .allowed == 1 and .denied == 0 and (.rows[0] | .host == "good.test" and .port == 7 and .address == "203.0.113.2" and .up_bytes == 13 and .down_bytes == 16)'
    check "an allowed name: a line of the ledger" jq -e '.kind == "egress" and .verdict == "allowed"' "$WORK/ledger"
    door fetch http://good.test:443/v1/x
    cf "a plain request" 0 "${pre[@]}" run "${DOOR[@]}" --prompt x "${OPEN[@]}"
    prints "a plain request: answered" "200 {"
    # denied CASE TARGET WHY WORDS
    denied() {
        door connect "$2" x
        cf "$1" 0 "${pre[@]}" run "${DOOR[@]}" --prompt x "${OPEN[@]}"
        prints "$1: the body says what to do" "$4"
        nd "$1: recorded" ".[-1].result.egress | .denied == 1 and (.rows[0] | .verdict == \"denied\" and .why == \"$3\")"
        nd "$1: a finding" '[.[-1].result.findings[] | select(.id == "egress_denied")] | length == 1'
    }
    denied "a name that is not open" evil.test:443 name "--allow-host evil.test opens it"
    denied "a port that is not open" good.test:22 port "--allow-host good.test:22 opens it"
    denied "an allowed name that leads inside" inside.test:443 address "a private address"
    denied "an allowed name that leads inside as well" mixed.test:443 address "10.213.0.2"
    denied "an allowed name that leads to this machine" own.test:443 address "this machine's own"
    denied "the relay through the proxy" 127.0.0.1:4180 relay "NO_PROXY"
    denied "an address instead of a name" 203.0.113.2:443 name "not open"
    denied "the metadata service" 169.254.169.254:80 name "not open"
    door tunnel good.test:7 "$BIG"
    CF_TEST_TIMEOUT=300 cf "1 GiB each way at once" 0 "${pre[@]}" run "${DOOR[@]}" --prompt x "${OPEN[@]}" --turn-timeout 250
    prints "1 GiB each way at once: no byte is wrong" "$((BIG * 1048576)) out, $((BIG * 1048576)) back, 0 wrong"
    door fetch http://good.test/
    cf "hosts that are none" 2 "${pre[@]}" run "${DOOR[@]}" --prompt x --allow-host 'https://good.test/'
    says "hosts that are none" "is not a host to open"
    CF=$real
else
    echo "SKIPPED the forward proxy: no second network namespace can be made here"
fi

# ---- the result's own form -------------------------------------------------------------------------------------
door ask /v1/chat/completions "$body"
cf "a run with all of it" 0 run "${DOOR[@]}" --prompt x --allow-host example.com --price-file "$WORK/prices" --model-script "$WORK/lane"
jq -c '.result // empty' "$WORK/out" >"$WORK/result.json"
check "the result conforms to its schema" sh -c "'$CF' schema check --schema proto/run-result.schema.json '$WORK/result.json' | jq -e .valid"
for name in script lane cut; do
    check "scripts conform to their schema: $name" sh -c "'$CF' schema check --schema proto/model-script.schema.json '$WORK/$name' | jq -e .valid"
done
check "prices conform to their schema" sh -c "'$CF' schema check --schema proto/price-table.schema.json '$WORK/prices' | jq -e .valid"
audit "relay"
finish

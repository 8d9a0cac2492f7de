#!/usr/bin/env bash
# The golden vectors and what the normalizer tells, judged by ajv: another validator than ours.
#
#   CF_BUILD=build tests/integration/vectors.sh
set -u
cd "$(dirname "$0")/../.."
BUILD=${CF_BUILD:-build}
passed=0 failed=0

skip() { echo "SKIPPED vectors by ajv: $1"; echo "0 passed, 0 failed"; exit 0; }
command -v node >/dev/null && command -v npm >/dev/null || skip "node and npm are not installed"
AJV=$BUILD/ajv
mkdir -p "$AJV" && cp tests/support/ajv.mjs "$AJV/"
if [ ! -d "$AJV/node_modules/ajv" ]; then
    echo '{"name":"second-opinion","version":"1.0.0","private":true}' >"$AJV/package.json"
    (cd "$AJV" && npm install --silent --no-audit --no-fund ajv@8.17.1 >/dev/null 2>&1) || skip "npm cannot install ajv"
fi

# check NAME COMMAND...: passes when the command succeeds.
check() {
    local name=$1 out; shift
    if out=$("$@" 2>&1); then passed=$((passed + 1)); echo "ok $name: $(tail -n 1 <<<"$out")"
    else failed=$((failed + 1)); echo "FAIL $name"; tail -n 5 <<<"$out" | sed 's/^/      /'; fi
}
ajv() { node "$AJV/ajv.mjs" "$@"; }

check "ACP extension vectors" ajv proto/harness-acp-v1-extension.schema.json document fixtures/acp-v1-extension-vectors.json
check "one-shot author-kit vectors" ajv proto/harness-oneshot-v1-author-kit.schema.json document fixtures/oneshot-v1-author-kit-vectors.json
said=$(mktemp); trap 'rm -f "$said"' EXIT
if [ -d ../shared/data/acp-recordings ] && [ -x "$BUILD/tests/observe/test_recordings" ]; then
    CF_OBSERVATIONS_OUT=$said "$BUILD/tests/observe/test_recordings" >/dev/null
    check "observations of recorded agents" ajv proto/harness-oneshot-v1-author-kit.schema.json observations "$said"
else
    echo "SKIPPED observations of recorded agents: no recordings, or the unit tests are not built"
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]

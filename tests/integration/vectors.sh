#!/usr/bin/env bash
# needs: network
# The author kit's golden vectors against the closed schemas, by an independent validator and by ours.
. tests/integration/lib.sh

for kind in oneshot acp; do
    file=fixtures/$kind-v1-author-kit-vectors.json; [ $kind = oneshot ] || file=fixtures/acp-v1-extension-vectors.json
    cf "$kind: our validator takes the vectors" 0 validate $kind-vectors $file; is "$kind: valid" '.valid and .errors == []'
done
jq -c '.vectors[].authoring' fixtures/oneshot-v1-author-kit-vectors.json >"$WORK/authoring"
while read -r line; do
    printf '%s' "$line" >"$WORK/release.json"; cf "the decoder takes an authoring" 0 validate release "$WORK/release.json"
done <"$WORK/authoring"
jq -c '.vectors[].normalized_observations[]' fixtures/oneshot-v1-author-kit-vectors.json | while read -r line; do
    printf '%s' "$line" >"$WORK/o.json"; "$CF" validate observation "$WORK/o.json" >/dev/null || echo "$line"; done >"$WORK/wrong"
check "each listed observation is in the contract" test ! -s "$WORK/wrong"

mkdir -p "$B/ajv"; cp tests/ajv/* "$B/ajv/"
if ! command -v npm >/dev/null || ! command -v node >/dev/null; then echo "SKIPPED ajv: node or npm is missing"
elif [ ! -d "$B/ajv/node_modules/ajv" ] && ! timeout 90 npm --prefix "$B/ajv" --fetch-retries=0 install --no-audit --no-fund >"$WORK/npm" 2>&1; then
    echo "SKIPPED ajv: npm cannot install it: $(tail -n 1 "$WORK/npm")"
else
    timeout 300 node "$B/ajv/vectors.mjs" "$CF" "$WORK" >"$WORK/ajv" 2>&1
    while read -r word text; do case $word in ok) ok "$text" ;; FAIL) bad "$text" ;; esac; done <"$WORK/ajv"
    check "ajv came to its end" grep -q '^ok .*acp-vectors: agreed' "$WORK/ajv"
fi
finish

#!/usr/bin/env bash
# The contract page's matrices, rebuilt from `cfrunner catalog --json` and compared cell by cell with
# fixtures/catalog-tables.txt, which is the page's tables to the letter.
. tests/integration/lib.sh

cf "catalog" 0 catalog --json
jq -s 'if length == 1 then .[0] else error("not one document") end' "$WORK/out" >"$WORK/catalog"
check "it conforms to its schema" sh -c "'$CF' schema check --schema proto/catalog.schema.json '$WORK/catalog' | jq -e .valid"

axes='[.event_fidelity, .continuation, .checkpoint, .approval_delivery, .interrupt, .mid_run_input, .model_control, .usage_authority, .multiagent_shared_environment]'
cell='def cell: if . == null then "—" elif type == "boolean" then tostring else . end;'
row='map(cell) | join(" | ")'
declare -A rebuild=(
    [support]=".harnesses[] | [.entry, .supply, .adoption, .model_lane, .mcp_delivery, .catalog_evidence, .tuple_support] | $row"
    [ceilings]=".harnesses[] | . as \$h | [.entry, .mode, .availability, .release_protocol, .execution_lane] + (.ceiling | $axes) + [if .ceiling.subagents then .ceiling.subagents + (if (\$h.declaration_admitted | length) > 0 then \"*\" else \"\" end) else null end] | $row"
    [envelopes]=".envelopes[] | [.driver, .retention] + (.capability_set | $axes) | $row"
    [gated]=".gated_emissions[] | [.axis, .required_value, (.observations | join(\", \"))] | $row"
    [admission]=".declarations[] | [\"\\(.declaration): \\\"\\(.value)\\\"\", .axis, \"\\(.from // \"absent\") → \\(.to)\"] | $row"
    [dialects]=".dialects[] | [.dialect, .path] | $row"
    [reachability]=".harnesses[] | .reachability as \$r | [.entry, (.model_wire_dialects // [] | if length > 0 then join(\", \") else \"undeclared\" end)] + [\$r.anthropic, \$r[\"checkfu-replay\"], \$r[\"fal-ai\"], \$r[\"google-ai-studio\"], \$r.openai, \$r.openrouter] | $row"
    [slots]=".slots[] | [.slot, .carrier, (.direction | gsub(\"_\"; \" \")), .status] | $row"
    [identities]=".identities | to_entries[] | select(.key | test(\"driver|vectors\") | not) | [.key, .value] | $row"
    [unlisted]=".default_provider_dialects[]"
)
for name in support ceilings envelopes gated admission dialects reachability slots identities unlisted; do
    awk -v head="[$name]" '$0 == head { on = 1; getline; next } $0 == "" { on = 0 } on' fixtures/catalog-tables.txt >"$WORK/page"
    jq -r "$cell ${rebuild[$name]}" "$WORK/catalog" >"$WORK/got"
    check "the page's $name: $(tr -cd '|\n' <"$WORK/page" | wc -c) cells" diff "$WORK/page" "$WORK/got"
    check "the page's $name is there" test -s "$WORK/page"
done

# What the page says in words.
is "an envelope never carries the subagents axis" '[.envelopes[].capability_set|has("subagents")]|any|not'
is "the drivers' identities are the releases'" '.identities.acp_driver == "checkfu:acp-v1@1" and .identities.oneshot_driver == "checkfu:oneshot-v1@1"'
is "the vectors' identities are those of the vector files" "[.identities.acp_vectors, .identities.oneshot_vectors] == [$(jq -c '.revision' fixtures/acp-v1-extension-vectors.json), $(jq -c '.revision' fixtures/oneshot-v1-author-kit-vectors.json)]"

cf "for eyes" 0 catalog
check "it fits 80 columns" awk 'length > 80 { bad = 1 } END { exit bad }' "$WORK/out"
for entry in hermes claude-code openclaw-connected; do says "for eyes" "$entry"; done
for identity in $(jq -r '.identities[]' "$WORK/catalog"); do says "for eyes" "$identity"; done
cf "an unknown word" 2 catalog --yaml
finish

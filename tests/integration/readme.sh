#!/usr/bin/env bash
# README is tested: its commands run as printed, its example is the file it says, its help fits a screen.
. tests/integration/lib.sh

# The embedding example in README is tests/examples/embed.c, word for word, and it runs.
awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' README.md >"$WORK/embed.c"
check "README's example is tests/examples/embed.c" cmp "$WORK/embed.c" tests/examples/embed.c
sanitize=(); case "$B" in *asan*) sanitize=(-fsanitize=address,undefined) ;; esac
check "README's build line builds it" ${CC:-gcc} "${sanitize[@]}" -o "$WORK/embed" "$WORK/embed.c" -Iinclude "$B/libcfrunner.a" \
    $(pkg-config --libs libuv libcurl jansson libsodium libarchive) -lhttp_parser -lm
release=$(jq -nc '{image: "build-context.invalid/x", entrypoint: "/opt/custom/bin/acp-agent", protocol: "acp-v1", arguments: ["--stdio"]}')
options=$(jq -nc --arg c "$CTX/acp-harness" --arg s "$CFRUNNER_STATE_DIR" '{build_context: $c, state_dir: $s}')
timeout 90 "$WORK/embed" "$release" "$options" >"$WORK/out" 2>"$WORK/err"; got=$?
check "the example runs a turn" test $got = 0
check "the example prints observations and the result" grep -q '"type":"observation.finished"' "$WORK/out"
timeout 90 "$WORK/embed" "$release" '{"nonsense":1}' >"$WORK/out" 2>&1; got=$?
check "the example says what is wrong with its options" test $got = 2
audit "the example"

# The session in README, as printed, from a folder that holds ./custom-oneshot.
awk '/^\$ cfrunner test oci/ { on = 1 } on { sub(/^\$ /, ""); print } on && !/\\$/ { exit }' README.md >"$WORK/session"
cp -r "$CTX/oneshot-harness" "$WORK/custom-oneshot"
root=$PWD
(cd "$WORK" && PATH="$(cd "$root/$B" && pwd):$PATH" timeout 90 bash "$WORK/session") >"$WORK/out" 2>"$WORK/err"; got=$?
check "the session runs as printed" test $got = 0
check "the session is green" grep -q 'PASS' "$WORK/out"
audit "the session"

# Each command that README names has a help that fits a screen of 80 by 24, and exit code 0.
for command in "test oci" "test matrix" run replay why validate schema correspond init catalog doctor ps reap; do
    "$CF" $command --help >"$WORK/out" 2>&1; got=$?
    check "help of $command" test $got = 0
    check "help of $command fits" awk 'length > 80 { bad = 1 } END { exit bad || NR > 24 || NR == 0 }' "$WORK/out"
done
check "every command of the overview is in README" sh -c "'$CF' --help | awk '/^  /{print \$1}' | while read -r c; do grep -q \"\\\`\$c\" README.md || { echo \$c; exit 1; }; done"
finish

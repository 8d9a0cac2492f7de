#!/usr/bin/env bash
# What a person sees: cfrunner in a real terminal (tmux) of 80 and of 200 columns. Captures are kept in
# fixtures/terminal/, times and digests evened out; FRESH=1 writes them anew, to be looked at.
. tests/integration/lib.sh

if ! command -v tmux >/dev/null 2>&1; then echo "SKIPPED terminal: no tmux (docker/engine/setup installs it)"; ok "no tmux"; finish; exit; fi
export TMUX_TMPDIR=$WORK
unset TMUX
trap 'tmux -L t kill-server 2>/dev/null; rm -rf "$WORK"' EXIT

pane() { tmux -L t "$@"; }
# window NAME COLUMNS ROWS ENVIRONMENT ARGS...: cfrunner ARGS in a terminal of that size; it stays as it ended.
window() {
    local name=$1 columns=$2 rows=$3 environment=$4; shift 4
    printf 'env %s %q' "$environment" "$CF" >"$WORK/$name.sh"; printf ' %q' "$@" >>"$WORK/$name.sh"
    printf '; echo $? >%q; sleep 120\n' "$WORK/$name.exit" >>"$WORK/$name.sh"
    pane -u -f /dev/null new-session -d -s "$name" -x "$columns" -y "$rows" "bash '$WORK/$name.sh'"
}
screen() { pane capture-pane -p -t "$1"; }
# until NAME PATTERN: waits until the screen shows it.
until_shown() {
    local n; for n in $(seq 400); do screen "$1" | grep -qE -- "$2" && return 0; sleep 0.1; done
    screen "$1"; return 1
}
ended() { local n; for n in $(seq 300); do [ -s "$WORK/$1.exit" ] && return 0; sleep 0.1; done; screen "$1"; return 1; }
even() { # what differs from run to run
    sed -E -e '/^ +(unix|tcp):/d' -e 's/sha256:[0-9a-f]{12}/sha256:X/' -e 's/[0-9]+(\.[0-9]+)? (s|ms)( |$)/N \2\3/g' -e 's/timeline .*/timeline/' \
        -e 's/[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]/S/' -e 's/^ [-|\/\\] turn/ S turn/' -e 's/(engine +).*, API.*/\1E/' -e 's/ +/ /g' -e 's/ $//' | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}'
}
# looks NAME FIXTURE: the screen is what was looked at when the fixture was kept.
looks() {
    screen "$1" >"$WORK/raw"; even <"$WORK/raw" >"$WORK/seen"
    [ -z "${FRESH:-}" ] || cp "$WORK/seen" "fixtures/terminal/$2.txt"
    check "$1 looks as in fixtures/terminal/$2.txt" diff "fixtures/terminal/$2.txt" "$WORK/seen"
}

SCRIPT=(test oci --name script --build-context "$CTX/acp-script" --entrypoint /opt/script/bin/acp-script --protocol acp-v1)
# As an engine would tell of them twice at once: each has an installation of its own.
window live 80 24 "LC_ALL=C.UTF-8 CFRUNNER_STATE_DIR=$WORK/s1" "${SCRIPT[@]}" --arg=/opt/script/wire/hostile-words.acps
window red 80 40 "LC_ALL=C.UTF-8 CFRUNNER_STATE_DIR=$WORK/s2" "${SCRIPT[@]}" --arg=/opt/script/wire/subagent-undeclared.acps

check "a turn is shown while it goes on" until_shown live 'frame +f[0-9]+ . session/update agent_message_chunk'
check "its model call is shown" until_shown live 'relay +1 call '
check "what it says on stderr is shown" until_shown live 'stderr +looking'
looks live live-80
pane resize-window -t live -x 60 -y 24
check "a narrower terminal is painted anew" until_shown live 'script  acp-v1 {1,30}[0-9.]+ s$'
looks live live-60
check "and but once" test "$(screen live | grep -c 'cfrunner test oci')" = 1
pane resize-window -t live -x 80 -y 24
check "live ends" ended live
check "live passed" test "$(cat "$WORK/live.exit")" = 0
looks live report-80
check "the block is gone" sh -c "! TMUX_TMPDIR='$WORK' tmux -L t capture-pane -p -t live | grep -qE '^ . (engine|image) +[0-9.]+ s'"
check "the verdict is last" sh -c "TMUX_TMPDIR='$WORK' tmux -L t capture-pane -p -t live | grep -v '^\$' | tail -n 1 | grep -q '^ PASS '"
pane capture-pane -e -p -t live >"$WORK/colored"
check "nobody but us set a colour, and no title was set" sh -c "! grep -q 'owned' '$WORK/colored' || ! grep -q \"\$(printf '\\033')]\" '$WORK/colored'"
check "the title of the terminal is its own" test "$(pane display -p -t live '#{pane_title}')" != owned

check "red ends" ended red
check "red failed" test "$(cat "$WORK/red.exit")" = 1
looks red red-80
pane capture-pane -e -p -t red >"$WORK/colored"
check "a failure has a colour, a mark and a word" grep -qE $'\033\\[31m✗.*subagents' "$WORK/colored"
pane kill-session -t red

# 200 columns, no UTF-8, no colour; the report of a success does not scroll 24 rows away.
window wide 200 50 "LC_ALL=C NO_COLOR=1" "${SCRIPT[@]}" --arg=/opt/script/wire/hostile-words.acps
window low 80 24 "LC_ALL=C.UTF-8 CFRUNNER_STATE_DIR=$WORK/s3" test oci "${ACP[@]}"
check "a turn is shown in ASCII" until_shown wide 'frame +f[0-9]+ <- .*hello'
check "so is the rest" until_shown wide 'stderr +looking'
check "and the call" until_shown wide 'relay +1 call '
looks wide live-200
check "wide ends" ended wide
looks wide report-200
check "without UTF-8 all is ASCII" sh -c "TMUX_TMPDIR='$WORK' tmux -L t capture-pane -p -t wide | LC_ALL=C grep -vq '[^ -~]'"
check "NO_COLOR: no colour" sh -c "! TMUX_TMPDIR='$WORK' tmux -L t capture-pane -e -p -t wide | grep -q \"\$(printf '\\033')\""
check "low ends" ended low
check "a success does not scroll" test "$(pane display -p -t low '#{history_size}')" = 0

# What stays out of a terminal that is asked not to move.
window plain 80 60 "LC_ALL=C.UTF-8" test oci "${ACP[@]}" --plain --engine unix:///nonexistent
check "plain ends" ended plain
check "--plain: a line a phase, and no block" sh -c "TMUX_TMPDIR='$WORK' tmux -L t capture-pane -p -t plain | grep -q '^cfrunner: engine \.\.\.'"
window quiet 80 24 "LC_ALL=C.UTF-8" test oci "${ACP[@]}" --quiet --engine unix:///nonexistent
check "quiet ends" ended quiet
check "--quiet: one line" test "$(screen quiet | grep -c .)" = 1
audit "terminals"
finish

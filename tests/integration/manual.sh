#!/usr/bin/env bash
# What is told of a command is what it takes: --help, the parser, the manual page, the completion and README
# are held against one another, command by command and flag by flag.
. tests/integration/lib.sh

PAGE=driver/cli/cfrunner.1
sed 's/\\-/-/g; s/\\f[BIR]//g; s/\\ / /g; s/\\&//g' "$PAGE" >"$WORK/page"
commands=("test oci" "test matrix" run replay why "init oneshot" catalog doctor ps reap "correspond canonicalize" "correspond validate"
    "correspond keygen" "correspond sign" "correspond verify" "correspond claims" "correspond check-string" "correspond conformance")
for c in init append list claims voice verify keys; do commands+=("correspond journal $c"); done

# The flags that a command's help names, one a line; those with a value end in "=".
told() {
    local kept="$WORK/told.${1// /-}"
    [ -e "$kept" ] || ask "$1" | sort -u >"$kept"
    cat "$kept"
}
ask() {
    # shellcheck disable=SC2086
    { "$CF" $1 --help-all 2>/dev/null || "$CF" $1 --help 2>/dev/null; } >"$WORK/help"
    sed -nE 's/^  (--?[a-z][a-z-]*) [^ ].*/\1=/p; s/^  (--?[a-z][a-z-]*)(  .*|$)/\1/p' "$WORK/help" >"$WORK/rows"
    cat "$WORK/rows" # a usage line repeats some of them, and may name others
    grep '^usage:' "$WORK/help" | grep -oE -- '[ [(|]--?[a-z][a-z-]*' | grep -oE -- '--?[a-z].*' | while read -r flag; do
        grep -qxE -- "$flag=?" "$WORK/rows" || echo "$flag"; done
}
bare() { sed 's/=$//' | sort -u; }

# parses COMMAND: the last word is not known, and is the first that is not.
parses() {
    local args=() flag
    [ "$1" != catalog ] || { "$CF" catalog --json | jq -e . >"$WORK/out"; return; } # it takes one, and reads no other
    # shellcheck disable=SC2046
    for flag in $(told "$1"); do case $flag in --help | --help-all | --version) ;; *=) args+=("${flag}1") ;; *) args+=("$flag") ;; esac; done
    [ ${#args[@]} -gt 0 ] || return 0
    # shellcheck disable=SC2086
    "$CF" $1 "${args[@]}" --no-such-flag >"$WORK/out" 2>&1
    grep -q -- 'unknown flag --no-such-flag' "$WORK/out" || { printf '%s\n' "${args[@]}"; cat "$WORK/out"; return 1; }
}
for c in "${commands[@]}"; do told "$c"; done | bare | grep -v '^-[a-z]$' >"$WORK/union"
check "there are flags at all" test "$(wc -l <"$WORK/union")" -gt 100

complete_words() {
    PATH="$(cd "$B" && pwd):$PATH" bash -c '. driver/cli/cfrunner.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cfrunner; printf "%s\n" "${COMPREPLY[@]}"' _ "$@"
}
for c in "${commands[@]}"; do
    told "$c" | bare >"$WORK/told"
    check "$c: the parser takes each flag that help names" parses "$c"
    # shellcheck disable=SC2086
    complete_words cfrunner $c - | grep . | sort -u >"$WORK/offered"
    check "$c: completion offers these and no others" diff "$WORK/told" "$WORK/offered"
    missing=$(while read -r flag; do grep -qE -- "(^|[^a-z-])$flag([^a-z-]|$)" "$WORK/page" || echo "$flag"; done <"$WORK/told")
    check "$c: the page has each of them (missing: ${missing//$'\n'/ })" test -z "$missing"
done
# What others take and this one does not is refused: one for each, a different one each time.
n=0
for c in "${commands[@]}"; do
    told "$c" | bare >"$WORK/told"
    foreign=$(comm -13 "$WORK/told" "$WORK/union" | awk -v n=$n 'NR % 41 == n % 41' | head -n 1); n=$((n + 7))
    for flag in $foreign; do
        # shellcheck disable=SC2086
        check "$c refuses $flag" sh -c "'$CF' $c $flag=1 2>&1 | grep -qE 'unknown flag|takes|reading --'"
    done
done

grep -oE '(^|[^a-z0-9-])--[a-z][a-z-]+' "$WORK/page" | grep -oE -- '--[a-z-]+' | sort -u >"$WORK/on-page"
{ cat "$WORK/union"; echo --version; } | sort -u >"$WORK/known"
# --schema is of `schema check`, whose words are its usage line; --flag=VALUE is any
extra=$(comm -23 "$WORK/on-page" "$WORK/known" | grep -vxE -- '--schema|--flag')
check "the page has no flag that no command knows (${extra//$'\n'/ })" test -z "$extra"

# The commands: help, page, completion, README.
"$CF" --help | sed -nE 's/^  ([a-z]+( oci| matrix)?) .*/\1/p' | sort -u >"$WORK/commands"
sed -n '/^\.SH COMMANDS/,/^\.SH WHAT/p' "$PAGE" | grep '^\.B' >"$WORK/on-page"
missing=$(while read -r c; do grep -qw -- "$c" "$WORK/on-page" || echo "$c"; done <"$WORK/commands")
check "the page tells of each command (missing: ${missing//$'\n'/ })" test -z "$missing"
missing=$(cut -d' ' -f1 "$WORK/commands" | sort -u | comm -23 - <(complete_words cfrunner '' | sort -u))
check "completion offers each command (missing: ${missing//$'\n'/ })" test -z "$missing"
missing=$(while read -r c; do grep -q "\`$c" README.md || echo "$c"; done <"$WORK/commands")
check "README has each command (missing: ${missing//$'\n'/ })" test -z "$missing"

# Exit codes: the page's are README's.
codes_readme=$(sed -n '/^Exit codes:/,/^$/p' README.md | tr '\n' ' ' | sed 's/When several.*//' | grep -oE '(: |· )[0-9]+' | grep -oE '[0-9]+' | sort -n | tr '\n' ' ')
codes_page=$(sed -n '/^\.SH EXIT STATUS/,/^\.SH ENV/p' "$PAGE" | sed -nE 's/^\.B ([0-9]+)$/\1/p' | sort -n | tr '\n' ' ')
check "exit codes: README's ($codes_readme) are the page's ($codes_page)" test "$codes_readme" = "$codes_page"

# Environment: what is read is told, and what is told is read.
grep -rhoE '(getenv|env_is_set)\("[A-Z_]+"\)' driver | grep -oE '[A-Z][A-Z_]+' | sort -u >"$WORK/read"
sed -n '/^\.SH ENVIRONMENT/,/^\.PP/p' "$PAGE" | grep -oE '\b[A-Z][A-Z]*_[A-Z_]*[A-Z]\b|\bTERM\b|\bHOME\b' | sort -u >"$WORK/told"
missing=$(comm -23 "$WORK/read" "$WORK/told")
check "the page has each variable that is read (missing: ${missing//$'\n'/ })" test -z "$missing"
missing=$(comm -13 "$WORK/read" "$WORK/told" | while read -r v; do grep -rqw -- "$v" driver --include=*.c || echo "$v"; done)
check "the page has no variable that is not (${missing//$'\n'/ })" test -z "$missing"

# The picture of the house: each room of the Makefile stands on its floor.
awk '/^## The house/ { on = 1 } on && /^```$/ { n++; next } on && n == 1 { if (/^ [0-5]  /) floor = $1; print floor, $0 } n == 2 { exit }' README.md >"$WORK/house"
for floor in 0 1 2 3 4 5; do
    for room in $(sed -nE "s/^FLOOR$floor := //p" Makefile); do
        check "the house has $room on floor $floor" grep -qE "^$floor .*\b$room\b" "$WORK/house"
    done
done
check "the house is drawn within 100 columns" test "$(LC_ALL=C.UTF-8 wc -L <"$WORK/house")" -le 102
finish

#!/usr/bin/env bash
# The library and the driver from a stranger's side: installed, found by pkg-config, linked, loaded, spoken to from
# another language; which symbols it shows, and what its pages and completions tell.
. tests/integration/lib.sh

image='"image":"build-context.invalid/ephemeral@sha256:0000000000000000000000000000000000000000000000000000000000000000"'
RELEASE_ONESHOT="{$image"',"protocol":"oneshot-v1","entrypoint":"/opt/checkfu/bin/checkfu-oneshot","argv":["--output-mode","stream_json","--prompt-path","{prompt_path}","{resume_flag}"],"prompt_transport":"argv_path","output_mode":"stream_json","resume_flag":"--resume","working_directory":"/workspace"}'
RELEASE_ACP="{$image"',"protocol":"acp-v1","entrypoint":"/opt/custom/bin/acp-agent","arguments":["--stdio"],"working_directory":"/workspace"}'
options() { printf '{"build_context":"%s","state_dir":"%s/state"}' "$CTX/$1" "$WORK"; }
so=$B/cfrunner-docker.so
sanitized() { readelf -d "$so" | grep -qE 'lib(asan|ubsan)'; }
bounded() { timeout -k 5 "${CF_TEST_TIMEOUT:-90}" "$@"; }

# ---- what is shown ------------------------------------------------------------------------------

shown() { nm -D --defined-only "$1" | awk '$2 ~ /^[A-Z]$/ {print $3}' | grep -vE '^(__asan|__ubsan|__odr_asan|_init$|_fini$)' | sort; }
check "the driver shows one symbol" test "$(shown "$so")" = cf_driver_docker_v1
marked() { # what the public headers declare with CF_API
    sed -e 's/CF_CHECKED//' include/cfrunner/*.h | tr '\n' ' ' | grep -oE 'CF_API +[^;{]*' |
        grep -oE 'cf_[a-z0-9_]+ *(\(|$)' | grep -oE 'cf_[a-z0-9_]+' | sort -u
}
marked >"$WORK/marked"; shown "$B/libcfrunner.so" >"$WORK/shown"
check "the library shows what its headers mark, and nothing else" diff "$WORK/marked" "$WORK/shown"
check "its SONAME has the major" sh -c "readelf -d '$B/libcfrunner.so' | grep -q 'SONAME.*libcfrunner.so.1'"
nm -g --defined-only "$B/libcfrunner.a" | awk 'NF == 3 {print $3}' | grep -vE '^__(odr_)?asan' | sort >"$WORK/shown.a"
check "the archive shows the same" diff "$WORK/shown" "$WORK/shown.a"
check "it never calls what a guest must not" sh -c \
    "! nm -D --undefined-only '$so' | grep -wE 'exit|_exit|signal|setenv|putenv|unsetenv|chdir|fchdir|pthread_create|thrd_create|fork|system|printf|puts|atexit|thrd_detach|uv_thread_create|uv_thread_create_ex|uv_queue_work|uv_signal_start|uv_chdir|uv_os_setenv|uv_set_process_title|umask'"

# No header of another library is reached, and no type of one is named but the loop's.
for h in include/cfrunner/*.h; do gcc -fpreprocessed -dD -E -P "$h" 2>/dev/null; done >"$WORK/headers"
strange=$(grep -oE '# *include *[<"][^>"]+' "$WORK/headers" | grep -vE '[<"](cfrunner/[a-z]+|stdbool|stddef|stdint)\.h$'
    grep -oE '\b(struct|union|enum) +[a-zA-Z_0-9]+' "$WORK/headers" | grep -vE ' cf_[a-z_0-9]+$| uv_loop_s$'
    grep -oE '\b[a-zA-Z_0-9]+_t\b' "$WORK/headers" | grep -vE '^(size|u?int(8|16|32|64))_t$')
check "public headers name nothing of other libraries but struct uv_loop_s (${strange//$'\n'/ })" test -z "$strange" -a -s "$WORK/headers"

if out=$(tests/support/abi check "$B" 2>&1); then
    case $out in SKIPPED*) echo "$out" ;; *) ok "$out" ;; esac
else bad "abi" "$out"; fi
if [ -n "${out##SKIPPED*}" ]; then # and it can fail: against a baseline without a member, with another type of it, with another call
    for change in "/name=.on_steering./d" "s/\(name=.on_steering. type-id=.type-id-\)[0-9]*/\11/" "s/cf_run_resume/cf_run_go_on/"; do
        cp -r fixtures/abi "$WORK/abi" && sed -i "$change" "$WORK"/abi/*/*.abi
        check "an ABI that has changed unannounced is red ($change)" sh -c "! CF_ABI='$WORK/abi' tests/support/abi check '$B'"
        rm -rf "$WORK/abi"
    done
fi

# ---- installed, and a stranger's build --------------------------------------------------------------

root=$WORK/root
if sanitized; then echo "SKIPPED install, consumers, foreign hosts: built with sanitizers, which every host would have to load first"; else
check "make install" make --no-print-directory B="$B" DESTDIR="$root" PREFIX=/usr install
for f in bin/cfrunner lib/libcfrunner.so lib/libcfrunner.so.1 lib/libcfrunner.a lib/cfrunner/cfrunner-docker.so \
    lib/pkgconfig/cfrunner.pc include/cfrunner/driver.h include/cfrunner/run.h share/man/man1/cfrunner.1 \
    share/man/man3/cfrunner-driver.3 share/bash-completion/completions/cfrunner share/cfrunner/run-options.schema.json; do
    check "installed: $f" test -s "$root/usr/$f"
done
check "nothing outside DESTDIR's usr" test "$(ls "$root")" = usr
check "no page names a place of the build" sh -c "! grep -rnE '@[A-Z]+@|LIBDIR|DOCDIR|$root' '$root/usr/share/man' '$root/usr/lib/pkgconfig'"

mkdir "$WORK/outside" && cp tests/examples/embed.c "$WORK/outside/consumer.c"
pc() { PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_PATH=$root/usr/lib/pkgconfig pkg-config "$@" cfrunner; }
outside() ( cd "$WORK/outside" && "$@" )
check "a consumer outside the tree, by pkg-config alone" outside gcc -Wall -Wextra -Wno-unused-parameter -Werror -std=c11 -D_POSIX_C_SOURCE=200809L \
    consumer.c -o consumer $(pc --cflags --libs)
check "the same, static" outside gcc consumer.c -o consumer-static $(pc --cflags) "$root/usr/lib/libcfrunner.a" \
    $(pkg-config --libs libuv libcurl jansson libsodium libarchive) -lhttp_parser -lm
check "the versions agree" test "$(pc --modversion)" = "$("$CF" version | awk -F'[ ,]+' '/^library/ {print $2}')"
for kind in consumer consumer-static; do
    if LD_LIBRARY_PATH=$root/usr/lib bounded "$WORK/outside/$kind" "$RELEASE_ONESHOT" "$(options oneshot-harness)" >"$WORK/out" 2>"$WORK/err" &&
        grep -q '"observation.finished"' "$WORK/out"; then ok "$kind runs a harness"; else
        bad "$kind runs a harness" "$(cat "$WORK/err"; head -c 1500 "$WORK/out")"; fi
done

check "make install PREFIX=, into a folder of one's own" make --no-print-directory B="$B" PREFIX="$WORK/own" install
own() { PKG_CONFIG_PATH=$WORK/own/lib/pkgconfig pkg-config "$@" cfrunner; }
check "a consumer of that one" outside gcc consumer.c -o consumer-own $(own --cflags --libs) -Wl,-rpath,"$WORK/own/lib"
check "which loads that one" sh -c "ldd '$WORK/outside/consumer-own' | grep -q '$WORK/own/lib/libcfrunner.so.1'"
check "and the driver is where it says" test -s "$(own --variable=driverdir)/cfrunner-docker.so"

for h in include/cfrunner/*.h; do
    printf '#include <cfrunner/%s>\nint main(void) { return 0; }\n' "$(basename "$h")" >"$WORK/outside/one.c"
    check "$(basename "$h") stands alone in C" outside gcc -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only one.c -I"$root/usr/include"
done
if command -v g++ >/dev/null 2>&1; then
    { for h in include/cfrunner/*.h; do printf '#include <cfrunner/%s>\n' "$(basename "$h")"; done
      printf 'int main() { cf_run_host host{}; host.size = sizeof host; return cf_version()[0] == 0 || host.on_closed != nullptr; }\n'
    } >"$WORK/outside/all.cc"
    check "a C++ unit includes every public header" outside g++ -std=c++17 -Wall -Wextra -Wpedantic -Werror all.cc -o all $(pc --cflags --libs)
    check "and runs" env LD_LIBRARY_PATH="$root/usr/lib" "$WORK/outside/all"
else echo "SKIPPED a C++ unit includes every public header: no g++"; fi

# ---- hosts that load the driver -----------------------------------------------------------------------

check "a supervisor is 60 lines, another language's 50" test "$(wc -l <tests/examples/supervisor.c)" -le 60 -a "$(wc -l <tests/examples/supervisor.py)" -le 50
installed=$root/usr/lib/cfrunner/cfrunner-docker.so
types() { grep -oE 'observation\.[a-z_]+' "$WORK/out" | tr '\n' ' '; }
for wire in oneshot acp; do
    release=RELEASE_${wire^^}
    if bounded "$B/tests/examples/supervisor" "$installed" "${!release}" "$(options $wire-harness)" '{"text":"one"}' '{"text":"two"}' \
        >"$WORK/out" 2>"$WORK/err" && [ "$(grep -c '"observation.finished"' "$WORK/out")" = 2 ]; then ok "supervisor: two turns, $wire"; else
        bad "supervisor: two turns, $wire" "$(cat "$WORK/err"; head -c 1500 "$WORK/out")"; fi
    types >"$WORK/types.c"
    if ! command -v python3 >/dev/null 2>&1; then echo "SKIPPED supervisor.py, $wire: no python3"; continue; fi
    if bounded python3 tests/examples/supervisor.py "$installed" "${!release}" "$(options $wire-harness)" '{"text":"one"}' '{"text":"two"}' \
        >"$WORK/out" 2>"$WORK/err"; then ok "another language through the ABI alone, $wire"; else
        bad "another language through the ABI alone, $wire" "$(cat "$WORK/err"; head -c 1500 "$WORK/out")"; fi
    check "both heard the same, $wire" test "$(types)" = "$(sed 's/observation\.\(shortened\|count\)//' "$WORK/types.c")"
done
bounded "$B/tests/examples/supervisor" "$installed" '{}' '{}' x >"$WORK/out" 2>"$WORK/err"
check "a mistake is told with its remedy" grep -q 'is missing' "$WORK/err"
fi

# ---- a host's allocator, block by block ------------------------------------------------------------------

for wire in oneshot acp; do
    release=RELEASE_${wire^^}
    if bounded "$B/tests/plugin/host_memory" "$so" "${!release}" "$(options $wire-harness)" '{"text":"hello"}' >"$WORK/out" 2>"$WORK/err" &&
        jq -e '.status == "ok" and .alive == 0 and .made > 500' "$WORK/out" >/dev/null; then ok "memory: a whole $wire run comes from the host's allocator and goes back: $(jq -r .most_bytes "$WORK/out") bytes at most"; else
        bad "memory: a whole $wire run" "$(cat "$WORK/out" "$WORK/err")"; fi
done
for n in 150 420 700 900; do
    if bounded "$B/tests/plugin/host_memory" "$so" "$RELEASE_ACP" "$(options acp-harness)" '{"text":"hello"}' $n 1 >"$WORK/out" 2>"$WORK/err"; then
        ok "memory: none at allocation $n: $(jq -r .status "$WORK/out"), all back"; else
        bad "memory: none at allocation $n" "$(cat "$WORK/out" "$WORK/err")"; fi
done

# ---- closed from inside every callback; paused and resumed ---------------------------------------------------

sanitized || { # the driver is loaded into a host that has no sanitizer
mkdir "$WORK/door"
door() { bounded env DOOR_DIR="$WORK/door" "$B/tests/plugin/host_door" "$so" "$RELEASE_DOOR" "$(options acp-script | sed 's/}$/,"permission":"ask","elicitation":"ask"}/')" '{"text":"hello"}' "$@" >"$WORK/out" 2>"$WORK/err"; }
RELEASE_DOOR="{$image"',"protocol":"acp-v1","entrypoint":"/opt/script/bin/acp-script","arguments":["/opt/script/wire/all-callbacks.acps"]}'
if door; then ok "every callback comes, and a run or a pool may be closed inside it: $(jq -c '.closed_in, .guest' "$WORK/out")"; else
    bad "closed from inside a callback" "$(cat "$WORK/out" "$WORK/err")"; fi
flood="{$image"',"protocol":"acp-v1","entrypoint":"/opt/script/bin/acp-script","arguments":["-e","handshake\nexpect session/prompt\nfill t 100 0123456789\nrepeat 12000\nchunk ${t}\nupdate {\"sessionUpdate\":\"agent_thought_chunk\",\"content\":{\"type\":\"text\",\"text\":\"t\"}}\nend\nend-turn"]}'
if door pressure "$flood" 2000000; then ok "CF_RUN_PAUSE stops a flood and nothing is lost: $(jq -c . "$WORK/out")"; else
    bad "CF_RUN_PAUSE stops a flood" "$(cat "$WORK/out" "$WORK/err")"; fi
check "all of the flood came" jq -e '.observations == 12000 and .while_paused < 3000' "$WORK/out"
}

# ---- pages and completion ------------------------------------------------------------------------------

sed 's/\\-/-/g' driver/cli/cfrunner.1 >"$WORK/page"
flags_of() { "$CF" "$@" 2>/dev/null | grep -oE '(^|[ ,(])--?[a-z][a-z-]*' | grep -oE -- '--?[a-z].*' | sort -u; }
missing=$( { for c in "test oci" run; do flags_of $c --help-all; done
    for c in "test matrix" ps reap init replay doctor; do flags_of $c --help; done
    for c in canonicalize validate keygen sign verify claims conformance; do flags_of correspond $c --help; done
    for c in init append list claims voice verify keys; do flags_of correspond journal $c --help; done
} | sort -u | while read -r flag; do grep -qE -- "(^|[^a-z-])$flag([^a-z-]|$)" "$WORK/page" || echo "$flag"; done)
check "the page has every flag (missing: ${missing//$'\n'/ })" test -z "$missing"
commands=$("$CF" --help | sed -nE 's/^  ([a-z]+).*/\1/p')
missing=$(for c in $commands; do grep -qw -- "$c" "$WORK/page" || echo "$c"; done)
check "the page has every command (missing: $missing)" test -z "$missing"
missing=$(grep -rhoE 'getenv\("[A-Z_]+"\)|env_is_set\("[A-Z_]+"\)' driver | grep -oE '[A-Z][A-Z_]+' | sort -u | while read -r v; do grep -qw "$v" "$WORK/page" || echo "$v"; done)
check "the page has every variable (missing: $missing)" test -z "$missing"
for code in 0 1 2 3 4 5 130; do check "the page has exit code $code" grep -qx ".B $code" driver/cli/cfrunner.1; done
missing=$(grep -ohE '\bcf_(run|pool)_[a-z_]+\(' include/cfrunner/run.h include/cfrunner/pool.h | sort -u | while read -r f; do grep -q "$f" driver/plugin/cfrunner-driver.3 || echo "$f"; done)
check "the driver's page has every call (missing: $missing)" test -z "$missing"
missing=$(grep -ohE '\(\*on_[a-z_]+' include/cfrunner/run.h include/cfrunner/pool.h | tr -d '(*' | sort -u | while read -r f; do grep -qw "$f" driver/plugin/cfrunner-driver.3 || echo "$f"; done)
check "the driver's page has every callback (missing: $missing)" test -z "$missing"
if command -v man >/dev/null 2>&1 && command -v groff >/dev/null 2>&1; then
    for page in driver/cli/cfrunner.1 driver/plugin/cfrunner-driver.3; do
        check "$(basename $page) is set without a warning" test -z "$(LC_ALL=C.UTF-8 MANWIDTH=120 man --warnings -l -Tutf8 $page 2>&1 >/dev/null | grep -v 'cannot adjust\|break')"
    done
else echo "SKIPPED man pages are set without a warning: no man or groff"; fi

complete_words() { # what is offered for a command line whose last word is being typed
    PATH="$(cd "$B" && pwd):$PATH" bash -c '. driver/cli/cfrunner.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cfrunner; printf "%s\n" "${COMPREPLY[@]}"' _ "$@"
}
offers() { local want=$1; shift; check "completion: $* -> $want" grep -qxF -- "$want" <(complete_words "$@"); }
offers test cfrunner te
offers oci cfrunner test ''
offers --build-context cfrunner test oci --build
offers --prompt cfrunner run --pro
offers --dry-run cfrunner reap --d
offers acp-v1 cfrunner run --protocol ''
offers keygen cfrunner correspond key
offers list cfrunner correspond journal li
offers --ndjson cfrunner correspond journal append --nd
audit "embed"
finish

#!/usr/bin/env bash
# Hostile archives and names: what an image, a tree, a label or a flag may hold never breaks the
# terminal, the JSON or the folder that is collected into. (Symlinks, fifos, climbing names and
# odd bytes in a collected tree are in oneshot.sh; build contexts in tests/engine.)
. tests/integration/lib.sh
. tests/support/publish.sh

# ---- an image whose every word is hostile, with a device node and a set-uid file by ADD ---------------
esc=$'\e]0;owned\a\e[31m\u9b'
mkdir -p "$WORK/image" "$WORK/tree/workspace/sub"
cp "$CTX/fault/Dockerfile" "$WORK/image/"; cp -r "$CTX/fault/root" "$WORK/image/" 2>/dev/null
cat >"$WORK/make.py" <<'PY'
import io, sys, tarfile
out = tarfile.open(sys.argv[1], "w", format=tarfile.PAX_FORMAT)
def add(name, kind=tarfile.REGTYPE, data=b"", mode=0o644, link="", dev=(0, 0)):
    t = tarfile.TarInfo(name); t.type = kind; t.mode = mode; t.size = len(data); t.linkname = link
    t.uid = t.gid = 10001; t.devmajor, t.devminor = dev
    out.addfile(t, io.BytesIO(data))
add("workspace", tarfile.DIRTYPE, mode=0o755)
add("workspace/good", data=b"good\n")
add("workspace/hard", tarfile.LNKTYPE, link="workspace/good")
add("workspace/null", tarfile.CHRTYPE, mode=0o666, dev=(1, 3))
add("workspace/disk", tarfile.BLKTYPE, mode=0o666, dev=(7, 0))
add("workspace/suid", data=b"x", mode=0o6755)
add("workspace/two\nlines", data=b"2\n")
add("workspace/esc\033[31m\007", data=b"e\n")
add("workspace/" + "l" * 200, data=b"l\n")
PY
python3 "$WORK/make.py" "$WORK/image/x.tar"
printf 'ADD x.tar /\nWORKDIR /workspace\nLABEL "odd"="%s" "com.checkfu.runner.owner"="../../x" "%s"="x"\nENV ODD="%s"\n' "$esc" "${esc//$'\a'/}" "$esc" >>"$WORK/image/Dockerfile"
if publish hostile/image "$WORK/image" >"$WORK/published" 2>&1; then IMAGE=$REF; devices=yes; else
    # An engine that may not make device nodes cannot be given such an image either.
    echo "SKIPPED a device node in an image: $(tail -n 1 "$WORK/published" | head -c 200)"; devices=""
    sed -i '/CHRTYPE\|BLKTYPE/d' "$WORK/make.py"; python3 "$WORK/make.py" "$WORK/image/x.tar"
    check "the image is made" publish hostile/image "$WORK/image"; IMAGE=$REF
fi
remember_images

# tame NAME FILE...: no control character but newline is in it; outside of JSON, none of C1 either.
tame() {
    local name=$1 file hits=""; shift
    for file; do
        if [ "$(head -c 1 "$file")" = "{" ]; then hits+=$(LC_ALL=C grep -anP '[\x00-\x09\x0b-\x1f\x7f]' "$file" | cat -v | head -n 3)
        else hits+=$(LC_ALL=C grep -anP '[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]' "$file" | cat -v | head -n 3); fi
    done
    if [ -z "$hits" ]; then ok "$name: nothing that a terminal obeys"; else bad "$name: control characters" "$hits"; fi
}
at() { L=(--name "$1" --image "$IMAGE" --pull never --entrypoint /opt/fault/bin/fault --protocol oneshot-v1
    --prompt-transport stdin --output-mode text --working-directory /workspace "${@:2}"); }

at hostile --argv=print "--argv=$esc"
cf "a hostile tree" 0 run --prompt x "${L[@]}" --collect "$WORK/out.d"
tail -n 1 "$WORK/out" | jq '.result.collected[0]' >"$WORK/collected"
refused() { check "refused and named: $1" jq -e --arg p "$1" --arg w "$2" '[.refused[] | select(.path == $p and (.why | test($w)))] | length == 1' "$WORK/collected"; }
[ -z "$devices" ] || { refused null "device"; refused disk "device"; }
check "nothing but folders and files came out" test -z "$(find "$WORK/out.d" ! -type f ! -type d)"
check "what is good came whole, hard links as files" test "$(cat "$WORK/out.d/good" "$WORK/out.d/hard" "$WORK/out.d/"$'two\nlines' "$WORK/out.d/"$'esc\e[31m\a' | tr '\n' ' ')" = "good good 2 e "
check "no set-uid, no set-gid" test "$(stat -c %a "$WORK/out.d/suid")" = 755
check "no hard link out of the tree" test "$(stat -c %h "$WORK/out.d/good")" = 1
tame "the result of a hostile tree" "$WORK/out" "$WORK/err"

# ---- flags and names ---------------------------------------------------------------------------------
for form in --json --plain "--plain -vv"; do
    at "x$esc" --argv=fail --argv=3 "--argv=$esc" "--env=ODD=$esc"
    # shellcheck disable=SC2086
    cf "a hostile name, $form" 1 test oci "${L[@]}" $form
    tame "a hostile name, $form" "$WORK/out" "$WORK/err"
    at fine --argv=fail --argv=3 "--argv=$esc" "--env=ODD=$esc"
    # shellcheck disable=SC2086
    cf "hostile words of a harness, $form" 1 test oci "${L[@]}" $form
    tame "hostile words of a harness, $form" "$WORK/out" "$WORK/err"
done
at fine --argv=proper
cf "a hostile image name" 2 test oci "${L[@]}" --image "$esc@sha256:$(printf '%064d' 7)" --json; tame "a hostile image name" "$WORK/out" "$WORK/err"
cf "a hostile entrypoint" 2 test oci --name x --image "$IMAGE" --pull never --protocol acp-v1 --entrypoint "/opt/$esc" --json; tame "a hostile entrypoint" "$WORK/out" "$WORK/err"
cf "a hostile engine" 3 test oci "${L[@]}" --engine "unix:///tmp/$esc" --json; tame "a hostile engine" "$WORK/out" "$WORK/err"
for bad in --engine --name --argv --env --collect; do
    cf "$bad in no encoding" 2 run --prompt x --entrypoint /x "$bad=K="$'\xff\x9b' --json; says "$bad in no encoding" "$bad: "; tame "$bad in no encoding" "$WORK/out" "$WORK/err"
done
cf "a hostile flag" 2 test oci "--na$esc" --json; tame "a hostile flag" "$WORK/out" "$WORK/err"
cf "a hostile folder" 2 test oci --name x --build-context "/tmp/$esc" --entrypoint /x --protocol acp-v1 --json; tame "a hostile folder" "$WORK/out" "$WORK/err"
mkdir -p "$WORK/failing"; printf 'FROM scratch\nCOPY %s /x\n' "$esc" >"$WORK/failing/Dockerfile"
cf "a hostile Dockerfile" 1 test oci --name x --build-context "$WORK/failing" --entrypoint /x --protocol acp-v1 --plain
tame "a hostile Dockerfile" "$WORK/out" "$WORK/err"
# What bears our label by an image of somebody else is neither listed nor touched.
cf "ps" 0 ps --json; is "the image's forged labels are nobody's" '. == []'

audit "hostile"
unpublish
finish

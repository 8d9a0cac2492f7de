#!/bin/bash
# cfrunner correspond, from the outside: the contract's vectors, the shared cases, keys and
# signatures, the journal with its lock, its crashes and its flipped bytes.
#
#   CF_BUILD=build tests/integration/correspond.sh     (CFRUNNER=PROGRAM overrides the program)
set -u
cd "$(dirname "$0")/../.."
CF=${CFRUNNER:-${CF_BUILD:-build}/cfrunner}
VECTORS=fixtures/agent-correspondence-0.1-vectors.json
SHARED=../shared/data
if [ ! -x "$CF" ]; then
    echo "SKIPPED correspond: $CF is not built"
    echo "0 passed, 0 failed"
    exit 0
fi
if ! command -v python3 >/dev/null; then
    echo "SKIPPED correspond: python3 is not installed"
    echo "0 passed, 0 failed"
    exit 0
fi
WORK=$(mktemp -d /tmp/cf-correspond-XXXXXX)
trap 'rm -rf "$WORK"' EXIT
export CF WORK VECTORS SHARED
passed=0 failed=0

# check NAME COMMAND...: passes when the command succeeds.
check() {
    local name=$1
    shift
    if "$@" >"$WORK/out" 2>"$WORK/err"; then
        passed=$((passed + 1))
        grep '^SKIPPED' "$WORK/out"
    else
        failed=$((failed + 1))
        echo "FAILED $name"
        tail -c 700 "$WORK/out" "$WORK/err" | sed 's/^/      /'
    fi
}

cf() { "$CF" correspond "$@"; }

# wants CODE COMMAND...: the exit code, whatever is printed.
wants() {
    local want=$1 got
    shift
    "$@"
    got=$?
    [ $got -eq "$want" ] || { echo "exit $got, wanted $want" >&2; return 1; }
}

# Python with the helpers of $WORK/lib.py.
py() {
    PYTHONPATH=$WORK python3 -c "from lib import *
$1"
}

cat >"$WORK/lib.py" <<'EOF'
import base64, json, os, subprocess, sys

CF, W, S = os.environ["CF"], os.environ["WORK"], os.environ["SHARED"]
VECTORS = json.load(open(os.environ["VECTORS"]))
P = "11111111-1111-4111-8111-111111111111"


def run(args, data=b""):
    p = subprocess.run([CF, "correspond"] + args, input=data, capture_output=True)
    return p.returncode, p.stdout, p.stderr.decode()


def me():
    return json.load(open(W + "/me.key"))


def core(kind="progress", body=None, seq=1, parents=()):
    who = me()
    return {"protocol": "agent-correspondence/v0.1", "project_id": P, "repository_id": "repo", "thread_id": "t",
            "sender": {"identity_id": who["identity_id"], "signing_key_id": who["signing_key_id"],
                       "device_id": who["device_id"], "session_id": "55555555-5555-4555-8555-555555555555"},
            "kind": kind, "parents": list(parents), "session_seq": seq, "issued_at": "2026-07-19T10:00:00.000Z",
            "scope": {"base_revision": None, "branch": None, "paths": ["docs"]},
            "body": {"summary": "x"} if body is None else body,
            "authority": {"automatic_action": "never", "grants": []}}


def sign(*args, **kw):
    code, out, err = run(["sign", "--key", W + "/me.key"], json.dumps(core(*args, **kw)).encode())
    assert code == 0, (out, err)
    return json.loads(out)


def claim(generation, before=None, seq=1, expires="2099-01-01T00:00:00.000Z"):
    body = {"claim_id": "66666666-6666-4666-8666-666666666666", "generation": generation, "expires_at": expires}
    if before:
        body["predecessor_event_id"] = before
    return sign("claim.renew" if before else "claim.open", body, seq, [before] if before else [])


def append(dir, event, *flags):
    code, out, err = run(["journal", "append", dir] + list(flags), json.dumps(event).encode())
    return code, json.loads(out), err


def verify(dir):
    code, out, err = run(["journal", "verify", dir])
    return code, json.loads(out)


def journal(name):
    dir = W + "/" + name
    json.dump([json.load(open(W + "/me.pub"))], open(W + "/me.keyring", "w"))
    code, out, err = run(["journal", "init", dir, "--project", P, "--keyring", W + "/me.keyring"])
    assert code == 0, (out, err)
    return dir


def lines(events):
    return "\n".join(json.dumps(e) for e in events).encode()
EOF

# ---- vectors and cases ----------------------------------------------------------------------

conformance() { cf conformance "$1" >"$WORK/c.json" && grep -q '"failed":0,' "$WORK/c.json"; }
check "the contract's vectors" conformance $VECTORS
if [ -d $SHARED/correspondence ]; then
    check "shared event cases" conformance $SHARED/correspondence/event-cases.json
    check "shared lineage cases" conformance $SHARED/correspondence/lineage-cases.json
else
    echo "SKIPPED shared correspondence cases: $SHARED/correspondence is not there"
fi
check "conformance prints name, wanted, got, pass, and lineage states" py '
d = json.loads(run(["conformance", os.environ["VECTORS"]])[1])
groups = {c["group"] for c in d["cases"]}
assert groups == {"signing", "canonicalization", "rejection", "body", "invalid_body", "opaque_id", "locator", "path", "lineage"}
assert all({"name", "wanted", "got", "pass"} <= set(c) for c in d["cases"])
step = [c for c in d["cases"] if c["group"] == "lineage"][0]["got"][-1]
assert {"status", "tips", "active", "conflicted", "incomplete", "after"} <= set(step)'
vectors_fail_when_changed() {
    sed 's/"negative_zero"/"positive_zero"/' $VECTORS >"$WORK/changed.json"
    wants 2 cf conformance "$WORK/changed.json" >"$WORK/c.json" && grep -q '"failed":1,' "$WORK/c.json"
}
check "a changed vector fails, alone" vectors_fail_when_changed
check "a file of another form is refused" wants 2 cf conformance Makefile

check "every vector through the commands" py '
bad = []
for c in VECTORS["canonicalization_vectors"]:
    code, out, _ = run(["canonicalize"], json.dumps(c["value"]).encode())
    if code != 0 or out.decode() != c["jcs"]: bad.append(c["name"])
for c in VECTORS["rejection_vectors"]:
    code, out, _ = run(["canonicalize"], c["json"].encode())
    if code != 2 or json.loads(out)["reason"] != c["reason"]: bad.append(c["name"])
for group, kind, field in (("opaque_id_vectors", "id", "value"), ("locator_vectors", "locator", "value"), ("path_vectors", "path", "path")):
    for c in VECTORS[group]:
        code, out, _ = run(["check-string", kind, c[field]])
        if code != (0 if c["valid"] else 2) or json.loads(out)["valid"] != c["valid"]: bad.append(c[field])
v = VECTORS["signing_vector"]
seed = base64.urlsafe_b64encode(bytes.fromhex(v["private_seed_hex"])).decode().rstrip("=")
json.dump({"seed_b64url": seed}, open(W + "/golden.key", "w"))
os.chmod(W + "/golden.key", 0o600)
code, event, err = run(["sign", "--key", W + "/golden.key"], json.dumps(v["core"]).encode())
e = json.loads(event)
if e["event_id"] != v["event_id"] or e["signature"]["value_b64url"] != v["signature_b64url"]: bad.append("signing")
if "test key" not in err: bad.append("no warning about the test key")
if run(["verify", "--public-key", v["public_key_b64url"]], event)[0] != 0: bad.append("verify")
if run(["canonicalize"], json.dumps(v["core"]).encode())[1].decode() != v["core_jcs"]: bad.append("core_jcs")
def with_body(kind, body):
    ids = [body[k] for k in ("predecessor_event_id", "target_event_id") if k in body] + body.get("target_event_ids", [])
    return json.dumps(dict(v["core"], kind=kind, body=body, parents=ids)).encode()
for c in VECTORS["body_matrix"]:
    if run(["validate", "--core"], with_body(c["kind"], c["body"]))[0] != 0: bad.append(c["kind"])
for c in VECTORS["invalid_body_vectors"]:
    code, out, _ = run(["validate", "--core"], with_body(c["kind"], c["body"]))
    if code != 2 or json.loads(out)["reason"] != c["reason"]: bad.append("invalid " + c["kind"])
assert not bad, bad'

check "every shared case through the commands" py '
if not os.path.isdir(S):
    print("SKIPPED shared cases through the commands: %s is not there" % S)
    sys.exit(0)
bad = []
file = json.load(open(S + "/correspondence/event-cases.json"))
json.dump(file["keys"], open(W + "/cases.keyring", "w"))
for c in file["cases"]:
    raw = base64.b64decode(c["raw_b64"]) if "raw_b64" in c else c["raw"].encode()
    code, out, _ = run(["verify", "--keyring", W + "/cases.keyring", "--project", file["project_id"]], raw)
    got = json.loads(out)
    if c["accept"]: ok = code == 0 and got["event_id"] == c["event_id"]
    else: ok = code == 2 and got["reason"] == c["reason"] and ("pointer" not in c or got["pointer"] == c["pointer"])
    if not ok: bad.append(c["name"])
x = json.load(open(S + "/jcs/expectations.json"))
for folder, group in ((S + "/jcs", "files"), (S + "/jcs/derived", "derived")):
    for name, want in x[group].items():
        code, out, _ = run(["canonicalize"], open(f"{folder}/input/{name}.json", "rb").read())
        if want["in_profile"]: ok = code == 0 and out == open(f"{folder}/output/{name}.json", "rb").read()
        else: ok = code == 2 and json.loads(out)["reason"] == want["reason"]
        if not ok: bad.append(name)
for name, want in json.load(open(S + "/json-parsing/expectations.json"))["files"].items():
    code, out, _ = run(["canonicalize"], open(S + "/json-parsing/test_parsing/" + name, "rb").read())
    if want["verdict"] == "accept": ok = code == 0
    else: ok = code == 2 and json.loads(out)["reason"] in [want["reason"]] + want.get("also_acceptable", [])
    if not ok: bad.append(name)
assert not bad, bad'

# ---- keys and signatures ----------------------------------------------------------------------

keygen_makes_a_private_file() {
    (umask 0; cf keygen --out "$WORK/me.key" >"$WORK/me.pub") && [ "$(stat -c %a "$WORK/me.key")" = 600 ] &&
        ! grep -q seed "$WORK/me.pub" && grep -q '"active":true' "$WORK/me.pub"
}
check "keygen makes a private file and prints the public part" keygen_makes_a_private_file
check "keygen never overwrites" wants 2 cf keygen --out "$WORK/me.key"
check "keygen names a missing flag" wants 2 cf keygen
check "a signed event verifies by key and by keyring" py '
e = json.dumps(sign()).encode()
assert run(["verify", "--public-key", me()["public_key_b64url"]], e)[0] == 0
json.dump([json.load(open(W + "/me.pub"))], open(W + "/k", "w"))
assert run(["verify", "--keyring", W + "/k", "--project", P], e)[0] == 0
code, out, _ = run(["verify", "--keyring", W + "/k", "--project", P.replace("1", "2")], e)
assert code == 2 and json.loads(out)["reason"] == "project_mismatch"'
check "a core of another sender is not signed" py '
c = core(); c["sender"]["signing_key_id"] = P
code, out, _ = run(["sign", "--key", W + "/me.key"], json.dumps(c).encode())
assert code == 2 and json.loads(out)["pointer"] == "/sender/signing_key_id"'
check "an event that its signature makes too large is not signed" py '
c = core(); text = lambda: json.dumps(c, ensure_ascii=False, separators=(",", ":")).encode()
c["scope"]["paths"] = ["%02d" % i + "\U0001f600" * 253 for i in range(64)]
for i in range(64):
    while len(text()) > 65500: c["scope"]["paths"][i] = c["scope"]["paths"][i][:-1]
c["thread_id"] = "t" * (65530 - len(text()) + 1)
assert 65500 < len(text()) <= 65536
assert run(["validate", "--core"], text())[0] == 0
code, out, _ = run(["sign", "--key", W + "/me.key"], text())
assert code == 2 and json.loads(out)["reason"] == "canonical_envelope_too_large", out'
check "values in the = form may begin with dashes" wants 2 cf verify --public-key=--x
check "an unknown command names the list" wants 2 cf nonsense

# ---- claims out of a stream -------------------------------------------------------------------

check "claims of a stream, and each arrival" py '
a = claim(1); b = claim(2, a["event_id"], 2); c = claim(2, a["event_id"], 3)
stream, noon = lines((c, b, a)), ["claims", "--now", "2026-07-19T12:00:00.000Z"]
code, out, _ = run(noon, stream); d = json.loads(out)
assert code == 0 and {r["event_id"] for r in d["claims"]} == {b["event_id"], c["event_id"]} and all(r["conflicted"] for r in d["claims"])
d = json.loads(run(noon + ["--arrival"], stream)[1])
assert [len(s["tips"]) for s in d["arrival"]] == [0, 0, 2] and d["arrival"][0]["status"] == {c["event_id"]: "pending"}
assert json.loads(run(["claims", "--now", "2199-07-19T12:00:00.000Z"], stream)[1])["claims"] == []
code, out, _ = run(noon, stream + b"\n{}"); assert code == 2 and json.loads(out)["line"] == 4
assert run(["claims"], stream)[0] == 2 and run(["claims", "--now", "yesterday"], stream)[0] == 2'

# ---- the journal ------------------------------------------------------------------------------

check "append, retry, list, claims, voice, verify" py '
d = journal("a")
e1, e2 = sign(seq=1), claim(1, seq=2)
code, r, _ = append(d, e1); assert code == 0 and r["created"] and r["receipt"]["received_seq"] == "1", r
code, r, _ = append(d, e2); assert r["receipt"]["received_seq"] == "2" and r["lineage_status"] == "valid"
first = r["receipt"]
code, r, _ = append(d, e2); assert code == 0 and not r["created"] and r["receipt"] == first
p = json.loads(run(["journal", "list", d, "--limit", "1"])[1])
assert p["page"] == {"after": None, "next_after": "1", "has_more": True} and p["events"][0]["event"] == e1
p = json.loads(run(["journal", "list", d, "--after", "1"])[1])
assert [x["event"]["event_id"] for x in p["events"]] == [e2["event_id"]] and not p["page"]["has_more"]
read = ["journal", "claims", d, "--repository", "repo", "--path", "docs/x"]
one, two = run(read)[1], run(read)[1]; assert len(json.loads(one)["claims"]) == 1 and one == two
assert len(json.loads(run(["journal", "voice", d, "--repository", "repo"])[1])["recent_events"]) == 2
assert verify(d)[0] == 0
for bad in ("01", "-1", "x", "9223372036854775808"): assert run(["journal", "list", d, "--after=" + bad])[0] == 2'
check "refusals name reason and place, and store nothing" py '
d = W + "/a"
e = sign(seq=9); e["body"]["summary"] = "y"
code, r, _ = append(d, e)
assert code == 2 and r == {"valid": False, "reason": "event_id_mismatch", "pointer": "/event_id", "offset": None}, r
code, out, _ = run(["journal", "append", d], b"{\"a\":1.5}"); assert code == 2 and json.loads(out)["offset"] == 5
assert verify(d)[1]["events"] == 2'
check "session forks and missing parents are shown, not hidden" py '
d = journal("forks")
append(d, sign(body={"summary": "one"}, seq=1))
lost = "sha256:" + "a" * 64
code, r, _ = append(d, sign(body={"summary": "two"}, seq=1, parents=[lost]))
assert r["missing_parents"] == [lost] and r["warnings"][0]["code"] == "session_fork", r
c = json.loads(run(["journal", "voice", d, "--repository", "repo"])[1])["conflicts"]
assert len(c["session_forks"]) == 1 and c["missing_parents"][0]["missing_parent_ids"] == [lost]'
check "a key can be added and retired" py '
d = W + "/keys"
assert run(["journal", "init", d, "--project", P])[0] == 0
e = sign(seq=1)
code, r, _ = append(d, e); assert code == 2 and r["reason"] == "sender_or_signing_key_not_active"
assert run(["journal", "keys", d, "--add", W + "/me.keyring"])[0] == 0
assert append(d, e)[0] == 0
json.dump([dict(json.load(open(W + "/me.pub")), active=False)], open(W + "/off", "w"))
assert run(["journal", "keys", d, "--add", W + "/off"])[0] == 0
assert append(d, sign(seq=2))[0] == 2 and append(d, e)[0] == 0
assert verify(d)[0] == 0'
check "init refuses what is there" wants 2 cf journal init "$WORK/a" --project 11111111-1111-4111-8111-111111111111
check "a directory without a journal is told how to make one" py '
code, out, err = run(["journal", "list", "/tmp"]); assert code == 2 and "journal init" in err'
check "one writer at a time, and a busy lock ends in time" py '
import fcntl, time
d = W + "/a"
f = open(d + "/lock", "r+"); fcntl.flock(f, fcntl.LOCK_EX)
t = time.time(); code, r, err = append(d, sign(seq=20), "--lock-wait=300ms")
assert code == 4 and 0.25 < time.time() - t < 5 and "another process" in err, (code, err)
assert run(["journal", "list", d])[0] == 0
fcntl.flock(f, fcntl.LOCK_UN)
assert append(d, sign(seq=20))[0] == 0'
check "eight writers at once: every event once, in one chain" py '
import concurrent.futures as cf
d = journal("many")
events = [sign(body={"summary": str(i)}, seq=i + 1) for i in range(40)]
with cf.ThreadPoolExecutor(8) as ex: got = list(ex.map(lambda e: append(d, e), events))
assert all(c == 0 for c, _, _ in got), [g for g in got if g[0]][:1]
assert sorted(int(r["receipt"]["received_seq"]) for _, r, _ in got) == list(range(1, 41))
assert verify(d)[0] == 0'
check "a torn last record is put aside and told" py '
d = journal("torn")
events = [sign(seq=i + 1) for i in range(3)]
for e in events: append(d, e)
log = d + "/journal.ndjson"; os.truncate(log, os.path.getsize(log) - 100)
code, v = verify(d)
assert code == 2 and v["damaged"][0]["received_seq"] == "3" and v["damaged"][0]["reason"] == "record_torn", v
assert run(["journal", "list", d])[0] == 0
code, r, err = append(d, sign(seq=9))
assert code == 0 and r["receipt"]["received_seq"] == "3" and r["recovered"]["after_seq"] == "2" and "torn" in err, (r, err)
assert os.path.getsize(d + "/" + r["recovered"]["kept_as"]) == r["recovered"]["bytes"]
code, r, _ = append(d, events[2]); assert r["created"] and "recovered" not in r
assert verify(d)[0] == 0'
check "writers killed with -9 lose no receipt" py '
import signal, threading, time
d = journal("killed")
stream = lines(sign(body={"summary": str(i)}, seq=i + 1) for i in range(150))
acked = set()
for k in range(12):
    p = subprocess.Popen([CF, "correspond", "journal", "append", d, "--ndjson"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    def feed():
        try: p.stdin.write(stream); p.stdin.close()
        except (BrokenPipeError, ValueError): pass
    threading.Thread(target=feed).start()
    for n in range(1 + 3 * k):
        line = p.stdout.readline()
        if line: r = json.loads(line); acked.add((r["receipt"]["received_seq"], r["event"]["event_id"]))
    p.send_signal(signal.SIGKILL)
    for line in p.stdout.read().split(b"\n")[:-1]:
        r = json.loads(line); acked.add((r["receipt"]["received_seq"], r["event"]["event_id"]))
    p.wait()
assert append(d, sign(seq=999))[0] == 0
code, v = verify(d); assert code == 0, v
stored, after = set(), "0"
while True:
    page = json.loads(run(["journal", "list", d, "--after", after, "--limit", "200"])[1])
    stored |= {(r["receipt"]["received_seq"], r["event"]["event_id"]) for r in page["events"]}
    after = page["page"]["next_after"]
    if not page["page"]["has_more"]: break
assert acked <= stored and len(acked) > 30, len(acked)'
check "any flipped byte is found and named by its number" py '
import random
d = W + "/torn"; log = d + "/journal.ndjson"
data = open(log, "rb").read(); starts = [0] + [i + 1 for i, c in enumerate(data) if c == 10]
random.seed(1)
for at in sorted(random.sample(range(len(data)), 60)) + [len(data) - 1]:
    for x in (1, 0xff):
        bad = bytearray(data); bad[at] ^= x; open(log, "wb").write(bad)
        code, v = verify(d)
        line = max(i for i, s in enumerate(starts) if s <= at)
        assert code == 2 and v["damaged"][0]["line"] == line + 1, (at, v)
        assert line < 2 or v["damaged"][0]["received_seq"] == str(line - 1) == v["received_seq"], (at, v)
open(log, "wb").write(data)
assert verify(d)[0] == 0'
check "a damaged journal is not written to" py '
d = W + "/torn"; log = d + "/journal.ndjson"
data = bytearray(open(log, "rb").read()); data[900] ^= 1; open(log, "wb").write(data)
code, r, err = append(d, sign(seq=50)); assert code == 2 and "journal verify" in err, (code, err)
assert open(log, "rb").read() == data'
check "a chain that arrives backwards is reconciled" py '
d = journal("chain")
chain = [claim(1)]
for g in range(2, 43): chain.append(claim(g, chain[-1]["event_id"], g))
assert run(["journal", "append", d, "--ndjson"], lines(reversed(chain)))[0] == 0
r = json.loads(run(["journal", "claims", d, "--repository", "repo"])[1])
assert r["projection_status"] == "complete" and [c["generation"] for c in r["claims"]] == [42], r
assert verify(d)[0] == 0'
check "a damaged index is told by verify and does no harm" py '
d = journal("index")
assert run(["journal", "append", d, "--ndjson"], lines(sign(body={"summary": str(i)}, seq=i + 1) for i in range(20)))[0] == 0
open(d + "/index", "wb").write(b"not an index")
assert run(["journal", "list", d])[0] == 0
code, v = verify(d); assert code == 2 and v["index"] == "damaged"
os.unlink(d + "/index"); assert verify(d)[0] == 0'

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]

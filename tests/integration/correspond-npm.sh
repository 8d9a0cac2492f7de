#!/bin/bash
# needs: network
# The canonical form against another implementation: the npm package `canonicalize` (RFC 8785) on
# generated values of the safe-integer profile. The package goes into the build folder; without
# node or the registry this is skipped, and says so.
#
#   CF_BUILD=build tests/integration/correspond-npm.sh [VALUES]
set -u
cd "$(dirname "$0")/../.."
B=${CF_BUILD:-build}
CF=${CFRUNNER:-$B/cfrunner}
VALUES=${1:-300}
VERSION=2.0.0

skip() {
    echo "SKIPPED correspond against npm canonicalize: $1"
    echo "0 passed, 0 failed"
    exit 0
}
[ -x "$CF" ] || skip "$CF is not built"
command -v node >/dev/null && command -v npm >/dev/null || skip "node and npm are not installed"
if [ ! -d "$B/npm/node_modules/canonicalize" ]; then
    mkdir -p "$B/npm"
    (cd "$B/npm" && timeout 90 npm --fetch-retries=0 install --no-audit --no-fund --ignore-scripts canonicalize@$VERSION >npm.log 2>&1) ||
        skip "npm could not install it (see $B/npm/npm.log)"
fi

CF=$(realpath "$CF") NODE_PATH=$(realpath "$B/npm/node_modules") node - "$VALUES" <<'EOF'
const canonicalize = require('canonicalize');
const { spawnSync } = require('child_process');

let seed = 20260719;
function draw(below) { seed = (Math.imul(seed, 1103515245) + 12345) >>> 0; return Math.floor(seed / 65536) % below; }
const alphabets = [
  () => String.fromCharCode(97 + draw(26)),
  () => String.fromCharCode(1 + draw(0x2f)),            /* controls, quotes, slashes */
  () => String.fromCodePoint(0x80 + draw(0x780)),
  () => String.fromCodePoint(0x2020 + draw(0x40)),      /* line separators among them */
  () => String.fromCodePoint(0xe000 + draw(0x1fff)),
  () => String.fromCodePoint(0x10000 + draw(0xffff)),
  () => '\\"/'[draw(3)],
];
function text() { let s = ''; for (let n = draw(9); n > 0; n--) s += alphabets[draw(alphabets.length)](); return s; }
function integer() {
  const magnitude = [draw(10), draw(65536), draw(65536) * 65536 + draw(65536), Number.MAX_SAFE_INTEGER - draw(100)][draw(4)];
  return draw(2) && magnitude ? -magnitude : magnitude;
}
function value(depth) {
  switch (draw(depth > 5 ? 4 : 7)) {
  case 0: return null;
  case 1: return draw(2) === 1;
  case 2: return integer();
  case 3: return text();
  case 4: return Array.from({ length: draw(5) }, () => value(depth + 1));
  default: { const o = {}; for (let n = draw(8); n > 0; n--) o[text()] = value(depth + 1); return o; }
  }
}
/* The same value spelt another way: spaces, and escapes where none are needed. */
function spell(v) {
  const space = () => ['', ' ', '\n', '\t '][draw(4)];
  const string = s => '"' + Array.from(JSON.stringify(s).slice(1, -1).matchAll(/\\u[0-9a-f]{4}|\\.|[^\\]/gsu), m => {
    if (m[0].length > 1 && m[0][0] === '\\') return m[0];
    if (draw(6)) return m[0];
    return Array.from({ length: m[0].length }, (_, i) => '\\u' + m[0].charCodeAt(i).toString(16).padStart(4, '0')).join('');
  }).join('') + '"';
  if (typeof v === 'string') return string(v);
  if (Array.isArray(v)) return '[' + space() + v.map(spell).join(space() + ',') + space() + ']';
  if (v && typeof v === 'object') return '{' + space() + Object.entries(v).map(([k, x]) => string(k) + space() + ':' + spell(x)).join(',' + space()) + '}';
  return JSON.stringify(v);
}

let passed = 0, failed = 0;
for (let i = 0; i < Number(process.argv[2]); i++) {
  const v = value(0), wanted = canonicalize(v);
  const got = spawnSync(process.env.CF, ['correspond', 'canonicalize'], { input: spell(v) });
  if (got.status === 0 && got.stdout.toString('utf8') === wanted) { passed++; continue; }
  failed++;
  if (failed < 4) console.log('FAILED', JSON.stringify(v), got.stdout.toString('utf8'));
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
EOF

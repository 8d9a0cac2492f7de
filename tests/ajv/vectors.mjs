// vectors.mjs CFRUNNER WORK: the golden vectors against the contract's schemas, by ajv and by ours; then the
// vectors broken in every place, one at a time: both must agree on each.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv from 'ajv/dist/2020.js';

const [, , cfrunner, work] = process.argv;
const sets = [
  ['oneshot-vectors', 'proto/harness-oneshot-v1-author-kit.schema.json', 'fixtures/oneshot-v1-author-kit-vectors.json'],
  ['acp-vectors', 'proto/harness-acp-v1-extension.schema.json', 'fixtures/acp-v1-extension-vectors.json'],
];
let wrong = 0;
const say = (good, text) => { console.log(`${good ? 'ok   ' : 'FAIL '} ${text}`); wrong += good ? 0 : 1; };

function ours(kind, document) {
  const file = join(work, 'document.json');
  writeFileSync(file, JSON.stringify(document));
  try {
    return JSON.parse(execFileSync(cfrunner, ['validate', kind, file])).valid;
  } catch (error) {
    return JSON.parse(error.stdout).valid;
  }
}

// Each place once, in one of three ways: gone, of another type, or with a member too many.
function* broken(root) {
  const walk = function* (node, path) {
    if (node === null || typeof node !== 'object') return;
    for (const key of Object.keys(node)) {
      yield [...path, key];
      yield* walk(node[key], [...path, key]);
    }
  };
  const change = (path, how) => {
    const copy = structuredClone(root);
    const parent = path.slice(0, -1).reduce((at, key) => at[key], copy);
    how(parent, path.at(-1));
    return copy;
  };
  let turn = 0;
  for (const path of walk(root, [])) {
    turn++;
    if (turn % 3 === 0) yield [`${path.join('/')} gone`, change(path, (at, key) => (Array.isArray(at) ? at.splice(key, 1) : delete at[key]))];
    if (turn % 3 === 1) yield [`${path.join('/')} of another type`, change(path, (at, key) => { at[key] = typeof at[key] === 'number' ? 'x' : 7; })];
    if (turn % 3 === 2) yield [`${path.join('/')} with a stranger beside it`, change(path, (at, key) => { if (Array.isArray(at)) at.push(null); else at.stranger = true; })];
  }
}

for (const [kind, schemaFile, vectorFile] of sets) {
  const ajv = new Ajv({ strict: false, allErrors: false });
  const schema = JSON.parse(readFileSync(schemaFile)), document = JSON.parse(readFileSync(vectorFile));
  const validate = ajv.compile(schema);
  say(validate(document), `${kind}: ajv takes the vectors ${JSON.stringify(validate.errors ?? '')}`);
  say(ours(kind, document), `${kind}: ours takes the vectors`);
  let agreed = 0, refused = 0;
  for (const [what, changed] of broken(document)) {
    const theirs = validate(changed);
    refused += theirs ? 0 : 1;
    if (theirs === ours(kind, changed)) agreed++;
    else say(false, `${kind}: ${what}: ajv says ${theirs}, ours ${!theirs}`);
  }
  say(agreed > 60 && refused > 40, `${kind}: agreed on ${agreed} broken documents, ${refused} of them refused`);
}
process.exit(wrong === 0 ? 0 : 1);

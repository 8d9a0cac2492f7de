// ajv.mjs SCHEMA document FILE | SCHEMA observations FILE: a second opinion on our own validator.
// document: FILE is valid, and no vector of it survives an unknown member or the loss of a required one.
// observations: each line of FILE is a normalized observation of the author kit.
import fs from 'node:fs';
import Ajv from 'ajv/dist/2020.js';

const [, , schemaFile, mode, file] = process.argv;
const schema = JSON.parse(fs.readFileSync(schemaFile));
const ajv = new Ajv({ strict: false, unicodeRegExp: true });
let checked = 0;

function expect(validate, value, good, what) {
  checked++;
  if (validate(value) === good) return;
  console.error(`${what}: ajv says ${!good}`, JSON.stringify(validate.errors ?? value).slice(0, 400));
  process.exitCode = 1;
}

// Every way to spoil the tree below `at`: an unknown member in each closed object.
function* spoiled(root, at = root) {
  if (at === null || typeof at !== 'object') return;
  for (const [name, child] of Object.entries(at)) if (name !== 'args' && name !== 'result') yield* spoiled(root, child);
  if (Array.isArray(at)) return;
  at.unknown_member = 1;
  yield root;
  delete at.unknown_member;
}

if (mode === 'document') {
  const document = JSON.parse(fs.readFileSync(file));
  const validate = ajv.compile(schema);
  expect(validate, document, true, file);
  for (const vector of document.vectors) {
    for (const member of Object.keys(vector)) {
      const kept = vector[member];
      delete vector[member];
      expect(validate, document, false, `${vector.name ?? member} without ${member}`);
      vector[member] = kept;
    }
    for (const [name, part] of Object.entries(vector)) {
      if (part === null || typeof part !== 'object' || Array.isArray(part)) continue;
      part.unknown_member = 1;
      expect(validate, document, false, `${vector.name} with an unknown member in ${name}`);
      delete part.unknown_member;
    }
  }
} else {
  const find = (node) => {
    if (node === null || typeof node !== 'object') return undefined;
    if (node.normalized_observations?.items) return node.normalized_observations.items;
    for (const child of Object.values(node)) {
      const found = find(child);
      if (found) return found;
    }
  };
  const validate = ajv.compile({ $defs: schema.$defs, ...find(schema) });
  for (const line of fs.readFileSync(file, 'utf8').split('\n').filter(Boolean)) {
    const observation = JSON.parse(line);
    expect(validate, observation, true, line.slice(0, 200));
    for (const bad of spoiled(observation)) expect(validate, bad, false, `spoiled ${line.slice(0, 200)}`);
  }
}
console.log(`${checked} checked`);

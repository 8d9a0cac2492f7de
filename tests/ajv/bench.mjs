// bench.mjs CASES SECONDS: validations per second of each case by ajv; one line of JSON a case.
import { readFileSync } from 'node:fs';
import Ajv from 'ajv/dist/2020.js';

const [, , file, seconds] = process.argv;
for (const { name, schema, instance } of JSON.parse(readFileSync(file))) {
  const validate = new Ajv({ strict: false }).compile(schema);
  let done = 0, valid;
  const began = performance.now();
  while (performance.now() - began < Number(seconds) * 1000) {
    for (let i = 0; i < 20; i++) valid = validate(instance);
    done += 20;
  }
  console.log(JSON.stringify({ name, valid, per_second: Math.round((done * 1000) / (performance.now() - began)) }));
}

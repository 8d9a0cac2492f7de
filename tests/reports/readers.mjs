// readers.mjs sarif FILE... | statement SCHEMA FILE...: SARIF by Microsoft's schema, a statement by ajv
// and by an RFC 8785 implementation that is not ours. One "ok" or "FAIL" line a file.
import fs from 'node:fs';
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const [, , kind, ...files] = process.argv;

function say(good, file, why) {
  console.log(good ? `ok ${file}` : `FAIL ${file}: ${JSON.stringify(why).slice(0, 400)}`);
  if (!good) process.exitCode = 1;
}

function sarifValidator() {
  const home = require.resolve('@microsoft/jest-sarif/package.json');
  const theirs = createRequire(home); // the schema is of draft 04, which their own ajv still knows
  const Ajv = theirs('ajv');
  const ajv = new Ajv({ schemaId: 'auto', meta: false, unknownFormats: 'ignore' });
  ajv.addMetaSchema(theirs('ajv/lib/refs/json-schema-draft-04.json'));
  return ajv.compile(theirs('./lib/schemas/sarif-2.1.0-rtm.5.json'));
}

if (kind === 'sarif') {
  const validate = sarifValidator();
  for (const file of files) {
    const log = JSON.parse(fs.readFileSync(file, 'utf8'));
    const good = validate(log);
    const [run] = log.runs;
    const lost = run.results.filter((r) => run.tool.driver.rules[r.ruleIndex]?.id !== r.ruleId);
    say(good && lost.length === 0, file, validate.errors ?? lost);
    log.runs[0].results.push({ level: 'fatal' });
    say(!validate(log), `${file}, spoiled: refused`, 'a validator that takes everything');
  }
} else {
  const Ajv = require('ajv/dist/2020').default;
  const canonicalize = (await import('canonicalize')).default;
  const [schema, ...statements] = files;
  const validate = new Ajv({ strict: false }).compile(JSON.parse(fs.readFileSync(schema, 'utf8')));
  for (const file of statements) {
    const text = fs.readFileSync(file, 'utf8');
    const value = JSON.parse(text);
    say(validate(value), file, validate.errors);
    say(canonicalize(value) === text, `${file}: canonical`, 'other bytes');
  }
}

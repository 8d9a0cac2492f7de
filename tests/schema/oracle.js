// Reads [{pattern, texts: [{text, found}]}] and compares with ECMAScript's own verdict.
const cases = JSON.parse(require("fs").readFileSync(process.argv[2], "utf8"));
let wrong = 0, compared = 0;
for (const { pattern, texts } of cases) {
  let expression;
  try {
    expression = new RegExp(pattern, "u");
  } catch (e) {
    console.log("admitted, but no ECMAScript pattern: " + JSON.stringify(pattern));
    wrong++;
    continue;
  }
  for (const { text, found } of texts) {
    compared++;
    if (expression.test(text) !== found) {
      console.log(JSON.stringify(pattern) + " on " + JSON.stringify(text) + ": we say " + found);
      wrong++;
    }
  }
}
console.log("ECMAScript agrees on " + (compared - wrong) + " of " + compared);
process.exit(wrong > 0 || compared === 0 ? 1 : 0);

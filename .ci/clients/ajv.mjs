// Compiles each schema of a folder of examples, and checks the example files and some wrong ones.
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
const require = createRequire(import.meta.url);
const Ajv = require("ajv").default, addFormats = require("ajv-formats").default, YAML = require("yaml");

const dir = process.argv[2], checks = {};
for (const file of readdirSync(dir + "/schema").filter((f) => f.endsWith(".json"))) {
  const ajv = new Ajv({ allErrors: true, strict: true, strictRequired: false, strictTypes: false, allowUnionTypes: true });
  addFormats(ajv);
  checks[file.replace(".json", "")] = ajv.compile(JSON.parse(readFileSync(`${dir}/schema/${file}`)));
}
console.log("schemas:", Object.keys(checks).join(" "));

let failed = 0;
function check(schema, text, name, want) {
  const ok = checks[schema](YAML.parse(text));
  if (ok !== want) {
    failed++;
    console.log(`${name}: ${ok ? "accepted" : "refused"} by ${schema}:`, JSON.stringify(checks[schema].errors?.slice(0, 3)));
  }
}
const find = (d) => readdirSync(d, { recursive: true, withFileTypes: true }).filter((f) => f.isFile() && f.name.endsWith(".yaml")).map((f) => `${f.parentPath ?? f.path}/${f.name}`);
let files = 0;
for (const repo of ["fleet", "new"]) {
  for (const file of find(`${dir}/${repo}`)) {
    const name = file.slice(dir.length + 1);
    const schema = name === `${repo}/zester.yaml` ? "zester" : /^[a-z]+\/top(\.d\/.*)?\.yaml$/.test(name) ? "top" : name.startsWith(`${repo}/settings/`) ? "settings" : "";
    if (schema) check(schema, readFileSync(file, "utf8"), name, true), files++;
  }
}
for (const name of ["master", "peel"]) if (checks[name]) check(name, readFileSync(`${dir}/${name}.yaml`, "utf8"), `${name}.yaml`, true), files++;
console.log("example files:", files);

const entry = (e) => `schedule: {x: ${e}}`;
const wrong = [entry("{module: test.ping, intervall: 1h}"), entry("{module: test.ping, interval: 1 hour ago}"), entry("{module: test.ping, interval: 1h, enabled: yep}"),
  entry("{module: test.ping, cron: 5}"), entry("{module: test.ping, interval: 1h, maxrunning: -1}"), entry("[]")];
for (const text of wrong) check("settings", text, text, false);
check("top", "base: []", "a list as base", false);
check("zester", "limits: {change: many}", "a limit in words", false);
console.log("wrong files:", wrong.length + 2);
process.exit(failed ? 1 : 0);

// Is an editor: it opens a settings file of a new config repo in yaml-language-server, and looks at what it shows.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
const require = createRequire(import.meta.url), rpc = require("vscode-jsonrpc/node");

const dir = process.argv[2], uri = pathToFileURL(`${dir}/settings/common/base.yaml`).href;
const text = readFileSync(`${dir}/settings/common/base.yaml`, "utf8");
const server = spawn("node_modules/.bin/yaml-language-server", ["--stdio"], { stdio: ["pipe", "pipe", "inherit"] });
const link = rpc.createMessageConnection(new rpc.StreamMessageReader(server.stdout), new rpc.StreamMessageWriter(server.stdin));
let diagnosed = () => {};
link.onNotification("textDocument/publishDiagnostics", (p) => p.uri === uri && diagnosed(p.diagnostics));
link.onRequest("workspace/configuration", (q) => q.items.map((i) => (i.section === "yaml" ? { validate: true, completion: true, hover: true, schemaStore: { enable: false } } : null)));
link.onRequest("client/registerCapability", () => null);
link.listen();
const fail = (what, value) => { console.error(`${what}: ${JSON.stringify(value)}`); process.exit(1); };
setTimeout(() => fail("no answer", "60 s"), 60_000).unref();

await link.sendRequest("initialize", {
  processId: process.pid, rootUri: pathToFileURL(dir).href, workspaceFolders: [{ uri: pathToFileURL(dir).href, name: "fleet" }],
  capabilities: { textDocument: { completion: { completionItem: { snippetSupport: true } }, publishDiagnostics: {} }, workspace: { configuration: true, workspaceFolders: true } },
});
await link.sendNotification("initialized", {});

// shown opens or changes the file, and returns the diagnostics of it that fit.
async function shown(content, version, fits) {
  const wait = new Promise((done) => (diagnosed = (all) => fits(all) && done(all)));
  if (version === 1) await link.sendNotification("textDocument/didOpen", { textDocument: { uri, languageId: "yaml", version, text: content } });
  else await link.sendNotification("textDocument/didChange", { textDocument: { uri, version }, contentChanges: [{ text: content }] });
  return wait;
}
const clean = await shown(text, 1, () => true);
if (clean.length) fail("the file of zester init has problems", clean);
console.log("diagnostics of the file of zester init: none");
const wrong = await shown(text.replace("    interval:", "    intervall: 1h\n    interval:"), 2, (all) => all.length > 0);
console.log("diagnostics of intervall:", wrong.map((d) => d.message).join("; "));

await shown(text + "    \n", 3, () => true);
const position = { line: text.split("\n").length - 1, character: 4 };
const completed = await link.sendRequest("textDocument/completion", { textDocument: { uri }, position });
const labels = (completed.items ?? completed).map((i) => i.label);
if (!labels.includes("catch_up") || !labels.includes("only_between")) fail("completions", labels);
console.log("completions:", labels.length);
const at = text.slice(0, text.indexOf("splay")).split("\n");
const hover = await link.sendRequest("textDocument/hover", { textDocument: { uri }, position: { line: at.length - 1, character: at.at(-1).length + 1 } });
if (!JSON.stringify(hover).includes("random")) fail("hover", hover);
console.log("hover of splay:", (hover.contents.value ?? "").split("\n").slice(-3).join(" ").slice(0, 100));
process.exit(0);

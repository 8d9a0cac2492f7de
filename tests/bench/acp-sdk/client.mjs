// client.mjs AGENT FILE: the official SDK's client runs the agent and writes a line for each update to /dev/null.
// Prints "<updates> <bytes of lines> <microseconds> <peak KiB>", as bench_acp does.
import { spawn } from "node:child_process";
import { openSync, writeSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const child = spawn(process.argv[2], ["agent", process.argv[3]], { stdio: ["pipe", "pipe", "inherit"] });
const sink = openSync("/dev/null", "w");
let updates = 0, bytes = 0, pending = [], size = 0;
const began = process.hrtime.bigint();

function flush() {
  const text = pending.join("");
  bytes += writeSync(sink, text);
  pending = [];
  size = 0;
}

const app = acp.client({ name: "bench" }).onNotification(acp.methods.client.session.update, ({ params }) => {
  const line = JSON.stringify({ seq: ++updates, at_ms: 0, turn: 1, observation: params.update }) + "\n";
  pending.push(line);
  size += line.length;
  if (size > 65536) flush();
});
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
await app.connectWith(stream, async (agent) => {
  await agent.request(acp.methods.agent.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
  const { sessionId } = await agent.request(acp.methods.agent.session.new, { cwd: "/workspace", mcpServers: [] });
  await agent.request(acp.methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text: "go" }] });
});
flush();
console.log(updates, bytes, Number((process.hrtime.bigint() - began) / 1000n), process.resourceUsage().maxRSS);
child.kill();

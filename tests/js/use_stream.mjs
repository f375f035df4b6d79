// Plays a chat with the React hook of LangGraph's newer client against a server; prints what it found as JSON.
// Arguments: the server's address, a token or nothing, and a file without which the model does not fail, or nothing.
import { writeFileSync } from "node:fs";
import { Window } from "happy-dom";

const window = new Window({ url: "http://localhost/" });
Object.assign(globalThis, { window, document: window.document, navigator: window.navigator });
const { createElement } = await import("react");
const { createRoot } = await import("react-dom/client");
const { useStream } = await import("@langchain/react");

const [apiUrl, token, gate] = process.argv.slice(2);
const defaultHeaders = token ? { Authorization: `Bearer ${token}` } : {};
const config = { configurable: { approve_tools: ["write_file"] } };
const found = {};
let stream;
let shownThread = null;

function Chat({ threadId }) {
  const onThreadId = (id) => (shownThread = id);
  stream = useStream({ apiUrl, apiKey: null, defaultHeaders, assistantId: "lead_agent", threadId, onThreadId });
  return null;
}

function open(threadId) {
  stream = undefined;
  const place = document.createElement("div");
  document.body.append(place);
  const root = createRoot(place);
  root.render(createElement(Chat, { threadId }));
  return root;
}

const say = (content, options) => stream.submit({ messages: [{ type: "human", content }] }, options);
const last = () => stream.messages[stream.messages.length - 1]?.text ?? "";

async function until(what, holds) {
  for (const begin = Date.now(); !holds(); await new Promise((resolve) => setTimeout(resolve, 10)))
    if (Date.now() - begin > 30_000)
      throw new Error(`${what} takes too long: ${stream?.error}, ${stream?.messages.map((m) => m.text)}`);
}

const idle = (holds) => () => stream !== undefined && !stream.isLoading && holds();

const root = open(null);
await until("the page", idle(() => true));
say("hello");
await until("an answer", idle(() => last() === "echo: hello"));
found.chat = { messages: stream.messages.map((message) => message.getType()), values: stream.values.messages.length };

say("ask", { config });
await until("a question", idle(() => stream.interrupts.length === 1));
found.question = stream.interrupt.value.action_requests[0].name;
stream.respond({ decisions: [{ type: "approve" }] }, { config });
await until("what was approved", idle(() => last().startsWith("written: created")));
found.approved = { interrupts: stream.interrupts.length, tools: stream.toolCalls.map((call) => call.name) };

say("delegate");
await until("delegations", idle(() => last().startsWith("joined: ")));
found.subagents = [...stream.subagents.values()].map((subagent) => subagent.status);

say("stumble");
if (gate) {
  await until("what comes before a failure", () => stream.messages.at(-1)?.getType() === "tool");
  writeFileSync(gate, "");
}
await until("a failure", idle(() => gate || stream.error != null));
found.error = stream.error?.message;
root.unmount();

open(shownThread);
await until("the thread", idle(() => stream.messages.length === 14));
found.hydrated = stream.messages.map((message) => message.getType());
say("slow");
await until("a run", () => stream.isLoading && last() === "slow");
let run;
do [run] = await stream.client.runs.list(shownThread);
while (run.status !== "running");
await stream.client.runs.cancel(shownThread, run.run_id);
await until("its stop", idle(() => true));
console.log(JSON.stringify(found));
process.exit(0);

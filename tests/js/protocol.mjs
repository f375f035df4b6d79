// Plays the newer protocol of LangGraph's JavaScript client against a server; prints what it found as JSON.
// Arguments: the server's address, and a token or nothing.
import { Client } from "@langchain/langgraph-sdk";

const [apiUrl, token] = process.argv.slice(2);
const defaultHeaders = token ? { Authorization: `Bearer ${token}` } : {};
const options = { apiUrl, apiKey: null, defaultHeaders };
const client = new Client({ ...options, callerOptions: { maxRetries: 0 } });
const assistantId = "lead_agent";
const APPROVING = { configurable: { approve_tools: ["write_file"] } };
const found = {};

const said = (content) => ({ messages: [{ role: "user", content }] });
const text = ({ content }) => (typeof content === "string" ? content : content.map((block) => block.text).join(""));
const last = (values) => text(values.messages[values.messages.length - 1]);

async function collected(iterable, read) {
  const items = [];
  for await (const item of iterable) items.push(await read(item));
  return items;
}

// Reads a subscription until `count` runs have come to an end.
async function untilEnds(subscription, count) {
  const seen = [];
  while (count > 0) {
    for await (const event of subscription) {
      seen.push(event);
      const root = event.params.namespace.length === 0;
      if (event.method === "lifecycle" && root && event.params.data.event !== "running") count -= 1;
      if (count === 0) break;
    }
    if (count > 0) await subscription.waitForResume();
  }
  return seen;
}

async function chat() {
  const thread = client.threads.stream({ assistantId });
  const messages = collected(thread.messages, async (message) => [await message.text, (await message.usage)?.output_tokens]);
  const tools = collected(thread.toolCalls, async (call) => [call.name, await call.output.then(() => "finished")]);
  const run = await thread.run.start({ input: said("hello") });
  found.chat = { output: last(await thread.output), run: typeof run.run_id };
  await thread.close();
  found.chat.messages = await messages;
  found.chat.tools = await tools;
}

async function delegations() {
  const thread = client.threads.stream({ assistantId });
  const events = await thread.subscribe({ channels: ["lifecycle", "messages", "tools", "values"] });
  const ended = untilEnds(events, 1);
  await thread.run.start({ input: said("delegate") });
  const seen = await ended;
  const count = (method, event) => seen.filter((e) => e.method === method && e.params.data.event === event).length;
  found.delegations = {
    started: count("tools", "tool-started"),
    finished: count("tools", "tool-finished"),
    messages: count("messages", "message-start"),
    namespaces: [...new Set(seen.map((event) => event.params.namespace.join("/")))].sort(),
    output: last(await thread.output),
    rising: seen.every((event, index) => index === 0 || event.seq > seen[index - 1].seq),
    ids: new Set(seen.map((event) => event.event_id)).size === seen.length,
  };
  await thread.close();
}

async function approvals() {
  const thread = client.threads.stream({ assistantId });
  await thread.run.start({ input: said("ask"), config: APPROVING });
  await thread.output;
  const [interrupt] = thread.interrupts;
  found.approvals = { interrupted: thread.interrupted, asked: interrupt.payload.action_requests[0].name };
  const events = await thread.subscribe({ channels: ["lifecycle", "tools"] });
  const ended = untilEnds(events, 2);
  await thread.input.respond({
    interrupt_id: interrupt.interruptId,
    namespace: interrupt.namespace,
    response: { decisions: [{ type: "approve" }] },
    config: APPROVING,
  });
  const seen = await ended;
  found.approvals.lifecycle = seen.filter((e) => e.method === "lifecycle").map((e) => e.params.data.event);
  found.approvals.tools = seen.filter((e) => e.method === "tools").map((e) => e.params.data.event);
  found.approvals.answer = last((await client.threads.getState(thread.threadId)).values);
  await thread.close();
}

async function conversation() {
  const first = client.threads.stream({ assistantId });
  await first.run.start({ input: said("one") });
  await first.output;
  await first.close();
  const again = client.threads.stream(first.threadId, { assistantId });
  const events = await again.subscribe({ channels: ["lifecycle", "values"] });
  const ended = untilEnds(events, 2);
  await again.run.start({ input: said("two") });
  const seen = await ended;
  found.conversation = {
    lifecycle: seen.filter((e) => e.method === "lifecycle").map((e) => e.params.data.event),
    answers: seen.filter((e) => e.method === "values").map((e) => e.params.data.messages.length),
  };
  await again.close();
}

// The older protocol's stream of a thread.
async function joined() {
  const { thread_id: id } = await client.threads.create();
  let listens;
  const begun = new Promise((resolve) => (listens = resolve));
  const fetchAndTell = async (...request) => {
    const response = await fetch(...request);
    listens();
    return response;
  };
  const listener = new Client({ ...options, callerOptions: { maxRetries: 0, fetch: fetchAndTell } });
  const names = [];
  const reading = (async () => {
    for await (const part of listener.threads.joinStream(id, { streamMode: "run_modes" })) {
      names.push(part.event);
      if (part.data?.status === "run_done") return;
    }
  })();
  await begun;
  await new Promise((resolve) => setTimeout(resolve, 500)); // LangGraph's server answers before it listens
  await client.runs.create(id, assistantId, { input: said("hello"), streamMode: "updates", streamResumable: true });
  await reading;
  found.joined = names;
}

async function failures() {
  const thread = client.threads.stream({ assistantId });
  const events = await thread.subscribe({ channels: ["lifecycle"] });
  const ended = untilEnds(events, 1);
  await thread.run.start({ input: said("fail") });
  found.failures = { lifecycle: (await ended).map((event) => event.params.data.event) };
  const refused = async (call) => {
    try {
      await call();
      return "accepted";
    } catch (error) {
      return error.code ?? error.name;
    }
  };
  found.failures.answer = await refused(() =>
    thread.input.respond({ interrupt_id: "0".repeat(32), namespace: [], response: 1 }),
  );
  found.failures.unknown = await refused(() => thread.state.get({}));
  await thread.close();
}

for (const part of [chat, delegations, approvals, conversation, joined, failures]) {
  const late = new Error(`${part.name} takes too long, after ${JSON.stringify(found)}`);
  await Promise.race([part(), new Promise((_, reject) => setTimeout(reject, 60_000, late))]);
}
console.log(JSON.stringify(found));
process.exit(0);

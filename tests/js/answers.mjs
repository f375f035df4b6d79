// Plays every verb of LangGraph's JavaScript client on a server; prints each step's answer as JSON.
// The steps are called as in the Python client's script, so that one page explains what differs.
// Argument: the server's address.
import { Client } from "@langchain/langgraph-sdk";

const client = new Client({ apiUrl: process.argv[2], apiKey: null, callerOptions: { maxRetries: 0 } });
const ASSISTANT = "lead_agent";
const UNKNOWN_ID = "99999999-9999-4999-8999-999999999999";
const OWN_ID = "11111111-2222-4333-8444-666666666666";
const FRAMING = new Set(["heartbeat", "end"]);
const answers = {};
const names = {};

const said = (content) => ({ messages: [{ role: "user", content }] });
const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

async function step(name, call) {
  if (name in answers) throw new Error(`two steps are called ${name}`);
  let answer;
  try {
    answer = await call;
  } catch (error) {
    answer = undefined;
    answers[name] = { error: error.status ?? error.name };
    return answer;
  }
  answers[name] = answer ?? null;
  return answer;
}

async function read(parts) {
  const found = [];
  for await (const { event, data } of parts) if (!FRAMING.has(event)) found.push([event, data]);
  return found;
}

const events = (name, parts) => step(name, read(parts));

async function newThread(name, metadata = {}) {
  const { thread_id: id } = await client.threads.create({ metadata });
  names[id] = name;
  return id;
}

async function assistants() {
  const all = client.assistants;
  const system = await step("assistants.search", all.search({ graphId: ASSISTANT, metadata: { created_by: "system" } }));
  names[system[0].assistant_id] = "system assistant";
  await step("assistants.get", all.get(ASSISTANT));
  const options = {
    graphId: ASSISTANT, name: "Script", description: "d", metadata: { js: 1 },
    context: { subagent_enabled: false }, config: { recursion_limit: 40 },
  };
  const own = await step("assistants.create", all.create(options));
  names[own.assistant_id] = "own assistant";
  await step("assistants.create: with an id", all.create({ graphId: ASSISTANT, assistantId: OWN_ID }));
  await step("assistants.create: again", all.create({ graphId: ASSISTANT, assistantId: OWN_ID }));
  const again = all.create({ graphId: ASSISTANT, assistantId: OWN_ID, ifExists: "do_nothing" });
  await step("assistants.create: again, do nothing", again);
  await step("assistants.update", all.update(own.assistant_id, { name: "Scripted", metadata: { b: 2 } }));
  await step("assistants.update: context", all.update(own.assistant_id, { context: { goal: "g" } }));
  await step("assistants.get_versions", all.getVersions(own.assistant_id));
  await step("assistants.set_latest", all.setLatest(own.assistant_id, 1));
  await step("assistants.search: by metadata", all.search({ metadata: { js: 1 } }));
  await step("assistants.count", all.count({ metadata: { js: 1 } }));
  const graph = await all.getGraph(ASSISTANT);
  answers["assistants.get_graph"] = { nodes: graph.nodes.map((node) => node.id).sort() };
  await step("assistants.get_schemas", all.getSchemas(ASSISTANT));
  await step("assistants.get_subgraphs", all.getSubgraphs(ASSISTANT));
  await step("assistants.get: unknown", all.get(UNKNOWN_ID));
  await step("assistants.delete", all.delete(OWN_ID));
  await step("assistants.delete: again", all.delete(OWN_ID));
}

async function threads() {
  const all = client.threads;
  const created = await step("threads.create", all.create({ metadata: { topic: "lakes" } }));
  const id = created.thread_id;
  names[id] = "first thread";
  await step("threads.create: with an id", all.create({ threadId: OWN_ID, metadata: { first: true } }));
  await step("threads.create: again", all.create({ threadId: OWN_ID }));
  await step("threads.create: again, do nothing", all.create({ threadId: OWN_ID, ifExists: "do_nothing" }));
  await step("threads.get", all.get(id));
  await step("threads.update", all.update(id, { metadata: { length: 3 } }));
  await step("threads.search", all.search({ metadata: { topic: "lakes" } }));
  await step("threads.count", all.count({ metadata: { topic: "lakes" } }));
  await step("threads.get_state: empty", all.getState(id));
  await step("threads.get_history: empty", all.getHistory(id));
  await step("threads.get: unknown", all.get(UNKNOWN_ID));
  await step("threads.copy: unknown", all.copy(UNKNOWN_ID));
  await step("threads.prune", all.prune([OWN_ID, UNKNOWN_ID]));
  await step("threads.delete: pruned", all.delete(OWN_ID));
  const lasting = await step("threads.create: with ttl", all.create({ ttl: 60 }));
  names[lasting.thread_id] = "thread with a ttl";
  const keepLatest = { ttl: 120, strategy: "keep_latest" };
  await step("threads.update: with ttl", all.update(lasting.thread_id, { metadata: {}, ttl: keepLatest }));
  await step("threads.get: with ttl", all.get(lasting.thread_id, { include: ["ttl"] }));
}

async function states() {
  const all = client.threads;
  const id = await newThread("thread of states", { kind: "script" });
  await client.runs.wait(id, ASSISTANT, { input: said("hello") });
  await step("threads.get_state", all.getState(id));
  const history = await step("threads.get_history", all.getHistory(id));
  await step("threads.get_state: at", all.getState(id, history[history.length - 1].checkpoint));
  const before = { configurable: history[0].checkpoint };
  await step("threads.get_history: before", all.getHistory(id, { before, limit: 1 }));
  await step("threads.patch_state", all.patchState(id, { noted: true }));
  await step("threads.update_state", all.updateState(id, { values: said("by the way"), asNode: "model" }));
  await step("threads.get_state: changed", all.getState(id));
  const copied = await step("threads.copy", all.copy(id));
  await step("threads.get_state: copied", all.getState(copied.thread_id));
  await step("threads.delete", all.delete(id));
  await step("threads.get: deleted", all.get(id));
}

async function slowRun(id) {
  const run = await client.runs.create(id, ASSISTANT, { input: said("slow") });
  for (const begin = Date.now(); Date.now() - begin < 60_000; await pause(50)) {
    const { next, values } = await client.threads.getState(id);
    if (next[0] === "model" && values.messages[values.messages.length - 1].content === "slow") return run.run_id;
  }
  throw new Error("the slow model is not asked");
}

async function runs() {
  const all = client.runs;
  const id = await newThread("thread of runs");
  await step("runs.wait", all.wait(id, ASSISTANT, { input: said("hello") }));
  const created = await step("runs.create", all.create(id, ASSISTANT, { input: said("again"), metadata: { n: 2 } }));
  names[created.run_id] = "second run";
  await step("runs.join", all.join(id, created.run_id));
  await step("runs.get", all.get(id, created.run_id));
  await step("runs.list", all.list(id, { limit: 1, select: ["run_id", "status"] }));
  await step("runs.cancel: finished", all.cancel(id, created.run_id));
  await step("runs.wait: fails", all.wait(id, ASSISTANT, { input: said("fail"), raiseError: false }));
  await step("runs.wait: fails, raised", all.wait(id, ASSISTANT, { input: said("fail") }));
  const slow = await slowRun(id);
  names[slow] = "slow run";
  await step("runs.wait: rejected", all.wait(id, ASSISTANT, { input: said("x"), multitaskStrategy: "reject" }));
  await step("runs.cancel", all.cancel(id, slow, true));
  await step("runs.get: cancelled", all.get(id, slow));
  await step("runs.delete", all.delete(id, created.run_id));
  await step("runs.get: deleted", all.get(id, created.run_id));
  await step("runs.get: unknown", all.get(id, UNKNOWN_ID));
  await step("runs.wait: unknown thread", all.wait(UNKNOWN_ID, ASSISTANT, { input: said("x") }));
  await step("runs.wait: unknown assistant", all.wait(id, UNKNOWN_ID, { input: said("x") }));
}

async function streams() {
  const id = await newThread("thread of streams");
  const stream = (text, options = {}) => client.runs.stream(id, ASSISTANT, { input: said(text), ...options });
  await events("runs.stream", stream("hello"));
  await events("runs.stream: updates", stream("hello", { streamMode: "updates" }));
  await events("runs.stream: messages-tuple", stream("hi", { streamMode: "messages-tuple" }));
  await events("runs.stream: several", stream("hi", { streamMode: ["updates", "custom", "tasks"] }));
  await events("runs.stream: events", stream("ask", { streamMode: "events" }));
  await events("runs.stream: fails", stream("fail", { streamMode: "updates" }));
  const options = { input: said("hello"), streamMode: "updates", streamResumable: true };
  const created = await client.runs.create(id, ASSISTANT, options);
  await client.runs.join(id, created.run_id);
  const joined = client.runs.joinStream(id, created.run_id, { lastEventId: "-1" });
  await events("runs.join_stream: from the start", joined);
}

async function approvals() {
  const id = await newThread("thread of approvals");
  const context = { approve_tools: ["write_file"] };
  await step("runs.wait: asks", client.runs.wait(id, ASSISTANT, { input: said("ask"), context }));
  await step("threads.get: asks", client.threads.get(id));
  const command = { resume: { decisions: [{ type: "approve" }] } };
  await step("runs.wait: answered", client.runs.wait(id, ASSISTANT, { command, context }));
}

async function statelessRuns() {
  const all = client.runs;
  await step("runs.wait: stateless", all.wait(null, ASSISTANT, { input: said("hello") }));
  await events("runs.stream: stateless", all.stream(null, ASSISTANT, { input: said("hello") }));
  const batch = [1, 2].map(() => ({ assistantId: ASSISTANT, input: said("slow") }));
  await step("runs.create_batch", all.createBatch(batch));
  await step("runs.cancel_many", all.cancelMany({ status: "all" }));
}

async function store() {
  const all = client.store;
  const namespace = ["papers", "js"];
  await step("store.put_item", all.putItem(namespace, "a", { n: 1 }));
  await step("store.put_item: second", all.putItem(["papers"], "b", { n: 2 }));
  await step("store.get_item", all.getItem(namespace, "a"));
  await step("store.get_item: unknown", all.getItem(namespace, "z"));
  await step("store.search_items", all.searchItems(["papers"], { filter: { n: 2 } }));
  await step("store.list_namespaces", all.listNamespaces({ prefix: ["papers"] }));
  await step("store.delete_item", all.deleteItem(namespace, "a"));
  await step("store.get_item: deleted", all.getItem(namespace, "a"));
}

function verbs() {
  const found = [];
  for (const resource of ["assistants", "threads", "runs", "store"]) {
    const own = Object.getOwnPropertyNames(Object.getPrototypeOf(client[resource]));
    found.push(...own.filter((verb) => verb !== "constructor").map((verb) => `${resource}.${verb}`));
  }
  return found;
}

for (const part of [assistants, threads, states, runs, streams, approvals, statelessRuns, store]) await part();
console.log(JSON.stringify({ answers, names, verbs: verbs() }));

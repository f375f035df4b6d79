// Plays the verbs of LangGraph's JavaScript client against a Gateway; prints what it found as JSON.
// Arguments: the Gateway's address, and a token or nothing.
import { Client } from "@langchain/langgraph-sdk";

const [apiUrl, token] = process.argv.slice(2);
const defaultHeaders = token ? { Authorization: `Bearer ${token}` } : {};
const client = new Client({ apiUrl, apiKey: null, defaultHeaders, callerOptions: { maxRetries: 0 } });
const ASSISTANT = "lead_agent";
const found = {};

const said = (content) => ({ messages: [{ role: "user", content }] });
const last = (values) => values.messages[values.messages.length - 1].content;

async function events(stream) {
  const names = [];
  for await (const part of stream) names.push(part.event);
  return names;
}

async function statusOf(call) {
  try {
    await call();
    return 200;
  } catch (error) {
    return error.status ?? String(error);
  }
}

async function assistants() {
  const [system] = await client.assistants.search({ graphId: ASSISTANT });
  const own = await client.assistants.create({ graphId: ASSISTANT, name: "Quick", metadata: { js: true } });
  await client.assistants.update(own.assistant_id, { name: "Quicker" });
  const versions = await client.assistants.getVersions(own.assistant_id);
  await client.assistants.setLatest(own.assistant_id, 1);
  found.assistants = {
    system: system.metadata.created_by,
    versions: versions.map((version) => [version.version, version.name]),
    latest: (await client.assistants.get(own.assistant_id)).name,
    count: await client.assistants.count({ metadata: { js: true } }),
    nodes: (await client.assistants.getGraph(ASSISTANT)).nodes.map((node) => node.id).sort(),
    schemas: Object.keys((await client.assistants.getSchemas(ASSISTANT)).input_schema.properties),
    subgraphs: await client.assistants.getSubgraphs(ASSISTANT),
  };
  await client.assistants.delete(own.assistant_id);
}

async function threads() {
  const thread = await client.threads.create({ metadata: { topic: "rivers" } });
  const id = thread.thread_id;
  await client.threads.update(id, { metadata: { length: 3 } });
  await client.runs.wait(id, ASSISTANT, { input: said("hello") });
  const history = await client.threads.getHistory(id);
  const before = await client.threads.getHistory(id, { before: { configurable: history[0].checkpoint } });
  await client.threads.updateState(id, { values: said("by the way"), asNode: "model" });
  const copy = await client.threads.copy(id);
  found.threads = {
    metadata: (await client.threads.get(id)).metadata,
    search: (await client.threads.search({ metadata: { topic: "rivers", length: 3 } })).length,
    count: await client.threads.count({ metadata: { topic: "rivers" } }),
    before: history.length - before.length,
    state: last((await client.threads.getState(id)).values),
    copy: last((await client.threads.getState(copy.thread_id)).values),
    unknown: await statusOf(() => client.threads.get("99999999-9999-4999-8999-999999999999")),
    again: await statusOf(() => client.threads.create({ threadId: id })),
    same: (await client.threads.create({ threadId: id, ifExists: "do_nothing" })).thread_id === id,
  };
  await client.threads.delete(id);
  found.threads.deleted = await statusOf(() => client.threads.get(id));
}

async function runs() {
  const { thread_id: id } = await client.threads.create();
  const run = await client.runs.create(id, ASSISTANT, { input: said("hello"), streamResumable: true });
  const joined = await client.runs.join(id, run.run_id);
  const slow = await client.runs.create(id, ASSISTANT, { input: said("slow") });
  await client.runs.cancel(id, slow.run_id, true);
  found.runs = {
    joined: last(joined),
    status: (await client.runs.get(id, run.run_id)).status,
    cancelled: (await client.runs.get(id, slow.run_id)).status,
    list: (await client.runs.list(id)).length,
    resumed: await events(client.runs.joinStream(id, run.run_id, { lastEventId: "-1" })),
    failed: await statusOf(() => client.runs.wait(id, ASSISTANT, { input: said("fail") })),
    refused: await statusOf(() => client.runs.create(id, ASSISTANT, { input: said("x"), context: { model_name: "y" } })),
    stateless: last(await client.runs.wait(null, ASSISTANT, { input: said("hello") })),
    batch: (await client.runs.createBatch([{ assistantId: ASSISTANT, input: said("hello") }])).length,
  };
  await client.runs.delete(id, run.run_id);
  found.runs.deleted = await statusOf(() => client.runs.get(id, run.run_id));
}

async function streams() {
  const { thread_id: id } = await client.threads.create();
  const of = (streamMode, content = "hello", more = {}) =>
    events(client.runs.stream(id, ASSISTANT, { input: said(content), streamMode, ...more }));
  const created = [];
  found.streams = {
    values: await of("values", "hello", { onRunCreated: (run) => created.push(typeof run.run_id) }),
    updates: await of("updates"),
    tuples: await of("messages-tuple", "hi"),
    several: [...new Set(await of(["values", "updates", "custom"], "delegate", { streamSubgraphs: true }))]
      .map((name) => name.split("|")[0]),
    fails: await of("updates", "fail"),
    created,
  };
}

async function approvals() {
  const { thread_id: id } = await client.threads.create();
  const context = { approve_tools: ["write_file"] };
  const asked = await client.runs.wait(id, ASSISTANT, { input: said("ask"), context });
  const status = (await client.threads.get(id)).status;
  const command = { resume: { decisions: [{ type: "approve" }] } };
  const answered = await client.runs.wait(id, ASSISTANT, { command, context });
  found.approvals = { asked: asked.__interrupt__.length, status, answered: last(answered) };
}

async function store() {
  await client.store.putItem(["notes", "js"], "a", { n: 1 });
  found.store = {
    value: (await client.store.getItem(["notes", "js"], "a")).value,
    search: (await client.store.searchItems(["notes"], { filter: { n: 1 } })).items.length,
    namespaces: (await client.store.listNamespaces({ prefix: ["notes"] })).namespaces,
  };
  await client.store.deleteItem(["notes", "js"], "a");
  found.store.deleted = await client.store.getItem(["notes", "js"], "a");
}

for (const part of [assistants, threads, runs, streams, approvals, store]) await part();
console.log(JSON.stringify(found));

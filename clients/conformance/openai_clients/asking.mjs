// What OpenAI's client for Node asks.
import assert from "node:assert/strict";
import OpenAI, { toFile } from "openai";

const client = new OpenAI({ maxRetries: 0 });
const model = "all-MiniLM-L6-v2";
const input = ["Backups are kept for thirty days.", "The coffee machine is cleaned every Friday."];
const messages = [{ role: "user", content: "How long are backups kept?" }];
const stores = { vector_store_ids: [process.env.COLLECTION] };

const byDefault = await client.embeddings.create({ model, input });
const floats = await client.embeddings.create({ model, input, encoding_format: "float" });
assert.equal(byDefault.data.length, 2);
byDefault.data.forEach(({ embedding, index }) => {
  assert.equal(embedding.length, 384);
  embedding.forEach((number, place) => assert.ok(Math.abs(number - floats.data[index].embedding[place]) < 1e-6));
});
await assert.rejects(client.embeddings.create({ model, input: [[1, 2]] }), OpenAI.BadRequestError);

const names = [];
for await (const each of client.models.list()) names.push(each.id);
assert.deepEqual(names, ["rag", "chatty", model]);
assert.equal((await client.models.retrieve(model)).owned_by, "minilm");
await assert.rejects(client.models.retrieve("gpt/x y"), { code: "model_not_found", status: 404 });

const answer = await client.chat.completions.create({ model: "rag", messages, ...stores });
assert.equal(answer.choices[0].message.content, "So it is.");
assert.equal(answer.rag.sources[0].title, "Backups");

const parts = [];
for await (const part of await client.chat.completions.create({ model: "rag", messages, stream: true, ...stores })) parts.push(part);
assert.equal(parts.map((part) => part.choices[0].delta.content ?? "").join(""), "So it is.");
assert.ok(parts.at(-1).rag.sources.length);
const said = await client.chat.completions.stream({ model: "chatty", messages }).finalContent();
assert.equal(said, "So it is.");

const found = [];
for await (const each of client.vectorStores.search(process.env.COLLECTION, { query: messages[0].content })) found.push(each);
assert.deepEqual(found.map((each) => each.filename), ["backups.md"]);

// Files, vector stores, files of these, and batches.
const upload = (name, text) => toFile(Buffer.from(text), name);
const collected = async (pages) => {
  const all = [];
  for await (const each of pages) all.push(each);
  return all;
};
const kept = await client.files.create({ file: await upload("backups.md", input[0]), purpose: "assistants", expires_after: { anchor: "created_at", seconds: 3600 } });
assert.equal(kept.filename, "backups.md");
assert.equal(kept.expires_at, kept.created_at + 3600);
assert.deepEqual(await client.files.retrieve(kept.id), kept);
assert.equal(await (await client.files.content(kept.id)).text(), input[0]);
assert.equal((await client.files.waitForProcessing(kept.id)).status, "processed");
assert.deepEqual((await collected(client.files.list({ limit: 1 }))).map((each) => each.id), [kept.id]);

const store = await client.vectorStores.create({ name: "Node", metadata: { team: "ops" } });
assert.equal((await client.vectorStores.retrieve(store.id)).name, "Node");
assert.equal((await client.vectorStores.update(store.id, { name: "Other" })).metadata.team, "ops");
assert.ok((await collected(client.vectorStores.list({ limit: 1 }))).some((each) => each.id === store.id));
const done = await client.vectorStores.files.createAndPoll(store.id, { file_id: kept.id, attributes: { lang: "en" } });
assert.equal(done.status, "completed");
const sent = await client.vectorStores.files.uploadAndPoll(store.id, await upload("coffee.txt", input[1]));
assert.equal(sent.status, "completed");
assert.deepEqual((await collected(client.vectorStores.files.list(store.id, { limit: 1, order: "asc" }))).map((each) => each.id), [kept.id, sent.id]);
assert.deepEqual((await collected(client.vectorStores.files.content(kept.id, { vector_store_id: store.id }))).map((each) => each.text), [input[0]]);
const hits = await collected(client.vectorStores.search(store.id, { query: "backups", filters: { type: "eq", key: "lang", value: "en" } }));
assert.deepEqual(hits.map((each) => [each.file_id, each.filename, each.attributes]), [[kept.id, "backups.md", { lang: "en" }]]);
assert.deepEqual((await client.vectorStores.files.update(kept.id, { vector_store_id: store.id, attributes: { lang: "de" } })).attributes, { lang: "de" });
assert.equal((await client.vectorStores.files.retrieve(kept.id, { vector_store_id: store.id })).attributes.lang, "de");
const batch = await client.vectorStores.fileBatches.createAndPoll(store.id, { file_ids: [kept.id, sent.id] });
assert.deepEqual([batch.status, batch.file_counts.completed], ["completed", 2]);
assert.equal((await client.vectorStores.fileBatches.retrieve(batch.id, { vector_store_id: store.id })).id, batch.id);
assert.equal((await collected(client.vectorStores.fileBatches.listFiles(batch.id, { vector_store_id: store.id, limit: 1 }))).length, 2);
assert.equal((await client.vectorStores.fileBatches.cancel(batch.id, { vector_store_id: store.id })).status, "completed");
const both = await client.vectorStores.fileBatches.uploadAndPoll(store.id, { files: [await upload("x.md", "x"), await upload("y.md", "y")] });
assert.equal(both.file_counts.completed, 2);
assert.equal((await client.vectorStores.files.delete(kept.id, { vector_store_id: store.id })).deleted, true);
await assert.rejects(client.vectorStores.files.retrieve(kept.id, { vector_store_id: store.id }), OpenAI.NotFoundError);
for await (const each of client.files.list({ limit: 1 })) assert.equal((await client.files.delete(each.id)).deleted, true);
assert.deepEqual(await collected(client.vectorStores.files.list(store.id)), []);
assert.equal((await client.vectorStores.delete(store.id)).deleted, true);
await assert.rejects(client.vectorStores.retrieve(store.id), OpenAI.NotFoundError);

await assert.rejects(new OpenAI({ apiKey: "sk-nothing", maxRetries: 0 }).models.list(), OpenAI.AuthenticationError);
await assert.rejects(client.responses.create({ model: "rag", input: "x" }), { code: "route_not_found", status: 404 });

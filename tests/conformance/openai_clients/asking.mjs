// What OpenAI's client for Node asks.
import assert from "node:assert/strict";
import OpenAI from "openai";

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

await assert.rejects(new OpenAI({ apiKey: "sk-nothing", maxRetries: 0 }).models.list(), OpenAI.AuthenticationError);
await assert.rejects(client.responses.create({ model: "rag", input: "x" }), { code: "route_not_found", status: 404 });

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { RagWrapperError, type ChatEvent } from "../src/index.js";
import { clientOf, scriptedServer, type Act } from "./scripted-server.js";
import { KEY, SERVICE_URL, all, newClient, newCollection } from "./service.js";

test("the service says how it is, and who asks", async () => {
  const client = newClient();
  assert.equal((await client.health()).status, "healthy");
  assert.equal(await client.isReady(), true);
  assert.deepEqual((await client.me()).scopes, ["admin"]);
  const { url, server } = await scriptedServer();
  await new Promise((resolve) => server.close(resolve));
  assert.equal(await clientOf(url).client.isReady(), false);
});

test("a key is made, found, changed, rotated and revoked, and may do what it says", async () => {
  const { keys } = newClient();
  const name = `reader-${randomUUID()}`;
  const { id, key } = await keys.create({ name, scopes: ["read"], collections: ["team-*"] });
  const reader = newClient({ apiKey: key });
  assert.equal((await reader.me()).name, name);
  await assert.rejects(reader.collections.create({ name: "team-x" }), { code: "scope_missing", status: 403, details: { scope: "manage" } });
  assert((await keys.list()).keys.some((each) => each.id === id));
  assert.deepEqual((await keys.update(id, { scopes: ["write"] })).scopes, ["write"]);
  assert.equal((await keys.get(id)).name, name);
  const successor = await keys.rotate(id, { grace_seconds: 0 });
  assert.equal((await keys.revoke(successor.id)).status, "revoked");
  await assert.rejects(newClient({ apiKey: "rw_unknown" }).me(), { code: "key_unknown", status: 401 });
});

test("texts are ingested and found by questions", async () => {
  const client = newClient();
  const path = `${randomUUID()}.md`;
  const document = { source: "typescript", path, title: "Backups", text: "Backups run every night at two, and are kept for thirty days." };
  const { documentId } = await client.rag.ingest(document);
  assert.equal((await client.rag.ingest(document)).status, "unchanged");
  const found = await client.rag.search({ query: "how long are backups kept", filters: { source: "typescript" } });
  assert.equal(found.results[0]?.metadata.documentId, documentId);
  const search = await client.search({ query: "how long are backups kept", collections: ["rag-documents"], limit: 1 });
  assert.match(search.results[0]?.content ?? "", /thirty days/);
  assert.equal(search.receipt.oracles["semantic"]?.status, "ok");
  const context = await client.rag.retrieve({ query: "how long are backups kept", context_key: `ts:${path}` });
  assert(context.total_chunks >= 0);
  const paths = (await all(client.rag.list({ source: "typescript", limit: 1 }))).map((each) => each.path);
  assert(paths.includes(path));
  await client.rag.delete(documentId);
});

test("documents of one's own are put in order", async () => {
  const ranked = await newClient().rerank({ query: "backups", documents: [{ id: "a", text: "Trains." }, { id: "b", text: "Backups run at night." }] });
  assert.equal(ranked.reranked.length, 2);
});

test("files are uploaded from memory, from a disk or as a stream, and a job reads them", async () => {
  const client = newClient();
  const prefix = randomUUID();
  const markdown = "# Restores\n\nRestores are rehearsed every spring.\n";
  const sent = await client.files.upload(
    [
      { name: `${prefix}/größe.md`, content: markdown },
      { name: `${prefix}/b.txt`, content: Buffer.from("Trains run at night.") },
      { name: `${prefix}/c.exe`, content: new Blob(["MZ"]) },
    ],
    { tags: ["ops", "ts"], metadata: { team: "blue" } },
  );
  assert.deepEqual(sent.files.map((file) => file.status), ["queued", "queued", "refused"]);
  const states = (await all(client.jobs.follow(sent.job.id))).map((job) => job.status);
  assert.equal(states.at(-1), "done");
  async function* chunks(): AsyncGenerator<Uint8Array> {
    yield Buffer.from("# Tra");
    yield Buffer.from("ins\n\nTake the train, ö.\n");
  }
  const streamed = await client.files.upload({ name: `${prefix}/zug ö.md`, content: chunks() });
  const job = await client.jobs.wait(streamed.job.id);
  assert.deepEqual(job.files.map((file) => [file.name, file.status]), [[`${prefix}/zug ö.md`, "done"]]);
  const found = await all(client.files.list({ tag: "ts", limit: 1 }));
  const [first] = found.filter((file) => file.source === `${prefix}/größe.md`);
  assert(first);
  assert.deepEqual([first.tags, first.title], [["ops", "ts"], "Restores"]);
  const { chunks: read } = await client.files.get(first.id, { chunks: true });
  assert.match(read[0]?.text ?? "", /every spring/);
  await assert.rejects(all(client.files.original(first.id)), { code: "original_not_kept" });
  assert((await all(client.jobs.list({ limit: 1 }))).some((each) => each.id === sent.job.id));
  for (const file of (await all(client.files.list())).filter((each) => each.source.startsWith(prefix))) {
    assert.equal((await client.files.delete(file.id)).status, "deleted");
  }
});

test("an answer of the chat model comes whole, or piece by piece", async () => {
  const { chat } = newClient();
  const answer = await chat.send({ message: "Is it so?" });
  assert.equal(answer.data.message, "So it is.");
  const events: ChatEvent[] = await all(chat.stream({ message: "Is it so?", conversationId: answer.data.conversationId }));
  const last = events.at(-1);
  assert(last?.done);
  assert.equal(last.data.message, "So it is.");
  assert.equal(events.map((event) => event.delta ?? "").join(""), "So it is.");
  assert(events.length > 2);
  assert.equal((await chat.conversation(answer.data.conversationId)).messages.length, 4);
  await chat.forget(answer.data.conversationId);
  await assert.rejects(chat.conversation(answer.data.conversationId), { code: "conversation_not_found" });
});

test("an error in the middle of an answer is thrown, and so is an early end", async () => {
  const events = (...lines: string[]): Act => (_, response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream", "X-Request-ID": "r-7" });
    response.end(lines.map((line) => `data: ${line}\r\n\r\n`).join(""));
  };
  const broken = await scriptedServer(events('{"delta":"So "}', '{"error":"Gone","message":"The model broke off","code":"chat_unavailable"}'));
  const seen: unknown[] = [];
  const reading = async (url: string): Promise<void> => {
    for await (const event of clientOf(url).client.chat.stream({ message: "x" })) seen.push(event);
  };
  await assert.rejects(reading(broken.url), (error) => {
    assert(error instanceof RagWrapperError);
    assert.deepEqual([error.code, error.message, error.requestId], ["chat_unavailable", "The model broke off", "r-7"]);
    return true;
  });
  assert.deepEqual(seen, [{ delta: "So " }]);
  const short = await scriptedServer(events('{"delta":"So "}'));
  await assert.rejects(reading(short.url), { code: "cut_short" });
});

test("connections are declared, tried, judged and removed", async () => {
  const { connections } = newClient();
  const id = `other-${randomUUID().slice(0, 8)}`;
  const config = { url: SERVICE_URL, api_key: "${RAG_OTHER_API_KEY}" };
  const candidate = { type: "rag", provider: "chromadb-wrapper", config } as const;
  assert.equal((await connections.validate(candidate)).valid, true);
  assert.equal((await connections.create({ id, ...candidate })).id, id);
  assert.equal((await connections.get(id)).provider, "chromadb-wrapper");
  assert((await all(connections.list({ limit: 1 }))).some((each) => each.id === id));
  const outcome = (await all(connections.test(candidate))).at(-1);
  assert(outcome?.done);
  assert.equal(outcome.success, false);
  await connections.update(id, { ...candidate, display_name: "Another" });
  assert.equal((await connections.get(id)).display_name, "Another");
  assert(["unhealthy", "degraded"].includes((await connections.health(id)).status));
  assert((await connections.healthOfAll()).connections.length > 1);
  assert((await connections.collections("local")).collections.length >= 0);
  assert((await connections.providers()).embedding.length > 0);
  await connections.delete(id);
  await assert.rejects(connections.get(id), { code: "connection_not_found" });
});

test("tools are listed and called, and a conversation finds its collection", async () => {
  const client = newClient({ apiKey: () => KEY });
  const collection = await newCollection();
  assert((await client.tools()).tools.length > 0);
  const health = await client.callTool("rag_context_health", {});
  assert.equal(typeof health, "object");
  const collected = await client.collect({
    userMessage: "How long are backups kept?",
    topic: "backups",
    currentTopic: "",
    selectedCollections: [{ service: "local", name: collection.name }],
  });
  assert.equal(collected.result, "none");
});

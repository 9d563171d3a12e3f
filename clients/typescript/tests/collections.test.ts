import assert from "node:assert/strict";
import { test } from "node:test";
import { RagWrapperError, decodeEmbeddings, type NewDocument } from "../src/index.js";
import { KEY, SERVICE_URL, all, newClient, newCollection } from "./service.js";

const DOCUMENTS: NewDocument[] = [
  { id: "b-0", text: "Backups run every night.", embedding: [0.9, 0.1, 0], metadata: { source: "backups.md", place: 0, year: 2024 } },
  { id: "b-1", text: "Restores are tried once a month.", embedding: new Float32Array([0.7, 0.3, 0.1]), metadata: { source: "backups.md", place: 1, year: 2025 } },
  { id: "t-0", text: "Take the train.", embedding: "zczMPc3MTD7NzMw9", metadata: { source: "travel.md", place: 0, year: 2025 } },
];

async function filled() {
  const collection = await newCollection();
  const added = await collection.add(DOCUMENTS);
  assert.deepEqual([added.created, added.ids], [3, ["b-0", "b-1", "t-0"]]);
  return collection;
}

test("a collection is created, described, changed and deleted", async () => {
  const collection = await newCollection();
  assert.equal((await collection.info()).count, 0);
  assert.deepEqual((await collection.replaceMetadata({ a: 1, b: [2] })).metadata, { a: 1, b: [2] });
  assert.deepEqual((await collection.mergeMetadata({ a: null })).metadata, { b: [2] });
  const names = (await all(newClient().collections.list({ prefix: collection.name }))).map((each) => each.name);
  assert.deepEqual(names, [collection.name]);
  await collection.delete();
  await assert.rejects(collection.info(), { code: "collection_not_found", status: 404 });
});

test("a collection that is there is got, and one that is not is created", async () => {
  const { collections } = newClient();
  const collection = await newCollection();
  const metadata = { kept: true };
  assert.equal((await collections.getOrCreate({ name: collection.name, metadata })).status, "exists");
  assert.deepEqual((await collection.info()).metadata, {});
  await collection.delete();
  assert.equal((await collections.getOrCreate({ name: collection.name, metadata })).status, "created");
  await assert.rejects(collections.create({ name: collection.name }), { code: "collection_exists", status: 409 });
});

test("a collection is renamed and copied, and aliases stand for collections", async () => {
  const client = newClient();
  const [collection, other, alias] = [await filled(), await newCollection(), await newCollection()];
  const copy = await newCollection();
  for (const each of [copy, alias]) await each.delete();
  assert.deepEqual([(await collection.copy(copy.name)).count, await copy.count()], [3, 3]);
  await assert.rejects(collection.copy(other.name), { code: "collection_exists", status: 409 });

  assert.equal((await client.aliases.put(alias.name, copy.name)).status, "created");
  assert.equal((await alias.get("t-0")).text, "Take the train.");
  const { status, previous } = await client.aliases.put(alias.name, other.name);
  assert.deepEqual([status, previous], ["switched", copy.name]);
  assert.equal((await client.aliases.get(alias.name)).collection, other.name);
  assert.equal(await alias.count(), 0);
  assert.deepEqual((await client.aliases.list({ collection: other.name })).aliases, [{ alias: alias.name, collection: other.name }]);
  assert.equal((await client.aliases.delete(alias.name)).collection, other.name);
  await assert.rejects(client.aliases.get(alias.name), { code: "alias_not_found", status: 404 });

  await copy.delete();
  const renamed = await collection.rename(copy.name);
  assert.deepEqual([renamed.name, renamed.previous_name, await copy.count()], [copy.name, collection.name, 3]);
  await assert.rejects(collection.info(), { code: "collection_not_found" });
});

test("embeddings arrive the same, however they were given, and come back as float32", async () => {
  const collection = await filled();
  const page = decodeEmbeddings(await collection.page({ include: ["embedding"] }));
  assert.deepEqual(
    page.documents.map((document) => document.embedding),
    [new Float32Array([0.9, 0.1, 0]), new Float32Array([0.7, 0.3, 0.1]), new Float32Array([0.1, 0.2, 0.1])],
  );
});

test("documents are found by filter, vector, words and group", async () => {
  const collection = await filled();
  const where = { source: "backups.md", year: { $gte: 2025 } };
  assert.deepEqual((await all(collection.list({ where }))).map((each) => each.id), ["b-1"]);
  assert.equal(await collection.count({ $or: [{ source: "travel.md" }, { place: 1 }] }), 2);
  assert.equal(await collection.count({ $id: { $ne: "t-0" }, $text: { $regex: "^Take|month" } }), 1);
  const nearest = await collection.query({ query_embedding: new Float32Array([1, 0, 0]), top_k: 1, where: { year: 2024 } });
  assert.equal(nearest.results[0]?.id, "b-0");
  const near = await collection.query({ ids: ["b-0"], top_k: 2 });
  assert.deepEqual(near.results.map((each) => each.id), ["b-1", "t-0"]);
  const gathered = await collection.gather({ ids: ["b-1"], by: "source", order_by: ["place"] });
  assert.deepEqual(gathered.groups[0]?.documents.map((each) => [each.id, each.hit]), [["b-0", false], ["b-1", true]]);
  assert.equal((await collection.textSearch({ query: "restores" })).results[0]?.id, "b-1");
  const { facets } = await collection.facets(["source"], { where: { year: 2025 } });
  assert.equal(facets["source"]?.distinct, 2);
  assert.deepEqual((await collection.values("source")).values, ["backups.md", "travel.md"]);
  assert.equal((await collection.projection({ field: "source" })).total, 3);
  assert.equal((await collection.index()).documents, 3);
});

test("several questions are asked at once, each with an answer of its own", async () => {
  const collection = await filled();
  const answers = await collection.queryMany([
    { query_embedding: [0.1, 0.2, 0.1], top_k: 1 },
    { query_embedding: new Float32Array([1, 0, 0]), top_k: 1, query: "backups?" },
    { ids: ["t-0"], where: { $id: { $ne: "b-1" } }, include: ["embedding"] },
  ]);
  assert.deepEqual(answers.map((each) => each.results.map((result) => result.id)), [["t-0"], ["b-0"], ["b-0"]]);
  assert.deepEqual(answers.map((each) => each.query), [null, "backups?", null]);
  const [, , near] = decodeEmbeddings(answers);
  assert.deepEqual(near?.results[0]?.embedding, new Float32Array([0.9, 0.1, 0]));
  await assert.rejects(collection.queryMany([{ ids: ["b-0"] }, { ids: ["gone"] }]), { code: "document_not_found" });
});

test("one document is read, changed and removed", async () => {
  const collection = await filled();
  await collection.update("t-0", { metadata: { year: null }, embedding: new Float32Array([0, 0, 1]) });
  const document = await collection.get("t-0", { include: "embedding" });
  assert.deepEqual([document.metadata, document.embedding], [{ source: "travel.md", place: 0 }, [0, 0, 1]]);
  assert.equal((await collection.remove({ ids: ["t-0", "gone"] })).count, 1);
  await assert.rejects(collection.get("t-0"), { code: "document_not_found", status: 404 });
  await assert.rejects(collection.remove({ where: { year: { $exists: true } } }), { code: "matches_everything" });
  assert.equal((await collection.remove({ where: { year: { $exists: true } } }, { all: true })).count, 2);
});

test("one document is put whole, with where it is from, and deleted", async () => {
  const collection = await filled();
  const document = { text: "Take the bus.", embedding: new Float32Array([0, 0, 1]), uri: "https://example.org/bus" };
  assert.equal((await collection.put("t-0", document)).status, "replaced");
  const stored = { id: "t-0", text: document.text, metadata: {}, uri: document.uri };
  assert.deepEqual(await collection.get("t-0"), stored);
  assert.equal((await collection.query({ query_embedding: [0, 0, 1], top_k: 1 })).results[0]?.uri, document.uri);
  const exported = (await all(collection.export())).find((each) => each.id === "t-0");
  assert.equal(exported?.uri, document.uri);
  assert.equal((await collection.update("t-0", { metadata: { year: 2026 } })).uri, document.uri);
  await collection.put("t-0", { text: "Walk.", embedding: [0, 0, 1] });
  assert(!("uri" in (await collection.get("t-0"))));
  assert.equal((await collection.put("new", document)).status, "created");
  assert.equal((await collection.removeOne("new")).count, 1);
  await assert.rejects(collection.removeOne("new"), { code: "document_not_found", status: 404 });
});

test("the metadata of all documents that match are changed", async () => {
  const collection = await filled();
  const changed = await collection.updateMany({ where: { source: "backups.md" }, metadata: { seen: true, place: null } });
  assert.deepEqual([changed.count, changed.updated], [2, 2]);
  assert.deepEqual((await collection.get("b-1")).metadata, { source: "backups.md", year: 2025, seen: true });
  const again = await collection.updateMany({ ids: ["b-1", "t-0"], metadata: { seen: true } });
  assert.deepEqual([again.updated, again.unchanged], [1, 1]);
});

test("the chunks of a source are swapped", async () => {
  const collection = await filled();
  const [first] = DOCUMENTS;
  assert(first);
  const swapped = await collection.add([first], { replace_where: { source: "backups.md" } });
  assert.deepEqual([swapped.unchanged, swapped.deleted], [1, 1]);
  await assert.rejects(collection.add([first], { on_conflict: "error" }), { code: "document_exists", status: 409 });
  assert.equal((await collection.empty()).count_deleted, 2);
});

test("vectors of another model than the collection's are refused", async () => {
  const collection = await newCollection();
  await collection.replaceMetadata({ embedding_model: "newer" });
  const document = { id: "a", text: "A", embedding: [1, 0] };
  await collection.add([document], { embedding_model: "newer" });
  const older = { embedding_model: "older" };
  const refused = { code: "embedding_model_differs", status: 409 };
  await assert.rejects(collection.add([document], older), refused);
  await assert.rejects(collection.put("a", { text: "A", embedding: [0, 1] }, older), refused);
  await assert.rejects(collection.update("a", { embedding: [0, 1] }, older), refused);
  await assert.rejects(collection.import([document], older), refused);
});

test("ids that are routes or steps of a path are ids", async () => {
  const collection = await newCollection();
  const ids = ["count", "search", "all", ".", "..", "a/b", "ä ?#%"];
  await collection.add(ids.map((id) => ({ id, text: `The one of ${id}`, embedding: [1, 0] })));
  for (const id of ids) assert.equal((await collection.get(id)).text, `The one of ${id}`);
  await assert.rejects(collection.get("gone/"), { code: "document_not_found" });
  // These would be the collection itself, all collections, and all documents.
  for (const id of [".", "..", "", "count", "search", "all"]) {
    await assert.rejects(collection.update(id, { text: "no" }), { code: "invalid_path" });
    await assert.rejects(collection.put(id, { text: "no", embedding: [0, 1] }), { code: "invalid_path" });
    await assert.rejects(collection.removeOne(id), { code: "invalid_path" });
  }
  assert.equal(await collection.count(), ids.length);
});

test("pages are gone through by cursor, also while what was read is deleted", async () => {
  const collection = await newCollection();
  await collection.add(Array.from({ length: 25 }, (_, place) => ({ id: `d-${place}`, text: "x", embedding: [1, place] })));
  const sizes = (await all(collection.pages({ limit: 10 }))).map((page) => page.documents.length);
  assert.deepEqual(sizes, [10, 10, 5]);
  const found: string[] = [];
  for await (const document of collection.list({ limit: 10 })) {
    found.push(document.id);
    await collection.remove({ ids: [document.id] }, { all: true });
  }
  assert.equal(found.length, 25);
});

test("what has not changed is not answered, and what has is not overwritten", async () => {
  const client = newClient();
  const collection = await filled();
  const path = { path: { name: collection.name } };
  const first = await client.request("GET", "/collections/{name}", path);
  assert.equal(first.status, 200);
  assert(first.etag !== undefined && first.requestId !== undefined);
  assert.equal(await client.getIfChanged(first.etag, "/collections/{name}", path), undefined);
  await collection.update("t-0", { text: "Take the bus." }, { ifMatch: first.etag });
  const second = await client.getIfChanged(first.etag, "/collections/{name}", path);
  assert.equal(second?.body.revision, first.body.revision + 1);
  await assert.rejects(collection.update("t-0", { text: "Walk." }, { ifMatch: first.etag }), (error) => {
    assert(error instanceof RagWrapperError);
    assert.deepEqual([error.code, error.status], ["precondition_failed", 412]);
    assert.equal(error.details["revision"], second?.body.revision);
    return true;
  });
});

test("a write with a key of one's own is done once", async () => {
  const client = newClient();
  const collection = await newCollection();
  const write = () =>
    client.request("POST", "/collections/{name}/documents", {
      path: { name: collection.name },
      body: { documents: [{ text: "Once.", embedding: new Float32Array([1, 2]) }] },
      idempotencyKey: `once-${collection.name}`,
    });
  const [first, second] = [await write(), await write()];
  assert.deepEqual([first.isReplay, second.isReplay, second.body], [false, true, first.body]);
  assert.equal(await collection.count(), 1);
});

test("an error says what is wrong and where", async () => {
  const collection = await filled();
  const bad = collection.add([...DOCUMENTS, { id: "x", text: "Short.", embedding: [1, 2] }]);
  await assert.rejects(bad, (error) => {
    assert(error instanceof RagWrapperError && error instanceof Error);
    assert.deepEqual([error.code, error.status, error.retryAfterMs], ["dimension_mismatch", 400, undefined]);
    assert.deepEqual(error.details, { index: 3, field: "embedding", expected: 3, actual: 2 });
    assert.match(error.requestId ?? "", /./);
    return true;
  });
});

test("a client of one database has the collections of that one", async () => {
  const tenant = `t${crypto.randomUUID().replaceAll("-", "").slice(0, 12)}`;
  const headers = { Authorization: `Bearer ${KEY}`, "Content-Type": "application/json" };
  for (const [path, name] of [["", tenant], [`/${tenant}/databases`, "main"]]) {
    const made = await fetch(`${SERVICE_URL}/api/v2/tenants${path}`, { method: "POST", headers, body: JSON.stringify({ name }) });
    assert.equal(made.status, 200);
  }
  const own = newClient({ database: `${tenant}/main` });
  const collection = await newCollection(own);
  await collection.add(DOCUMENTS);
  assert.equal(await collection.count(), 3);
  assert.deepEqual((await all(own.collections.list())).map((each) => each.name), [collection.name]);
  await assert.rejects(newClient().collection(collection.name).info(), { code: "collection_not_found" });
  await assert.rejects(own.search({ query: "words" }), { code: "unknown_field", status: 400 });
});

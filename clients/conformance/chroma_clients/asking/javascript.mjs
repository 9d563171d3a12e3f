// Chroma's client for JavaScript, through its whole interface.
import { AdminClient, ChromaClient, K, Knn, Search } from "chromadb";
import { host, key, port, refused, step } from "./steps.mjs";

const headers = { Authorization: `Bearer ${key}` };
const client = new ChromaClient({ host, port, headers });
const embeddingFunction = null;
const name = "javascript";

await step("heartbeat", async () => (await client.heartbeat()) > 0);
await step("version", async () => /^\d+\.\d+\.\d+$/.test(await client.version()));
await step("identity", async () => {
  const { tenant, databases } = await client.getUserIdentity();
  return { tenant, hasDatabase: databases.includes("default_database") };
});
await step("most records of a batch", async () => (await client.getMaxBatchSize()) > 1000);
await step("base64", () => client.supportsBase64Encoding());

await step("create", async () => {
  const made = await client.createCollection({
    name,
    embeddingFunction,
    metadata: { a: 1 },
    configuration: { hnsw: { space: "cosine", ef_search: 50 } },
  });
  return described(made);
});
await refused("create again", () => client.createCollection({ name, embeddingFunction }));
await refused("create, badly named", () => client.createCollection({ name: "x", embeddingFunction }));
await step("get or create", async () =>
  described(await client.getOrCreateCollection({ name, embeddingFunction, metadata: { b: 2 } })),
);
await step("get by name", async () => described(await client.getCollection({ name, embeddingFunction })));
await refused("get what is not there", () => client.getCollection({ name: "nowhere", embeddingFunction }));
await step("list", async () => (await client.listCollections({ limit: 100, offset: 0 })).map(named).filter(mine));
await step("count collections", async () => (await client.countCollections()) > 0);

const collection = await client.getCollection({ name, embeddingFunction });
const include = ["documents", "metadatas", "embeddings", "uris"];
await step("count nothing", () => collection.count());
await step("add", () =>
  collection.add({
    ids: ["a", "b", "c"],
    embeddings: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    documents: ["the fox", "the dog", "a cat"],
    metadatas: [{ n: 1, tags: ["x", "y"] }, { n: 2, f: 0.5 }, { n: 3, b: true }],
    uris: ["u:a", "u:b", "u:c"],
  }),
);
await step("add what is there", () => collection.add({ ids: ["a"], embeddings: [[9, 9, 9]], documents: ["changed"] }));
await step("add nothing but vectors", () => collection.add({ ids: ["d"], embeddings: [[1, 1, 0]] }));
await refused("add another dimension", () => collection.add({ ids: ["z"], embeddings: [[1, 2]] }));
await step("count", () => collection.count());
await step("get", () => collection.get({ include }));
await step("get ids", () => collection.get({ ids: ["c", "a", "none"] }));
await step("get a page", () => collection.get({ limit: 1, offset: 1, include: [] }));
for (const where of [
  { n: { $gte: 2 } },
  { n: { $ne: 2 } },
  { n: { $in: [1, 3] } },
  { n: { $nin: [1, 3] } },
  { b: true },
  { f: { $lt: 1 } },
  { tags: { $contains: "x" } },
  { $and: [{ n: { $gt: 1 } }, { n: { $lt: 3 } }] },
  { $or: [{ n: 1 }, { b: true }] },
]) {
  await step(`where ${JSON.stringify(where)}`, async () => (await collection.get({ where })).ids);
}
for (const whereDocument of [
  { $contains: "the" },
  { $not_contains: "the" },
  { $regex: "^the (fox|dog)$" },
  { $not_regex: "cat" },
  { $and: [{ $contains: "the" }, { $contains: "fox" }] },
]) {
  await step(`text ${JSON.stringify(whereDocument)}`, async () => (await collection.get({ whereDocument })).ids);
}
await refused("a where that means nothing", () => collection.get({ where: { n: { $almost: 2 } } }));
await step("query", () => collection.query({ queryEmbeddings: [[1, 0.1, 0]], nResults: 2 }));
await step("query several", () =>
  collection.query({ queryEmbeddings: [[1, 0, 0.1], [0, 0.1, 1]], nResults: 1, include: [...include, "distances"] }),
);
await step("query with a filter", async () => {
  const asked = { queryEmbeddings: [[1, 0.1, 0]], where: { n: { $gt: 1 } }, whereDocument: { $contains: "a" } };
  return (await collection.query(asked)).ids;
});
await step("query among ids", async () =>
  (await collection.query({ queryEmbeddings: [[1, 0.1, 0]], nResults: 2, ids: ["b", "c"] })).ids,
);
await refused("query in another dimension", () => collection.query({ queryEmbeddings: [[1, 0]] }));
await step("rows of a query", async () =>
  (await collection.query({ queryEmbeddings: [[0, 0.2, 1]], nResults: 2 })).rows(),
);
await step("peek", () => collection.peek({ limit: 2 }));
await step("upsert", () =>
  collection.upsert({
    ids: ["a", "e"],
    embeddings: [[1, 0, 0], [0, 1, 1]],
    metadatas: [{ m: true }, { n: 4 }],
    documents: ["fox two", "new"],
  }),
);
await step("update", () => collection.update({ ids: ["b", "none"], metadatas: [{ n: 20, f: null }, { n: 0 }] }));
await step("what was written", () => collection.get({ include }));
await step("delete where", () => collection.delete({ where: { n: 20 } }));
await step("delete ids", () => collection.delete({ ids: ["c"] }));
await step("delete an id that is not there", () => collection.delete({ ids: ["none"] }));
await step("delete by text", () => collection.delete({ whereDocument: { $contains: "new" } }));
await step("what is left", async () => (await collection.get()).ids);
await refused("indexing status", () => collection.getIndexingStatus());
await refused("fork", () => collection.fork({ name: "forked" }));
await refused("search", () => collection.search(new Search().rank(Knn({ query: [1, 0, 0] })).select(K.ID).limit(2)));

await step("rename", () => collection.modify({ name: "renamed", metadata: { c: 3 } }));
await step("change the configuration", () => collection.modify({ configuration: { hnsw: { ef_search: 77 } } }));
await step("after the rename", async () => {
  const renamed = await client.getCollection({ name: "renamed", embeddingFunction });
  return { ...described(renamed), same: renamed.id === collection.id, count: await renamed.count() };
});
await refused("the old name", () => client.getCollection({ name, embeddingFunction }));
await step("delete the collection", () => client.deleteCollection({ name: "renamed" }));
await refused("delete it again", () => client.deleteCollection({ name: "renamed" }));
await refused("ask one that was deleted", () => collection.count());

const admin = new AdminClient({ host, port, headers });
await step("a tenant and its database", async () => {
  await admin.createTenant({ name: "acme" });
  await admin.createDatabase({ tenant: "acme", name: "letters" });
  const { name, tenant } = await admin.getDatabase({ tenant: "acme", name: "letters" });
  return [await admin.getTenant({ name: "acme" }), name, tenant];
});
await step("databases", async () => (await admin.listDatabases({ tenant: "acme" })).map(named));
await step("a collection there", async () => {
  const other = new ChromaClient({ host, port, headers, tenant: "acme", database: "letters" });
  const made = await other.createCollection({ name: "letters", embeddingFunction });
  await made.add({ ids: ["a"], embeddings: [[1, 2]] });
  return [(await other.listCollections()).map(named), (await client.listCollections()).map(named).includes("letters")];
});
await step("delete the database", () => admin.deleteDatabase({ tenant: "acme", name: "letters" }));
await refused("reset", () => client.reset());

function described(found) {
  return { name: found.name, metadata: found.metadata, configuration: found.configuration };
}

function named(each) {
  return each.name;
}

function mine(each) {
  return each === name;
}

// What LangChain's store for Chroma in JavaScript asks.
import { Chroma } from "@langchain/community/vectorstores/chroma";
import { Document } from "@langchain/core/documents";
import { Plane } from "./embeddings.mjs";
import { host, key, port, refused, step } from "./steps.mjs";

const clientParams = { host, port, ssl: false, headers: { Authorization: `Bearer ${key}` } };
const settings = { collectionName: "langchain-js", clientParams, collectionMetadata: { "hnsw:space": "cosine" } };
const documents = [
  new Document({ pageContent: "1 0", metadata: { n: 1, loc: { lines: { from: 1, to: 3 } } } }),
  new Document({ pageContent: "1 0.2", metadata: { n: 2 } }),
  new Document({ pageContent: "0 1", metadata: { n: 3 } }),
];

const store = new Chroma(new Plane(), settings);
await step("add documents", () => store.addDocuments(documents, { ids: ["a", "b", "c"] }));
await step("search", () => store.similaritySearch("1 0", 2));
await step("search with scores", () => store.similaritySearchWithScore("1 0.1", 5));
await step("search with a filter", () => store.similaritySearch("1 0", 5, { n: { $gt: 1 } }));
await step("as a retriever", () => store.asRetriever({ k: 1, filter: { n: 3 } }).invoke("1 0"));
await step("add again", () =>
  store.addDocuments([new Document({ pageContent: "0 2", metadata: { n: 4 } })], { ids: ["a"] }),
);
await step("search what was added again", () => store.similaritySearch("0 1", 5));
await refused("add without metadata", () => store.addDocuments([new Document({ pageContent: "1 2" })]));
await step("delete ids", () => store.delete({ ids: ["a"] }));
await step("delete by filter", () => store.delete({ filter: { n: 2 } }));
await step("what is left", () => store.similaritySearch("0 1", 5));
await step("an existing collection", async () =>
  (await Chroma.fromExistingCollection(new Plane(), settings)).similaritySearch("0 1", 1),
);
await step("from texts, by address and token", async () => {
  const how = { collectionName: "langchain-js-2", url: `http://${host}:${port}`, chromaCloudAPIKey: key };
  const made = await Chroma.fromTexts(["4 4", "5 1"], [{ n: 4 }, { n: 5 }], new Plane(), how);
  return (await made.similaritySearch("4 4", 1)).map((each) => each.pageContent);
});
await refused("another dimension", () => store.addVectors([[1, 2, 3]], [documents[0]], { ids: ["z"] }));

// What Flowise's node for Chroma asks: the node's own code, out of its package as it is, with stand-ins for the rest of
// Flowise.
import { createRequire, Module } from "node:module";
import { Plane } from "./embeddings.mjs";
import { host, key, port, refused, step } from "./steps.mjs";

const standIns = {
  "../../../src/utils": {
    getBaseClasses: () => [],
    getCredentialData: async (_, options) => options.credential,
    getCredentialParam: (name, credential) => credential[name],
    parseJsonBody: JSON.parse,
  },
  "../../../src/indexing": {},
};
const load = Module._load;
Module._load = (name, ...rest) => standIns[name] ?? load(name, ...rest);
const required = createRequire(import.meta.url);
const { nodeClass } = required("./node_modules/flowise-components/dist/nodes/vectorstores/Chroma/Chroma.js");

const node = new nodeClass();
const credential = { chromaApiKey: key };
const inputs = { collectionName: "flowise", chromaURL: `http://${host}:${port}`, embeddings: new Plane() };
const document = [
  { pageContent: "1 0", metadata: { n: 1, tags: ["x"], gone: null, loc: { lines: { from: 1, to: 2 } } } },
  [{ pageContent: "0 1", metadata: { n: 2 } }],
  { pageContent: "", metadata: {} },
];

async function retrieved(text, more, output = "retriever") {
  const made = await node.init({ inputs: { ...inputs, ...more }, outputs: { output } }, "", { credential });
  return output === "retriever" ? made.invoke(text) : made.similaritySearchWithScore(text, made.k);
}
const withoutIds = (found) => found.map(({ pageContent, metadata }) => ({ pageContent, metadata }));

await step("upsert", async () =>
  (await node.vectorStoreMethods.upsert({ inputs: { ...inputs, document } }, { credential })).numAdded,
);
await step("retrieve", async () => withoutIds(await retrieved("1 0", { topK: "1" })));
await step("retrieve with a filter", async () => withoutIds(await retrieved("1 0", { chromaMetadataFilter: '{"n": 2}' })));
await step("as a store", async () => {
  const found = await retrieved("1 0", { topK: "5" }, "vectorStore");
  return found.map(([{ pageContent }, score]) => [pageContent, score]);
});
await step("delete", async () => {
  const [{ id }] = await retrieved("1 0", { topK: "1" });
  await node.vectorStoreMethods.delete({ inputs }, [id], { credential });
  return withoutIds(await retrieved("1 0", {}));
});
await refused("without a credential", () => node.init({ inputs, outputs: {} }, "", { credential: {} }).then(() => true));

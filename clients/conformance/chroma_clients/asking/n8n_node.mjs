// What n8n's node for Chroma asks: the node's own code, out of its package as it is, with stand-ins for the rest of n8n.
import { createRequire, Module } from "node:module";
import { Document } from "@langchain/core/documents";
import { Plane } from "./embeddings.mjs";
import { host, key, port, refused, step } from "./steps.mjs";

const standIns = {
  "n8n-workflow": {
    OperationalError: class OperationalError extends Error {},
    NodeApiError: class NodeApiError extends Error {
      constructor(_, { message }) {
        super(message);
      }
    },
    NodeOperationError: class NodeOperationError extends Error {
      constructor(_, message) {
        super(message);
      }
    },
  },
  "@n8n/ai-utilities": {
    metadataFilterField: {},
    createVectorStoreNode: (parts) =>
      class {
        static parts = parts;
      },
  },
};
const load = Module._load;
Module._load = (name, ...rest) => standIns[name] ?? load(name, ...rest);
const required = createRequire(import.meta.url);
const nodes = "@n8n/n8n-nodes-langchain/dist";
const { parts } = required(`./node_modules/${nodes}/nodes/vector_store/VectorStoreChromaDB/VectorStoreChromaDB.node.js`)
  .VectorStoreChromaDB;
const { ChromaSelfHostedApi } = required(`./node_modules/${nodes}/credentials/ChromaSelfHostedApi.credentials.js`);

/** What n8n gives the node: a credential, and the fields of its form. */
function context(credential, options = {}) {
  const fields = { authentication: "chromaSelfHostedApi", chromaCollection: "n8n", options };
  return {
    getCredentials: async () => ({ baseUrl: `http://${host}:${port}`, ...credential }),
    getNodeParameter: (name) => fields[name],
    getNode: () => ({ credentials: { chromaSelfHostedApi: {} } }),
    logger: { info() {} },
  };
}

const documents = [
  new Document({ pageContent: "1 0", metadata: { n: 1, source: "blob", loc: { lines: { from: 1, to: 2 } } } }),
  new Document({ pageContent: "0 1", metadata: { n: 2 } }),
];
const { test } = new ChromaSelfHostedApi();
await step("the credential's test", async () => (await fetch(`http://${host}:${port}${test.request.url}`)).status);
for (const credential of [
  { authentication: "apiKey", apiKey: key },
  { authentication: "token", token: key },
]) {
  const { authentication } = credential;
  const list = () => parts.methods.listSearch.chromaCollectionsSearch.call(context(credential));
  const found = async (text, filter) => {
    const store = await parts.getVectorStoreClient(context(credential), filter, new Plane(), 0);
    return (await store.similaritySearchVectorWithScore(await new Plane().embedQuery(text), 4, filter)).map(
      ([{ pageContent, metadata }, score]) => ({ pageContent, metadata, score }),
    );
  };
  const insert = (how, inserted = documents) =>
    parts.populateVectorStore(context(credential, how), new Plane(), inserted, 0);

  await step(`${authentication}: insert`, () => insert({ clearCollection: true }));
  await step(`${authentication}: insert more`, () => insert({}, [new Document({ pageContent: "5 5", metadata: { n: 5 } })]));
  await step(`${authentication}: list`, async () => (await list()).results.filter((each) => each.name === "n8n"));
  await step(`${authentication}: search`, () => found("1 0"));
  await step(`${authentication}: search with a filter`, () => found("1 0", { n: 2 }));
  await step(`${authentication}: clear and insert`, () => insert({ clearCollection: true }));
  await step(`${authentication}: search what was inserted`, () => found("0 1"));
}
await refused("a wrong key", () =>
  parts.methods.listSearch.chromaCollectionsSearch.call(context({ authentication: "apiKey", apiKey: "rw_wrong" })),
);

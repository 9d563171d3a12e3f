import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeEmbedding, decodeEmbeddings, encodeEmbedding } from "../src/index.js";

test("a vector is base64 of little-endian float32, whatever it is a part of", () => {
  const longer = new Float32Array([9, 0.1, 0.2, 0.1]);
  assert.equal(encodeEmbedding(longer.subarray(1)), "zczMPc3MTD7NzMw9");
  assert.equal(encodeEmbedding([0.1, 0.2, 0.1]), "zczMPc3MTD7NzMw9");
  assert.equal(encodeEmbedding("zczMPc3MTD7NzMw9"), "zczMPc3MTD7NzMw9");
  for (const embedding of ["zczMPc3MTD7NzMw9", [0.1, 0.2, 0.1]]) {
    assert.deepEqual(decodeEmbedding(embedding), new Float32Array([0.1, 0.2, 0.1]));
  }
});

test("long vectors come back as they went", () => {
  const vector = Float32Array.from({ length: 40_000 }, (_, place) => Math.fround(place / 7));
  assert.deepEqual(decodeEmbedding(encodeEmbedding(vector)), vector);
});

test("embeddings of documents are decoded, and nothing in metadata is", () => {
  const document = { id: "a", metadata: { embedding: [1], documents: [{ embedding: [2] }] }, embedding: [0.5] };
  const answer = { documents: [document], groups: [{ key: "k", documents: [document] }], total: 1 };
  const decoded = decodeEmbeddings(answer);
  for (const found of [decoded.documents[0], decoded.groups[0]?.documents[0], decodeEmbeddings(document)]) {
    assert.deepEqual(found?.embedding, new Float32Array([0.5]));
    assert.deepEqual(found?.metadata, document.metadata);
  }
});

test("without Buffer, as in browsers, it is the same", async () => {
  const { Buffer } = globalThis;
  try {
    Reflect.deleteProperty(globalThis, "Buffer");
    const alone = (await import(`../src/embeddings.js?${"alone"}`)) as typeof import("../src/embeddings.js");
    const vector = Float32Array.from({ length: 20_000 }, (_, place) => place / 3);
    assert.equal(alone.encodeEmbedding([0.1, 0.2, 0.1]), "zczMPc3MTD7NzMw9");
    assert.deepEqual(alone.decodeEmbedding(alone.encodeEmbedding(vector)), vector);
  } finally {
    globalThis.Buffer = Buffer;
  }
});

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { RagWrapperError, decodeEmbeddings, type NewDocument, type Place } from "../src/index.js";
import { answers, breaks, clientOf, refuses, scriptedServer, type Act } from "./scripted-server.js";
import { all, newClient, newCollection } from "./service.js";

function* numbered(count: number): Generator<NewDocument> {
  for (let place = 0; place < count; place += 1) {
    yield { id: `d-${place}`, text: `Document ${place}`, embedding: new Float32Array([1, place]), metadata: { place } };
  }
}

async function* slowly<T>(items: Iterable<T>): AsyncGenerator<T> {
  for (const item of items) {
    await Promise.resolve();
    yield item;
  }
}

for (const transfer of ["stream", "batches"] as const) {
  test(`any number of documents is written from a generator, as ${transfer}`, async () => {
    const collection = await newCollection();
    const added = await collection.write(slowly(numbered(1_234)), { transfer });
    assert.deepEqual([added.count, added.created, added.errors_total], [1_234, 1_234, 0]);
    assert.equal(await collection.count(), 1_234);
    const again = await collection.write(numbered(1_234), { transfer, on_conflict: "skip" });
    assert.deepEqual([again.created, again.unchanged], [0, 1_234]);
  });

  test(`bad lines are named and hold up no others, as ${transfer}`, async () => {
    const collection = await newCollection();
    const documents = [...numbered(5)];
    documents[1] = { text: "No vector." } as NewDocument;
    documents[4] = { text: "Another size.", embedding: [1] };
    const added = await collection.write(documents, { transfer, batchSize: 2 });
    assert.deepEqual([added.count, added.errors_total], [3, 2]);
    assert.deepEqual(added.errors?.map((error) => [error.line, error.code]), [[2, "embedding_required"], [5, "dimension_mismatch"]]);
    const none = collection.write([{ text: "x" } as NewDocument], { transfer });
    await assert.rejects(none, { code: "no_good_line", status: 400 });
  });

  test(`a refusal is told, whatever is left of the source, as ${transfer}`, async () => {
    let isLeft = false;
    async function* endless(): AsyncGenerator<NewDocument> {
      try {
        for (;;) yield* numbered(100);
      } finally {
        isLeft = true;
      }
    }
    // It refuses at once, as a proxy does, and reads on.
    const { url } = await scriptedServer((request, response) => {
      request.resume();
      const error = { message: "No.", code: "collection_not_found" };
      response.writeHead(404, { "Content-Type": "application/json" }).end(JSON.stringify(error));
    });
    const written = clientOf(url).client.collection("nowhere").write(endless(), { transfer });
    await assert.rejects(written, { code: "collection_not_found", status: 404 });
    await new Promise(setImmediate);
    assert(isLeft, "the source was not told that nobody reads it any more");
  });

  test(`what the source throws is what the call throws, as ${transfer}`, async () => {
    const collection = await newCollection();
    const failure = new Error("the file is gone");
    async function* failing(): AsyncGenerator<NewDocument> {
      yield* numbered(2);
      throw failure;
    }
    await assert.rejects(collection.write(failing(), { transfer }), (error) => error === failure);
  });
}

test("an export goes through all documents, and another collection takes its bytes", async () => {
  const [from, to] = [await newCollection(), await newCollection()];
  await from.write(numbered(700));
  const exported = await all(from.export());
  assert.equal(exported.length, 700);
  assert(exported[3]);
  const { text, metadata, embedding } = decodeEmbeddings(exported[3]);
  assert.deepEqual([text, metadata, embedding], ["Document 3", { place: 3 }, new Float32Array([1, 3])]);
  const imported = await to.import(from.exportBytes(), { count: 700 });
  assert.deepEqual([imported.created, imported.verified], [700, true]);
  const again = await to.import(exported, { transfer: "batches", batchSize: 300 });
  assert.deepEqual([again.count, again.unchanged], [700, 700]);
});

test("what a client of Chroma stored without a text is exported and imported without one", async () => {
  const [from, to] = [await newCollection(), await newCollection()];
  const { id } = await from.info();
  const path = { tenant: "default_tenant", database: "default_database", collection_id: id };
  const body = { ids: ["a"], embeddings: [[1, 2]] };
  await newClient().request("POST", "/api/v2/tenants/{tenant}/databases/{database}/collections/{collection_id}/add", { path, body });
  const exported = await all(from.export());
  assert.deepEqual(exported.map((each) => [each.id, each.text]), [["a", null]]);
  for (const transfer of ["stream", "batches"] as const) {
    assert.equal((await to.import(exported, { transfer })).count, 1);
    assert.deepEqual(await all(to.export()), exported);
  }
});

test("an import that is not what was announced is refused", async () => {
  const collection = await newCollection();
  const lines = Buffer.from('{"id":"a","text":"One.","metadata":{},"embedding":"AACAPwAAAAA="}\n');
  await assert.rejects(collection.import([lines], { count: 2 }), { code: "count_mismatch" });
  await assert.rejects(collection.import([lines], { sha256: createHash("sha256").digest("base64") }), { code: "digest_mismatch" });
  const sha256 = createHash("sha256").update(lines).digest("base64");
  assert.equal((await collection.import([lines], { count: 1, sha256 })).verified, true);
});

test("an export that is left early, or aborted, lets go of its connection", async () => {
  let closed = 0;
  const endless: Act = (_, response) => {
    response.writeHead(200, { "Content-Type": "application/x-ndjson", "X-Document-Count": "9" });
    const line = `${JSON.stringify({ id: "a", text: "x".repeat(1_000), metadata: {}, embedding: "" })}\n`;
    const more = (): void => {
      while (!response.destroyed && response.write(line));
      if (!response.destroyed) response.once("drain", more);
    };
    response.once("close", () => (closed += 1));
    more();
  };
  const { url, server } = await scriptedServer(endless);
  const collection = clientOf(url).client.collection("library");
  for await (const _ of collection.export()) break;
  const stop = new AbortController();
  await assert.rejects(
    async () => {
      for await (const _ of collection.export({ signal: stop.signal })) stop.abort(new Error("enough"));
    },
    { message: "enough" },
  );
  await new Promise((resolve) => server.close(resolve));
  assert.equal(closed, 2);
});

test("an export with fewer documents than announced was cut short", async () => {
  const short: Act = (_, response) => {
    response.writeHead(200, { "Content-Type": "application/x-ndjson", "X-Document-Count": "2" });
    response.end('{"id":"a"}\n');
  };
  const { url } = await scriptedServer(short);
  await assert.rejects(all(clientOf(url).client.collection("x").export()), { code: "cut_short", details: { found: 1, announced: 2 } });
});

test("a copy is kept by what changes", async () => {
  const collection = await newCollection();
  await collection.add([...numbered(3)]);
  const copy = new Map<string, string | null>();
  let place: Place | undefined;
  const read = async (): Promise<number> => {
    let count = 0;
    for await (const change of collection.changes(place, { limit: 2, include: "embedding", wait: 1 })) {
      if (change.op === undefined) place = change;
      else if (change.op === "delete") copy.delete(change.id);
      else copy.set(change.id, decodeEmbeddings({ embedding: change.embedding ?? "" }).embedding.join());
      count += 1;
    }
    return count;
  };
  assert.equal(await read(), 4);
  assert.deepEqual([...copy], [["d-0", "1,0"], ["d-1", "1,1"], ["d-2", "1,2"]]);
  await collection.remove({ ids: ["d-1"] });
  await collection.put("d-2", { text: "New.", embedding: [5, 5] });
  while ((await read()) > 1);
  assert.deepEqual([...copy], [["d-0", "1,0"], ["d-2", "5,5"]]);
  assert(place);
  await assert.rejects(all(collection.changes({ ...place, history: "another" })), { code: "too_old", status: 410 });
  const differs = { code: "embedding_model_differs", status: 409 };
  await assert.rejects(all(collection.changes(place, { embedding_model: "another" })), differs);
});

test("changes without their last line were cut short", async () => {
  const short: Act = (_, response) => {
    response.writeHead(200, { "Content-Type": "application/x-ndjson" });
    response.end('{"revision":2,"op":"delete","id":"a"}\n');
  };
  const { url } = await scriptedServer(short);
  await assert.rejects(all(clientOf(url).client.collection("x").changes()), { code: "cut_short" });
});

test("a source is read no faster than the service takes it", async () => {
  let taken = 0;
  function* large(): Generator<NewDocument> {
    for (;;) {
      taken += 1;
      yield { text: "x".repeat(100_000), embedding: [1] };
    }
  }
  // It takes nothing: what is read then fits into the buffers of the connection.
  const deaf: Act = (request) => void request.pause();
  const { url, seen } = await scriptedServer(deaf);
  const { client } = clientOf(url, { timeoutMs: 1_000 });
  await assert.rejects(client.collection("x").write(large(), { transfer: "stream" }), { code: "timed_out" });
  assert(seen.length <= 1, "a stream is not sent again");
  assert(taken > 1 && taken < 1_000, `${taken} documents of 100 KB were taken from the source`);
});

test("a batch is repeated, and what earlier ones have stored is told when one fails for good", async () => {
  const stored = answers(201, { status: "added", count: 2, created: 2, updated: 0, unchanged: 0 });
  const { url, seen } = await scriptedServer(breaks, stored, stored, refuses(507, "disk_floor_reached"));
  const written = clientOf(url).client.collection("x").write(numbered(10), { transfer: "batches", batchSize: 2, idempotencyKey: "mine" });
  await assert.rejects(written, (error) => {
    assert(error instanceof RagWrapperError);
    assert.deepEqual([error.code, error.status, error.details], ["disk_floor_reached", 507, { count: 4, line: 4 }]);
    return true;
  });
  assert.deepEqual(seen.map((each) => each.headers["idempotency-key"]), ["mine.1", "mine.1", "mine.2", "mine.3"]);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import { RagWrapper, RagWrapperError } from "../src/index.js";
import { answers, breaks, clientOf, refuses, scriptedServer, stoppedClock, type Act } from "./scripted-server.js";

const BUSY = (wait: string) => refuses(503, "busy", { "Retry-After": wait });
const FINE = answers(200, { collections: [] });
const SILENT: Act = () => undefined;

test("a read is repeated when the service says when, in seconds or by a date", async () => {
  const { url, seen } = await scriptedServer(BUSY("2"), refuses(429, "rate_limited", { "Retry-After": "Thu, 01 Jan 2026 00:00:07 GMT" }), FINE);
  const { client, slept } = clientOf(url);
  assert.deepEqual(await client.collections.page(), { collections: [] });
  assert.equal(seen.length, 3);
  // The pause grows with the attempt, so that not all clients come back in the same moment.
  assert.deepEqual(slept, [2_250, 7_000 - 2_250 + 500]);
});

test("attempts are bounded, and the last failure is told", async () => {
  const { url, seen } = await scriptedServer(BUSY("1"));
  const { client } = clientOf(url, { retries: 2 });
  await assert.rejects(client.collections.page(), (error) => {
    assert(error instanceof RagWrapperError);
    assert.deepEqual([error.code, error.status, error.retryAfterMs, error.requestId], ["busy", 503, 1_000, "r-1"]);
    return true;
  });
  assert.equal(seen.length, 3);
  await assert.rejects(client.collections.page({}, { retries: 0 }));
  assert.equal(seen.length, 4);
});

test("a wait that is too long, or no Retry-After, ends the call", async () => {
  for (const refusal of [BUSY("61"), refuses(503, "too_slow"), refuses(400, "invalid_where", { "Retry-After": "1" })]) {
    const { url, seen } = await scriptedServer(refusal);
    await assert.rejects(clientOf(url).client.collections.page(), RagWrapperError);
    assert.equal(seen.length, 1);
  }
});

test("questions that are asked by POST are repeated", async () => {
  const { url, seen } = await scriptedServer(breaks, answers(200, { results: [], total: 0 }));
  await clientOf(url).client.collection("library").textSearch({ query: "backups" });
  assert.deepEqual(seen.map((each) => each.headers["idempotency-key"]), [undefined, undefined]);
});

test("a write is repeated with the same key, which the next one does not have", async () => {
  const { url, seen } = await scriptedServer(breaks, BUSY("0"), answers(201, { status: "added" }));
  const collection = clientOf(url).client.collection("library");
  await collection.add([{ text: "Once.", embedding: [1] }]);
  await collection.add([{ text: "Once.", embedding: [1] }]);
  const keys = seen.map((each) => each.headers["idempotency-key"]);
  assert.match(String(keys[0]), /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.deepEqual([keys[1], keys[2]], [keys[0], keys[0]]);
  assert.notEqual(keys[3], keys[0]);
});

test("a write that takes no key is not repeated", async () => {
  const { url, seen } = await scriptedServer(breaks);
  const { client } = clientOf(url);
  await assert.rejects(client.keys.create({ name: "k", scopes: ["read"] }), { code: "network_failure" });
  await assert.rejects(client.chat.send({ message: "Hello" }), { code: "network_failure" });
  assert.deepEqual(seen.map((each) => each.headers["idempotency-key"]), [undefined, undefined]);
});

test("a service that is not there is a network failure, with pauses that grow", async () => {
  const { url, server } = await scriptedServer(FINE);
  await new Promise((resolve) => server.close(resolve));
  const { client, slept } = clientOf(url);
  await assert.rejects(client.collections.page(), { name: "RagWrapperError", code: "network_failure", status: undefined });
  assert.deepEqual(slept, [250, 500, 1_000]);
});

test("an answer that breaks off is asked for again", async () => {
  const half: Act = (request, response) => {
    response.writeHead(200, { "Content-Type": "application/json", "Content-Length": "100" });
    response.write('{"collections":', () => request.socket.destroy());
  };
  const { url, seen } = await scriptedServer(half, FINE);
  assert.deepEqual(await clientOf(url).client.collections.page(), { collections: [] });
  assert.equal(seen.length, 2);
});

test("a proxy whose service is away is asked again, and its page is told as what it is", async () => {
  const page: Act = (request, response) => {
    request.resume();
    response.writeHead(502).end("<html>Bad gateway</html>");
  };
  const { url, seen } = await scriptedServer(page, page, FINE);
  assert.deepEqual(await clientOf(url).client.collections.page(), { collections: [] });
  assert.equal(seen.length, 3);
  const other = await scriptedServer(page);
  await assert.rejects(clientOf(other.url).client.collections.page(), { code: "unusable_answer", status: 502 });
});

test("silence ends an attempt, and the next one is made", async () => {
  const { url } = await scriptedServer(SILENT);
  const { client, slept } = clientOf(url, { timeoutMs: 20, retries: 1 });
  // What has timed out need not have come as far as the server.
  await assert.rejects(client.collections.page(), { code: "timed_out", status: undefined });
  assert.deepEqual(slept, [250]);
});

test("a signal ends the call with its own reason", async () => {
  const stop = new AbortController();
  const reason = new Error("no longer wanted");
  const { url, seen } = await scriptedServer(() => stop.abort(reason));
  const { client, slept } = clientOf(url, { timeoutMs: Infinity });
  await assert.rejects(client.collections.page({}, { signal: stop.signal }), reason);
  await assert.rejects(client.collections.page({}, { signal: AbortSignal.abort(reason) }), reason);
  assert.deepEqual([seen.length, slept], [1, []]);
});

test("a signal also ends a wait before the next attempt", async () => {
  const { url, seen } = await scriptedServer(BUSY("50"));
  const stop = new AbortController();
  const asleep = { ...stoppedClock(), sleep: async () => stop.abort(new Error("enough")) };
  const client = new RagWrapper({ url, clock: asleep });
  await assert.rejects(client.collections.page({}, { signal: stop.signal }), { message: "enough" });
  assert.equal(seen.length, 1);
});

test("the key goes to the service alone: no error and no inspection shows it", async () => {
  const { url, seen } = await scriptedServer(refuses(401, "key_unknown"));
  const secret = "rw_secret_of_this_test";
  const { client } = clientOf(url, { apiKey: () => Promise.resolve(`${secret}\n`) });
  const error: unknown = await client.me().catch((reason: unknown) => reason);
  assert.equal(seen[0]?.headers.authorization, `Bearer ${secret}`);
  assert(!inspect([client, error, client.collection("x")], { depth: 10, showHidden: true }).includes(secret));
  const wrong = await clientOf(url, { apiKey: `${secret}\nX: y` }).client.me().catch((reason: unknown) => reason);
  assert(wrong instanceof TypeError && !inspect(wrong).includes(secret));
});

test("the fetch of the caller is used, with the headers of the caller", async () => {
  const asked: string[] = [];
  const client = new RagWrapper({
    url: "https://rag.example/behind/a/proxy/",
    headers: { "X-Tenant": "blue" },
    fetch: async (input, init) => {
      asked.push(`${String(init?.method)} ${String(input)} ${String(new Headers(init?.headers).get("x-tenant"))}`);
      return Response.json({ documents: [], total: 0, next_cursor: null });
    },
  });
  await client.files.page({ tag: "a&b", limit: 5 });
  assert.deepEqual(asked, ["GET https://rag.example/behind/a/proxy/api/documents?tag=a%26b&limit=5 blue"]);
  for (const url of ["ftp://x", "http://user:secret@x", "nowhere"]) assert.throws(() => new RagWrapper({ url }), TypeError);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { RagWrapperError } from "../src/index.js";
import { EVERY_ROUTE } from "./generated/every-route.js";
import { newClient, newCollection } from "./service.js";

const NO_SUCH_ROUTE = ["route_not_found", "method_not_allowed", "network_failure", "unusable_answer", "internal_error"];

test("every route of the description is reached by `request`", async () => {
  const client = newClient({ retries: 0 });
  const routes = Object.entries(EVERY_ROUTE);
  assert(routes.length > 100);
  for (const [route, call] of routes) {
    try {
      const answer = await call(client);
      assert(answer.status < 300, route);
      if (typeof answer.body === "object" && answer.body !== null && Symbol.asyncIterator in answer.body) {
        for await (const _ of answer.body as AsyncIterable<Uint8Array>) break;
      }
    } catch (error) {
      if (!(error instanceof RagWrapperError)) throw error;
      // Without an identity provider, the service says that it has no such route.
      if (error.code === "route_not_found" && route.includes("/.well-known/")) continue;
      // What Chroma itself does not do, its protocol refuses with 501.
      if (error.status === 501 && route.includes(" /api/v2/")) continue;
      // The service is healthy, and the chat model is there: what it refuses, it refuses for what was asked.
      assert(!NO_SUCH_ROUTE.includes(error.code), `${route}: ${error.code} ${error.message}`);
      assert(error.status !== undefined && error.status < 500, `${route}: ${error.status} ${error.code} ${error.message}`);
    }
  }
});

test("what is no JSON is given as a text or as bytes", async () => {
  const client = newClient();
  const collection = await newCollection();
  await collection.add([{ id: "a", text: "One.", embedding: [1, 0] }]);
  assert.match((await client.request("GET", "/metrics")).body, /^# HELP /m);
  const exported = await client.request("GET", "/collections/{name}/export", { path: { name: collection.name } });
  let text = "";
  for await (const chunk of exported.body) text += Buffer.from(chunk).toString();
  assert.equal((JSON.parse(text) as { id: string }).id, "a");
});

import { randomUUID } from "node:crypto";
import { after } from "node:test";
import { RagWrapper, type ClientOptions, type Collection } from "../src/index.js";

/** The service that the tests ask, and an administrator's key for it. */
export const SERVICE_URL = needed("RAG_TEST_URL");
export const KEY = needed("RAG_TEST_KEY");

export function newClient(options: Partial<ClientOptions> = {}): RagWrapper {
  return new RagWrapper({ url: SERVICE_URL, apiKey: KEY, ...options });
}

/** Make a collection of a name that no other test uses; it is deleted when the tests of the file have ended. */
export async function newCollection(client: RagWrapper = newClient()): Promise<Collection> {
  const name = `test-${randomUUID().replaceAll("-", "").slice(0, 16)}`;
  await client.collections.create({ name });
  const collection = client.collection(name);
  after(async () => void (await collection.delete().catch(() => undefined)));
  return collection;
}

/** Return all items of a source. */
export async function all<T>(source: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of source) found.push(item);
  return found;
}

function needed(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set: tests/clients/test_typescript.py sets it`);
  return value;
}

// Compiled and never run: what must be an error for tsc, and what must not.
import type { RagWrapper, Result, Schemas } from "../src/index.js";

export async function typed(client: RagWrapper): Promise<void> {
  const library = client.collection("library");
  const { results, plan } = await library.query({ query_embedding: new Float32Array(3), where: { a: { $gt: 1 }, $or: [{ b: "x" }, { $not: { c: true } }] } });
  const distance: number | undefined = results[0]?.distance;
  // @ts-expect-error: there may be no result
  const sure: number = results[0].distance;
  // @ts-expect-error: no such plan
  const isGuess = plan === "guess";
  const [first] = await library.queryMany([{ ids: ["a"] }, { query_embedding: [1] }]);
  // @ts-expect-error: there may be no answer
  first.results;
  // @ts-expect-error: neither a vector nor documents
  await library.query({ top_k: 1 });
  // @ts-expect-error: a vector and documents
  await library.query({ query_embedding: [1], ids: ["a"] });
  // @ts-expect-error: several questions are for queryMany
  await library.query({ query_embedding: [1], queries: [{ ids: ["a"] }] });
  await library.count({ $id: { $in: ["a", "b"] }, $not: { $id: "c" } });
  // @ts-expect-error: ids have no order
  await library.count({ $id: { $gt: "a" } });
  // @ts-expect-error: texts are not equal to anything
  await library.count({ $text: { $eq: "a" } });
  // @ts-expect-error: a misspelt field
  await library.query({ query_embeding: [1] });
  // @ts-expect-error: a misspelt operator
  await library.count({ year: { $greater: 2024 } });
  // @ts-expect-error: a document has an embedding
  await library.add([{ text: "x" }]);
  // @ts-expect-error: no such metric
  await client.collections.create({ name: "x", metric: "euclid" });
  // @ts-expect-error: no such route
  await client.request("GET", "/nowhere");
  // @ts-expect-error: no such method of this route
  await client.request("PUT", "/collections");
  // @ts-expect-error: the path needs a name
  await client.request("GET", "/collections/{name}");
  // @ts-expect-error: a query string that is needed
  await client.request("GET", "/collections/{name}/facets", { path: { name: "library" } });
  // @ts-expect-error: a misspelt parameter
  await client.request("GET", "/collections", { query: { prefixx: "a" } });
  const { body, etag } = await client.request("GET", "/collections", { query: { prefix: "a" } });
  const names: string[] = body.collections.map((collection) => collection.name);
  const fresh: Result<"getCollection"> | undefined = (await client.getIfChanged(etag, "/collections/{name}", { path: { name: "x" } }))?.body;
  const isDone = (job: Schemas["Job"]): boolean => job.status === "done";
  for await (const event of client.chat.stream({ message: "x" })) {
    const text: string = event.done ? event.data.message : event.delta;
    void text;
  }
  void [distance, sure, isGuess, names, fresh, isDone];
}

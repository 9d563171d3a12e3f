import type { Requester } from "./client.js";
import { eventsOf } from "./lines.js";
import { itemsOf, pagesOf } from "./pages.js";
import type { Body, CallOptions, Query, Result, Schemas } from "./typed.js";

export type Connection = Result<"showConnection">;
/** A stage of a test as it ends, and at last the outcome. */
export type TestEvent =
  | { stage: Schemas["TestStage"]; done?: undefined }
  | ({ done: true; stage?: undefined } & (Schemas["TestPassed"] | Schemas["TestFailed"]));

/** Connections to other services: vector stores, and models that embed, chat and rerank. */
export class Connections {
  readonly #requester: Requester;

  constructor(requester: Requester) {
    this.#requester = requester;
  }

  page(query: Query<"listConnections"> = {}, options?: CallOptions): Promise<Result<"listConnections">> {
    return this.#requester.body("GET", "/api/connections", { ...options, query });
  }

  list(query: Query<"listConnections"> = {}, options?: CallOptions): AsyncGenerator<Connection, void> {
    const pages = pagesOf((cursor) => this.page(cursor === undefined ? query : { ...query, cursor }, options));
    return itemsOf(pages, (page) => page.connections);
  }

  create(connection: Body<"createConnection">, options?: CallOptions): Promise<Result<"createConnection">> {
    return this.#requester.body("POST", "/api/connections", { ...options, body: connection });
  }

  get(id: string, options?: CallOptions): Promise<Connection> {
    return this.#requester.body("GET", "/api/connections/{id}", { ...options, path: { id } });
  }

  update(id: string, connection: Body<"changeConnection">, options?: CallOptions): Promise<Result<"changeConnection">> {
    return this.#requester.body("PUT", "/api/connections/{id}", { ...options, path: { id }, body: connection });
  }

  delete(id: string, options?: CallOptions): Promise<Result<"deleteConnection">> {
    return this.#requester.body("DELETE", "/api/connections/{id}", { ...options, path: { id } });
  }

  /** Return the health of one connection. */
  health(id: string, options?: CallOptions): Promise<Result<"showConnectionHealth">> {
    return this.#requester.body("GET", "/api/connections/{id}/health", { ...options, path: { id } });
  }

  /** Return the health of all connections. */
  healthOfAll(query: Query<"showHealthOfConnections"> = {}, options?: CallOptions): Promise<Result<"showHealthOfConnections">> {
    return this.#requester.body("GET", "/api/connections/health", { ...options, query });
  }

  collections(id: string, options?: CallOptions): Promise<Result<"listCollectionsOfConnection">> {
    return this.#requester.body("GET", "/api/connections/{id}/collections", { ...options, path: { id } });
  }

  providers(options?: CallOptions): Promise<Result<"listProviders">> {
    return this.#requester.body("GET", "/api/connections/providers", options);
  }

  validate(candidate: Body<"validateConnection">, options?: CallOptions): Promise<Result<"validateConnection">> {
    return this.#requester.body("POST", "/api/connections/validate", { ...options, body: candidate });
  }

  /** Try a configuration and give each stage as it ends, at last the outcome, also of a test that failed. */
  async *test(candidate: Omit<Body<"testConnection">, "stream">, options?: CallOptions): AsyncGenerator<TestEvent, void> {
    let requestId: string | undefined;
    const call = { ...options, body: { ...candidate, stream: true } };
    const bytes = this.#requester.bytes("POST", "/api/connections/test", call, (answer) => (requestId = answer.requestId));
    yield* eventsOf<TestEvent>(bytes, () => requestId);
  }
}

import type { Requester } from "./client.js";
import type { CallOptions, Query, Result } from "./typed.js";

/** Names that stand for collections, wherever a collection is named. */
export class Aliases {
  readonly #requester: Requester;

  constructor(requester: Requester) {
    this.#requester = requester;
  }

  /** Return all aliases by name, or those of one collection. */
  list(query: Query<"listAliases"> = {}, options?: CallOptions): Promise<Result<"listAliases">> {
    return this.#requester.body("GET", "/aliases", { ...options, query });
  }

  get(alias: string, options?: CallOptions): Promise<Result<"getAlias">> {
    return this.#requester.body("GET", "/aliases/{alias}", { ...options, path: { alias } });
  }

  /** Let an alias stand for a collection, whatever it stood for before. */
  put(alias: string, collection: string, options?: CallOptions): Promise<Result<"putAlias">> {
    return this.#requester.body("PUT", "/aliases/{alias}", { ...options, path: { alias }, body: { collection } });
  }

  /** Remove an alias; its collection stays. */
  delete(alias: string, options?: CallOptions): Promise<Result<"deleteAlias">> {
    return this.#requester.body("DELETE", "/aliases/{alias}", { ...options, path: { alias } });
  }
}

import type { Requester } from "./client.js";
import { itemsOf, pagesOf } from "./pages.js";
import type { Body, CallOptions, Query, Result } from "./typed.js";

export type CollectionInfo = Result<"getCollection">;

/** Which collections there are. */
export class Collections {
  readonly #requester: Requester;

  constructor(requester: Requester) {
    this.#requester = requester;
  }

  create(collection: Body<"createCollection">, options?: CallOptions): Promise<Result<"createCollection">> {
    return this.#requester.body("POST", "/collections", { ...options, body: collection });
  }

  /** Return the collection of this name as it is, or create it: `status` says which. */
  getOrCreate(collection: Body<"createCollection">, options?: CallOptions): Promise<Result<"createCollection">> {
    return this.#requester.body("POST", "/collections", { ...options, query: { get_or_create: true }, body: collection });
  }

  /** Return one page; all collections without `limit` and `cursor`. */
  page(query: Query<"listCollections"> = {}, options?: CallOptions): Promise<Result<"listCollections">> {
    return this.#requester.body("GET", "/collections", { ...options, query });
  }

  /** Go through the collections by name, page by page. */
  list(query: Query<"listCollections"> = {}, options?: CallOptions): AsyncGenerator<CollectionInfo, void> {
    const first = { limit: 100, ...query };
    const pages = pagesOf((cursor) => this.page(cursor === undefined ? first : { ...first, cursor }, options));
    return itemsOf(pages, (page) => page.collections);
  }
}

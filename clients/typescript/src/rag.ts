import type { Requester } from "./client.js";
import { itemsOf, pagesOf } from "./pages.js";
import type { Body, CallOptions, Query, Result } from "./typed.js";

export type RagDocument = Result<"ragDocuments">["documents"][number];

/** Texts that the service splits and embeds itself. */
export class Rag {
  readonly #requester: Requester;

  constructor(requester: Requester) {
    this.#requester = requester;
  }

  ingest(document: Body<"ragIngest">, options?: CallOptions): Promise<Result<"ragIngest">> {
    return this.#requester.body("POST", "/api/rag/ingest", { ...options, body: document });
  }

  ingestBatch(batch: Body<"ragIngestBatch">, options?: CallOptions): Promise<Result<"ragIngestBatch">> {
    return this.#requester.body("POST", "/api/rag/documents:batch", { ...options, body: batch });
  }

  search(question: Body<"ragSearch">, options?: CallOptions): Promise<Result<"ragSearch">> {
    return this.#requester.body("POST", "/api/rag/search", { ...options, body: question });
  }

  retrieve(question: Body<"ragRetrieve">, options?: CallOptions): Promise<Result<"ragRetrieve">> {
    return this.#requester.body("POST", "/api/rag/retrieve", { ...options, body: question });
  }

  page(query: Query<"ragDocuments"> = {}, options?: CallOptions): Promise<Result<"ragDocuments">> {
    return this.#requester.body("GET", "/api/rag/documents", { ...options, query });
  }

  list(query: Query<"ragDocuments"> = {}, options?: CallOptions): AsyncGenerator<RagDocument, void> {
    const pages = pagesOf((cursor) => this.page(cursor === undefined ? query : { ...query, cursor }, options));
    return itemsOf(pages, (page) => page.documents);
  }

  delete(id: string, options: { collection?: string } & CallOptions = {}): Promise<Result<"ragDeleteDocument">> {
    const { collection, ...call } = options;
    return this.#requester.body("DELETE", "/api/rag/documents/{id}", { ...call, path: { id }, query: { collection } });
  }
}

import type { Requester } from "./client.js";
import type { Vector } from "./embeddings.js";
import { encodeEmbedding } from "./embeddings.js";
import { RagWrapperError } from "./errors.js";
import { objectsOf, type Source } from "./lines.js";
import { itemsOf, pagesOf } from "./pages.js";
import type {
  Body,
  CallOptions,
  Change,
  ExportedDocument,
  NewDocument,
  Place,
  Query,
  Result,
  Schemas,
  StoredDocument,
} from "./typed.js";
import type { Filter } from "./where.js";
import { sendLines, spelt, type Transfer } from "./writing.js";

export type Search = Body<"searchDocuments">;
/** What is near a vector, or near documents, without them. */
export type Question = Omit<Schemas["OneQuery"], "query_embedding" | "ids"> &
  ({ query_embedding: Vector; ids?: null | undefined } | { ids: readonly string[]; query_embedding?: null | undefined });
export interface Embedded {
  /** The model that made the vectors: refused where the collection records another one. */
  embedding_model?: string | undefined;
}
export interface Sweeping {
  /** Whether a filter may match every document although it may do so by mistake. */
  all?: boolean | undefined;
}
export interface Writing extends Embedded, Sweeping {
  on_conflict?: "replace" | "skip" | "error" | undefined;
  /** Delete, in the same transaction, what matches this and is not in the request. */
  replace_where?: Filter | undefined;
  /** What the answer waits for: that the vector index has it all, or no longer than until it is safely stored. */
  wait?: "index" | "commit" | undefined;
}
export interface Announced {
  /** How many documents the stream must have. */
  count?: number | undefined;
  /** The SHA-256 that the bytes of the stream must have, in base64. */
  sha256?: string | undefined;
}

/** Ids that are routes where a path has an id. */
const ROUTES_NOT_IDS = ["count", "search", "all"];

/** One collection and its documents. Making one asks nothing. */
export class Collection {
  readonly name: string;
  readonly #requester: Requester;

  constructor(requester: Requester, name: string) {
    this.#requester = requester;
    this.name = name;
  }

  get #path(): { path: { name: string } } {
    return { path: { name: this.name } };
  }

  /** Return the path of one document that is written. An id that is a route there is refused: `all` is every document. */
  #written(id: string): { name: string; id: string } {
    if (!ROUTES_NOT_IDS.includes(id)) return { name: this.name, id };
    const message = `'${id}' cannot stand in a path: use the methods that take ids or documents in a list`;
    throw new RagWrapperError("invalid_path", message, { details: { field: "id" } });
  }

  info(options?: CallOptions): Promise<Result<"getCollection">> {
    return this.#requester.body("GET", "/collections/{name}", { ...options, ...this.#path });
  }

  delete(options?: CallOptions): Promise<Result<"deleteCollection">> {
    return this.#requester.body("DELETE", "/collections/{name}", { ...options, ...this.#path });
  }

  /** Give the collection another name; this object still asks for the old one. */
  rename(name: string, options?: CallOptions): Promise<Result<"renameCollection">> {
    return this.#requester.body("PATCH", "/collections/{name}", { ...options, ...this.#path, body: { name } });
  }

  /** Copy the collection, as it is now, under another name. */
  copy(name: string, options?: CallOptions): Promise<Result<"copyCollection">> {
    return this.#requester.body("POST", "/collections/{name}/copy", { ...options, ...this.#path, body: { name } });
  }

  /** Delete all documents; the collection and its metadata stay. */
  empty(options?: CallOptions): Promise<Result<"emptyCollection">> {
    return this.#requester.body("DELETE", "/collections/{name}/documents/all", { ...options, ...this.#path });
  }

  replaceMetadata(metadata: Record<string, unknown>, options?: CallOptions): Promise<Result<"replaceCollectionMetadata">> {
    const path = "/collections/{name}/metadata";
    return this.#requester.body("PUT", path, { ...options, ...this.#path, body: { metadata } });
  }

  /** Change the metadata that are named; null removes. */
  mergeMetadata(metadata: Record<string, unknown>, options?: CallOptions): Promise<Result<"mergeCollectionMetadata">> {
    const path = "/collections/{name}/metadata";
    return this.#requester.body("PATCH", path, { ...options, ...this.#path, body: { metadata } });
  }

  /** Store documents in one transaction. */
  add(documents: readonly NewDocument[], options: Writing & CallOptions = {}): Promise<Result<"addDocuments">> {
    const { on_conflict, replace_where, all, embedding_model, wait, ...call } = options;
    const query = { on_conflict, replace_where, all, embedding_model, wait };
    const body = { documents: documents.map(spelt) };
    return this.#requester.body("POST", "/collections/{name}/documents", { ...call, ...this.#path, query, body });
  }

  /**
   * Store any number of documents, or of bytes of NDJSON, as they come. Good lines are stored; the answer has the bad
   * ones under `errors`.
   */
  write(
    source: Source<NewDocument | Uint8Array>,
    options: Omit<Writing, "replace_where" | "all"> & Transfer = {},
  ): Promise<Result<"addDocuments">> {
    const { on_conflict, embedding_model, wait, ...call } = options;
    const query = { on_conflict, embedding_model, wait };
    return sendLines(this.#requester, "/collections/{name}/documents", source, { ...call, ...this.#path, query });
  }

  /** Return one document; rejects with `document_not_found`. */
  async get(id: string, options: Pick<Search, "include"> & CallOptions = {}): Promise<StoredDocument> {
    const { include, ...call } = options;
    if (ROUTES_NOT_IDS.includes(id) || id === "." || id === "..") {
      const { documents } = await this.page({ ids: [id], include: include ?? null }, call);
      if (documents[0] === undefined) throw new RagWrapperError("document_not_found", `Document '${id}' not found`, { status: 404 });
      return documents[0];
    }
    const path = "/collections/{name}/documents/{id}";
    return this.#requester.body("GET", path, { ...call, path: { name: this.name, id }, query: { include } });
  }

  /** Store one document whole, in place of the one that is there. */
  async put(
    id: string,
    document: Omit<NewDocument, "id">,
    options: Embedded & CallOptions = {},
  ): Promise<Result<"putDocument">> {
    const { embedding_model, ...call } = options;
    const path = "/collections/{name}/documents/{id}";
    const query = { embedding_model };
    return this.#requester.body("PUT", path, { ...call, path: this.#written(id), query, body: spelt(document) });
  }

  /** Change only what is named; null removes a key of the metadata. */
  async update(
    id: string,
    change: Omit<Body<"patchDocument">, "embedding"> & { embedding?: Vector },
    options: Embedded & CallOptions = {},
  ): Promise<Result<"patchDocument">> {
    const { embedding_model, ...call } = options;
    const path = "/collections/{name}/documents/{id}";
    const query = { embedding_model };
    return this.#requester.body("PATCH", path, { ...call, path: this.#written(id), query, body: spelt(change) });
  }

  /** Merge into the metadata of all documents that match a filter, or have one of some ids; null removes a key. */
  updateMany(change: Body<"patchDocuments">, options: Sweeping & CallOptions = {}): Promise<Result<"patchDocuments">> {
    const { all, ...call } = options;
    return this.#requester.body("PATCH", "/collections/{name}/documents", { ...call, ...this.#path, query: { all }, body: change });
  }

  /** Delete one document; rejects with `document_not_found`. */
  async removeOne(id: string, options?: CallOptions): Promise<Result<"deleteDocument">> {
    const path = "/collections/{name}/documents/{id}";
    return this.#requester.body("DELETE", path, { ...options, path: this.#written(id) });
  }

  /** Delete documents by ids or by filter. A filter that matches all of them needs `all`. */
  remove(which: Body<"deleteDocuments">, options: Sweeping & CallOptions = {}): Promise<Result<"deleteDocuments">> {
    const { all, ...call } = options;
    return this.#requester.body("DELETE", "/collections/{name}/documents", { ...call, ...this.#path, query: { all }, body: which });
  }

  async count(where?: Filter, options?: CallOptions): Promise<number> {
    const path = "/collections/{name}/documents/count";
    const call = { ...options, ...this.#path, query: { where } };
    return (await this.#requester.body<Result<"countDocuments">>("GET", path, call)).count;
  }

  /** Return one page of documents, by filter or ids. */
  page(search: Search = {}, options?: CallOptions): Promise<Result<"searchDocuments">> {
    const path = "/collections/{name}/documents/search";
    return this.#requester.body("POST", path, { ...options, ...this.#path, body: search });
  }

  pages(search: Search = {}, options?: CallOptions): AsyncGenerator<Result<"searchDocuments">, void> {
    return pagesOf((cursor) => this.page({ ...search, cursor: cursor ?? search.cursor ?? null }, options));
  }

  /** Go through all documents, or those that match, page by page. */
  list(search: Search = {}, options?: CallOptions): AsyncGenerator<StoredDocument, void> {
    return itemsOf(this.pages(search, options), (page) => page.documents);
  }

  /** Find the documents nearest to a vector, or to other documents. */
  query(question: Question, options?: CallOptions): Promise<Schemas["QueryResults"]> {
    const body = asked(question);
    return this.#requester.body("POST", "/collections/{name}/query", { ...options, ...this.#path, body });
  }

  /** Ask several questions in one request, and return an answer for each, in their order. */
  async queryMany(questions: readonly Question[], options?: CallOptions): Promise<Schemas["QueryResults"][]> {
    const call = { ...options, ...this.#path, body: { queries: questions.map(asked) } };
    const path = "/collections/{name}/query";
    return (await this.#requester.body<{ answers: Schemas["QueryResults"][] }>("POST", path, call)).answers;
  }

  /** Bring whole groups of documents, around ids or the matches of a filter. */
  gather(rule: Body<"gatherDocuments">, options?: CallOptions): Promise<Result<"gatherDocuments">> {
    return this.#requester.body("POST", "/collections/{name}/gather", { ...options, ...this.#path, body: rule });
  }

  /** Find documents by their words. */
  textSearch(question: Body<"searchText">, options?: CallOptions): Promise<Result<"searchText">> {
    return this.#requester.body("POST", "/collections/{name}/text-search", { ...options, ...this.#path, body: question });
  }

  /** Count the values of fields. */
  facets(
    fields: readonly string[],
    options: { where?: Filter; limit?: number } & CallOptions = {},
  ): Promise<Result<"getFacets">> {
    const { where, limit, ...call } = options;
    return this.#requester.body("GET", "/collections/{name}/facets", { ...call, ...this.#path, query: { fields, where, limit } });
  }

  /** Return the different values of a field. */
  values(field: string, options?: CallOptions): Promise<Result<"listMetadataValues">> {
    const path = "/collections/{name}/metadata-values";
    return this.#requester.body("GET", path, { ...options, ...this.#path, query: { field } });
  }

  /** Return the documents as points of a map. */
  projection(
    options: Omit<Query<"getProjection">, "where"> & { where?: Filter } & CallOptions = {},
  ): Promise<Result<"getProjection">> {
    const { limit, field, where, ...call } = options;
    return this.#requester.body("GET", "/collections/{name}/projection", { ...call, ...this.#path, query: { limit, field, where } });
  }

  /** Go through all documents of one revision. Embeddings are base64: see `decodeEmbeddings`. */
  async *export(options?: CallOptions): AsyncGenerator<ExportedDocument, void> {
    let announced: number | undefined;
    let requestId: string | undefined;
    const call = { ...options, ...this.#path };
    const bytes = this.#requester.bytes("GET", "/collections/{name}/export", call, (answer) => {
      const count = answer.headers.get("x-document-count");
      announced = count === null ? undefined : Number(count);
      requestId = answer.requestId;
    });
    let found = 0;
    for await (const document of objectsOf<ExportedDocument>(bytes)) {
      found += 1;
      yield document;
    }
    if (announced === undefined || found === announced) return;
    const message = `The export broke off after ${found} of ${announced} documents`;
    throw new RagWrapperError("cut_short", message, { requestId, details: { found, announced } });
  }

  /** The same as bytes of NDJSON, for a file or for `import` of another collection. */
  exportBytes(options?: CallOptions): AsyncGenerator<Uint8Array, void> {
    return this.#requester.bytes("GET", "/collections/{name}/export", { ...options, ...this.#path });
  }

  /** Go through what has changed since a place, from the beginning without one, and at last give the place that was
   * reached. Rejects with `too_old` when the copy has to begin anew, with `embedding_model_differs` when the collection
   * does not record the model that is named, with `cut_short` when the answer was cut off. */
  async *changes(
    place?: Place,
    options: Omit<Query<"followCollection">, "since" | "as_of" | "history"> & CallOptions = {},
  ): AsyncGenerator<Change | Place, void> {
    const { limit, wait, include, embedding_model, ...call } = options;
    const from = { since: place?.next, as_of: place?.as_of, history: place?.history };
    const query = { ...from, limit, wait, include, embedding_model };
    let requestId: string | undefined;
    const bytes = this.#requester.bytes("GET", "/collections/{name}/changes", { ...call, ...this.#path, query }, (answer) => {
      requestId = answer.requestId;
    });
    let last: Change | Place | undefined;
    for await (const line of objectsOf<Change | Place>(bytes)) {
      last = line;
      yield line;
    }
    if (last !== undefined && "next" in last) return;
    throw new RagWrapperError("cut_short", "The changes broke off before their last line", { requestId });
  }

  /** Take in what an export gave. The first bad line ends it. `count` and `sha256` are checked of a stream. */
  import(
    source: Source<NewDocument | ExportedDocument | Uint8Array>,
    options: Announced & Embedded & Transfer = {},
  ): Promise<Result<"importDocuments">> {
    const { count, sha256, embedding_model, ...call } = options;
    const query = { embedding_model };
    const headers: Record<string, string> = { ...call.headers };
    if (count !== undefined) headers["X-Document-Count"] = String(count);
    if (sha256 !== undefined) headers["Content-Digest"] = `sha-256=:${sha256}:`;
    // What is announced is said of the whole.
    const transfer = count === undefined && sha256 === undefined ? call.transfer : "stream";
    return sendLines(this.#requester, "/collections/{name}/import", source, { ...call, ...this.#path, query, headers, transfer });
  }

  /** Return what is known of the vector index. */
  index(options?: CallOptions): Promise<Result<"getIndex">> {
    return this.#requester.body("GET", "/collections/{name}/index", { ...options, ...this.#path });
  }

  checkIndex(options?: CallOptions): Promise<Result<"checkIndex">> {
    return this.#requester.body("POST", "/collections/{name}/index/check", { ...options, ...this.#path });
  }

  /** Have the index rebuilt, and change what the engine's `records` have: everything, or ids and vectors only. */
  rebuildIndex(options: Query<"rebuildIndex"> & CallOptions = {}): Promise<Result<"rebuildIndex">> {
    const { records, ...call } = options;
    return this.#requester.body("POST", "/collections/{name}/index/rebuild", { ...call, ...this.#path, query: { records } });
  }

  /** Have vectors made by the model of a connection; the collection is switched to them when they are complete. */
  reembed(connection: string, options?: CallOptions): Promise<Result<"reembedCollection">> {
    return this.#requester.body("POST", "/collections/{name}/reembed", { ...options, ...this.#path, body: { connection } });
  }

  /** Switch to the vectors from before a re-embedding: as long as no document was written since. */
  switchBack(options?: CallOptions): Promise<Result<"reembedCollection">> {
    return this.#requester.body("POST", "/collections/{name}/reembed", { ...options, ...this.#path, body: { back: true } });
  }

  /** Return how far a re-embedding is. */
  reembedding(options?: CallOptions): Promise<Result<"getReembedding">> {
    return this.#requester.body("GET", "/collections/{name}/reembed", { ...options, ...this.#path });
  }

  /** Cancel a re-embedding, or drop the old vectors. */
  dropVectors(options?: CallOptions): Promise<Result<"dropVectors">> {
    return this.#requester.body("DELETE", "/collections/{name}/reembed", { ...options, ...this.#path });
  }
}

function asked(question: Question): Question {
  const { query_embedding } = question;
  return query_embedding == null ? question : { ...question, ids: null, query_embedding: encodeEmbedding(query_embedding) };
}

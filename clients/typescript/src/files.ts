import type { Requester } from "./client.js";
import type { Bytes } from "./lines.js";
import { itemsOf, pagesOf } from "./pages.js";
import type { CallOptions, Query, Result, Schemas } from "./typed.js";

export type FileDocument = Result<"listStoredDocuments">["documents"][number];

/** A file to upload. Its name, which may hold a relative path, identifies the document. */
export interface NewFile {
  name: string;
  /** A stream of bytes goes alone, as it comes, and is not sent again. */
  content: Blob | Uint8Array | string | Bytes;
}

export interface Uploading {
  collection?: string | undefined;
  tags?: readonly string[] | undefined;
  metadata?: Record<string, unknown> | undefined;
  on_conflict?: "replace" | "skip" | undefined;
  shared?: boolean | undefined;
}

/** The documents that files, and texts of any kind, became. */
export class Files {
  readonly #requester: Requester;

  constructor(requester: Requester) {
    this.#requester = requester;
  }

  /** Hand over files, which a job reads: see `jobs.wait`. One of them may be a stream when it comes alone. */
  upload(files: NewFile | readonly NewFile[], options: Uploading & CallOptions = {}): Promise<Result<"uploadDocuments">> {
    const { collection, tags, metadata, on_conflict, shared, ...call } = options;
    const query = { collection, tags, metadata, on_conflict, shared };
    const given = Array.isArray(files) ? (files as readonly NewFile[]) : [files as NewFile];
    const [only] = given;
    if (given.length === 1 && only !== undefined && isStream(only.content)) {
      const headers = { ...call.headers, "X-Filename": encodeURIComponent(only.name) };
      const contentType = "application/octet-stream";
      return this.#requester.body("POST", "/api/documents", { ...call, query, headers, body: only.content, contentType });
    }
    return this.#requester.body("POST", "/api/documents", { ...call, query, body: formOf(given) });
  }

  page(query: Query<"listStoredDocuments"> = {}, options?: CallOptions): Promise<Result<"listStoredDocuments">> {
    return this.#requester.body("GET", "/api/documents", { ...options, query });
  }

  list(query: Query<"listStoredDocuments"> = {}, options?: CallOptions): AsyncGenerator<FileDocument, void> {
    const pages = pagesOf((cursor) => this.page(cursor === undefined ? query : { ...query, cursor }, options));
    return itemsOf(pages, (page) => page.documents);
  }

  /** Return a document; with its chunks, where `chunks` is true, instead of their number. */
  get(id: string, options: { chunks: true } & CallOptions): Promise<Schemas["DocumentWithChunks"]>;
  get(id: string, options?: { chunks?: false } & CallOptions): Promise<Schemas["StoredDocument"]>;
  get(id: string, options: { chunks?: boolean } & CallOptions = {}): Promise<never> {
    const { chunks, ...call } = options;
    return this.#requester.body("GET", "/api/documents/{id}", { ...call, path: { id }, query: { chunks } });
  }

  delete(id: string, options?: CallOptions): Promise<Result<"deleteStoredDocument">> {
    return this.#requester.body("DELETE", "/api/documents/{id}", { ...options, path: { id } });
  }

  /** Go through the bytes of the file that a document was made of. */
  original(id: string, options?: CallOptions): AsyncGenerator<Uint8Array, void> {
    return this.#requester.bytes("GET", "/api/documents/{id}/original", { ...options, path: { id } });
  }
}

function formOf(files: readonly NewFile[]): FormData {
  const form = new FormData();
  for (const { name, content } of files) {
    if (isStream(content)) throw new TypeError(`${name}: a stream of bytes goes alone`);
    form.append("file", content instanceof Blob ? content : new Blob([content as BlobPart]), name);
  }
  return form;
}

function isStream(content: NewFile["content"]): content is Bytes {
  return typeof content === "object" && Symbol.asyncIterator in content;
}

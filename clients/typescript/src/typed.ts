import type { Vector } from "./embeddings.js";
import type { components, operations } from "./generated/description.js";
import type { Routes } from "./generated/routes.js";

export type Schemas = components["schemas"];
export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** The paths of the description that have a method. */
export type PathOf<M extends Method> = keyof Routes[M] & string;
/** Each method with each of its paths, as `GET /collections`. */
export type Route = { [M in Method]: `${M} ${PathOf<M>}` }[Method];
/** The parameters and the body of a route, and what every call may be told: as a list, since some routes need none. */
export type OptionsOf<M extends Method, P extends PathOf<M>> = Routes[M][P] extends { options: infer O extends readonly unknown[] }
  ? O
  : never;
/** The body of a route's answer: JSON, a text, or the bytes of anything else. */
export type AnswerOf<M extends Method, P extends PathOf<M>> = Routes[M][P] extends { answer: infer A } ? A : never;

/** What every call may be told. */
export interface CallOptions {
  signal?: AbortSignal | undefined;
  /** How long the service may be silent, in this call. */
  timeoutMs?: number | undefined;
  /** How often the call may be repeated. */
  retries?: number | undefined;
  /** Of a write that takes one; a new one by default. */
  idempotencyKey?: string | undefined;
  /** Write only while the collection has this ETag. */
  ifMatch?: string | undefined;
  headers?: Readonly<Record<string, string>> | undefined;
}

/** What a call with a body of another media type than JSON may be told. */
export interface RawOptions extends CallOptions {
  contentType?: string | undefined;
}

/** An answer with what its headers say. */
export interface Answer<T> {
  status: number;
  body: T;
  /** Stands for this state of the collection: for `ifMatch` and `ifNoneMatch`. */
  etag: string | undefined;
  requestId: string | undefined;
  /** Whether this is the answer to an earlier request with the same Idempotency-Key. */
  isReplay: boolean;
  headers: Headers;
}

type ContentOf<R> = R extends { content: { "application/json": infer J } } ? J : never;
/** The JSON that an operation answers, by its name in the description. */
export type Result<Id extends keyof operations> = {
  [S in keyof operations[Id]["responses"] & (200 | 201 | 202)]: ContentOf<operations[Id]["responses"][S]>;
}[keyof operations[Id]["responses"] & (200 | 201 | 202)];
/** The JSON that an operation takes. */
export type Body<Id extends keyof operations> = operations[Id] extends {
  requestBody?: { content: { "application/json": infer J } };
}
  ? J
  : never;
/** The query string of an operation. */
export type Query<Id extends keyof operations> = operations[Id] extends { parameters: { query?: infer V } }
  ? Exclude<V, undefined>
  : never;

/** A document to store. */
export type NewDocument = Omit<Schemas["NewDocument"], "embedding"> & { embedding: Vector };
export type StoredDocument = Schemas["Document"];
/** A line of an export: the embedding is base64. */
export interface ExportedDocument {
  id: string;
  /** Null when a client of Chroma stored the document without one. */
  text: string | null;
  metadata: Record<string, unknown>;
  embedding: string;
  uri?: string;
}
/** What became of an id: `upsert` has the document in its newest state, its embedding (base64) only if that was asked
 * for; `delete` has nothing but the id. */
export type Change =
  | { op: "delete"; revision: number; id: string }
  | ({ op: "upsert"; revision: number } & Omit<ExportedDocument, "embedding"> & { embedding?: string });
/** How far a copy has come: to be kept with the copy, and given to the next `changes`. `more` says whether there are
 * further changes already. */
export interface Place {
  op?: undefined;
  next: number;
  as_of?: number;
  history: string;
  more: boolean;
}

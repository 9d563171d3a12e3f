export { RagWrapper } from "./rag-wrapper.js";
export type { ClientOptions } from "./client.js";
export type { Clock } from "./clock.js";
export { Collection } from "./collection.js";
export type { Announced, Embedded, Question, Search, Writing } from "./collection.js";
export type { CollectionInfo } from "./collections.js";
export type { ChatAnswer, ChatEvent } from "./chat.js";
export type { Connection, TestEvent } from "./connections.js";
export { decodeEmbedding, decodeEmbeddings, encodeEmbedding } from "./embeddings.js";
export type { Decoded, Vector } from "./embeddings.js";
export { RagWrapperError } from "./errors.js";
export type { ClientCode } from "./errors.js";
export type { FileDocument, NewFile, Uploading } from "./files.js";
export type { components, operations, paths } from "./generated/description.js";
export type { Job } from "./jobs.js";
export type { Bytes, Source } from "./lines.js";
export type { RagDocument } from "./rag.js";
export type {
  Answer,
  AnswerOf,
  Body,
  CallOptions,
  Change,
  ExportedDocument,
  Method,
  NewDocument,
  PathOf,
  Place,
  Query,
  OptionsOf,
  Result,
  Route,
  Schemas,
  StoredDocument,
} from "./typed.js";
export type { Filter, FilterOperators, IdOperators, Scalar, TextOperators } from "./where.js";
export type { Transfer } from "./writing.js";

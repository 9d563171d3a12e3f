import type { Requester } from "./client.js";
import { encodeEmbedding } from "./embeddings.js";
import { RagWrapperError } from "./errors.js";
import { linesOf, ndjsonOf, type Source } from "./lines.js";
import type { Call } from "./client.js";
import type { CallOptions, ExportedDocument, NewDocument, Result } from "./typed.js";

/** How lines are sent. */
export interface Transfer extends CallOptions {
  /**
   * `stream`: one request whose body is taken from the source as fast as the service takes it; it cannot be repeated.
   * `batches`: one request after the other, each repeated where that may help. Streams are the default where the platform
   * can send them over HTTP/1.1, which browsers cannot.
   */
  transfer?: "stream" | "batches" | undefined;
  /** Documents of a batch; 500 by default, which is also how many the service stores at once. */
  batchSize?: number | undefined;
}

const NDJSON = "application/x-ndjson";
const BATCH_SIZE = 500;
const BATCH_CHARACTERS = 4 << 20;
const KEPT = 1000;
const NODE = (globalThis as { process?: { versions?: { node?: string } } }).process?.versions?.node;

/** The counts that answers to lines have, and what is listed of them. */
interface Counts {
  count: number;
  created: number;
  updated: number;
  unchanged: number;
  ids?: string[];
  errors?: LineError[];
  errors_total?: number;
}
type LineError = NonNullable<Result<"addDocuments">["errors"]>[number];

/** Return a document with its embedding as base64. */
export function spelt<T extends { embedding?: unknown }>(document: T): T {
  const { embedding } = document;
  const isVector = embedding instanceof Float32Array || Array.isArray(embedding);
  return isVector ? { ...document, embedding: encodeEmbedding(embedding as number[]) } : document;
}

/** Send documents, or bytes of NDJSON, to a route that takes lines, and return its answer; that of batches is their sum. */
export async function sendLines<T extends Counts>(
  requester: Requester,
  path: string,
  source: Source<NewDocument | ExportedDocument | Uint8Array>,
  call: Call & Transfer,
): Promise<T> {
  const bytes = ndjsonOf(source, (item) => spelt(item as NewDocument));
  const transfer = call.transfer ?? (NODE === undefined ? "batches" : "stream");
  if (transfer === "stream") return requester.body<T>("POST", path, { ...call, body: bytes, contentType: NDJSON });
  return sendBatches<T>(requester, path, linesOf(bytes), call);
}

async function sendBatches<T extends Counts>(
  requester: Requester,
  path: string,
  lines: AsyncIterable<string>,
  call: Call & Transfer,
): Promise<T> {
  let answer: T | undefined;
  let refusal: RagWrapperError | undefined;
  const sum: Counts = { count: 0, created: 0, updated: 0, unchanged: 0 };
  let sent = 0;
  let number = 0;
  for await (const batch of batchesOf(lines, call.batchSize ?? BATCH_SIZE)) {
    number += 1;
    const key = call.idempotencyKey === undefined ? {} : { idempotencyKey: `${call.idempotencyKey}.${number}` };
    try {
      answer = await requester.body<T>("POST", path, { ...call, ...key, body: batch.join("\n"), contentType: NDJSON });
      add(sum, answer, sent);
    } catch (error) {
      if (!(error instanceof RagWrapperError)) throw error;
      // As in a stream: a batch without a good line holds up no other.
      if (error.code !== "no_good_line") throw stoppedAfter(error, sum, sent);
      refusal = error;
      add(sum, error.details as Partial<Counts>, sent);
    }
    sent += batch.length;
  }
  if (answer !== undefined) return { ...answer, ...sum };
  // Nothing was sent at all, or no line was good: the service says so in its own words.
  if (refusal === undefined) return requester.body<T>("POST", path, { ...call, body: "", contentType: NDJSON });
  const { code, message, ...reason } = refusal;
  throw new RagWrapperError(code, message, { ...reason, details: { ...refusal.details, ...sum } });
}

async function* batchesOf(lines: AsyncIterable<string>, size: number): AsyncGenerator<string[], void, undefined> {
  let batch: string[] = [];
  let characters = 0;
  for await (const line of lines) {
    if (batch.length >= size || (batch.length > 0 && characters + line.length > BATCH_CHARACTERS)) {
      yield batch;
      batch = [];
      characters = 0;
    }
    batch.push(line);
    characters += line.length;
  }
  if (batch.length > 0) yield batch;
}

/** Add the counts of a batch, whose lines come after `before` others. */
function add(sum: Counts, batch: Partial<Counts>, before: number): void {
  for (const name of ["count", "created", "updated", "unchanged"] as const) sum[name] += batch[name] ?? 0;
  if (batch.ids) sum.ids = [...(sum.ids ?? []), ...batch.ids].slice(0, KEPT);
  if (!batch.errors) return;
  const errors = batch.errors.map((error) => ({ ...error, line: error.line + before }));
  sum.errors = [...(sum.errors ?? []), ...errors].slice(0, KEPT);
  sum.errors_total = (sum.errors_total ?? 0) + (batch.errors_total ?? errors.length);
}

/** Return the error with how many documents earlier batches have stored, and up to which line. */
function stoppedAfter(error: RagWrapperError, sum: Counts, sent: number): RagWrapperError {
  const { code, message, status, requestId, retryAfterMs } = error;
  const count = sum.count + (typeof error.details["count"] === "number" ? error.details["count"] : 0);
  const line = sent + (typeof error.details["line"] === "number" ? error.details["line"] : 0);
  const details = { ...error.details, count, line };
  return new RagWrapperError(code, message, { status, requestId, retryAfterMs, details, cause: error });
}

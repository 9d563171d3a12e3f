import { RagWrapperError, errorOfEvent } from "./errors.js";

/** The bytes of an answer, as they arrive. */
export type Bytes = AsyncIterable<Uint8Array>;
/** Anything that can be gone through with `for await`. */
export type Source<T> = Iterable<T> | AsyncIterable<T>;

/** Go through the lines of a text in UTF-8, without their ends. Holds one line at a time. */
export async function* linesOf(bytes: Bytes): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder();
  let begun: string[] = [];
  for await (const chunk of bytes) {
    const parts = decoder.decode(chunk, { stream: true }).split("\n");
    for (const [place, part] of parts.entries()) {
      if (place > 0) {
        yield withoutReturn(begun.join(""));
        begun = [];
      }
      begun.push(part);
    }
  }
  const last = begun.join("") + decoder.decode();
  if (last !== "") yield withoutReturn(last);
}

/** Go through the objects of NDJSON. */
export async function* objectsOf<T>(bytes: Bytes): AsyncGenerator<T, void, undefined> {
  for await (const line of linesOf(bytes)) {
    if (line.trim() !== "") yield parsed(line) as T;
  }
}

/** Go through the objects that a stream of server-sent events has as data. An event with `error` is thrown. */
export async function* eventsOf<T>(bytes: Bytes, requestId: () => string | undefined): AsyncGenerator<T, void, undefined> {
  let data: string[] = [];
  for await (const line of linesOf(bytes)) {
    if (line.startsWith("data:")) data.push(line.slice("data:".length).replace(/^ /, ""));
    if (line !== "" || data.length === 0) continue;
    const event = parsed(data.join("\n"));
    data = [];
    if (typeof event["error"] === "string" && event["done"] !== true) throw errorOfEvent(event, requestId());
    yield event as T;
    if (event["done"] === true) return;
  }
  throw new RagWrapperError("cut_short", "The stream of events broke off before its end", { requestId: requestId() });
}

/** Go through a source as bytes of NDJSON: objects become lines, bytes stay as they are. */
export async function* ndjsonOf(source: Source<object>, spelt: (item: object) => unknown): AsyncGenerator<Uint8Array> {
  const encoder = new TextEncoder();
  for await (const item of source) {
    yield item instanceof Uint8Array ? item : encoder.encode(`${JSON.stringify(spelt(item))}\n`);
  }
}

function parsed(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch (cause) {
    throw new RagWrapperError("unusable_answer", "A line of the stream is not JSON", { cause });
  }
}

function withoutReturn(line: string): string {
  return line.endsWith("\r") ? line.slice(0, -1) : line;
}

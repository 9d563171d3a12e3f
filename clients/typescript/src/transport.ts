import type { Clock } from "./clock.js";
import { RagWrapperError, errorOf } from "./errors.js";
import type { Bytes } from "./lines.js";
import { Silence } from "./silence.js";

/** A body that can be sent again, or a stream of bytes, which cannot. */
export type SentBody = string | Uint8Array | Blob | FormData | Bytes;

/** A request as it goes out. */
export interface Outgoing {
  method: string;
  url: string;
  headers: Record<string, string>;
  body: SentBody | undefined;
  /** Whether it may be sent again when nobody knows whether it arrived. */
  mayRepeat: boolean;
  signal: AbortSignal | undefined;
  timeoutMs: number;
  retries: number;
}

/** An answer whose body has not been read. */
export interface Incoming {
  status: number;
  headers: Headers;
  requestId: string | undefined;
  /** Read the whole body. */
  text(): Promise<string>;
  /** Go through the body as it arrives; leaving early closes the connection. */
  bytes(): AsyncGenerator<Uint8Array, void, undefined>;
  /** End without reading the body. */
  discard(): void;
}

export interface TransportOptions {
  fetch: typeof fetch;
  clock: Clock;
  /** The longest wait that the service may ask for; a longer one fails the call. */
  maxRetryAfterMs: number;
}

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 8_000;
const BYTES_IN_A_TURN = 1 << 18;
const NOT_MODIFIED = 304;
const OF_A_PROXY = [502, 504];
const ASK_AGAIN = [429, 503];

/** Sends requests, and again where that is safe and may help. */
export class Transport {
  readonly #options: TransportOptions;

  constructor(options: TransportOptions) {
    this.#options = options;
  }

  /** Return what `read` makes of the answer. Reading is a part of the attempt: a connection that breaks is tried again. */
  async send<T>(request: Outgoing, read: (answer: Incoming) => Promise<T>): Promise<T> {
    for (let attempt = 0; ; attempt += 1) {
      request.signal?.throwIfAborted();
      try {
        return await this.#attempt(request, read);
      } catch (error) {
        const pauseMs = this.#pauseMs(error, attempt, request);
        if (pauseMs === undefined) throw error;
        await this.#options.clock.sleep(pauseMs, request.signal);
      }
    }
  }

  async #attempt<T>(request: Outgoing, read: (answer: Incoming) => Promise<T>): Promise<T> {
    const silence = new Silence(request.timeoutMs, request.signal);
    const sent = bodyOf(request.body, silence);
    try {
      const answer = incoming(await this.#fetched(request, sent, silence), silence);
      const isFine = (answer.status >= 200 && answer.status < 300) || answer.status === NOT_MODIFIED;
      if (!isFine) throw errorOf(answer.status, answer.headers, await answer.text(), this.#options.clock.nowMs());
      return await read(answer);
    } catch (error) {
      silence.hangUp();
      throw error;
    } finally {
      sent.leave();
    }
  }

  async #fetched(request: Outgoing, sent: Sent, silence: Silence): Promise<Response> {
    const init: RequestInit & { duplex?: "half" } = {
      method: request.method,
      headers: request.headers,
      signal: silence.signal,
      // The key is all that says who asks, and the client keeps its own conditions.
      credentials: "omit",
      cache: "no-store",
    };
    if (sent.body !== undefined) init.body = sent.body;
    if (sent.body instanceof ReadableStream) init.duplex = "half";
    try {
      const response = await (0, this.#options.fetch)(request.url, init);
      silence.heard();
      return response;
    } catch (cause) {
      throw failureOf(cause, silence, sent.sourceFailure());
    }
  }

  /** Return how long to wait before the next attempt; undefined when there is none. */
  #pauseMs(error: unknown, attempt: number, request: Outgoing): number | undefined {
    if (!(error instanceof RagWrapperError) || !request.mayRepeat || attempt >= request.retries) return undefined;
    if (request.signal?.aborted) return undefined;
    const { random } = this.#options.clock;
    const pauseMs = random() * Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** attempt);
    if (error.status === undefined) return ["network_failure", "timed_out"].includes(error.code) ? pauseMs : undefined;
    if (ASK_AGAIN.includes(error.status) && error.retryAfterMs !== undefined) {
      return error.retryAfterMs <= this.#options.maxRetryAfterMs ? error.retryAfterMs + pauseMs : undefined;
    }
    // A proxy whose service is away gives no reason. The service says `Retry-After` where a repeat may help.
    const isOfAProxy = error.code === "unusable_answer" && [...OF_A_PROXY, ...ASK_AGAIN].includes(error.status);
    return isOfAProxy ? pauseMs : undefined;
  }
}

interface Sent {
  body: BodyInit | undefined;
  /** Tell the source of a stream that nobody reads it any more. */
  leave(): void;
  /** What the source of a stream failed with. */
  sourceFailure(): { error: unknown } | undefined;
}

function bodyOf(body: SentBody | undefined, silence: Silence): Sent {
  const isStream = body !== undefined && typeof body === "object" && Symbol.asyncIterator in body;
  if (!isStream) return { body: body as BodyInit | undefined, leave: () => undefined, sourceFailure: () => undefined };
  const source = body[Symbol.asyncIterator]();
  let failure: { error: unknown } | undefined;
  let sentBytes = 0;
  const stream = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          silence.rest();
          const { done, value } = await source.next();
          silence.heard();
          if (done) return controller.close();
          controller.enqueue(value);
          sentBytes += value.byteLength;
          if (sentBytes < BYTES_IN_A_TURN) return;
          // A source that never waits and a service that always reads would leave no time to hear an early refusal.
          sentBytes = 0;
          await new Promise((resolve) => setTimeout(resolve));
        } catch (error) {
          failure = { error };
          controller.error(error);
        }
      },
    },
    // Nothing is taken from the source before the connection has room for it.
    { highWaterMark: 0 },
  );
  return { body: stream, leave: () => void Promise.resolve(source.return?.()).catch(() => undefined), sourceFailure: () => failure };
}

function incoming(response: Response, silence: Silence): Incoming {
  const requestId = response.headers.get("x-request-id") ?? undefined;
  const bytes = async function* (): AsyncGenerator<Uint8Array, void, undefined> {
    const reader = response.body?.getReader();
    let isComplete = false;
    try {
      for (;;) {
        silence.heard();
        const read = await reader?.read().catch((cause: unknown) => {
          throw failureOf(cause, silence, undefined, requestId);
        });
        silence.rest();
        isComplete = read === undefined || read.done;
        if (read === undefined || read.done) return;
        yield read.value;
      }
    } finally {
      if (isComplete) silence.end();
      else silence.hangUp();
    }
  };
  const text = async (): Promise<string> => {
    const decoder = new TextDecoder();
    let found = "";
    for await (const chunk of bytes()) found += decoder.decode(chunk, { stream: true });
    return found + decoder.decode();
  };
  return { status: response.status, headers: response.headers, requestId, bytes, text, discard: () => silence.hangUp() };
}

function failureOf(cause: unknown, silence: Silence, source?: { error: unknown }, requestId?: string): unknown {
  if (source !== undefined) return source.error;
  if (silence.signal.aborted) return silence.signal.reason;
  return new RagWrapperError("network_failure", "The service cannot be reached, or the connection broke", { cause, requestId });
}

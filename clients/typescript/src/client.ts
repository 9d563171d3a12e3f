import { SYSTEM_CLOCK, newUuid, type Clock } from "./clock.js";
import { encodeEmbedding } from "./embeddings.js";
import { RagWrapperError } from "./errors.js";
import { WRITES_ONCE } from "./generated/routes.js";
import { Transport, type Incoming, type Outgoing, type SentBody } from "./transport.js";
import type { Answer, AnswerOf, CallOptions, Method, OptionsOf, PathOf, Route } from "./typed.js";

export interface ClientOptions {
  /** Where the service is, for example http://127.0.0.1:5006; behind a proxy, with the path before its routes. */
  url: string;
  /** The key that says who asks, or a function that gives it for each request. */
  apiKey?: string | (() => string | Promise<string>) | undefined;
  /**
   * The database of the collections: `tenant/database`, or one of the default tenant alone. Sent with every request;
   * what serves the default one alone refuses it.
   */
  database?: string | undefined;
  /** How often a call is repeated where that is safe; 3 by default. */
  retries?: number | undefined;
  /** How long the service may be silent before an attempt is given up; 150 seconds by default. */
  timeoutMs?: number | undefined;
  /** The longest wait that the service may ask for before a repeat; a minute by default. */
  maxRetryAfterMs?: number | undefined;
  /** Sent with every request. */
  headers?: Readonly<Record<string, string>> | undefined;
  fetch?: typeof fetch | undefined;
  clock?: Clock | undefined;
}

/** A request as the methods of the client spell it. */
export interface Call extends CallOptions {
  path?: Readonly<Record<string, unknown>> | undefined;
  query?: Readonly<Record<string, unknown>> | undefined;
  body?: unknown;
  ifNoneMatch?: string | undefined;
  contentType?: string | undefined;
}

const RETRIES = 3;
const TIMEOUT_MS = 150_000;
const MAX_RETRY_AFTER_MS = 60_000;
const NOT_MODIFIED = 304;
const KEY = /^[\x21-\x7e]+$/;
/** Questions that are asked by POST: they change nothing, so they may be repeated. */
const READS_BY_POST: ReadonlySet<Route> = new Set<Route>([
  "POST /collections/{name}/documents/search",
  "POST /collections/{name}/query",
  "POST /collections/{name}/gather",
  "POST /collections/{name}/text-search",
  "POST /query",
  "POST /rerank",
  "POST /api/search",
  "POST /api/collect",
  "POST /api/rag/search",
  "POST /api/rag/retrieve",
  "POST /api/connections/validate",
  "POST /api/connections/env-vars/validate",
]);
const TAKES_KEY: ReadonlySet<string> = new Set(WRITES_ONCE);

/** Asks any route of the service. The methods of `RagWrapper` stand on it. */
export class Requester {
  readonly #options: ClientOptions;
  readonly #base: string;
  readonly #transport: Transport;

  constructor(options: ClientOptions) {
    const { protocol, username, search, hash } = new URL(options.url);
    if (!/^https?:$/.test(protocol) || username !== "" || search !== "" || hash !== "") {
      throw new TypeError("url must be a plain http(s) URL");
    }
    this.#options = options;
    this.#base = options.url.replace(/\/+$/, "");
    this.#transport = new Transport({
      fetch: options.fetch ?? fetch,
      clock: options.clock ?? SYSTEM_CLOCK,
      maxRetryAfterMs: options.maxRetryAfterMs ?? MAX_RETRY_AFTER_MS,
    });
  }

  /**
   * Ask a route of the description, and return its answer with status and headers.
   *
   * JSON and texts are read whole; any other body is given as its bytes, which must be gone through or left early.
   * Rejects with RagWrapperError for every refusal and failure.
   */
  request<M extends Method, P extends PathOf<M>>(
    method: M,
    path: P,
    ...options: OptionsOf<M, P>
  ): Promise<Answer<AnswerOf<M, P>>> {
    return this.exchange(method, path, (options[0] ?? {}) as Call, async (answer) => {
      return answered(answer, (await bodyOf(answer)) as AnswerOf<M, P>);
    });
  }

  /** Ask what `etag` stands for, and return undefined when it has not changed since. */
  getIfChanged<P extends PathOf<"GET">>(
    etag: string | undefined,
    path: P,
    ...options: OptionsOf<"GET", P>
  ): Promise<Answer<AnswerOf<"GET", P>> | undefined> {
    const call = { ...(options[0] as Call | undefined), ifNoneMatch: etag };
    return this.exchange("GET", path, call, async (answer) => {
      const body = await bodyOf(answer);
      return answer.status === NOT_MODIFIED ? undefined : answered(answer, body as AnswerOf<"GET", P>);
    });
  }

  /** Ask a route and return the body of its answer. */
  async body<T>(method: Method, path: string, call: Call = {}): Promise<T> {
    return this.exchange(method, path, call, async (answer) => (await bodyOf(answer)) as T);
  }

  /** Ask a route and go through the bytes of its answer; `begun` sees the answer before. */
  async *bytes(method: Method, path: string, call: Call, begun?: (answer: Incoming) => void): AsyncGenerator<Uint8Array, void> {
    const answer = await this.exchange(method, path, call, async (found) => found);
    begun?.(answer);
    yield* answer.bytes();
  }

  /** Ask a route and return what `read` makes of the answer. */
  async exchange<T>(method: Method, path: string, call: Call, read: (answer: Incoming) => Promise<T>): Promise<T> {
    const route = `${method} ${path}`;
    const url = this.#base + filled(path, call.path ?? {}) + queryString({ database: this.#options.database, ...call.query });
    const headers = new Headers({ ...this.#options.headers, ...call.headers });
    const body = sent(call, headers);
    const isRead = method === "GET" || (READS_BY_POST as ReadonlySet<string>).has(route);
    const isStream = typeof body === "object" && Symbol.asyncIterator in body;
    const idempotencyKey = call.idempotencyKey ?? (TAKES_KEY.has(route) && !isStream ? newUuid() : undefined);
    if (idempotencyKey !== undefined) headers.set("Idempotency-Key", idempotencyKey);
    if (call.ifMatch !== undefined) headers.set("If-Match", call.ifMatch);
    if (call.ifNoneMatch !== undefined) headers.set("If-None-Match", call.ifNoneMatch);
    const { apiKey } = this.#options;
    const key = typeof apiKey === "function" ? await apiKey() : apiKey;
    if (key !== undefined) headers.set("Authorization", `Bearer ${checked(key)}`);
    const request: Outgoing = {
      method,
      url,
      headers: Object.fromEntries(headers),
      body,
      mayRepeat: !isStream && (isRead || idempotencyKey !== undefined),
      signal: call.signal,
      timeoutMs: call.timeoutMs ?? this.#options.timeoutMs ?? TIMEOUT_MS,
      retries: call.retries ?? this.#options.retries ?? RETRIES,
    };
    return this.#transport.send(request, read);
  }
}

function answered<T>(answer: Incoming, body: T): Answer<T> {
  return {
    status: answer.status,
    body,
    etag: answer.headers.get("etag") ?? undefined,
    requestId: answer.requestId,
    isReplay: answer.headers.get("idempotent-replayed") === "true",
    headers: answer.headers,
  };
}

async function bodyOf(answer: Incoming): Promise<unknown> {
  const type = answer.headers.get("content-type")?.split(";")[0]?.trim() ?? "";
  if (answer.status === NOT_MODIFIED || answer.status === 204) return void (await answer.text());
  if (type === "text/plain" || type === "text/html") return answer.text();
  if (type !== "application/json") return type === "" ? void (await answer.text()) : answer.bytes();
  const text = await answer.text();
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    const { status, requestId } = answer;
    throw new RagWrapperError("unusable_answer", "The answer is not JSON, as it says", { status, requestId, cause });
  }
}

function sent(call: Call, headers: Headers): SentBody | undefined {
  const { body, contentType } = call;
  if (body === undefined) return undefined;
  if (isRaw(body)) {
    if (contentType !== undefined) headers.set("Content-Type", contentType);
    return body;
  }
  headers.set("Content-Type", "application/json");
  return JSON.stringify(body, (_, value: unknown) => (value instanceof Float32Array ? encodeEmbedding(value) : value));
}

function isRaw(body: unknown): body is SentBody {
  if (typeof body === "string" || body instanceof Uint8Array || body instanceof Blob || body instanceof FormData) return true;
  return typeof body === "object" && body !== null && Symbol.asyncIterator in body;
}

/** Return a path with its values. One that would lead to another route is refused. */
function filled(path: string, values: Readonly<Record<string, unknown>>): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = String(values[name] ?? "");
    if (value === "" || value === "." || value === "..") {
      const message = `${JSON.stringify(value)} cannot stand in a path: ${name} must be another one`;
      throw new RagWrapperError("invalid_path", message, { details: { field: name } });
    }
    return encodeURIComponent(value);
  });
}

/** Return a query string: objects as JSON, lists of texts with commas, nothing for what is undefined or null. */
function queryString(values: Readonly<Record<string, unknown>>): string {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined || value === null) continue;
    if (Array.isArray(value)) found.set(name, value.join(","));
    else found.set(name, typeof value === "object" ? JSON.stringify(value) : String(value));
  }
  const text = found.toString();
  return text === "" ? "" : `?${text}`;
}

/** Return a key without the white space around it, as files have it; the error does not show it. */
function checked(key: string): string {
  const found = key.trim();
  if (!KEY.test(found)) throw new TypeError("apiKey must be a text without spaces");
  return found;
}

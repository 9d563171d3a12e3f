/** What an error is about when the service did not say so itself. */
export type ClientCode =
  | "network_failure" // the service cannot be reached, or the connection broke
  | "timed_out" // nothing was heard for `timeoutMs`
  | "unusable_answer" // what answered does not speak as the service does
  | "without_code" // the service refused, and gave a reason but no code
  | "cut_short" // a stream ended before its end
  | "invalid_path"; // a value that cannot stand in a path

interface Reason {
  status?: number | undefined;
  details?: Record<string, unknown> | undefined;
  requestId?: string | undefined;
  retryAfterMs?: number | undefined;
  cause?: unknown;
}

/**
 * Every failure of a call: what the service refused, and what never reached it.
 *
 * `code` is one of the service's stable codes or a `ClientCode`; `status` is undefined when there was no answer. A call
 * that its caller aborts rejects with the reason of that signal instead.
 */
export class RagWrapperError extends Error {
  readonly code: string;
  readonly status: number | undefined;
  /** Where the fault is: `field`, `index`, `line`, `pointer`, `allowed`, … */
  readonly details: Record<string, unknown>;
  /** Under which the request is in the service's log. */
  readonly requestId: string | undefined;
  /** How long the service asked to wait before the call is repeated. */
  readonly retryAfterMs: number | undefined;

  constructor(code: string, message: string, reason: Reason = {}) {
    super(message, reason.cause === undefined ? undefined : { cause: reason.cause });
    this.name = "RagWrapperError";
    this.code = code;
    this.status = reason.status;
    this.details = reason.details ?? {};
    this.requestId = reason.requestId;
    this.retryAfterMs = reason.retryAfterMs;
  }
}

/** Return the error that an answer stands for. `text` is its body. */
export function errorOf(status: number, headers: Headers, text: string, nowMs: number): RagWrapperError {
  const body = objectOf(text);
  const requestId = headers.get("x-request-id") ?? undefined;
  const retryAfterMs = retryAfter(headers.get("retry-after"), nowMs);
  // MCP's errors have the sentence one step deeper.
  const sentence = body["message"] ?? (body["error"] as { message?: unknown } | undefined)?.message;
  if (typeof sentence !== "string") {
    const message = `What answered with status ${status} gave no reason that can be read`;
    return new RagWrapperError("unusable_answer", message, { status, details: body, requestId, retryAfterMs });
  }
  const code = typeof body["code"] === "string" ? body["code"] : "without_code";
  return new RagWrapperError(code, sentence, { status, details: detailsOf(body), requestId, retryAfterMs });
}

/** Return the error that the last event of a stream tells. */
export function errorOfEvent(event: Record<string, unknown>, requestId: string | undefined): RagWrapperError {
  const code = typeof event["code"] === "string" ? event["code"] : "without_code";
  const message = typeof event["message"] === "string" ? event["message"] : String(event["error"]);
  return new RagWrapperError(code, message, { status: 200, details: detailsOf(event), requestId });
}

/** Return `Retry-After`, seconds or a date, in milliseconds from now. */
export function retryAfter(value: string | null, nowMs: number): number | undefined {
  if (value === null || value.trim() === "") return undefined;
  const seconds = Number(value);
  const waitMs = Number.isFinite(seconds) ? seconds * 1000 : Date.parse(value) - nowMs;
  return Number.isNaN(waitMs) ? undefined : Math.max(0, waitMs);
}

function detailsOf(body: Record<string, unknown>): Record<string, unknown> {
  const details = body["details"];
  return typeof details === "object" && details !== null ? (details as Record<string, unknown>) : {};
}

function objectOf(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

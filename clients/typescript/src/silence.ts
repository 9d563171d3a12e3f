import { RagWrapperError } from "./errors.js";

const LONGEST_TIMER_MS = 2 ** 31 - 1;

/**
 * Aborts an attempt when nothing was heard for too long, or when its caller aborts.
 *
 * Every piece that was sent or received restarts the time, so a long stream that moves is never aborted; nor is one whose
 * caller takes long to give or take the next piece.
 */
export class Silence {
  readonly #controller = new AbortController();
  readonly #timeoutMs: number;
  readonly #caller: AbortSignal | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(timeoutMs: number, caller: AbortSignal | undefined) {
    this.#timeoutMs = timeoutMs;
    this.#caller = caller;
    caller?.addEventListener("abort", this.#followCaller, { once: true });
    if (caller?.aborted) this.#followCaller();
    this.heard();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Begin to wait for the service anew. */
  heard(): void {
    clearTimeout(this.#timer);
    if (this.#timeoutMs > LONGEST_TIMER_MS || this.signal.aborted) return;
    this.#timer = setTimeout(() => {
      const message = `The service was silent for ${this.#timeoutMs} ms`;
      this.#controller.abort(new RagWrapperError("timed_out", message));
    }, this.#timeoutMs);
  }

  /** Do not count the time until `heard`: it is the caller who takes it. */
  rest(): void {
    clearTimeout(this.#timer);
  }

  /** Stop waiting: the attempt has ended. */
  end(): void {
    clearTimeout(this.#timer);
    this.#caller?.removeEventListener("abort", this.#followCaller);
  }

  /** End, and close the connection. */
  hangUp(): void {
    this.end();
    this.#controller.abort();
  }

  readonly #followCaller = (): void => {
    this.end();
    this.#controller.abort(this.#caller?.reason);
  };
}

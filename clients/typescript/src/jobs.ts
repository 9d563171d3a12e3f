import type { Requester } from "./client.js";
import type { Clock } from "./clock.js";
import { itemsOf, pagesOf } from "./pages.js";
import type { CallOptions, Query, Result } from "./typed.js";

export type Job = Result<"showJob">;

const FIRST_LOOK_MS = 100;
const LATEST_LOOK_MS = 2_000;
const ENDED: ReadonlySet<Job["status"]> = new Set<Job["status"]>(["done", "failed", "cancelled"]);

/** Jobs, which read the files that were uploaded. */
export class Jobs {
  readonly #requester: Requester;
  readonly #clock: Clock;

  constructor(requester: Requester, clock: Clock) {
    this.#requester = requester;
    this.#clock = clock;
  }

  get(id: string, options?: CallOptions): Promise<Job> {
    return this.#requester.body("GET", "/api/jobs/{id}", { ...options, path: { id } });
  }

  page(query: Query<"listJobs"> = {}, options?: CallOptions): Promise<Result<"listJobs">> {
    return this.#requester.body("GET", "/api/jobs", { ...options, query });
  }

  list(query: Query<"listJobs"> = {}, options?: CallOptions): AsyncGenerator<Job, void> {
    const pages = pagesOf((cursor) => this.page(cursor === undefined ? query : { ...query, cursor }, options));
    return itemsOf(pages, (page) => page.jobs);
  }

  /** Cancel a job; what it has stored stays. */
  cancel(id: string, options?: CallOptions): Promise<Result<"cancelJob">> {
    return this.#requester.body("DELETE", "/api/jobs/{id}", { ...options, path: { id } });
  }

  /** Give the state of a job whenever it is looked at, at last the one in which it ended. `signal` bounds the waiting. */
  async *follow(id: string, options: CallOptions = {}): AsyncGenerator<Job, void> {
    for (let pauseMs = FIRST_LOOK_MS; ; pauseMs = Math.min(pauseMs * 1.5, LATEST_LOOK_MS)) {
      const job = await this.get(id, options);
      yield job;
      if (ENDED.has(job.status)) return;
      await this.#clock.sleep(pauseMs, options.signal);
    }
  }

  /** Return a job when it has ended, whether it is done, has failed or was cancelled. */
  async wait(id: string, options: CallOptions = {}): Promise<Job> {
    for await (const job of this.follow(id, options)) {
      if (ENDED.has(job.status)) return job;
    }
    throw new Error("unreachable");
  }
}

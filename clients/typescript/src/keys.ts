import type { Requester } from "./client.js";
import type { Body, CallOptions, Result } from "./typed.js";

/** The keys of the service: who may do what. */
export class Keys {
  readonly #requester: Requester;

  constructor(requester: Requester) {
    this.#requester = requester;
  }

  /** Make a key. Its secret is in this answer alone. */
  create(key: Body<"createKey">, options?: CallOptions): Promise<Result<"createKey">> {
    return this.#requester.body("POST", "/api/keys", { ...options, body: key });
  }

  list(options?: CallOptions): Promise<Result<"listKeys">> {
    return this.#requester.body("GET", "/api/keys", options);
  }

  get(id: string, options?: CallOptions): Promise<Result<"getKey">> {
    return this.#requester.body("GET", "/api/keys/{id}", { ...options, path: { id } });
  }

  update(id: string, change: Body<"changeKey">, options?: CallOptions): Promise<Result<"changeKey">> {
    return this.#requester.body("PATCH", "/api/keys/{id}", { ...options, path: { id }, body: change });
  }

  /** Make a successor of a key, which itself ends after `grace_seconds`. */
  rotate(id: string, rule: Body<"rotateKey"> = {}, options?: CallOptions): Promise<Result<"rotateKey">> {
    return this.#requester.body("POST", "/api/keys/{id}/rotate", { ...options, path: { id }, body: rule });
  }

  revoke(id: string, options?: CallOptions): Promise<Result<"revokeKey">> {
    return this.#requester.body("DELETE", "/api/keys/{id}", { ...options, path: { id } });
  }
}

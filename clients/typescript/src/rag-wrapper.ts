import { Aliases } from "./aliases.js";
import { Chat } from "./chat.js";
import { Requester, type ClientOptions } from "./client.js";
import { SYSTEM_CLOCK } from "./clock.js";
import { Collection } from "./collection.js";
import { Collections } from "./collections.js";
import { Connections } from "./connections.js";
import { RagWrapperError } from "./errors.js";
import { Files } from "./files.js";
import { Jobs } from "./jobs.js";
import { Keys } from "./keys.js";
import { Rag } from "./rag.js";
import type { Body, CallOptions, Result } from "./typed.js";

/** A client of one service. It holds no connection and needs no end. */
export class RagWrapper extends Requester {
  readonly collections: Collections;
  readonly aliases: Aliases;
  readonly files: Files;
  readonly jobs: Jobs;
  readonly chat: Chat;
  readonly rag: Rag;
  readonly connections: Connections;
  readonly keys: Keys;

  constructor(options: ClientOptions) {
    super(options);
    this.collections = new Collections(this);
    this.aliases = new Aliases(this);
    this.files = new Files(this);
    this.jobs = new Jobs(this, options.clock ?? SYSTEM_CLOCK);
    this.chat = new Chat(this);
    this.rag = new Rag(this);
    this.connections = new Connections(this);
    this.keys = new Keys(this);
  }

  /** Return what one collection can be asked. Asks nothing yet. */
  collection(name: string): Collection {
    return new Collection(this, name);
  }

  /** Ask all text collections, or those named, in words: by meaning, by words and in notes. */
  search(question: Body<"search">, options?: CallOptions): Promise<Result<"search">> {
    return this.body("POST", "/api/search", { ...options, body: question });
  }

  /** Put documents of your own in the order of their relevance. */
  rerank(question: Body<"rerank">, options?: CallOptions): Promise<Result<"rerank">> {
    return this.body("POST", "/rerank", { ...options, body: question });
  }

  /** Find the collection that answers a message of a conversation. */
  collect(question: Body<"collect">, options?: CallOptions): Promise<Result<"collect">> {
    return this.body("POST", "/api/collect", { ...options, body: question });
  }

  /** Return the databases that the key has something of. */
  databases(options?: CallOptions): Promise<Result<"listDatabasesOfAll">> {
    return this.body("GET", "/databases", options);
  }

  tools(options?: CallOptions): Promise<Result<"listTools">> {
    return this.body("GET", "/tools", options);
  }

  callTool(tool: string, args: Body<"callTool">, options?: CallOptions): Promise<Result<"callTool">> {
    return this.body("POST", "/tools/{tool}", { ...options, path: { tool }, body: args });
  }

  /** Return who asks, and what they may do. */
  me(options?: CallOptions): Promise<Result<"getMyself">> {
    return this.body("GET", "/api/me", options);
  }

  /** Return the health of the service. One that is unhealthy says so with 503: the report is in the error's `details`. */
  health(options?: CallOptions): Promise<Result<"getHealth">> {
    return this.body("GET", "/health", { retries: 0, ...options });
  }

  /** Return whether the service takes requests. */
  async isReady(options?: CallOptions): Promise<boolean> {
    try {
      await this.body("GET", "/ready", { retries: 0, ...options });
      return true;
    } catch (error) {
      if (error instanceof RagWrapperError) return false;
      throw error;
    }
  }
}

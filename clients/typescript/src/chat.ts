import type { Requester } from "./client.js";
import { eventsOf } from "./lines.js";
import type { Body, CallOptions, Query, Result } from "./typed.js";

export type ChatAnswer = Result<"chat">;
/** A piece of the message, or of the model's thoughts where the service shows them, or the whole answer at the end. */
export type ChatEvent = { delta: string; thought?: string; done?: undefined } | ({ done: true; delta?: undefined } & ChatAnswer);
type ChatRequest = Omit<Body<"chat">, "stream">;

/** The chat model, asked with or without documents. Nothing is repeated by itself: an answer may cost money. */
export class Chat {
  readonly #requester: Requester;

  constructor(requester: Requester) {
    this.#requester = requester;
  }

  send(request: ChatRequest, options?: CallOptions): Promise<ChatAnswer> {
    return this.#requester.body("POST", "/api/chat", { ...options, body: request });
  }

  /** Give the answer piece by piece. Leaving early hangs up on the model; an error on the way is thrown. */
  async *stream(request: ChatRequest, options?: CallOptions): AsyncGenerator<ChatEvent, void> {
    let requestId: string | undefined;
    const call = { ...options, body: { ...request, stream: true } };
    const bytes = this.#requester.bytes("POST", "/api/chat", call, (answer) => (requestId = answer.requestId));
    yield* eventsOf<ChatEvent>(bytes, () => requestId);
  }

  /** Return a conversation with its messages. */
  conversation(id: string, options: Query<"getConversation"> & CallOptions = {}): Promise<Result<"getConversation">> {
    const { owner, ...call } = options;
    return this.#requester.body("GET", "/api/chat/{conversation_id}", { ...call, path: { conversation_id: id }, query: { owner } });
  }

  forget(id: string, options: Query<"deleteConversation"> & CallOptions = {}): Promise<Result<"deleteConversation">> {
    const { owner, ...call } = options;
    return this.#requester.body("DELETE", "/api/chat/{conversation_id}", { ...call, path: { conversation_id: id }, query: { owner } });
  }
}

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { after } from "node:test";
import { RagWrapper, type ClientOptions, type Clock } from "../src/index.js";

/** What happens to one request; the body has not been read. */
export type Act = (request: IncomingMessage, response: ServerResponse) => void;
export interface Seen {
  method: string;
  path: string;
  headers: IncomingMessage["headers"];
}

/** A small server that speaks HTTP: it follows a script, the last line of which it repeats. */
export async function scriptedServer(...script: Act[]): Promise<{ url: string; seen: Seen[]; server: Server }> {
  const seen: Seen[] = [];
  const server = createServer((request, response) => {
    const act = script[Math.min(seen.length, script.length - 1)];
    seen.push({ method: request.method ?? "", path: request.url ?? "", headers: request.headers });
    act?.(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen, server };
}

/** Answer with JSON as the service does, when the whole request has arrived. */
export function answers(status: number, body: unknown, headers: Record<string, string> = {}): Act {
  return (request, response) => {
    request.resume().on("end", () => {
      response.writeHead(status, { "Content-Type": "application/json", "X-Request-ID": "r-1", ...headers });
      response.end(JSON.stringify(body));
    });
  };
}

/** Refuse as the service does. */
export function refuses(status: number, code: string, headers: Record<string, string> = {}): Act {
  return answers(status, { error: "No.", message: "No.", detail: "No.", code, details: {} }, headers);
}

/** Break the connection off without a word. */
export const breaks: Act = (request) => void request.socket.destroy();

/** A clock that only goes on when somebody sleeps, and tells for how long. */
export function stoppedClock(nowMs = 0): Clock & { slept: number[] } {
  const slept: number[] = [];
  return {
    slept,
    nowMs: () => nowMs + slept.reduce((sum, each) => sum + each, 0),
    random: () => 1,
    sleep: (milliseconds) => {
      slept.push(milliseconds);
      return Promise.resolve();
    },
  };
}

/** A client of a scripted server, whose waits take no time. */
export function clientOf(url: string, options: Partial<ClientOptions> = {}): { client: RagWrapper; slept: number[] } {
  const clock = stoppedClock(Date.parse("2026-01-01T00:00:00Z"));
  return { client: new RagWrapper({ url, clock, ...options }), slept: clock.slept };
}

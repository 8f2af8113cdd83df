import { chmodSync, existsSync, statSync, unlinkSync } from "node:fs";
import type { Clock } from "../clock.ts";
import { LIMITS } from "../limits.ts";

/** Where to listen: an address and port (0 takes a free one), or a Unix socket. */
export type HttpAddress = { host: string; port: number } | { unix: string };

export interface HttpServer {
  /** `http://127.0.0.1:8006`, or `unix:/path`. */
  readonly url: string;
  /** The port that was taken; null for a Unix socket. */
  readonly port: number | null;
  /** Takes no new connection, lets requests in hand go on for `graceMs`, cuts the rest, and resolves when all are gone. */
  stop(graceMs: number): Promise<void>;
}

/** Why a server cannot listen, in words for whoever started it. */
export class ListenError extends Error {
  override readonly name = "ListenError";
}

/** What a Hono app is to this file. */
interface App {
  fetch(request: Request, bindings: object): Response | Promise<Response>;
}

/** Listens with an app. Throws ListenError when the address cannot be had. */
export function startHttp(app: App, address: HttpAddress, clock: Clock): HttpServer {
  const server = listen(app, address);
  return {
    url: "unix" in address ? `unix:${address.unix}` : `http://${bracket(address.host)}:${server.port}`,
    port: server.port ?? null,
    async stop(graceMs) {
      const timer = new AbortController();
      const cut = clock.sleep(graceMs, timer.signal).then(() => server.stop(true));
      await Promise.race([server.stop(), cut]);
      timer.abort();
      await cut;
      if ("unix" in address && existsSync(address.unix)) unlinkSync(address.unix);
    },
  };
}

type Fetch = (request: Request, server: Bun.Server<undefined>) => Response | Promise<Response>;

function listen(app: App, address: HttpAddress): Bun.Server<undefined> {
  const fetch: Fetch = (request, server) => app.fetch(request, { server });
  // The app refuses a body that is too large with a problem document; Bun's own bound would answer with bare text.
  const common = { fetch, maxRequestBodySize: LIMITS.bodyBytesMax * 16, development: false } as const;
  try {
    if (!("unix" in address)) {
      // Unless told not to, Bun shares a port: a second server would take every other request without a word.
      return Bun.serve({
        ...common,
        hostname: address.host,
        port: address.port,
        // Long polls and event streams are silent for longer than any idle bound.
        ...NO_IDLE_BOUND,
        reusePort: false,
      });
    }
    removeStaleSocket(address.unix);
    const server = Bun.serve({ ...common, unix: address.unix, ...NO_IDLE_BOUND });
    chmodSync(address.unix, 0o600);
    return server;
  } catch (cause) {
    throw new ListenError(describe(cause, address), { cause });
  }
}

/** Bun heeds it on Unix sockets too, where it cuts a silent request after 10 s otherwise; only its types do not know. */
const NO_IDLE_BOUND: object = { idleTimeout: 0 };

/** A socket file that a killed server left behind; any other file is not ours to remove. */
function removeStaleSocket(path: string): void {
  if (existsSync(path) && statSync(path).isSocket()) unlinkSync(path);
}

function describe(cause: unknown, address: HttpAddress): string {
  const where = "unix" in address ? address.unix : `${bracket(address.host)}:${address.port}`;
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : "";
  if (code === "EADDRINUSE") return `${where} is taken by another program; choose another with --port`;
  if (code === "EACCES") return `${where} may not be listened on by this user`;
  return `cannot listen on ${where}: ${cause instanceof Error ? cause.message : String(cause)}`;
}

function bracket(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

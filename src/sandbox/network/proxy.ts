import { closeSync } from "node:fs";
import net, { type Server, type Socket } from "node:net";
import { type Clock, deadline } from "../../clock.ts";
import { LIMITS } from "../../limits.ts";
import { type NetworkAttempt, type NetworkRule, permits } from "../../network-rule.ts";
import { type Cidr, isReachable } from "./addresses.ts";
import { type BadRequest, type ProxyRequest, parseProxyRequest } from "./proxy-request.ts";
import { listenUnnamed } from "./unnamed-socket.ts";

const HEAD_END = "\r\n\r\n";

export interface ProxyOptions {
  rules: readonly NetworkRule[];
  /** Networks that are not public and may be reached all the same. */
  admitted: readonly Cidr[];
  /** Gives all addresses of a name; rejects when there is none. */
  resolve: (host: string) => Promise<readonly string[]>;
  clock: Clock;
}

/** Why a request is refused, with the status that says so. */
class Refusal extends Error {
  constructor(
    readonly status: string,
    readonly why: string,
  ) {
    super(why);
  }
}

/**
 * The way out of one sandbox: an HTTP proxy (CONNECT and plain requests) on a Unix socket of its own, that lets through
 * what the task's rules name and writes down every attempt. `startProxy` is the only way to make one.
 */
export class SandboxProxy implements AsyncDisposable {
  /** Grows with each attempt, up to `networkAttemptsMax`. */
  readonly log: { attempts: NetworkAttempt[]; leftOut: number } = { attempts: [], leftOut: 0 };
  /** A path descriptor of the socket, which has no name: whoever holds it connects to `/proc/self/fd/N`. */
  readonly socketFd: number;
  readonly #options: ProxyOptions;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #clients = 0;
  #bytes = 0;
  #isClosed = false;

  constructor(options: ProxyOptions, server: Server, socketFd: number) {
    this.#options = options;
    this.#server = server;
    this.socketFd = socketFd;
    server.on("connection", (client) => void this.#serve(client));
  }

  /** Ends every connection. Safe to call twice. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    closeSync(this.socketFd);
    for (const socket of this.#sockets) socket.destroy();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Never rejects: whatever goes wrong ends this connection alone. */
  async #serve(client: Socket): Promise<void> {
    this.#own(client);
    this.#clients += 1;
    client.once("close", () => {
      this.#clients -= 1;
    });
    const attempt = this.#note();
    try {
      if (this.#clients > LIMITS.networkConnectionsMax) {
        throw new Refusal("503 Service Unavailable", `more than ${LIMITS.networkConnectionsMax} connections at once`);
      }
      const { head, rest } = await readHead(client);
      const request = parseProxyRequest(head);
      Object.assign(attempt, { host: request.host, port: request.port });
      const upstream = await this.#reach(request, attempt);
      if (client.destroyed) upstream.destroy();
      else this.#join(client, upstream, { attempt, request: request as ProxyRequest, rest });
    } catch (error) {
      const refusal = error instanceof Refusal ? error : new Refusal("502 Bad Gateway", "the proxy failed");
      attempt.refused = refusal.why;
      const said = `rolloutd: ${refusal.why}\n`;
      client.end(
        `HTTP/1.1 ${refusal.status}\r\nContent-Type: text/plain\r\nContent-Length: ${said.length}\r\nConnection: close${HEAD_END}${said}`,
      );
      // What it still sends is of no interest, but unread bytes would turn the answer into a reset.
      client.resume();
      client.once("end", () => client.destroy());
    }
  }

  /** A connection to what the request names. Throws Refusal. */
  async #reach(request: ProxyRequest | BadRequest, attempt: NetworkAttempt): Promise<Socket> {
    if ("problem" in request) throw new Refusal("400 Bad Request", request.problem);
    const { host, port } = request;
    if (!permits(this.#options.rules, host, port)) {
      throw new Refusal("403 Forbidden", `${host}:${port} is not in this task's network list`);
    }
    const late = new AbortController();
    const limit = deadline(this.#options.clock, LIMITS.networkConnectMs, late.signal, "late");
    try {
      const addresses = await orAbort(this.#options.resolve(host), limit.signal, `${host} cannot be resolved`);
      const reachable = addresses.filter((address) => isReachable(address, this.#options.admitted));
      if (reachable.length === 0) throw new Refusal("403 Forbidden", `${host} has no public address`);
      for (const address of reachable.slice(0, LIMITS.networkAddressesMax)) {
        // The address that was looked at, never the name again: its answer may have changed.
        const upstream = this.#own(net.connect({ host: address, port, allowHalfOpen: true }));
        if (await isConnected(upstream, limit.signal)) {
          attempt.address = address;
          return upstream;
        }
        upstream.destroy();
      }
      throw new Refusal("502 Bad Gateway", `${host}:${port} cannot be reached`);
    } finally {
      await limit.release();
    }
  }

  #join(
    client: Socket,
    upstream: Socket,
    { attempt, request, rest }: { attempt: NetworkAttempt; request: ProxyRequest; rest: Uint8Array },
  ): void {
    const count = (key: "bytesSent" | "bytesReceived") => (chunk: Uint8Array) => {
      attempt[key] += chunk.length;
      this.#bytes += chunk.length;
      if (this.#bytes <= LIMITS.networkBytesMax) return;
      attempt.refused = `cut off: more than ${LIMITS.networkBytesMax} bytes over the network`;
      for (const socket of this.#sockets) socket.destroy();
    };
    client.once("close", () => upstream.destroy());
    upstream.once("close", () => {
      // An orderly end is passed on by the pipe, after what was still to be written.
      if (!upstream.readableEnded) client.destroy();
    });
    if (request.kind === "tunnel") client.write(`HTTP/1.1 200 Connection established${HEAD_END}`);
    else {
      upstream.write(request.head);
      count("bytesSent")(Buffer.from(request.head, "latin1"));
    }
    if (rest.length > 0) upstream.write(rest);
    count("bytesSent")(rest);
    client.on("data", count("bytesSent"));
    upstream.on("data", count("bytesReceived"));
    client.pipe(upstream);
    upstream.pipe(client);
  }

  #own(socket: Socket): Socket {
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
    socket.on("error", () => {}); // `close` follows, and tells all that matters
    if (this.#isClosed) socket.destroy();
    return socket;
  }

  #note(): NetworkAttempt {
    const attempt: NetworkAttempt = {
      atMs: this.#options.clock.nowMs(),
      host: null,
      port: null,
      refused: null,
      address: null,
      bytesSent: 0,
      bytesReceived: 0,
    };
    if (this.log.attempts.length < LIMITS.networkAttemptsMax) this.log.attempts.push(attempt);
    else this.log.leftOut += 1;
    return attempt;
  }
}

/** Starts a proxy, on a socket that only holders of its descriptor reach. */
export async function startProxy(options: ProxyOptions): Promise<SandboxProxy> {
  const server = net.createServer({ allowHalfOpen: true });
  const socketFd = await listenUnnamed(server);
  return new SandboxProxy(options, server, socketFd);
}

/** Everything up to the empty line, and what came after it. Throws Refusal. */
function readHead(client: Socket): Promise<{ head: string; rest: Uint8Array }> {
  return new Promise((resolve, reject) => {
    let seen = Buffer.alloc(0);
    const stop = (refusal: Refusal | null, end = 0) => {
      client.off("data", onData);
      client.off("close", onClose);
      client.off("end", onClose);
      client.pause();
      if (refusal === null) {
        resolve({ head: seen.toString("latin1", 0, end), rest: seen.subarray(end + HEAD_END.length) });
      } else reject(refusal);
    };
    const onClose = () => stop(new Refusal("400 Bad Request", "the request ended early"));
    const onData = (chunk: Buffer) => {
      seen = Buffer.concat([seen, chunk]);
      const end = seen.indexOf(HEAD_END);
      if (end >= 0 && end <= LIMITS.networkHeadBytesMax) stop(null, end);
      else if (seen.length > LIMITS.networkHeadBytesMax)
        stop(new Refusal("431 Request Header Fields Too Large", "the request's head is too long"));
    };
    client.on("data", onData);
    client.once("close", onClose);
    client.once("end", onClose);
  });
}

function isConnected(socket: Socket, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    socket.once("connect", () => resolve(true));
    socket.once("close", () => resolve(false));
    signal.addEventListener("abort", () => resolve(false), { once: true });
    if (signal.aborted) resolve(false);
  });
}

async function orAbort<T>(work: Promise<T>, signal: AbortSignal, why: string): Promise<T> {
  const failed = new Refusal("502 Bad Gateway", why);
  return new Promise((resolve, reject) => {
    signal.addEventListener("abort", () => reject(failed), { once: true });
    work.then(resolve, () => reject(failed));
  });
}

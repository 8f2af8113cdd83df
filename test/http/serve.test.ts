import { describe, expect, test } from "bun:test";
import { connect } from "node:net";
import { join } from "node:path";
import { type Clock, systemClock } from "../../src/clock.ts";
import { type HttpAddress, ListenError, startHttp } from "../../src/http/serve.ts";
import { LIMITS } from "../../src/limits.ts";
import { aTurn } from "../support/jobs.ts";
import { anApp } from "../support/server.ts";
import { aFolder, bringTo, submitOne } from "../support/store.ts";

/** A server on a free port of loopback, stopped after the test. */
async function aServer(address: HttpAddress = { host: "127.0.0.1", port: 0 }) {
  const closing = new AbortController();
  const opened = await anApp({ clock: systemClock, closing: closing.signal });
  const server = startHttp(opened.app, address, systemClock);
  return {
    ...opened,
    server,
    url: server.url,
    async [Symbol.asyncDispose]() {
      closing.abort();
      await server.stop(5_000);
      await opened[Symbol.asyncDispose]();
    },
  };
}

/** Reads a stream until `text` stands in it, and gives all that was read. */
async function readUntil(reader: ReadableStreamDefaultReader<Uint8Array>, text: string): Promise<string> {
  const decoder = new TextDecoder();
  let read = "";
  while (!read.includes(text)) {
    const { value, done } = await reader.read();
    if (done) throw new Error(`the stream ended before ${JSON.stringify(text)}: ${read}`);
    read += decoder.decode(value, { stream: true });
  }
  return read;
}

function readerOf(response: Response): ReadableStreamDefaultReader<Uint8Array> {
  if (!response.body) throw new Error("an answer without a body");
  return response.body.getReader() as ReadableStreamDefaultReader<Uint8Array>;
}

describe("GET /v1/jobs/{id}/events", () => {
  test("begins at once, tells what happens while it happens, and ends with the job", async () => {
    await using opened = await aServer();
    const { store } = opened;
    await submitOne(store);
    const at = await bringTo(store, "running");
    const response = await fetch(`${opened.url}/v1/jobs/${at.jobId}/events`);
    expect(response.headers.get("content-type")).toBe("text/event-stream");
    const reader = readerOf(response);
    const begun = await readUntil(reader, '"to":"running"}\n\n');
    expect(begun).toStartWith(": rolloutd events\n\n");
    await store.saveTurn({ ...at, record: aTurn() });
    expect(await readUntil(reader, "event: turn")).toContain("id: 4\n");
    await store.requestCancel(at.jobId);
    await store.endCancelled({ ...at, stage: "run", run: null });
    const rest = await readUntil(reader, "event: finished");
    expect(rest).toContain('"to":"finished"');
    while (!(await reader.read()).done);
  });

  test("goes on after Last-Event-ID", async () => {
    await using opened = await aServer();
    await submitOne(opened.store);
    const { jobId } = await bringTo(opened.store, "finished");
    const whole = await (await fetch(`${opened.url}/v1/jobs/${jobId}/events`)).text();
    const ids = [...whole.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id));
    expect(ids.length).toBeGreaterThan(5);
    const headers = { "last-event-id": String(ids[2]) };
    const resumed = await (await fetch(`${opened.url}/v1/jobs/${jobId}/events`, { headers })).text();
    expect([...resumed.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id))).toEqual(ids.slice(3));
  });
});

describe("GET /v1/jobs/{id}/events of a finished job", () => {
  test("is 204 after its last event, and after one of another job that came later, so that no client waits", async () => {
    await using opened = await aServer();
    await submitOne(opened.store);
    const { jobId } = await bringTo(opened.store, "finished");
    const last = await opened.store.lastEventSeq();
    await submitOne(opened.store);
    await bringTo(opened.store, "running");
    for (const seq of [last, last + 3, 999_999]) {
      const headers = { "last-event-id": String(seq) };
      const response = await fetch(`${opened.url}/v1/jobs/${jobId}/events`, {
        headers,
        signal: AbortSignal.timeout(5_000),
      });
      expect({ status: response.status, text: await response.text() }).toEqual({ status: 204, text: "" });
    }
  });
});

describe("GET /v1/events", () => {
  test("tells of all jobs from now on, and lets go of a reader that leaves", async () => {
    await using opened = await aServer();
    await submitOne(opened.store, { n: 2 });
    const before = await bringTo(opened.store, "initializing");
    const controller = new AbortController();
    const reader = readerOf(await fetch(`${opened.url}/v1/events`, { signal: controller.signal }));
    await readUntil(reader, ": rolloutd events");
    const after = await bringTo(opened.store, "initializing");
    const told = await readUntil(reader, "event: state");
    expect(told).toContain(after.jobId);
    expect(told).not.toContain(before.jobId);
    controller.abort();
    // The stream ends although the server goes on: what `drain` waits for is gone.
    await opened.drain();
  });

  test("ends when the server begins to stop", async () => {
    const opened = await aServer();
    const reader = readerOf(await fetch(`${opened.url}/v1/events`));
    await readUntil(reader, ": rolloutd events");
    await opened[Symbol.asyncDispose]();
    while (!(await reader.read()).done);
  });

  test("refuses one stream too many", async () => {
    await using opened = await aServer();
    const streams = await Promise.all(
      Array.from({ length: LIMITS.eventStreamsMax }, async () => opened.app.request("/v1/events")),
    );
    const refused = await opened.ask("GET", "/v1/events");
    expect(refused).toMatchObject({ status: 429, body: { reason: "streams_full" } });
    expect(refused.headers.get("retry-after")).toBe("1");
    await Promise.all(streams.map(async (stream) => stream.body?.cancel()));
  });
});

describe("heartbeat", () => {
  test("is written when 15 s have passed without an event", async () => {
    let nowMs = 0;
    let sleeps = 0;
    const clock: Clock = {
      nowMs: () => nowMs,
      sleep: async (ms, signal) => {
        sleeps += 1;
        if (sleeps > 1) return new Promise((resolve) => signal?.addEventListener("abort", () => resolve()));
        expect(ms).toBe(15_000);
        nowMs += ms;
      },
    };
    await using opened = await anApp({ clock });
    const reader = readerOf(await opened.app.request("/v1/events"));
    expect(await readUntil(reader, "still here")).toBe(": rolloutd events\n\n: still here\n\n");
    await reader.cancel();
  });
});

describe("startHttp", () => {
  test("says that a port is taken", async () => {
    await using opened = await aServer();
    const address = { host: "127.0.0.1", port: opened.server.port ?? 0 };
    expect(() => startHttp(opened.app, address, systemClock)).toThrow(ListenError);
    expect(() => startHttp(opened.app, address, systemClock)).toThrow(
      `127.0.0.1:${address.port} is taken by another program`,
    );
  });

  test("lets a long poll be silent for longer than Bun's own 10 s, on a port and on a Unix socket", async () => {
    using folder = aFolder();
    const unix = join(folder.path, "api.sock");
    await using port = await aServer();
    await using socket = await aServer({ unix });
    const answers = await Promise.all([
      fetch(`${port.url}/v1/results?wait_s=13`),
      fetch("http://localhost/v1/results?wait_s=13", { unix }),
    ]);
    expect(answers.map((answer) => answer.status)).toEqual([200, 200]);
    expect(socket.server.port).toBeNull();
  }, 30_000);

  test("says that an address is not this machine's", async () => {
    await using opened = await aServer();
    expect(() => startHttp(opened.app, { host: "192.0.2.1", port: 0 }, systemClock)).toThrow(/192\.0\.2\.1/);
  });

  test("listens on a Unix socket that its owner alone can open, and takes it away", async () => {
    using folder = aFolder();
    const unix = join(folder.path, "api.sock");
    {
      await using opened = await aServer({ unix });
      const answer = await fetch("http://localhost/healthz", { unix });
      expect(answer.status).toBe(200);
      expect((await Bun.file(unix).stat()).mode & 0o777).toBe(0o600);
      expect(opened.server).toMatchObject({ url: `unix:${unix}`, port: null });
    }
    expect(await Bun.file(unix).exists()).toBe(false);
  });

  test("refuses a body of 200 MB with a problem, whether its length is told or not, and lives on", async () => {
    await using opened = await aServer();
    const chunk = new Uint8Array(1024 * 1024).fill(0x20);
    const chunks = 200;
    const told = await sendRaw(opened.server.port ?? 0, {
      head: `Content-Length: ${chunk.length * chunks}`,
      pieces: Array.from({ length: chunks }, () => chunk),
    });
    expect(told).toContain("413");
    expect(told).toContain('"reason":"body_too_large"');
    const frame = Buffer.concat([Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from("\r\n")]);
    const untold = await sendRaw(opened.server.port ?? 0, {
      head: "Transfer-Encoding: chunked",
      pieces: Array.from({ length: chunks }, () => frame),
    });
    expect(untold).toContain('"reason":"body_too_large"');
    expect((await fetch(`${opened.url}/healthz`)).status).toBe(200);
  });

  test("lets a request in hand end before it stops", async () => {
    const opened = await aServer();
    const waiting = fetch(`${opened.url}/v1/results?wait_s=1`);
    await fetch(`${opened.url}/healthz`);
    await opened.server.stop(10_000);
    expect((await waiting).status).toBe(200);
    await opened[Symbol.asyncDispose]();
  });

  test("cuts what has not ended after the grace period", async () => {
    const opened = await aServer();
    const reader = readerOf(await fetch(`${opened.url}/v1/events`));
    await readUntil(reader, ": rolloutd events");
    await opened.server.stop(50);
    const end = await reader.read().then(
      ({ done }) => (done ? "closed" : "open"),
      () => "cut",
    );
    expect(end).not.toBe("open");
    await opened[Symbol.asyncDispose]();
  });
});

/** Posts pieces as long as the other side takes them, and gives what it answered. */
async function sendRaw(port: number, sent: { head: string; pieces: readonly Uint8Array[] }): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  const answer = Promise.withResolvers<string>();
  let text = "";
  socket.on("data", (data) => {
    text += data.toString();
    if (text.includes("body_too_large")) answer.resolve(text);
  });
  socket.on("close", () => answer.resolve(text));
  socket.on("error", () => answer.resolve(text));
  socket.write(`POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n${sent.head}\r\n\r\n`);
  for (const piece of sent.pieces) {
    if (text !== "" || socket.destroyed) break;
    if (socket.write(piece)) continue;
    const drained = Promise.withResolvers<void>();
    socket.once("drain", drained.resolve);
    await Promise.race([drained.promise, answer.promise]);
  }
  const found = await answer.promise;
  socket.destroy();
  return found;
}

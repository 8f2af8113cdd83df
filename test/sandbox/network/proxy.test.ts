import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import net, { type AddressInfo, type Server } from "node:net";
import { systemClock } from "../../../src/clock.ts";
import { LIMITS } from "../../../src/limits.ts";
import { parseNetworkRule } from "../../../src/network-rule.ts";
import { type Cidr, parseCidr } from "../../../src/sandbox/network/addresses.ts";
import { type SandboxProxy, startProxy } from "../../../src/sandbox/network/proxy.ts";

/** Answers the first bytes it gets, and ends when the other side has ended. */
let upstream: Server;
let port: number;
let proxy: SandboxProxy | null = null;

beforeAll(async () => {
  upstream = net.createServer((socket) => {
    socket.on("error", () => {});
    socket.on("data", (data) => socket.write(`got ${String(data)}`));
  });
  await new Promise<void>((resolve) => upstream.listen(0, "127.0.0.1", resolve));
  port = (upstream.address() as AddressInfo).port;
});
afterEach(async () => {
  await proxy?.close();
  proxy = null;
});
afterAll(() => void upstream.close());

const names: Record<string, string[]> = {
  "open.test": ["127.0.0.1"],
  "private.test": ["10.0.0.1", "169.254.169.254"],
  "mixed.test": ["10.0.0.1", "127.0.0.1"],
};

async function start(allow: readonly string[], admitted = "127.0.0.0/8"): Promise<SandboxProxy> {
  const rules = allow.flatMap((text) => parseNetworkRule(text.replace("PORT", String(port))) ?? []);
  expect(rules).toHaveLength(allow.length);
  proxy = await startProxy({
    rules,
    admitted: [parseCidr(admitted)].filter((cidr): cidr is Cidr => cidr !== null),
    clock: systemClock,
    async resolve(host) {
      const found = names[host];
      if (found === undefined) throw new Error("ENOTFOUND");
      return found;
    },
  });
  return proxy;
}

/** Sends `text`, and all that comes back until `until` was seen or the connection has ended. */
function say(to: SandboxProxy, text: string, until: RegExp = /$^/): Promise<string> {
  return new Promise((resolve) => {
    let heard = "";
    const socket = net.connect(`/proc/self/fd/${to.socketFd}`);
    socket.on("error", () => {});
    socket.on("data", (data) => {
      heard += data;
      if (until.test(heard)) socket.end();
    });
    socket.on("close", () => resolve(heard));
    socket.write(text.replaceAll("PORT", String(port)));
  });
}

describe("startProxy", () => {
  test("tunnels to an allowed host and counts what passed", async () => {
    const to = await start(["open.test:PORT"]);
    const heard = await say(to, "CONNECT open.test:PORT HTTP/1.1\r\n\r\nhello", /got hello/);
    expect(heard).toBe("HTTP/1.1 200 Connection established\r\n\r\ngot hello");
    expect(to.log.attempts).toMatchObject([
      { host: "open.test", port, refused: null, address: "127.0.0.1", bytesSent: 5, bytesReceived: 9 },
    ]);
  });

  test("passes on a plain request with the host it was allowed for", async () => {
    const to = await start(["open.test:PORT"]);
    const heard = await say(to, "GET http://open.test:PORT/x HTTP/1.1\r\nHost: other.test\r\n\r\n", /close\r\n\r\n/);
    expect(heard).toBe(`got GET /x HTTP/1.1\r\nHost: open.test:${port}\r\nConnection: close\r\n\r\n`);
  });

  test("takes a head that comes byte by byte", async () => {
    const to = await start(["open.test:PORT"]);
    const text = `CONNECT open.test:${port} HTTP/1.1\r\n\r\nx`;
    const heard = await new Promise<string>((resolve) => {
      const socket = net.connect(`/proc/self/fd/${to.socketFd}`);
      let all = "";
      socket.on("data", (data) => {
        all += data;
        if (all.includes("got x")) socket.end();
      });
      socket.on("close", () => resolve(all));
      const next = (i: number): void => void (i < text.length && socket.write(text.charAt(i), () => next(i + 1)));
      next(0);
    });
    expect(heard).toContain("got x");
  });

  test.each([
    ["another host", "CONNECT other.test:PORT HTTP/1.1", /403 .*other\.test:\d+ is not in this task's network list/s],
    ["another port", "CONNECT open.test:22 HTTP/1.1", /403 /],
    ["a name with a suffix", "CONNECT open.test.evil.net:PORT HTTP/1.1", /403 /],
    ["a name with a prefix", "CONNECT evilopen.test:PORT HTTP/1.1", /403 /],
    ["an address", "CONNECT 127.0.0.1:PORT HTTP/1.1", /400 /],
    ["an address as a number", "CONNECT 2130706433:PORT HTTP/1.1", /400 /],
    ["a user before the host", "CONNECT open.test@evil.net:PORT HTTP/1.1", /400 /],
    ["a dot after the name", "CONNECT open.test.:PORT HTTP/1.1", /400 /],
    ["a NUL in the name", "CONNECT evil.net\0.open.test:PORT HTTP/1.1", /400 /],
    ["what is no HTTP", "SSH-2.0-x", /400 /],
    ["a name with private addresses only", "CONNECT private.test:443 HTTP/1.1", /403 .*has no public address/s],
    ["a name without addresses", "CONNECT none.test:443 HTTP/1.1", /502 .*cannot be resolved/s],
  ])("refuses %s, says why and writes it down", async (_what, request, answer) => {
    const to = await start(["open.test:PORT", "private.test:443", "none.test:443"]);
    const heard = await say(to, `${request}\r\n\r\n`);
    expect(heard).toMatch(answer);
    expect(heard.endsWith(`rolloutd: ${to.log.attempts[0]?.refused}\n`)).toBe(true);
    expect(to.log.attempts).toHaveLength(1);
    expect(to.log.attempts[0]?.address).toBeNull();
  });

  test("connects to a public address of a name that has private ones too", async () => {
    const to = await start(["mixed.test:PORT"]);
    expect(await say(to, "CONNECT mixed.test:PORT HTTP/1.1\r\n\r\nx", /got x/)).toContain("got x");
    expect(to.log.attempts[0]?.address).toBe("127.0.0.1");
  });

  test("reaches nothing private when no network is admitted", async () => {
    const to = await start(["open.test:PORT"], "192.0.2.0/24");
    expect(await say(to, "CONNECT open.test:PORT HTTP/1.1\r\n\r\n")).toContain("has no public address");
  });

  test("says when nobody listens", async () => {
    const to = await start(["open.test:1"]);
    expect(await say(to, "CONNECT open.test:1 HTTP/1.1\r\n\r\n")).toMatch(/502 .*cannot be reached/s);
  });

  test("refuses a head that does not end", async () => {
    const to = await start(["open.test:PORT"]);
    const heard = await say(to, `GET http://open.test/ HTTP/1.1\r\nA: ${"x".repeat(LIMITS.networkHeadBytesMax)}`);
    expect(heard).toContain("431");
  });

  test("bounds the connections and frees a place when one ends", async () => {
    const to = await start(["open.test:PORT"]);
    const open = await Promise.all(
      Array.from({ length: LIMITS.networkConnectionsMax }, async () => {
        const socket = net.connect(`/proc/self/fd/${to.socketFd}`);
        socket.on("error", () => {});
        await new Promise((resolve) => socket.once("connect", resolve));
        return socket;
      }),
    );
    expect(await say(to, "CONNECT open.test:PORT HTTP/1.1\r\n\r\n")).toContain("503");
    open[0]?.destroy();
    let heard = "";
    for (let tries = 0; tries < 200 && !heard.includes("got x"); tries += 1)
      heard = await say(to, "CONNECT open.test:PORT HTTP/1.1\r\n\r\nx", /got x/);
    expect(heard).toContain("got x");
    for (const socket of open) socket.destroy();
  });

  test("ends its connections when it is closed, and leaves no name", async () => {
    const to = await start(["open.test:PORT"]);
    const heard = say(to, "CONNECT open.test:PORT HTTP/1.1\r\n\r\nx");
    while (to.log.attempts[0]?.bytesReceived !== 5) await Bun.sleep(1);
    await to.close();
    expect(await heard).toContain("got x");
    expect([...new Bun.Glob("rolloutd-net-*").scanSync({ cwd: "/tmp", onlyFiles: false })]).toEqual([]);
  });
});

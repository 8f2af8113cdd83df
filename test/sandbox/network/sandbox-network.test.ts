import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseNetworkRule } from "../../../src/network-rule.ts";
import { parseCidr } from "../../../src/sandbox/network/addresses.ts";
import { descendantsOf } from "../../../src/sandbox/process-tree.ts";
import type { Sandbox, SandboxHost } from "../../../src/sandbox/sandbox.ts";
import { leftSince, NOTHING, residue } from "../../support/leaks.ts";
import { TEST_LIMITS, testSandboxHost } from "../../support/sandbox-host.ts";

setDefaultTimeout(60_000);

const never = new AbortController().signal;
const before = residue();
let host: SandboxHost;
let folder: string;
let site: ReturnType<typeof Bun.serve>;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "index-"));
  site = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: serveIndex });
  const loopback = parseCidr("127.0.0.0/8");
  if (loopback === null) throw new Error("127.0.0.0/8 is a network");
  host = await testSandboxHost({ network: { admitted: [loopback], resolve: async () => ["127.0.0.1"] } });
});
afterAll(async () => {
  await host.close();
  await site.stop(true);
  rmSync(folder, { recursive: true });
  expect(await leftSince(before)).toEqual(NOTHING);
});

/** A package index (PEP 503) with one wheel. */
function serveIndex(request: Request): Response {
  const { pathname } = new URL(request.url);
  const html = (body: string) => new Response(body, { headers: { "Content-Type": "text/html" } });
  if (pathname === "/simple/tiny/") return html(`<a href="/tiny-1.0-py3-none-any.whl">tiny-1.0-py3-none-any.whl</a>`);
  if (pathname.endsWith(".whl")) return new Response(Bun.file(join(folder, pathname)));
  return pathname === "/hello" ? new Response("hello") : new Response("no", { status: 404 });
}

function open(...allow: string[]): Promise<Sandbox> {
  const network = allow.flatMap((text) => parseNetworkRule(text) ?? []);
  return host.open({ image: "host", limits: { ...TEST_LIMITS, diskBytes: 64 << 20 }, network }, never);
}

function sh(sandbox: Sandbox, command: string): Promise<string> {
  return sandbox.shell(command, { timeoutMs: 30_000, signal: never }).then(({ output }) => output);
}

/** Asks for an address by the proxy that the environment names, as most programs do. */
const FETCH = `python3 -c "import urllib.request, sys; print(urllib.request.urlopen(sys.argv[1], timeout=9).read().decode())"`;

describe("openNetwork", () => {
  test("lets through what the rules name and nothing else, and tells of both", async () => {
    await using sandbox = await open(`site.test:${site.port}`);
    expect(await sh(sandbox, `${FETCH} http://site.test:${site.port}/hello`)).toBe("hello\n");
    expect(await sh(sandbox, `${FETCH} http://other.test/ 2>&1 | tail -1`)).toContain("403");
    expect(sandbox.networkLog?.attempts).toMatchObject([
      { host: "site.test", port: site.port, refused: null, address: "127.0.0.1" },
      { host: "other.test", port: 80, refused: "other.test:80 is not in this task's network list", address: null },
    ]);
  });

  test("leaves no way around the proxy", async () => {
    await using sandbox = await open(`site.test:${site.port}`);
    const script = `
import socket
for address in [("127.0.0.1", ${site.port}), ("169.254.169.254", 80), ("1.1.1.1", 53)]:
    try: socket.create_connection(address, 2); print("reached", address)
    except OSError: print("refused")
try: socket.getaddrinfo("site.test", 80); print("resolved")
except OSError: print("refused")`;
    const { output } = await sandbox.python(script, { timeoutMs: 10_000, signal: never });
    expect(output).toBe("refused\n".repeat(4));
  });

  test("keeps the forwarder out of the agent's sight and reach, without any right", async () => {
    await using sandbox = await open(`site.test:${site.port}`);
    expect(await sh(sandbox, "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c [p]roc/self/fd/3")).toBe("0\n");
    const forwarders = descendantsOf(process.pid).filter((pid) =>
      readFileSync(`/proc/${pid}/cmdline`, "latin1").includes("/proc/self/fd/3"),
    );
    expect(forwarders).toHaveLength(1);
    const status = readFileSync(`/proc/${forwarders[0]}/status`, "latin1");
    expect(status).toMatch(/^CapEff:\t0+$/m);
    expect(status).toMatch(/^CapBnd:\t0+$/m);
    expect(status).toMatch(/^NoNewPrivs:\t1$/m);
    expect(status).not.toMatch(/^Uid:\t0\t/m);
    await sh(sandbox, "kill -9 -1");
    expect(await sh(sandbox, `${FETCH} http://site.test:${site.port}/hello`)).toBe("hello\n");
  });

  test("works for a user other than the one before, through all that a sandbox does", async () => {
    await using first = await open(`site.test:${site.port}`);
    await using second = await open("second.test:1");
    expect(await sh(second, `${FETCH} http://site.test:${site.port}/hello 2>&1 | tail -1`)).toContain("403");
    expect(await sh(first, `${FETCH} http://site.test:${site.port}/hello`)).toBe("hello\n");
    expect(first.networkLog?.attempts).toHaveLength(1);
  });

  test("installs a package with pip from an allowed index", async () => {
    const made = spawnSync("python3", ["-c", MAKE_WHEEL, folder], { encoding: "utf8" });
    expect(made.stderr).toBe("");
    await using sandbox = await open(`index.test:${site.port}`);
    await sandbox.writeFile({ path: "/workspace/pip.tar", bytes: readFileSync(join(folder, "pip.tar")) }, never);
    const index = `http://index.test:${site.port}/simple`;
    const said = await sh(
      sandbox,
      `mkdir pip && tar xf pip.tar -C pip && PYTHONPATH=pip python3 -m pip install --no-cache-dir --target lib --index-url ${index} --trusted-host index.test tiny 2>&1; PYTHONPATH=lib python3 -c 'import tiny; print(tiny.ANSWER)'`,
    );
    expect(said).toEndWith("42\n");
    expect(sandbox.networkLog?.attempts.every(({ refused }) => refused === null)).toBe(true);
  });

  test("has no network and no log without rules", async () => {
    await using sandbox = await open();
    expect(sandbox.networkLog).toBeNull();
    expect(await sh(sandbox, "env | grep -ci proxy")).toBe("0\n");
  });
});

/** A wheel with one module, and this machine's own pip as a tar. */
const MAKE_WHEEL = `
import os, sys, tarfile, zipfile, pip
folder = sys.argv[1]
meta = "tiny-1.0.dist-info/"
with zipfile.ZipFile(os.path.join(folder, "tiny-1.0-py3-none-any.whl"), "w") as wheel:
    wheel.writestr("tiny.py", "ANSWER = 42\\n")
    wheel.writestr(meta + "METADATA", "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n")
    wheel.writestr(meta + "WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr(meta + "RECORD", "tiny.py,,\\n" + meta + "METADATA,,\\n" + meta + "WHEEL,,\\n" + meta + "RECORD,,\\n")
with tarfile.open(os.path.join(folder, "pip.tar"), "w") as tar:
    tar.add(os.path.dirname(pip.__file__), "pip", filter=lambda each: None if "__pycache__" in each.name else each)
`;

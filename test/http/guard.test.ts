import { describe, expect, test } from "bun:test";
import { type AuthConfig, parseTokens } from "../../src/http/guard.ts";
import { anApp } from "../support/server.ts";

const LOOPBACK: AuthConfig = { boundHost: "127.0.0.1", allowedHosts: [], tokens: null };

async function statusOf(auth: Partial<AuthConfig>, headers: Record<string, string>, path = "/v1/status") {
  await using opened = await anApp({ auth: { ...LOOPBACK, ...auth } });
  const { status, body } = await opened.ask("GET", path, undefined, headers);
  return status === 200 ? 200 : body.reason;
}

describe("guard", () => {
  test.each([
    ["localhost:8006", {}, 200],
    ["127.0.0.1", {}, 200],
    ["[::1]:8006", {}, 200],
    ["LOCALHOST", {}, 200],
    ["evil.example", {}, "host_refused"],
    ["evil.example:8006", {}, "host_refused"],
    ["127.0.0.1.evil.example", {}, "host_refused"],
    ["10.0.0.5:8006", {}, "host_refused"],
    ["10.0.0.5:8006", { boundHost: "10.0.0.5" }, 200],
    ["10.0.0.5:8006", { boundHost: "0.0.0.0" }, 200],
    ["evil.example", { boundHost: "0.0.0.0" }, "host_refused"],
    ["box.lan:8006", { allowedHosts: ["Box.lan"] }, 200],
    ["localhost", { boundHost: null }, 200],
  ] as const)("answers a request for Host %s with %o by %s", async (host, auth, expected) => {
    expect(await statusOf(auth, { host })).toBe(expected);
  });

  test.each([
    ["http://localhost:8006", 200],
    ["http://localhost:3000", "origin_refused"],
    ["https://evil.example", "origin_refused"],
    ["null", "origin_refused"],
    ["", "origin_refused"],
  ] as const)("answers a page of Origin %j by %s", async (origin, expected) => {
    expect(await statusOf({}, { host: "localhost:8006", origin })).toBe(expected);
  });

  test("asks for a token when some are configured, of everything but the probes", async () => {
    const tokens = ["first-token-of-twenty", "second-token-of-twenty"];
    const by = (authorization: string) => statusOf({ tokens }, { authorization });
    expect(await statusOf({ tokens }, {})).toBe("token_missing");
    expect(await by("Basic abc")).toBe("token_missing");
    expect(await by("Bearer wrong")).toBe("token_wrong");
    expect(await by("Bearer first-token-of-twent")).toBe("token_wrong");
    expect(await by("Bearer second-token-of-twenty")).toBe(200);
    expect(await statusOf({ tokens }, {}, "/metrics")).toBe("token_missing");
    expect(await statusOf({ tokens }, {}, "/healthz")).toBe(200);
    expect(await statusOf({ tokens }, {}, "/readyz")).toBe(200);
  });

  test("says 401 with a challenge, and 403", async () => {
    await using opened = await anApp({ auth: { ...LOOPBACK, tokens: ["first-token-of-twenty"] } });
    const missing = await opened.ask("GET", "/v1/status");
    expect([missing.status, missing.headers.get("www-authenticate")]).toEqual([401, "Bearer"]);
    expect((await opened.ask("GET", "/v1/status", undefined, { authorization: "Bearer x" })).status).toBe(403);
  });
});

describe("parseTokens", () => {
  test("takes one a line, without comments and blanks", () => {
    expect(parseTokens("# ours\n\n  abcdefghijklmnop \r\nqrstuvwxyz0123456789\n")).toEqual([
      "abcdefghijklmnop",
      "qrstuvwxyz0123456789",
    ]);
  });

  test("refuses a file without tokens and a token that is short", () => {
    expect(() => parseTokens("# none\n")).toThrow("holds no token");
    expect(() => parseTokens("abcdefghijklmnop\nshort\n")).toThrow("token 2 of the token file is shorter than 16");
  });
});

import { describe, expect, test } from "bun:test";
import { parseProxyRequest } from "../../../src/sandbox/network/proxy-request.ts";

describe("parseProxyRequest", () => {
  test("reads a tunnel", () => {
    expect(parseProxyRequest("CONNECT Pkg.Example.org:443 HTTP/1.1\r\nHost: other")).toEqual({
      kind: "tunnel",
      host: "pkg.example.org",
      port: 443,
      head: "",
    });
  });

  test("reads a plain request and passes on its own host, one request long", () => {
    const head =
      "GET http://Example.org/a?b=%20 HTTP/1.1\r\nHost: evil.org\r\nProxy-Authorization: x\r\nConnection: keep-alive\r\nUpgrade: h2c\r\nAccept: */*";
    expect(parseProxyRequest(head)).toEqual({
      kind: "http",
      host: "example.org",
      port: 80,
      head: "GET /a?b=%20 HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\nConnection: close\r\n\r\n",
    });
    expect(parseProxyRequest("GET http://example.org:8080?q HTTP/1.0")).toMatchObject({
      port: 8080,
      head: "GET /?q HTTP/1.1\r\nHost: example.org:8080\r\nConnection: close\r\n\r\n",
    });
  });

  test.each([
    "",
    "GET",
    "GET / HTTP/1.1",
    "GET https://example.org/ HTTP/1.1",
    "GET ftp://example.org/ HTTP/1.1",
    "GET http://example.org/ HTTP/2",
    "GET  http://example.org/ HTTP/1.1",
    "GET http://example.org/#f HTTP/1.1",
    "GET http://allowed.org@evil.org/ HTTP/1.1",
    "GET http://allowed.org\\@evil.org/ HTTP/1.1",
    "GET http://example.org/\x7f HTTP/1.1",
    "GET http://example.org:99999/ HTTP/1.1",
    "GET http://127.0.0.1/ HTTP/1.1",
    "GET http://2130706433/ HTTP/1.1",
    "GET http://[::1]/ HTTP/1.1",
    "CONNECT example.org HTTP/1.1",
    "CONNECT http://example.org:443 HTTP/1.1",
    "CONNECT user@example.org:443 HTTP/1.1",
    "CONNECT example.org.:443 HTTP/1.1",
    "CONNECT example.org\0.allowed.org:443 HTTP/1.1",
    "CONNECT [::1]:443 HTTP/1.1",
    "CONNECT 169.254.169.254:80 HTTP/1.1",
    "CONNECT example.org:443 HTTP/1.1\r\n folded: x",
    "CONNECT example.org:443 HTTP/1.1\r\nno colon",
    "GET http://example.org/ HTTP/1.1\r\nA: b\nHost: evil.org",
    "GET http://example.org/ HTTP/1.1\r\nContent-Length : 3",
    "POST http://example.org/ HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked",
  ])("refuses %j", (head) => {
    expect(parseProxyRequest(head)).toHaveProperty("problem");
  });
});

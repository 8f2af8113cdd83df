import { isPlainHost, parsePort } from "../../network-rule.ts";

/** What a sandbox asks of its proxy (RFC 9110, 9112): a tunnel, or one plain HTTP request. */
export interface ProxyRequest {
  kind: "tunnel" | "http";
  /** A plain host name in lower case. */
  host: string;
  port: number;
  /** Of a plain request: its head as the server gets it. */
  head: string;
}

/** Why a head is not taken, and as much of its target as could be read. */
export interface BadRequest {
  problem: string;
  host: string | null;
  port: number | null;
}

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const NAMED_CHARS_MAX = 300;
const HTTP_PORT = 80;
const [TAB, SPACE, DELETE] = [0x09, 0x20, 0x7f];
/** Fields between the client and its proxy alone (RFC 9110, 7.6.1), and the host, which is set from the target. */
const NOT_PASSED = new Set(["connection", "host", "keep-alive", "te", "trailer", "upgrade"]);

/**
 * Reads the head of a request, without the empty line at its end. Strict: whatever two readers might take differently is
 * refused, since the one that decides and the one that connects must mean the same server.
 */
export function parseProxyRequest(head: string): ProxyRequest | BadRequest {
  const [first = "", ...lines] = head.split("\r\n");
  const [method = "", target = "", version = "", ...more] = first.split(" ");
  if (!TOKEN.test(method) || !/^HTTP\/1\.[01]$/.test(version) || more.length > 0) {
    return { problem: "the request line cannot be read", host: null, port: null };
  }
  const isTunnel = method === "CONNECT";
  const parts = isTunnel ? /^()([^/]*)()$/.exec(target) : /^(http:\/\/)([^/?#]*)([^#]*)$/i.exec(target);
  if (parts === null) return bad("the target is neither host:port nor an http URL", target, null);
  const [, , authority = "", path = ""] = parts;
  const colon = authority.lastIndexOf(":");
  const hasPort = colon >= 0;
  const host = (hasPort ? authority.slice(0, colon) : authority).toLowerCase();
  const port = hasPort ? parsePort(authority.slice(colon + 1)) : isTunnel ? null : HTTP_PORT;
  if (!isPlainHost(host)) return bad("the host is no plain name", host, port);
  if (port === null) return bad("the port is missing or none", host, port);
  const fields = lines.map(splitField);
  if (hasControl(head) || fields.some((field) => field === null))
    return bad("a header line cannot be read", host, port);
  if (isTunnel) return { kind: "tunnel", host, port, head: "" };
  if (!/^[\x21-\x7e]*$/.test(path)) return bad("the path cannot be read", host, port);
  const names = fields.map((field) => field?.name ?? "");
  if (names.includes("content-length") && names.includes("transfer-encoding")) {
    return bad("it has both a length and a transfer encoding", host, port);
  }
  const passed = lines.filter((_, i) => !NOT_PASSED.has(names[i] ?? "") && !names[i]?.startsWith("proxy-"));
  const origin = path.startsWith("/") ? path : `/${path}`;
  const own = [`${method} ${origin} HTTP/1.1`, `Host: ${host}${port === HTTP_PORT ? "" : `:${port}`}`];
  return { kind: "http", host, port, head: [...own, ...passed, "Connection: close", "", ""].join("\r\n") };
}

function splitField(line: string): { name: string } | null {
  const name = line.slice(0, Math.max(line.indexOf(":"), 0));
  return TOKEN.test(name) ? { name: name.toLowerCase() } : null;
}

/** A bare CR or LF, NUL or the like; the CR and LF that end lines are no part of what is looked at. */
function hasControl(head: string): boolean {
  const bytes = Buffer.from(head.replaceAll("\r\n", ""), "latin1");
  return bytes.some((byte) => byte !== TAB && (byte < SPACE || byte === DELETE));
}

function bad(problem: string, host: string, port: number | null): BadRequest {
  return { problem, host: host === "" ? null : host.slice(0, NAMED_CHARS_MAX), port };
}

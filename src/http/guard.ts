import { createHash, timingSafeEqual } from "node:crypto";
import { isIP } from "node:net";
import type { Context, MiddlewareHandler } from "hono";
import { RequestError } from "../errors.ts";

/** Who may ask. The server runs code for whoever can reach it, so Host and Origin are checked even on loopback. */
export interface AuthConfig {
  /** The address that is listened on; null for a Unix socket. */
  boundHost: string | null;
  /** Further names of this server, without port. */
  allowedHosts: readonly string[];
  /** Bearer tokens that are accepted; null asks for none. */
  tokens: readonly string[] | null;
}

const LOOPBACK_NAMES = ["localhost", "127.0.0.1", "::1"];
const WILDCARDS = ["0.0.0.0", "::"];
/** Probes come without a token; they tell nothing but whether the server lives. */
const OPEN_PATHS = new Set(["/healthz", "/readyz"]);

/**
 * Refuses requests by a name that is not this server's (a web page that rebinds DNS), from another origin (a web page
 * that posts here), and without a token where one is asked for.
 */
export function guard(auth: AuthConfig): MiddlewareHandler {
  const names = new Set([...LOOPBACK_NAMES, ...auth.allowedHosts].map((name) => name.toLowerCase()));
  if (auth.boundHost !== null) names.add(auth.boundHost.toLowerCase());
  // No web page can make a browser send an address as Host while the connection goes elsewhere.
  const anyAddress = auth.boundHost !== null && WILDCARDS.includes(auth.boundHost);
  const digests = auth.tokens?.map(digest) ?? null;
  return async (c, next) => {
    const host = c.req.header("host") ?? new URL(c.req.url).host;
    const name = nameOf(host);
    if (!names.has(name) && !(anyAddress && isIP(name) !== 0)) {
      throw new RequestError("host_refused", `${JSON.stringify(host)} is no name of this server; see --allowed-host`);
    }
    checkOrigin(c, host);
    if (digests !== null && !OPEN_PATHS.has(c.req.path)) checkToken(c, digests);
    await next();
  };
}

/** Tokens of a token file, one a line; empty lines and those that begin with # do not count. Throws when there is none. */
export function parseTokens(text: string): string[] {
  const tokens = text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("#"));
  if (tokens.length === 0) throw new Error("the token file holds no token; write one a line");
  const short = tokens.findIndex((token) => token.length < TOKEN_CHARS_MIN);
  if (short >= 0) throw new Error(`token ${short + 1} of the token file is shorter than ${TOKEN_CHARS_MIN} characters`);
  return tokens;
}

const TOKEN_CHARS_MIN = 16;

function checkOrigin(c: Context, host: string): void {
  const origin = c.req.header("origin");
  if (origin === undefined) return;
  const from = URL.canParse(origin) ? new URL(origin).host : null;
  if (from !== null && from === host.toLowerCase()) return;
  throw new RequestError("origin_refused", `pages of ${JSON.stringify(origin)} may not ask this server`);
}

function checkToken(c: Context, digests: readonly Buffer[]): void {
  const [, token] = /^Bearer +(\S+)$/i.exec(c.req.header("authorization") ?? "") ?? [];
  if (token === undefined) throw new RequestError("token_missing", "send Authorization: Bearer TOKEN");
  const given = digest(token);
  // Every token is compared, so that the time says nothing about which one was near.
  let known = false;
  for (const expected of digests) known = timingSafeEqual(given, expected) || known;
  if (!known) throw new RequestError("token_wrong", "the token is not one of this server's");
}

function digest(token: string): Buffer {
  return createHash("sha256").update(token).digest();
}

/** `[::1]:8006` is ::1, `Box:8006` is box. */
function nameOf(host: string): string {
  const [, six] = /^\[([^\]]+)\](?::\d+)?$/.exec(host) ?? [];
  return (six ?? host.replace(/:\d+$/, "")).toLowerCase();
}

/** Which servers a sandbox may reach: the rules that a task names, and what became of each attempt. Pure. */

/** `pkg.example.org:443`, `*.example.org:443`. A port is always part of it. */
export interface NetworkRule {
  /** In lower case. With `anyBelow`, the name that must follow a dot. */
  host: string;
  anyBelow: boolean;
  port: number;
}

/** One connection that a sandbox asked for. */
export interface NetworkAttempt {
  atMs: number;
  /** As it was asked for, in lower case; null when the request named none that could be read. */
  host: string | null;
  port: number | null;
  /** Null when it was let through and reached; else why not. */
  refused: string | null;
  /** The address that was connected to. */
  address: string | null;
  bytesSent: number;
  bytesReceived: number;
}

/** All attempts of one sandbox in the order in which they were made; those beyond a bound are only counted. */
export interface NetworkLog {
  readonly attempts: readonly NetworkAttempt[];
  readonly leftOut: number;
}

const LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?";
const HOST = new RegExp(`^(?=.{1,253}$)(?:${LABEL}\\.)*${LABEL}$`);
const NUMBER = /^(?:\d+|0x[0-9a-f]*)$/;
const PORT_MAX = 65_535;

/** What is accepted, in words for an error. */
export const RULE_ACCEPTED = "host:port or *.host:port, such as pkg.example.org:443; names in ASCII, no addresses";

/**
 * Whether `host` (in lower case) is a plain DNS name: no address in any spelling (`127.1`, `0x7f000001`, `2130706433`), no
 * dot at its end, no user, no byte but letters, digits, `-` and `.`.
 */
export function isPlainHost(host: string): boolean {
  return HOST.test(host) && !NUMBER.test(host.slice(host.lastIndexOf(".") + 1));
}

/** `443` and the like; null for what is no port. */
export function parsePort(text: string): number | null {
  const port = /^[1-9]\d{0,4}$/.test(text) ? Number(text) : 0;
  return port >= 1 && port <= PORT_MAX ? port : null;
}

/** Null for what is no rule; `RULE_ACCEPTED` says what would be. */
export function parseNetworkRule(text: string): NetworkRule | null {
  const colon = text.lastIndexOf(":");
  const name = text.slice(0, Math.max(colon, 0)).toLowerCase();
  const port = parsePort(text.slice(colon + 1));
  const anyBelow = name.startsWith("*.");
  const host = anyBelow ? name.slice(2) : name;
  // `*.org` would be half of the world.
  const isWide = anyBelow && !host.includes(".");
  return port === null || !isPlainHost(host) || isWide ? null : { host, anyBelow, port };
}

/** Whether one of `rules` lets `host` (plain, in lower case) and `port` through; `*.a.b` does not mean `a.b` itself. */
export function permits(rules: readonly NetworkRule[], host: string, port: number): boolean {
  return rules.some(
    (rule) => rule.port === port && (rule.anyBelow ? host.endsWith(`.${rule.host}`) : host === rule.host),
  );
}

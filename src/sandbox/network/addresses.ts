import { lookup } from "node:dns/promises";
import * as ipaddr from "ipaddr.js";

/** A network in CIDR notation. */
export type Cidr = readonly [ipaddr.IPv4 | ipaddr.IPv6, number];

/** Cloud machines ask their provider's agent there, at an address that is public by its number (Azure, Oracle). */
const METADATA = ["168.63.129.16", "192.0.0.192"];

/** `10.0.0.0/8`, `fd00::/8`; null for what is none. */
export function parseCidr(text: string): Cidr | null {
  return ipaddr.isValidCIDR(text) ? ipaddr.parseCIDR(text) : null;
}

/**
 * Whether a sandbox may be connected to `address`: public unicast only, unless one of `admitted` holds it. What only
 * stands for another address (IPv4 in IPv6, 6to4, NAT64, Teredo) is not public.
 */
export function isReachable(address: string, admitted: readonly Cidr[]): boolean {
  if (!ipaddr.isValid(address)) return false;
  const parsed = ipaddr.process(address);
  const isAdmitted = admitted.some(([net, bits]) => parsed.kind() === net.kind() && parsed.match(net, bits));
  return isAdmitted || (parsed.range() === "unicast" && !METADATA.includes(parsed.toString()));
}

/** All addresses of a name, as the machine itself would find them. */
export async function resolveHost(host: string): Promise<readonly string[]> {
  const found = await lookup(host, { all: true });
  return found.map(({ address }) => address);
}

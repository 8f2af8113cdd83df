import { describe, expect, test } from "bun:test";
import { type Cidr, isReachable, parseCidr } from "../../../src/sandbox/network/addresses.ts";

function cidrs(...texts: string[]): Cidr[] {
  return texts.map((text) => {
    const cidr = parseCidr(text);
    if (cidr === null) throw new Error(`${text} is a network`);
    return cidr;
  });
}

describe("isReachable", () => {
  test.each(["1.1.1.1", "93.184.216.34", "2606:4700::1111"])("lets public %s through", (address) => {
    expect(isReachable(address, [])).toBe(true);
  });

  test.each([
    ["loopback", "127.0.0.1"],
    ["loopback elsewhere in its net", "127.9.9.9"],
    ["loopback v6", "::1"],
    ["loopback v4 in v6", "::ffff:127.0.0.1"],
    ["the unspecified address, which means this machine", "0.0.0.0"],
    ["the unspecified address v6", "::"],
    ["private", "10.0.0.1"],
    ["private", "172.16.0.1"],
    ["private", "192.168.1.1"],
    ["private v4 in v6", "::ffff:10.0.0.1"],
    ["private behind NAT64", "64:ff9b::a00:1"],
    ["private behind 6to4", "2002:a00:1::1"],
    ["Teredo", "2001:0:1::1"],
    ["carrier NAT", "100.64.0.1"],
    ["link-local, where clouds have their metadata", "169.254.169.254"],
    ["link-local v6", "fe80::1"],
    ["unique local v6, where clouds have their metadata", "fd00:ec2::254"],
    ["a cloud's agent at a public number", "168.63.129.16"],
    ["another cloud's agent", "192.0.0.192"],
    ["multicast", "224.0.0.1"],
    ["broadcast", "255.255.255.255"],
    ["documentation", "203.0.113.1"],
    ["benchmarking", "198.18.0.1"],
    ["no address", "example.org"],
    ["no address", ""],
  ])("refuses %s: %s", (_what, address) => {
    expect(isReachable(address, [])).toBe(false);
  });

  test("lets through what an admitted network holds, and no other", () => {
    const admitted = cidrs("10.1.0.0/16", "fd00:1::/32");
    expect(isReachable("10.1.2.3", admitted)).toBe(true);
    expect(isReachable("::ffff:10.1.2.3", admitted)).toBe(true);
    expect(isReachable("fd00:1::5", admitted)).toBe(true);
    expect(isReachable("10.2.0.1", admitted)).toBe(false);
    expect(isReachable("fd00:2::5", admitted)).toBe(false);
  });
});

describe("parseCidr", () => {
  test("refuses what is no network", () => {
    for (const text of ["10.0.0.0", "10.0.0.0/33", "example.org/8", "", "::/129"]) expect(parseCidr(text)).toBeNull();
  });
});

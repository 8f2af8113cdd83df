import { describe, expect, test } from "bun:test";
import { isPlainHost, parseNetworkRule, permits } from "../src/network-rule.ts";

const rulesOf = (...texts: string[]) =>
  texts.map((text) => {
    const rule = parseNetworkRule(text);
    if (rule === null) throw new Error(`${text} is a rule`);
    return rule;
  });

describe("parseNetworkRule", () => {
  test("reads a host with its port, and a suffix", () => {
    expect(parseNetworkRule("Pkg.Example.org:443")).toEqual({ host: "pkg.example.org", anyBelow: false, port: 443 });
    expect(parseNetworkRule("*.example.org:80")).toEqual({ host: "example.org", anyBelow: true, port: 80 });
  });

  test.each([
    "example.org", // no port
    "example.org:",
    "example.org:0",
    "example.org:65536",
    "example.org:0443",
    "example.org.:443",
    "*:443",
    "*.org:443",
    "*.*.org:443",
    "a*.example.org:443",
    "user@example.org:443",
    "https://example.org:443",
    "example.org:443/path",
    "exa mple.org:443",
    "example.org\0.evil.org:443",
    "bücher.example:443",
    "127.0.0.1:443",
    "127.1:80",
    "0x7f000001:80",
    "2130706433:80",
    "[::1]:443",
    "::1:443",
    "-a.example.org:443",
    "",
  ])("refuses %p", (text) => {
    expect(parseNetworkRule(text)).toBeNull();
  });
});

describe("permits", () => {
  test("takes a name exactly, with its port", () => {
    const rules = rulesOf("pkg.example.org:443");
    expect(permits(rules, "pkg.example.org", 443)).toBe(true);
    expect(permits(rules, "pkg.example.org", 80)).toBe(false);
    expect(permits(rules, "a.pkg.example.org", 443)).toBe(false);
    expect(permits(rules, "evilpkg.example.org", 443)).toBe(false);
    expect(permits(rules, "pkg.example.org.evil.net", 443)).toBe(false);
  });

  test("takes any name below a suffix, but not the suffix nor one that only ends alike", () => {
    const rules = rulesOf("*.example.org:443");
    expect(permits(rules, "a.example.org", 443)).toBe(true);
    expect(permits(rules, "a.b.example.org", 443)).toBe(true);
    expect(permits(rules, "example.org", 443)).toBe(false);
    expect(permits(rules, "evilexample.org", 443)).toBe(false);
  });

  test("lets nothing through without rules", () => {
    expect(permits([], "example.org", 443)).toBe(false);
  });
});

describe("isPlainHost", () => {
  test("takes names and no address, dot at the end or odd byte", () => {
    for (const host of ["a", "localhost", "xn--bcher-kva.example", "a-1.b2"]) expect(isPlainHost(host)).toBe(true);
    for (const host of ["", ".", "a.", ".a", "a..b", "A", "a_b", "1", "1.2.3.4", "a.0x1", "a\0b", "a b", "[::1]"])
      expect(isPlainHost(host)).toBe(false);
  });
});

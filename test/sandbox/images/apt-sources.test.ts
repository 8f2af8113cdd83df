import { describe, expect, test } from "bun:test";
import { parseListFile, parseSourcesFile, securityMirror } from "../../../src/sandbox/images/apt-sources.ts";

describe("parseListFile", () => {
  test("reads entries with and without options and skips comments and other lines", () => {
    const text =
      "# deb http://x/debian a main\ndeb [arch=amd64 signed-by=/k] http://m/debian stable main\n deb-src http://m/s s main\nnoise";
    expect(parseListFile(text)).toEqual([
      { uri: "http://m/debian", suite: "stable" },
      { uri: "http://m/s", suite: "s" },
    ]);
  });
});

describe("parseSourcesFile", () => {
  test("reads every URI with every suite of enabled paragraphs", () => {
    const text =
      "Types: deb\nURIs: http://a/debian http://b/debian\nSuites: one two\n\nEnabled: no\nURIs: http://c\nSuites: x\n";
    expect(parseSourcesFile(text).map(({ uri, suite }) => `${uri} ${suite}`)).toEqual([
      "http://a/debian one",
      "http://a/debian two",
      "http://b/debian one",
      "http://b/debian two",
    ]);
  });
});

describe("securityMirror", () => {
  test("is the machine's own, else beside its main archive, else none", () => {
    const main = { uri: "http://m/debian", suite: "stable" };
    const security = { uri: "http://m/other/debian-security/", suite: "stable-security" };
    expect(securityMirror([main, security])).toBe("http://m/other/debian-security/");
    expect(securityMirror([main])).toBe("http://m/debian-security");
    expect(securityMirror([{ uri: "http://m/vendor", suite: "x" }])).toBeNull();
  });
});

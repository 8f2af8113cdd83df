import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** One place that the machine's own apt configuration fetches packages from. */
export interface AptSource {
  uri: string;
  suite: string;
}

/** Reads both forms of apt source files below `aptDir`: one-line `.list` and deb822 `.sources`. Skips what is disabled. */
export function readAptSources(aptDir = "/etc/apt"): AptSource[] {
  const parts = join(aptDir, "sources.list.d");
  const names = existsSync(parts) ? readdirSync(parts).sort() : [];
  const files = [join(aptDir, "sources.list"), ...names.map((name) => join(parts, name))].filter((file) =>
    existsSync(file),
  );
  return files.flatMap((file) => {
    if (file.endsWith(".list")) return parseListFile(readFileSync(file, "utf8"));
    return file.endsWith(".sources") ? parseSourcesFile(readFileSync(file, "utf8")) : [];
  });
}

/** `deb [options] URI SUITE COMPONENT...`, one a line. */
export function parseListFile(text: string): AptSource[] {
  return text.split("\n").flatMap((line) => {
    const match = /^\s*deb(?:-src)?\s+(?:\[[^\]]*\]\s+)?(\S+)\s+(\S+)/.exec(line);
    return match?.[1] !== undefined && match[2] !== undefined ? [{ uri: match[1], suite: match[2] }] : [];
  });
}

/** deb822 paragraphs: `URIs:` and `Suites:` may each hold several. */
export function parseSourcesFile(text: string): AptSource[] {
  return text.split(/\n\s*\n/).flatMap((paragraph) => {
    const fields = new Map<string, string>();
    for (const line of paragraph.split("\n")) {
      const match = /^([A-Za-z-]+):\s*(.*)$/.exec(line);
      if (match?.[1] !== undefined) fields.set(match[1].toLowerCase(), (match[2] ?? "").trim());
    }
    if (fields.get("enabled")?.toLowerCase() === "no") return [];
    const words = (name: string) => (fields.get(name) ?? "").split(/\s+/).filter((word) => word !== "");
    return words("uris").flatMap((uri) => words("suites").map((suite) => ({ uri, suite })));
  });
}

/** The mirror of Debian's security archive that this machine uses; null when none of its sources is one. */
export function securityMirror(sources: readonly AptSource[]): string | null {
  const own = sources.find((source) => /\/debian-security\/?$/.test(source.uri) || source.suite.endsWith("-security"));
  if (own !== undefined) return own.uri;
  const main = sources.find((source) => /\/debian\/?$/.test(source.uri));
  return main === undefined ? null : main.uri.replace(/\/debian\/?$/, "/debian-security");
}

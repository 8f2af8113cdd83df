import { describe, expect, test } from "bun:test";
import { dirname, join, normalize } from "node:path";
import { REASONS, REQUEST_REASONS } from "../src/errors.ts";

/** Folder -> folders it may import, `type` imports included. Files at the root of src are "base"; roots import anything. */
const MAY_IMPORT: Record<string, readonly string[]> = {
  base: [],
  job: ["base", "trajectory"],
  trajectory: ["base", "job"],
  formats: ["base", "job", "trajectory"],
  sandbox: ["base"],
  tokens: ["base", "trajectory"],
  llm: ["base", "trajectory", "tokens"],
  tools: ["base", "sandbox", "trajectory"],
  agent: ["base", "trajectory", "llm", "tools", "tokens", "sandbox"],
  tasks: ["base", "job", "trajectory", "llm", "sandbox", "tools", "agent"],
  store: ["base", "job", "trajectory"],
  pipeline: ["base", "job", "trajectory", "store", "llm", "sandbox", "tasks", "agent", "tools"],
  metrics: ["base", "job"],
  http: ["base", "job", "trajectory", "formats", "store", "pipeline", "llm", "metrics"],
  cli: ["base", "job", "trajectory", "formats", "store", "sandbox", "http", "tasks", "llm", "tokens", "pipeline"],
};
const ROOTS = new Set(["server.ts", "cli.ts"]);

/** Pattern, what to do instead, and the files where it is at home. */
const BANNED: readonly (readonly [RegExp, string, RegExp])[] = [
  [/\bprocess\.env\b|\bBun\.env\b/, "read it in config.ts", /^(config|launcher)\.ts$/],
  [/\bDate\.now\(|\bnew Date\(\)|\bsetTimeout\(|\bsetInterval\(|\bBun\.sleep\(/, "use Clock", /^clock\.ts$/],
  [/\bMath\.random\(|\brandomUUID\(|\bgetRandomValues\(/, "use ids.ts", /^ids\.ts$/],
  [/\bBun\.spawn(Sync)?\(|node:child_process/, "use sandbox/process.ts", /^sandbox\/process\.ts$/],
  [/\.transaction\(\s*async\b/, "bun:sqlite transactions are synchronous", /^$/],
  [/from "\.\.?\/(?:server|cli)\.ts"/, "nobody imports a root", /^cli(\/main)?\.ts$/],
  [/\bFIXME\b|\bTODO\b/, "finish it before it lands", /^$/],
  [/^export (default|\* from)/m, "no default exports, no barrels", /^$/],
  [/\bconsole\.(log|error)\(/, "use Log, or cli/ for what a command answers", /^(cli\/|cli\.ts$)/],
];
const LINES_MAX = 300;

function folderOf(path: string): string {
  return path.includes("/") ? path.slice(0, path.indexOf("/")) : "base";
}

async function findings(srcDir: string): Promise<string[]> {
  const found: string[] = [];
  for (const path of [...new Bun.Glob("**/*.ts").scanSync(srcDir)].sort()) {
    if (path.endsWith(".d.ts")) continue;
    const text = await Bun.file(join(srcDir, path)).text();
    const lines = text.split("\n").length - 1;
    if (lines > LINES_MAX) found.push(`${path}: ${lines} lines, at most ${LINES_MAX}`);
    for (const [pattern, advice, home] of BANNED) {
      if (pattern.test(text) && !home.test(path)) found.push(`${path}: ${pattern.source}: ${advice}`);
    }
    if (!ROOTS.has(path)) found.push(...layerBreaks(path, text));
  }
  return found;
}

function layerBreaks(path: string, text: string): string[] {
  const own = folderOf(path);
  const allowed = MAY_IMPORT[own];
  if (allowed === undefined) return [`${path}: the folder ${own} is not in the import table`];
  return [...text.matchAll(/\b(?:from\s+|import\(?\s*)"(\.[^"]+)"/g)].flatMap((match) => {
    const target = folderOf(normalize(join(dirname(path), match[1] ?? "")));
    const outside = normalize(join(dirname(path), match[1] ?? "")).startsWith("..");
    return target === own || outside || allowed.includes(target) ? [] : [`${path}: ${own} may not import ${target}`];
  });
}

describe("src", () => {
  test("keeps its layers, its bans and its size caps", async () => {
    expect(await findings(join(import.meta.dir, "../src"))).toEqual([]);
  });

  test("is reported when a layer is broken, a banned call is made or a file is too long", async () => {
    const found = await findings(join(import.meta.dir, "fixtures/untidy"));
    expect(found.map((line) => line.replace(/: .*: /, ": "))).toEqual([
      "job/long.ts: 301 lines, at most 300",
      "job/untidy.ts: use Clock",
      "job/untidy.ts: job may not import store",
    ]);
  });
});

describe("documents", () => {
  test("list every reason with its rule", async () => {
    const text = await Bun.file(join(import.meta.dir, "../docs/reasons.md")).text();
    for (const [reason, rule] of Object.entries(REASONS)) {
      const retry = rule.retry === "never" ? "no" : rule.retry;
      expect(text).toContain(`| \`${reason}\` | ${rule.blame} | ${rule.graded ? "yes" : "no"} | ${retry} |`);
    }
    for (const [reason, status] of Object.entries(REQUEST_REASONS))
      expect(text).toContain(`| \`${reason}\` | ${status} |`);
  });

  test("keep ARCHITECTURE.md within 200 lines", async () => {
    const text = await Bun.file(join(import.meta.dir, "../ARCHITECTURE.md")).text();
    expect(text.split("\n").length - 1).toBeLessThanOrEqual(200);
  });
});

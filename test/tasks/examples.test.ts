import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "../../src/clock.ts";
import { DEFAULT_LIMITS } from "../../src/job/limits.ts";
import { silentLog } from "../../src/log.ts";
import type { SandboxHost } from "../../src/sandbox/sandbox.ts";
import { checkTask } from "../../src/tasks/check.ts";
import { createRegistry } from "../../src/tasks/registry.ts";
import { testSandboxHost } from "../support/sandbox-host.ts";

const ROOT = join(import.meta.dir, "../..");
const FILES = readdirSync(join(ROOT, "examples")).filter((name) => name.endsWith(".jsonl"));

let sandboxes: SandboxHost;
beforeAll(async () => {
  sandboxes = await testSandboxHost();
});
afterAll(async () => {
  expect(sandboxes.live).toBe(0);
  await sandboxes.close();
});

async function rowsOf(file: string): Promise<unknown[]> {
  const text = await Bun.file(join(ROOT, "examples", file)).text();
  return text
    .trim()
    .split("\n")
    .map((line): unknown => JSON.parse(line));
}

describe("examples/", () => {
  test.each(FILES)("%s gives the reference full marks and an idle agent none", async (file) => {
    const registry = createRegistry(systemClock);
    for (const row of await rowsOf(file)) {
      const check = await checkTask(
        { sandboxes, log: silentLog },
        registry.parse(row),
        DEFAULT_LIMITS,
        new AbortController().signal,
      );
      expect(check).toMatchObject({ ok: true, emptyReward: 0, referenceReward: 1, problem: null });
    }
  });
});

describe("docs/tasks.md", () => {
  test("shows the rows of native-tasks.jsonl", async () => {
    const page = await Bun.file(join(ROOT, "docs/tasks.md")).text();
    const shown = [...page.matchAll(/^```json\n(.*?)^```$/gms)].map((match): unknown => JSON.parse(match[1] ?? ""));
    expect(shown).toEqual(await rowsOf("native-tasks.jsonl"));
  });
});

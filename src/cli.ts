#!/usr/bin/env bun
import { existsSync } from "node:fs";
import { join } from "node:path";
import { enterNamespace, resumeInNamespace } from "./launcher.ts";
import { enterLeafGroup } from "./sandbox/cgroup-leaf.ts";
import { BUILD } from "./version.ts";

/*
 * A server starts twice, the second time inside its PID namespace. So the rest of the program, which takes most of the
 * time to start, is loaded only where it is needed.
 */
resumeInNamespace();
if (BUILD === null) requirePackages(join(import.meta.dir, ".."));
const [, , command, ...rest] = process.argv;
const isBuild = command === "image" && ["build", "import"].includes(rest[0] ?? "");
// What a build starts must end with it, however it ends.
if ((command === "serve" || isBuild) && !rest.includes("--help") && !rest.includes("-h")) enter();
const { runCommandLine } = await import("./cli/main.ts");
process.exit(await runCommandLine());

/** Without them Bun fetches packages by itself in one thread and fails in the next. */
function requirePackages(clone: string): void {
  if (existsSync(join(clone, "node_modules", "hono"))) return;
  console.error(`rolloutd: its packages are not installed; run once: (cd ${clone} && bun install --frozen-lockfile)`);
  process.exit(2);
}

function enter(): void {
  try {
    enterLeafGroup();
    enterNamespace();
  } catch (error) {
    console.error(`rolloutd: ${error instanceof Error ? error.message : String(error)}`);
    process.exit(2);
  }
}

#!/usr/bin/env bun
import { enterNamespace, resumeInNamespace } from "./launcher.ts";

/*
 * A server starts twice, the second time inside its PID namespace. So the rest of the program, which takes most of the
 * time to start, is loaded only where it is needed.
 */
resumeInNamespace();
const [, , command, ...rest] = process.argv;
if (command === "serve" && !rest.includes("--help") && !rest.includes("-h")) enter();
const { runCommandLine } = await import("./cli/main.ts");
process.exit(await runCommandLine());

function enter(): void {
  try {
    enterNamespace();
  } catch (error) {
    console.error(`rolloutd: ${error instanceof Error ? error.message : String(error)}`);
    process.exit(2);
  }
}

import { join } from "node:path";
import { testBwrap } from "./bwrap.ts";

const CLI = join(import.meta.dir, "../../src/cli.ts");

/** Runs the command line to its end, as a user does. */
export async function runCli(args: readonly string[], env: Record<string, string> = {}) {
  const child = Bun.spawn([process.execPath, CLI, ...args], {
    env: { ...process.env, ROLLOUTD_BWRAP: await testBwrap(), ...env },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const output = [new Response(child.stdout).text(), new Response(child.stderr).text()];
  const [out = "", err = ""] = await Promise.all(output);
  return { out, err, code: await child.exited };
}

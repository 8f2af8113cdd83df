import { chmodSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { testBwrap } from "../support/bwrap.ts";
import type { AttackResult } from "./program.ts";

const NOBODY = 65_534;

/** Who starts the sandboxes: root's server drops to another uid for them, an ordinary user's runs them as that user. */
export interface Attacker {
  who: string;
  /** What comes before the program. */
  around: readonly string[];
}

/** Root tries both; an ordinary user can only be itself. */
export function attackers(): Attacker[] {
  if (process.getuid?.() !== 0) return [{ who: "an ordinary user", around: [] }];
  const drop = ["/usr/bin/setpriv", `--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups", "--"];
  return [
    { who: "root", around: [] },
    { who: "an ordinary user", around: drop },
  ];
}

/** The program of the attacks as one file that every user may run, in a folder that the caller removes. */
export async function compileAttacks(): Promise<{ folder: string; program: string }> {
  const folder = mkdtempSync(join(tmpdir(), "attacks-"));
  chmodSync(folder, 0o755);
  const program = join(folder, "attacks");
  const source = join(import.meta.dir, "program.ts");
  const built = Bun.spawn([process.execPath, "build", "--compile", source, "--outfile", program], {
    stdout: "ignore",
    stderr: "pipe",
  });
  const said = await new Response(built.stderr).text();
  if ((await built.exited) !== 0) throw new Error(`the attacks do not compile: ${said}`);
  return { folder, program };
}

/** Makes the attacks named, all when none is, and gives what came of each by name. */
export async function runAttacks(
  program: string,
  { around }: Attacker,
  { names = [], bwrap }: { names?: readonly string[]; bwrap?: string } = {},
): Promise<Map<string, AttackResult>> {
  const child = Bun.spawn([...around, program, ...names], {
    cwd: dirname(program),
    env: { PATH: "/usr/bin:/bin", ROLLOUTD_BWRAP: bwrap ?? (await testBwrap()) },
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  if ((await child.exited) !== 0) throw new Error(`the attacks did not run: ${err}`);
  const results = out
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as AttackResult);
  return new Map(results.map((result) => [result.name, result]));
}

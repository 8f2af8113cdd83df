import type { Sandbox, SandboxHost, SandboxOptions } from "../../src/sandbox/sandbox.ts";
import { TEST_LIMITS } from "../support/sandbox-host.ts";

/** One way in which an agent may try to get out, to see, to keep or to break what is not its own. */
export interface Attack {
  /** Unique; stands in docs/sandbox.md. */
  name: string;
  /** What it tries, for people. */
  tries: string;
  /** What must happen, for people. */
  must: string;
  /** What `run` gives when that happens. */
  contained: unknown;
  /** Makes the attempt and says what came of it. */
  run: (place: Place) => Promise<unknown>;
}

/** What an attack is made in: a host, sandboxes on it, and something on this machine that no sandbox may see. */
export interface Place {
  host: SandboxHost;
  /** A file of this machine that everybody here may read, and its folder. */
  secret: { folder: string; path: string; text: string };
  /** A sandbox that is closed when the attack is over. */
  open: (over?: Partial<SandboxOptions>) => Promise<Sandbox>;
}

export const never = new AbortController().signal;

/** What a command wrote. */
export async function sh(sandbox: Sandbox, command: string, timeoutMs = 20_000): Promise<string> {
  return (await sandbox.shell(command, { timeoutMs, signal: never })).output.trimEnd();
}

/** What a cell wrote. */
export async function py(sandbox: Sandbox, code: string, timeoutMs = 20_000): Promise<string> {
  return (await sandbox.python(code, { timeoutMs, signal: never })).output.trimEnd();
}

/** An attack that is one command in a fresh sandbox; `contained` is what it writes then. */
export function shellAttack(
  name: string,
  { tries, must, command, contained }: { tries: string; must: string; command: string; contained: string },
): Attack {
  return { name, tries, must, contained, run: async ({ open }) => sh(await open(), command) };
}

/** A command that must fail, whatever it says. */
export function refusedCommand(name: string, tries: string, command: string): Attack {
  return shellAttack(name, {
    tries,
    must: "refused",
    command: `{ ${command}; } >/dev/null 2>&1 && echo done || echo refused`,
    contained: "refused",
  });
}

/** An attack that is one cell in a fresh sandbox. */
export function pythonAttack(
  name: string,
  { tries, must, code, contained }: { tries: string; must: string; code: string; contained: string },
): Attack {
  return { name, tries, must, contained, run: async ({ open }) => py(await open(), code) };
}

export const SMALL = TEST_LIMITS;

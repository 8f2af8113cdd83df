import { closeSync, writeSync } from "node:fs";
import { openUnnamedFile } from "../libc.ts";

/** The one place that starts processes. Bun's own "pipe" is a socket pair, so callers bring descriptors instead. */

export interface ProcessEnd {
  /** Null when a signal ended it. */
  exitCode: number | null;
  signal: string | null;
}

export interface StartedProcess {
  readonly pid: number;
  /** Resolves once when the process was reaped; never rejects. */
  readonly exited: Promise<ProcessEnd>;
  readonly hasExited: boolean;
  /** Does nothing to a process that has ended. */
  kill(signal: "SIGKILL" | "SIGSTOP" | "SIGTERM"): void;
}

export interface ProcessOptions {
  argv: readonly string[];
  /** The whole environment: nothing of the server's own is passed on. */
  env: Readonly<Record<string, string>>;
  /** Descriptors by their number in the child; null is /dev/null. They stay the caller's to close. */
  stdio: readonly (number | null)[];
  /** User and group to become before the program is executed, without supplementary groups; null stays who we are. */
  uid: number | null;
}

/** Starts a process. Throws at once when the program does not exist. */
export function startProcess({ argv, env, stdio, uid }: ProcessOptions): StartedProcess {
  const [stdin, stdout, stderr, ...others] = stdio.map((fd) => fd ?? ("ignore" as const));
  const child = Bun.spawn([...argv], {
    env: { ...env },
    ...(uid === null ? {} : { uid, gid: uid }),
    stdio: [stdin ?? "ignore", stdout ?? "ignore", stderr ?? "ignore", ...others],
  });
  const exited = child.exited.then(() => ({
    exitCode: child.exitCode,
    signal: child.signalCode === null ? null : String(child.signalCode),
  }));
  return {
    pid: child.pid,
    exited,
    get hasExited() {
      return child.exitCode !== null || child.signalCode !== null;
    },
    kill: (signal) => child.kill(signal),
  };
}

/** A descriptor that a child reads from its start to its end; it has no name, so a kill leaves nothing. */
export function unnamedFileOf(bytes: Uint8Array): number {
  const fd = openUnnamedFile();
  try {
    // A positioned write leaves the shared offset at the start, where the child begins.
    for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at, bytes.length - at, at);
    return fd;
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

/** Runs a program of this machine to its end with an empty environment; null when it cannot be started or hangs. */
export async function outputOf(
  argv: readonly string[],
  timeoutMs: number,
): Promise<{ stdout: string; stderr: string; exitCode: number | null } | null> {
  try {
    const child = Bun.spawn([...argv], {
      env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL: "C" },
      stdio: ["ignore", "pipe", "pipe"],
      timeout: timeoutMs,
      killSignal: "SIGKILL",
      maxBuffer: 1024 * 1024,
    });
    const [stdout, stderr] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ]);
    return { stdout, stderr, exitCode: child.exitCode };
  } catch {
    return null; // ENOENT and EACCES are thrown at once
  }
}

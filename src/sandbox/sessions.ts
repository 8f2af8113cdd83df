import { closeSync } from "node:fs";
import type { Clock } from "../clock.ts";
import type { FileRoot } from "../libc.ts";
import type { Cell } from "./cell.ts";
import { readSandboxFile, writeSandboxFile } from "./files.ts";
import { FramedOutput } from "./framed-output.ts";
import { PipeReader } from "./pipe-reader.ts";
import type { LooseDescriptors, Pipe } from "./pipes.ts";
import { pythonKind } from "./python.ts";
import { Session } from "./session.ts";
import type { SessionPipes } from "./session-process.ts";
import { shellKind } from "./shell.ts";
import { terminalKind } from "./terminal.ts";
import { TerminalSession } from "./terminal-session.ts";

/** Pipes of a sandbox with sessions, beside those of control. */
export const SESSION_PIPES = {
  shellIn: "write",
  shellOut: "read",
  pythonIn: "write",
  pythonOut: "read",
  terminalIn: "write",
  terminalOut: "read",
} as const;

/** From descriptor 5 on, as the supervisor's script knows them. */
export const SESSION_ENDS = ["shellIn", "shellOut", "pythonIn", "pythonOut", "terminalIn", "terminalOut"] as const;

/** The interpreters of one sandbox; each is started when it is first used. */
export interface Sessions {
  shell: Session;
  python: Session;
  terminal: TerminalSession;
}

/** Where the sessions live; both are there when the first is used. */
export interface SessionPlace {
  cell: () => Cell;
  root: () => FileRoot;
  clock: Clock;
}

/** Makes the sessions; our ends of their pipes go to `owned`. */
export function createSessions(
  pipes: Readonly<Record<keyof typeof SESSION_PIPES, Pipe>>,
  { loose, owned }: { loose: LooseDescriptors; owned: AsyncDisposableStack },
  { cell, root, clock }: SessionPlace,
): Sessions {
  const own = (input: Pipe, output: Pipe): SessionPipes => {
    const inputFd = loose.take(input.ours);
    owned.defer(() => closeSync(inputFd));
    const reader = new PipeReader(loose.take(output.ours));
    owned.defer(() => reader.close());
    return { inputFd, output: new FramedOutput(reader) };
  };
  const write = (path: string, text: string) => writeSandboxFile(root(), { path, bytes: Buffer.from(text) });
  const read = (path: string, bytesMax: number) => readSandboxFile(root(), path, bytesMax);
  return {
    shell: new Session(shellKind(write), own(pipes.shellIn, pipes.shellOut), cell, clock),
    python: new Session(pythonKind({ write, read }), own(pipes.pythonIn, pipes.pythonOut), cell, clock),
    terminal: new TerminalSession(terminalKind(write), own(pipes.terminalIn, pipes.terminalOut), cell, clock),
  };
}

/** Takes a line of the supervisor after its first. `up` again: an agent killed all it could reach, and PID 1 started a new control loop. */
export function hearSupervisor(line: string, sessions: Sessions): void {
  const [word = "", first, second] = line.split(" ");
  if (word === "up") {
    // The watch ends with the session's process, which `close` kills; nothing in it rejects.
    for (const { process } of [sessions.shell, sessions.python, sessions.terminal]) void process.supervisorLost();
  } else if ((word === "shell" || word === "python" || word === "terminal") && first !== undefined) {
    sessions[word].process.leaderEnded(first, Number(second));
  }
}

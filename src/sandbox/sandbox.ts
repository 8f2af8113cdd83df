import type { NetworkLog, NetworkRule } from "../network-rule.ts";
import type { OutputParts } from "./bounded-output.ts";
import type { Enforcement } from "./enforcement.ts";
import type { ImageInfo } from "./image.ts";

/** The port to a confined place. The only implementation starts bubblewrap; graders and agents see no more than this. */

export interface SandboxLimits {
  /** All processes together, beside the disk, where a cgroup bounds them; each process alone otherwise. */
  memoryBytes: number;
  /** The writable layer and `/dev/shm`. */
  diskBytes: number;
  inodesMax: number;
  pidsMax: number;
  /** Descriptors of one process. */
  openFilesMax: number;
  fileBytes: number;
  /** Processor time of one process, rounded up to seconds. */
  cpuMs: number;
}

export interface SandboxFile {
  /** Absolute inside the sandbox. */
  path: string;
  bytes: Uint8Array;
  /** Permission bits; 0o644 when absent. */
  mode?: number;
}

export interface SandboxOptions {
  image: string;
  limits: SandboxLimits;
  files?: readonly SandboxFile[];
  /** Working directory, made if missing. `/workspace` when absent. */
  cwd?: string;
  /** A snapshot of a sandbox on the same image, whose writable layer the new one starts with. */
  restore?: SandboxSnapshot;
  /** What may be reached through the sandbox's proxy; no network at all when there are none. */
  network?: readonly NetworkRule[];
}

/** The writable layer of a sandbox as it was, kept by the host: plain data, so that it can be written down. */
export interface SandboxSnapshot {
  id: string;
  /** The image whose sandboxes it can be restored on. */
  imageId: string;
  bytes: number;
  /** Of its file, in hex. */
  sha256: string;
}

/** One step of the time-out ladder that was taken: what was sent, and whether to what the command started or to the session. */
export interface LadderStep {
  signal: "SIGINT" | "SIGKILL";
  target: "below" | "leader";
}

/** How a command ended, as separate facts: nothing is folded into an exit code. */
export interface CommandResult extends OutputParts {
  /** `head` and `tail` as one text, with the number of bytes left out between them. */
  output: string;
  /** All bytes the command wrote, also those left out of `output`. */
  outputBytes: number;
  truncated: boolean;
  /** The bytes themselves from the first on, at most `outputFileBytesMax` of them. */
  raw: Uint8Array;
  exitCode: number | null;
  /**
   * The signal that ended it; null when none did. A shell tells it as exit code 128 and its number, which `exitCode`
   * keeps; a command that exits with such a number by itself cannot be told apart.
   */
  signal: string | null;
  timedOut: boolean;
  /** The steps that the end of its time took, in order; empty when it ended in time. */
  ladder: readonly LadderStep[];
  /** PNG images that a cell drew, in the order of their figures; empty for a shell. */
  figures: readonly Uint8Array[];
  /** Figures beyond the bounds, that are not in `figures`. */
  figuresLost: number;
  /** What the time-out ladder or a restart did, or why nothing was run, in words for the model; null when nothing happened. */
  note: string | null;
  ms: number;
}

/** What is typed into a terminal. */
export type TerminalInput =
  | { kind: "command"; text: string }
  /** A line for the program that runs. */
  | { kind: "line"; text: string }
  | { kind: "key"; key: TerminalKey }
  /** Nothing: only what was written since. */
  | { kind: "more" };
export type TerminalKey = "C-c" | "C-d" | "C-z";

export interface TerminalResult extends CommandResult {
  /** Whether the command still runs; `exitCode` is then null. */
  running: boolean;
}

export type FileKind = "file" | "folder" | "FIFO" | "socket" | "device" | "kernel file";

export interface FilePart {
  bytes: Uint8Array;
  /** Length of the whole file. */
  size: number;
}

/**
 * Why the sandbox is no longer there. `limit`: the agent's doing (it brought PID 1 down, flooded PID 1's own pipe, or left
 * no room to start its session again). `lost`: bwrap was killed from outside, which an agent cannot do.
 */
export type SandboxEnd = "closed" | "limit" | "lost";

/** A sandbox with a shell and a Python worker that live as long as it does. Calls are answered one at a time. */
export interface Sandbox extends AsyncDisposable {
  readonly id: string;
  /** What was asked of the network so far, let through or not, also after `close`; null when it has none. */
  readonly networkLog: NetworkLog | null;
  /** Resolves once when the last process is gone; never rejects. */
  readonly ended: Promise<SandboxEnd>;
  /** Runs `command` in the persistent bash with an empty stdin. Throws RolloutError sandbox_lost | sandbox_limit. */
  shell(command: string, options: { timeoutMs: number; signal: AbortSignal }): Promise<CommandResult>;
  /** Runs a notebook cell in the persistent Python worker, which is started at the first call. */
  python(code: string, options: { timeoutMs: number; signal: AbortSignal }): Promise<CommandResult>;
  /**
   * Types into the persistent bash on a pseudo-terminal, which is started at the first call, and answers when the command
   * has ended, or with what it wrote so far.
   */
  terminal(typed: TerminalInput, options: { timeoutMs: number; signal: AbortSignal }): Promise<TerminalResult>;
  writeFile(file: SandboxFile, signal: AbortSignal): Promise<void>;
  /** Regular files only, never outside the sandbox; null when there is none. Throws when over `bytesMax`. */
  readFile(path: string, bytesMax: number): Promise<Uint8Array | null>;
  /** Part of a regular file, and its length; null when there is none. */
  readPart(path: string, part: { start: number; bytesMax: number }): Promise<FilePart | null>;
  /** What stands at `path`, symlinks followed; null when there is nothing, or the agent itself could not see it. */
  kindOf(path: string): Promise<FileKind | null>;
  /** Removes a file, not a folder; a symlink itself. Throws RolloutError sandbox_limit when it cannot. */
  removeFile(path: string, signal: AbortSignal): Promise<void>;
  /** Names in a folder, folders with a slash at their end, sorted; null when there is no such folder. At most `namesMax`. */
  listFolder(path: string, namesMax: number): Promise<{ names: readonly string[]; more: boolean } | null>;
  /**
   * Keeps the writable layer as it is now; the processes stand still meanwhile, and may be gone after `killProcesses`.
   * Throws RolloutError sandbox_limit when it cannot be read or is too large.
   */
  snapshot(signal: AbortSignal): Promise<SandboxSnapshot>;
  /** Kills every process of the agent; files can still be read until `close`. Resolves when they are gone. */
  killProcesses(): Promise<void>;
  /** Kills everything and resolves when the last process is gone. Safe to call twice. */
  close(): Promise<void>;
}

/**
 * One program in a sandbox of its own: for graders and candidates. stdout is read by the server as lines or to the
 * end; there is no shell between.
 */
export interface SandboxProgram extends AsyncDisposable {
  readonly ended: Promise<SandboxEnd>;
  /** Writes to the program's stdin; resolves when the kernel took it. */
  write(bytes: Uint8Array | string): Promise<void>;
  closeStdin(): void;
  /** The next line of stdout without its newline; null at the end. Throws RolloutError sandbox_limit over `lineBytesMax`. */
  readLine(signal: AbortSignal): Promise<string | null>;
  /** Waits for the end. stdout and stderr are bounded by LIMITS.outputBytesMax each, head kept. */
  wait(signal: AbortSignal): Promise<ProgramResult>;
  close(): Promise<void>;
}

export interface ProgramResult {
  stdout: string;
  stderr: string;
  stdoutTruncated: boolean;
  /** Null when a signal ended it. */
  exitCode: number | null;
  signal: string | null;
  ms: number;
}

export interface ProgramOptions extends SandboxOptions {
  argv: readonly string[];
  env?: Readonly<Record<string, string>>;
}

/** Starts sandboxes. `open` rejects with RolloutError image_missing | sandbox_lost and leaves nothing behind. */
export interface SandboxHost {
  open(options: SandboxOptions, signal: AbortSignal): Promise<Sandbox>;
  start(options: ProgramOptions, signal: AbortSignal): Promise<SandboxProgram>;
  /** Names of images that `open` accepts, with the id each has now. */
  images(): readonly ImageInfo[];
  /** Removes a snapshot; one that is gone is no error. */
  removeSnapshot(id: string): void;
  /** Removes those of a server that was killed, which nobody asks for any more. */
  removeAllSnapshots(): void;
  /** Closes those of an image that were started ahead of need, so that it can be removed; resolves when they are gone. */
  drain(imageId: string): Promise<void>;
  /** What limits bind on this machine. */
  readonly enforcement: Enforcement;
  /** Sandboxes started ahead of need, which `live` does not count. */
  readonly warm: number;
  /** Live sandboxes now. */
  readonly live: number;
  /** Kills all that still live and resolves when they are gone. */
  close(): Promise<void>;
}

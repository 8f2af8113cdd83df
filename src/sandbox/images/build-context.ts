import type { BuildHost } from "./build-step.ts";
import type { Draft } from "./draft.ts";

/** Where a build is: its step, of how many, and the last line that the program of this step wrote. */
export interface BuildProgress {
  step: string;
  at: number;
  of: number;
  line: string | null;
}

/** What a builder works with. */
export interface BuildContext {
  host: BuildHost;
  draft: Draft;
  signal: AbortSignal;
  /** Begins a step of the build, and then tells its lines. */
  report: (step: string, line?: string) => void;
}

/** What a builder made: the folder `contents` of the draft, and how a sandbox on it is set up. */
export interface Built {
  contents: "layer" | "rootfs";
  env: Record<string, string>;
  path: string;
  uid: number;
  cwd: string | null;
  notes: string[];
  /** Why no sandbox can start on it; null when one can. */
  unusable: string | null;
}

/** PATH of a root filesystem that does not say. */
export const DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

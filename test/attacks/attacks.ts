import type { Attack } from "./attack.ts";
import { CHANNEL } from "./channel.ts";
import { COUNTERS } from "./counters.ts";
import { IMAGES } from "./images.ts";
import { KERNEL_CALLS } from "./kernel-calls.ts";
import { NEIGHBOURS } from "./neighbours.ts";
import { NETWORK } from "./network.ts";
import { PROCESSES } from "./processes.ts";
import { READS } from "./reads.ts";
import { RESOURCES } from "./resources.ts";
import { SNAPSHOTS } from "./snapshots.ts";
import { TERMINAL } from "./terminal.ts";
import { VIEWS } from "./views.ts";

/** The whole suite, by what is attacked; the titles stand in docs/sandbox.md. */
export const ATTACKS_BY_TITLE: Readonly<Record<string, readonly Attack[]>> = {
  "The machine and the server": VIEWS,
  "Calls into the kernel": KERNEL_CALLS,
  Processes: PROCESSES,
  "The channel of the tools": CHANNEL,
  "The terminal": TERMINAL,
  "Files that the server reads and writes": READS,
  Snapshots: SNAPSHOTS,
  Images: IMAGES,
  Network: NETWORK,
  Neighbours: NEIGHBOURS,
  Exhaustion: [...RESOURCES, ...COUNTERS],
};

export const ATTACKS: readonly Attack[] = Object.values(ATTACKS_BY_TITLE).flat();

import type { Cgroups } from "./cgroup.ts";

/** What the limits of a sandbox bind on this machine. Disk, inodes and processes are bounded as a whole in any case. */
export interface Enforcement {
  /** `process`: each process may use `memory_bytes`, and a sandbox that many times its processes. */
  memory: "sandbox" | "process";
  /** Whether busy sandboxes share the processors evenly, whatever the number of their processes. */
  cpuShared: boolean;
  /** Where the groups are; empty without. */
  groups: readonly string[];
}

export function enforcementOf(groups: Cgroups | null): Enforcement {
  const controllers = groups?.controllers ?? [];
  return {
    memory: controllers.includes("memory") ? "sandbox" : "process",
    cpuShared: controllers.includes("cpu"),
    groups: groups?.folders ?? [],
  };
}

/** What is not enforced, in words, and how it would be; null when all is. */
export function describeLack({ memory, cpuShared }: Enforcement): { lack: string; fix: string } | null {
  const lacks = [
    ...(memory === "sandbox" ? [] : ["memory_bytes binds each process alone, not the sandbox (RLIMIT_AS)"]),
    ...(cpuShared ? [] : ["sandboxes do not share the processors evenly"]),
  ];
  if (lacks.length === 0) return null;
  const fix =
    "give the server's cgroup to it: Delegate=yes in its systemd unit; with version 1 a folder rolloutd, owned by its user, below memory, pids and cpu of /sys/fs/cgroup";
  return { lack: `no cgroup for it can be made here: ${lacks.join("; ")}`, fix };
}

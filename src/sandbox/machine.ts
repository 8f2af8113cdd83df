import { existsSync, readFileSync } from "node:fs";
import { release } from "node:os";
import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import { openCgroups } from "./cgroup.ts";
import { CONTROLLERS } from "./cgroup-tree.ts";
import { BWRAP_VERSION_MIN, type Bwrap, compareVersions } from "./find-bwrap.ts";
import { type Finding, finding } from "./finding.ts";
import { outputOf } from "./process.ts";

const PROGRAM_MS_MAX = 5_000;
/** Older kernels keep no `user.*` attributes on a tmpfs, where overlays note what was removed. */
const KERNEL_MIN = "6.6";
const APPARMOR_SWITCH = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";
/** Ubuntu 25.04 and later: takes the rights of whatever unshare starts. */
const UNSHARE_PROFILE = "/etc/apparmor.d/unshare-userns-restrict";
const PROFILE_DISABLED = "/etc/apparmor.d/disable/unshare-userns-restrict";
const NO_SANDBOX = "no sandbox starts, so no server does";

/** Without one of these nothing works. Without python3 a right solution would be graded as wrong. */
const PROGRAMS = {
  "/usr/bin/unshare": "util-linux",
  "/usr/bin/setpriv": "util-linux",
  "/usr/bin/prlimit": "util-linux",
  "/usr/bin/nsenter": "util-linux",
  "/bin/bash": "bash",
  "/bin/tar": "tar",
  "/usr/bin/python3": "python3",
} as const;
/** What agents and operators miss. */
const USEFUL = [
  { files: ["/usr/bin/git"], packages: "git", consequence: "agents on the image host have no git" },
  {
    files: ["/usr/bin/skopeo", "/usr/bin/umoci"],
    packages: "--no-install-recommends skopeo umoci",
    consequence: "`rolloutd image import` cannot read archives and OCI layouts",
  },
  { files: ["/usr/bin/mmdebstrap"], packages: "mmdebstrap", consequence: "the image debian cannot be built" },
] as const;

/** What is looked at, and as whom. */
export interface MachineParts {
  /** The bubblewrap that a server would use; null when there is none that is new enough. */
  bwrap: Bwrap | null;
  /** Those that were found and are too old. */
  tooOld: readonly Bwrap[];
  /** The path that was asked for, where no other is taken; null when any may be. */
  named: string | null;
  /** The uid of sandboxes when root runs this; null for an ordinary user. */
  sandboxUid: number | null;
  clock: Clock;
  log: Log;
}

/** Looks at the machine without starting a sandbox: for `doctor`, and to explain why one does not start. Never rejects. */
export async function inspectMachine(parts: MachineParts): Promise<Finding[]> {
  const { bwrap, sandboxUid } = parts;
  const uid = await findUid(sandboxUid);
  return [
    findBubblewrap(parts),
    uid,
    // What follows is tried as that user.
    ...(uid.state === "ok" && bwrap !== null ? [await findReachable(bwrap, sandboxUid)] : []),
    ...(uid.state === "ok" ? await findMounts(sandboxUid) : []),
    findAppArmor(),
    await findGroups(parts),
    findPrograms(),
    ...USEFUL.map(findUseful),
    findUidmap(),
  ];
}

function findBubblewrap({ bwrap, tooOld, named }: MachineParts): Finding {
  const old = tooOld.map(({ path, version }) => `${path} is ${version}`).join(", ");
  const nothing = named === null ? "there is none" : `there is none at ${named}, which --bwrap or ROLLOUTD_BWRAP names`;
  const none = old === "" ? nothing : `${old}, which is too old`;
  const risk =
    old === ""
      ? ""
      : ` (before ${BWRAP_VERSION_MIN} an agent's symlink makes it write on this machine, CVE-2026-87766)`;
  return finding("bubblewrap", bwrap !== null, bwrap === null ? none : `${bwrap.version}, ${bwrap.path}`, {
    consequence: `${NO_SANDBOX}${risk}`,
    fix: `use the rolloutd binary, which carries one, or in a clone: npx --yes bun@1.4.4 scripts/setup/bubblewrap.ts; a distribution's bubblewrap >= ${BWRAP_VERSION_MIN} (Debian 13: apt-get install bubblewrap) does too`,
  });
}

async function findUid(sandboxUid: number | null): Promise<Finding> {
  const ran = sandboxUid === null ? null : await outputOf([...asUid(sandboxUid), "/bin/true"], PROGRAM_MS_MAX);
  const holds = sandboxUid === null || ran?.exitCode === 0;
  const detail =
    sandboxUid === null ? "this user's own" : `${sandboxUid}${holds ? "" : `: ${ran?.stderr.trim() ?? ""}`}`;
  return finding("uid of sandboxes", holds, detail, {
    consequence: NO_SANDBOX,
    fix: "--sandbox-uid with a uid other than 0 that /proc/self/uid_map maps (a rootless container may map few), or start it as an ordinary user",
  });
}

async function findReachable(bwrap: Bwrap, sandboxUid: number | null): Promise<Finding> {
  const ran = await outputOf([...asUid(sandboxUid), bwrap.path, "--version"], PROGRAM_MS_MAX);
  const who = sandboxUid === null ? "this user" : `uid ${sandboxUid}`;
  const isReached = ran?.exitCode === 0;
  return finding("bubblewrap reachable", isReached, `${isReached ? "by" : "not by"} ${who}`, {
    consequence: NO_SANDBOX,
    fix: `install -D -m 755 ${bwrap.path} /usr/local/bin/bwrap`,
  });
}

/** An overlay is mounted in a user namespace: without one nothing is known of it. */
async function findMounts(sandboxUid: number | null): Promise<Finding[]> {
  const namespaces = await findNamespaces(sandboxUid);
  return [namespaces, namespaces.state === "ok" ? await findOverlay(sandboxUid) : OVERLAY_UNTRIED];
}

async function findNamespaces(sandboxUid: number | null): Promise<Finding> {
  const argv = [...asUid(sandboxUid), "/usr/bin/unshare", "--user", "--map-root-user", "--mount", "/bin/true"];
  const ran = await outputOf(argv, PROGRAM_MS_MAX);
  return finding("user namespaces", ran?.exitCode === 0, ran?.stderr.trim() || "can be made", {
    consequence: NO_SANDBOX,
    fix: namespaceFix(),
  });
}

/** The setting that stands in the way. */
function namespaceFix(): string {
  if (settingOf("/proc/sys/user/max_user_namespaces") === "0") return "sysctl -w user.max_user_namespaces=65536";
  if (settingOf("/proc/sys/kernel/unprivileged_userns_clone") === "0") {
    return "sysctl -w kernel.unprivileged_userns_clone=1";
  }
  if (settingOf(APPARMOR_SWITCH) === "1") return "see AppArmor below";
  return "in a container: its seccomp and AppArmor or SELinux rules must allow unshare and mount, see docs/deployment.md";
}

function findAppArmor(): Finding {
  const restricts = settingOf(APPARMOR_SWITCH) === "1";
  const isAttached = existsSync(UNSHARE_PROFILE) && !existsSync(PROFILE_DISABLED);
  const own =
    "rolloutd doctor --apparmor-profile >/etc/apparmor.d/rolloutd && apparmor_parser -r /etc/apparmor.d/rolloutd";
  const other = ` && ln -s ${UNSHARE_PROFILE} ${PROFILE_DISABLED} && apparmor_parser -R ${UNSHARE_PROFILE}`;
  // The switch says nothing of programs that have a profile; whether this one may is what "user namespaces" tries.
  return finding("AppArmor", !restricts, restricts ? "user namespaces need a profile" : "does not interfere", {
    state: "lacking",
    consequence:
      "without a profile for this program, user namespaces are refused or have no rights (Ubuntu 24.04 and later)",
    fix: `${own}${isAttached ? other : ""}`,
  });
}

const TRY_OVERLAY =
  "mount -n -i -t tmpfs tmpfs /mnt && mkdir /mnt/l /mnt/u /mnt/w /mnt/m && mkdir /mnt/l/d && mount -n -i -t overlay -o userxattr,lowerdir=/mnt/l,upperdir=/mnt/u,workdir=/mnt/w overlay /mnt/m && rmdir /mnt/m/d && mkdir /mnt/m/d";

const NO_OVERLAY = "images with a root of their own (debian, imported ones) cannot be used; host and recipes on it can";
const OVERLAY_UNTRIED = finding("overlay", false, "cannot be tried without user namespaces", {
  state: "lacking",
  consequence: NO_OVERLAY,
  fix: "mend user namespaces, above, and run this again",
});

async function findOverlay(sandboxUid: number | null): Promise<Finding> {
  const enter = ["/usr/bin/unshare", "--user", "--map-root-user", "--mount", "--propagation", "private"];
  const ran = await outputOf([...asUid(sandboxUid), ...enter, "/bin/sh", "-c", TRY_OVERLAY], PROGRAM_MS_MAX);
  const why = ran?.stderr.trim().split("\n").at(-1) ?? "";
  return finding("overlay", ran?.exitCode === 0, ran?.exitCode === 0 ? "can be mounted by a user, on a tmpfs" : why, {
    state: "lacking",
    consequence: NO_OVERLAY,
    fix: `modprobe overlay; Linux ${KERNEL_MIN} or newer (this is ${release()})`,
  });
}

async function findGroups({ sandboxUid, clock, log }: MachineParts): Promise<Finding> {
  await using groups = await openCgroups({ sandboxUid, clock, log });
  const bound = groups?.controllers ?? [];
  const unbound = CONTROLLERS.filter((name) => !bound.includes(name));
  const detail = bound.length === 0 ? "none may be made" : `${bound.join(", ")} bound each sandbox as a whole`;
  return finding("cgroups", unbound.length === 0, detail, {
    state: "lacking",
    consequence: `of ${unbound.join(", ")}, only what binds each process, its user namespace and its disk is enforced: a sandbox may take pids_max times memory_bytes, and all cores`,
    fix: "run it as packaging/rolloutd.service does (Delegate=yes), or: systemd-run --user --scope -p Delegate=yes rolloutd serve; cgroup v1: mkdir and chown a folder `rolloutd` in each hierarchy, see docs/sandbox.md",
  });
}

/** Whether the programs that every sandbox needs are there. */
export function findPrograms(programs: Readonly<Record<string, string>> = PROGRAMS): Finding {
  const missing = Object.entries(programs).filter(([file]) => !existsSync(file));
  const packages = [...new Set(missing.map(([, name]) => name))].join(" ");
  const detail = missing.length === 0 ? "all there" : `${missing.map(([file]) => file).join(", ")} missing`;
  return finding("programs", missing.length === 0, detail, {
    consequence: "sandboxes do not start, or graders cannot run",
    fix: `apt-get install ${packages}`,
  });
}

function findUseful({ files, packages, consequence }: (typeof USEFUL)[number]): Finding {
  const missing = files.filter((file) => !existsSync(file));
  const names = files.map((file) => file.slice(file.lastIndexOf("/") + 1)).join(" and ");
  const detail = missing.length === 0 ? "there" : `${missing.join(", ")} missing`;
  return finding(names, missing.length === 0, detail, {
    state: "lacking",
    consequence,
    fix: `apt-get install ${packages}`,
  });
}

/** Nothing here needs more than one uid; said because other rootless tools do. */
function findUidmap(): Finding {
  const detail = existsSync("/usr/bin/newuidmap") ? "there, and not needed" : "not there, and not needed";
  return finding("uidmap", true, `${detail}: sandboxes and image builds use one uid`, { consequence: "", fix: null });
}

/** The bubblewraps among `found` that are too old to be used. */
export function tooOldOf(found: readonly Bwrap[]): Bwrap[] {
  return found.filter(({ version }) => compareVersions(version, BWRAP_VERSION_MIN) < 0);
}

function settingOf(file: string): string | null {
  try {
    return readFileSync(file, "latin1").trim();
  } catch {
    return null; // this kernel has no such setting
  }
}

function asUid(uid: number | null): string[] {
  return uid === null ? [] : ["/usr/bin/setpriv", `--reuid=${uid}`, `--regid=${uid}`, "--clear-groups", "--"];
}

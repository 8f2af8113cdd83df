import { basename, dirname, join } from "node:path";

/** What a sandbox's group bounds. */
export const CONTROLLERS = ["memory", "pids", "cpu"] as const;
export type Controller = (typeof CONTROLLERS)[number];

/** A folder of a cgroup file system in which this process may be allowed to make groups. */
export interface GroupPlace {
  version: 1 | 2;
  folder: string;
  /** Of ours, those that the kernel has in this hierarchy. A version 2 one says for itself which it gives. */
  controllers: readonly Controller[];
}

/** The name of the leaf that a server in a delegated version 2 group lives in, beside its sandboxes. */
export const SERVER_LEAF = "server";
/** A folder of version 1 that an administrator gives to the server's user. */
const GIVEN_FOLDER = "rolloutd";

/**
 * Where groups may be made, the likeliest first: `mountinfo` and `cgroup` are the texts of `/proc/self/`. The server's
 * own group is the first choice, so that what was allotted to it bounds its sandboxes too; root may use the top.
 */
export function groupPlaces(texts: { mountinfo: string; cgroup: string }, isRoot: boolean): GroupPlace[] {
  const owns = parseOwn(texts.cgroup);
  return parseMounts(texts.mountinfo).flatMap(({ version, mount, root, options }) => {
    const controllers = CONTROLLERS.filter((name) => version === 2 || options.includes(name));
    const path = version === 2 ? owns.get("") : owns.get(controllers[0] ?? "none");
    if (path === undefined || controllers.length === 0) return [];
    const own = insideOf(mount, root, path);
    const folders =
      version === 1
        ? [own, join(own ?? mount, GIVEN_FOLDER), join(mount, GIVEN_FOLDER), isRoot ? mount : null]
        : [own !== null && basename(own) === SERVER_LEAF ? dirname(own) : own, isRoot ? mount : null];
    const distinct = new Set(folders.filter((folder) => folder !== null));
    return [...distinct].map((folder) => ({ version, folder, controllers }));
  });
}

/** The folder of the group that this process is in, of version 2; null where there is none to be seen. */
export function ownGroupFolder(texts: { mountinfo: string; cgroup: string }): string | null {
  const path = parseOwn(texts.cgroup).get("");
  const found = parseMounts(texts.mountinfo).find(({ version }) => version === 2);
  return path === undefined || found === undefined ? null : insideOf(found.mount, found.root, path);
}

/** `4:memory:/a/b` by controller; version 2 is the one without a name. */
function parseOwn(text: string): Map<string, string> {
  const lines = text.split("\n").map((line) => /^\d+:([^:]*):(.*)$/.exec(line));
  return new Map(lines.flatMap((match) => (match?.[1] ?? "-").split(",").map((name) => [name, match?.[2] ?? ""])));
}

interface GroupMount {
  version: 1 | 2;
  mount: string;
  /** Which group of the hierarchy the mount shows at its top. */
  root: string;
  options: readonly string[];
}

function parseMounts(text: string): GroupMount[] {
  return text.split("\n").flatMap((line) => {
    const [before = "", after = ""] = line.split(" - ");
    const [, , , root = "/", mount = ""] = before.split(" ").map(unescapeOctal);
    const [type = "", , options = ""] = after.split(" ");
    if (type !== "cgroup" && type !== "cgroup2") return [];
    return [{ version: type === "cgroup2" ? 2 : 1, mount, root, options: options.split(",") } as const];
  });
}

/** Null when the group lies outside of what the mount shows. */
function insideOf(mount: string, root: string, path: string): string | null {
  if (path.includes("/..")) return null;
  if (path === "/" && root === "/") return mount;
  if (root === "/") return join(mount, path);
  if (path === "/") return mount; // a namespace of groups: the path is seen from inside, the mount's root from outside
  return path === root || path.startsWith(`${root}/`) ? join(mount, path.slice(root.length)) : null;
}

function unescapeOctal(text: string): string {
  return text.replace(/\\(\d{3})/g, (_match, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
}

import { existsSync, lstatSync, readFileSync, readlinkSync } from "node:fs";
import type { SandboxImage } from "./image.ts";

/** Debian's package database: what is in `/usr` follows from it. */
const PACKAGE_DATABASE = "/var/lib/dpkg/status";
const RELEASE = "/usr/lib/os-release";
const ID_CHARS = 16;

/** Folders that are links into `/usr` on today's systems and real on older ones. */
const ROOT_FOLDERS = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/** Of `/etc`, what programs in `/usr` need to run: tables of names, certificate authorities, links into `/usr`; nothing secret. */
const ETC_BOUND = ["/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ssl/certs"];
const OWN_FOLDERS = [
  ["0755", "/etc", "/home", "/run", "/var", "/workspace"],
  ["0700", "/root"],
  ["1777", "/tmp", "/var/tmp"],
].flatMap(([mode = "", ...folders]) => folders.flatMap((folder) => ["--perms", mode, "--dir", folder]));

/** Names of images that are this machine itself: always there, not to be built over or removed. */
export const HOST_NAMES = ["host", "host-local"] as const;

export interface HostImageOptions {
  /** Shows `/usr/local` too, with whatever was put there by hand; it is masked otherwise. */
  usrLocal: boolean;
}

/** The image `host`, or `host-local` with `/usr/local`: this machine's `/usr`, read-only, on an empty root of the sandbox's own. Nothing to build. */
export function createHostImage(options: HostImageOptions): SandboxImage {
  const masked = !options.usrLocal && existsSync("/usr/local");
  const local = masked
    ? ["--size", "4096", "--perms", "0755", "--tmpfs", "/usr/local", "--remount-ro", "/usr/local"]
    : [];
  const rootFolders = ROOT_FOLDERS.flatMap(mountOfRootFolder);
  const etc = ETC_BOUND.filter((path) => existsSync(path)).flatMap((path) => ["--ro-bind", path, path]);
  return {
    name: options.usrLocal ? HOST_NAMES[1] : HOST_NAMES[0],
    id: hostImageId(options),
    source: options.usrLocal ? "this machine's /usr" : "this machine's /usr without /usr/local",
    lower: [],
    mounts: [...OWN_FOLDERS, "--ro-bind", "/usr", "/usr", ...local, ...rootFolders, ...etc],
    files: ETC_FILES,
    path: options.usrLocal
      ? "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
      : "/usr/sbin:/usr/bin:/sbin:/bin",
    env: {},
    uid: 0,
  };
}

/** `host-` and a hash of the package database; without one, of what the system says it is. */
function hostImageId({ usrLocal }: HostImageOptions): string {
  const database = [PACKAGE_DATABASE, RELEASE].find((file) => existsSync(file));
  const hash = new Bun.CryptoHasher("sha256");
  hash.update(database === undefined ? "unknown" : readFileSync(database));
  hash.update(usrLocal ? "with /usr/local" : "");
  return `host-${hash.digest("hex").slice(0, ID_CHARS)}`;
}

function mountOfRootFolder(name: string): string[] {
  const folder = `/${name}`;
  if (!existsSync(folder)) return [];
  if (lstatSync(folder).isSymbolicLink()) return ["--symlink", readlinkSync(folder), folder];
  return ["--ro-bind", folder, folder];
}

const ETC_FILES = [
  {
    path: "/etc/passwd",
    text: "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
  },
  { path: "/etc/group", text: "root:x:0:\nnogroup:x:65534:\n" },
  { path: "/etc/hosts", text: "127.0.0.1 localhost sandbox\n::1 localhost\n" },
  { path: "/etc/hostname", text: "sandbox\n" },
  { path: "/etc/nsswitch.conf", text: "passwd: files\ngroup: files\nhosts: files\n" },
];

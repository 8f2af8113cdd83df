import { chownSync, closeSync, existsSync, openSync, readlinkSync, renameSync, statSync } from "node:fs";
import { chmod, cp, lchown, lstat, readdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { openInRoot } from "../../libc.ts";
import type { BuildContext, Built } from "./build-context.ts";
import { type BuildHost, runBuildStep } from "./build-step.ts";
import { hostView, rootView } from "./confine.ts";
import { ImageError } from "./image-error.ts";
import { readOciConfig } from "./oci-config.ts";

export const IMPORT_STEPS = ["read the archive", "convert it to OCI", "unpack its layers"] as const;

const [READ, CONVERT, UNPACK] = IMPORT_STEPS;
const PROGRAMS = ["/usr/bin/skopeo", "/usr/bin/umoci"];
const O_PATH = 0o10000000;
const KEY_CHARS = 32;
/** What the tools need, which an image may lack and still run programs. */
const EXPECTED = [
  ["/bin/bash", "no bash: the shell tool does not work in it"],
  ["/usr/bin/env", "no /usr/bin/env: neither the shell nor the python tool works in it"],
  ["/usr/bin/python3", "no /usr/bin/python3: the python tool does not work in it"],
] as const;
/** The program that each sandbox begins with. */
const SHELL = "/bin/sh";
/** As skopeo says it of `docker save A B`, and of an OCI archive with several. */
const SEVERAL_IMAGES = /expected 1 item, got \d+|more than one image/;
const BUSYBOX_NOTE = "/usr/bin/env is busybox, without --default-signal: the tools need that of coreutils";

/** What a repeated import of the same, unchanged archive has in common. Throws ImageError input when there is none. */
export function archiveKey(path: string): string {
  const file = resolve(path);
  const index = join(file, "index.json");
  const stat = statSync(file, { throwIfNoEntry: false });
  if (stat === undefined) throw new ImageError("input", `there is no ${file}`);
  if (stat.isDirectory() && !existsSync(index)) {
    throw new ImageError("input", `${file} is no OCI layout: it has no index.json`);
  }
  const seen = stat.isDirectory() ? statSync(index) : stat;
  if (!seen.isFile()) throw new ImageError("input", `${file} is neither a file nor an OCI layout`);
  const parts = ["import 1", file, seen.size, seen.mtimeMs, seen.ino];
  return Bun.SHA256.hash(JSON.stringify(parts), "hex").slice(0, KEY_CHARS);
}

/**
 * Turns an OCI layout (folder or tar) or a `docker save` archive into a root filesystem. Layers are unpacked by umoci, which
 * follows no symlink of one layer into the host when it writes the next; besides it sees nothing of the host that it could
 * write to.
 */
export async function importArchive({ host, draft, signal, report }: BuildContext, path: string): Promise<Built> {
  const missing = PROGRAMS.filter((program) => !existsSync(program));
  if (missing.length > 0) {
    const fix = "apt-get install --no-install-recommends skopeo umoci";
    throw new ImageError(
      "machine",
      `${missing.join(" and ")} missing, which unpack images; on Debian and Ubuntu: ${fix}`,
    );
  }
  const work = draft.makeFolder("work", host.sandboxUid);
  const out = draft.makeFolder("out", host.sandboxUid);
  report(READ);
  const archive = await readable(resolve(path), draft.folder, host.sandboxUid);
  const mounts = ["--ro-bind", archive, "/archive", "--bind", out, "/out"];
  const view = hostView({ work, shown: ["/etc/containers"], mounts });
  const run = (step: string, argv: readonly string[], onLine?: (line: string) => void) =>
    runBuildStep(
      host,
      { argv, view, env: { TMPDIR: "/tmp" }, onLine: onLine ?? ((line) => report(step, line)) },
      signal,
    );
  const names = new Set<string>();
  const isFolder = statSync(archive).isDirectory();
  if (!isFolder) {
    const wanted = ["manifest.json", "oci-layout", "index.json"];
    await run(READ, ["/usr/bin/tar", "-tf", "/archive"], (line) => {
      const name = line.replace(/^\.\//, "");
      if (wanted.includes(name)) names.add(name);
    });
  }
  const source = isFolder ? "oci:/archive" : archiveSource(names, path);
  report(CONVERT);
  const copy = ["/usr/bin/skopeo", "--tmpdir", "/tmp", "--insecure-policy", "copy", source, "oci:/tmp/oci:image"];
  await run(CONVERT, copy).catch((error: unknown) => {
    const isSeveral = error instanceof ImageError && SEVERAL_IMAGES.test(error.message);
    throw isSeveral ? new ImageError("input", `${path} holds several images: save one image`) : error;
  });
  const config = readOciConfig(join(work, "oci"));
  report(UNPACK);
  await run(UNPACK, ["/usr/bin/umoci", "raw", "unpack", "--rootless", "--image", "/tmp/oci:image", "/out/rootfs"]);
  const rootfs = join(draft.folder, "rootfs");
  renameSync(join(out, "rootfs"), rootfs);
  const unusable = await whyNoStart(host, rootfs, signal);
  const lacks = whatLacks(rootfs);
  return { contents: "rootfs", ...config, notes: unusable === null ? lacks : [unusable, ...lacks], unusable };
}

/** Tries the shell: it may be missing, or the libraries that it needs. Null when it runs. */
async function whyNoStart(host: BuildHost, rootfs: string, signal: AbortSignal): Promise<string | null> {
  const noSandbox = "no sandbox can start on it";
  const fd = openSync(rootfs, O_PATH);
  try {
    if (targetOf(fd, SHELL) === null) return `no ${SHELL}: ${noSandbox}`;
  } finally {
    closeSync(fd);
  }
  try {
    await runBuildStep(host, { argv: [SHELL, "-c", ":"], view: rootView(rootfs), env: {} }, signal);
    return null;
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof ImageError)) throw error;
    return `${SHELL} does not run (a library is missing, or it is for another machine): ${noSandbox}`;
  }
}

/** `docker save` of today writes both kinds into one tar; skopeo reads that as the older. */
function archiveSource(names: ReadonlySet<string>, path: string): string {
  if (names.has("manifest.json")) return "docker-archive:/archive";
  if (names.has("index.json")) return "oci-archive:/archive";
  throw new ImageError("input", `${path} is neither an OCI layout nor an archive of \`docker save\``);
}

/** The archive itself, or for root's server a copy that the sandbox uid owns. */
async function readable(path: string, folder: string, uid: number | null): Promise<string> {
  if (uid === null) return path;
  const copy = join(folder, "archive");
  await cp(path, copy, { recursive: true, verbatimSymlinks: true });
  await giveAway(copy, uid);
  return copy;
}

async function giveAway(path: string, uid: number): Promise<void> {
  await lchown(path, uid, uid);
  const stat = await lstat(path);
  if (stat.isFile()) await chmod(path, 0o600);
  if (!stat.isDirectory()) return;
  chownSync(path, uid, uid);
  for (const name of await readdir(path)) await giveAway(join(path, name), uid);
}

function whatLacks(rootfs: string): string[] {
  const fd = openSync(rootfs, O_PATH);
  try {
    const notes = EXPECTED.filter(([path]) => targetOf(fd, path) === null).map(([, note]) => note);
    return targetOf(fd, "/usr/bin/env")?.endsWith("/busybox") ? [...notes, BUSYBOX_NOTE] : notes;
  } finally {
    closeSync(fd);
  }
}

/** What a path of the image leads to, with the image as root of its links; null when there is nothing. */
function targetOf(rootFd: number, path: string): string | null {
  const fd = openInRoot({ fd: rootFd, uid: null }, path, O_PATH, 0);
  if (fd < 0) return null;
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } finally {
    closeSync(fd);
  }
}

import { chmodSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Clock, systemClock } from "../../src/clock.ts";
import type { ImageSource } from "../../src/sandbox/images/images.ts";
import { type Images, openImages } from "../../src/sandbox/images/open-images.ts";
import { removeTree } from "../../src/sandbox/images/remove-tree.ts";
import { TEST_SANDBOX_UID, testBwrap } from "./bwrap.ts";

/** A folder of a test that the sandbox uid may pass. */
export function aFolder(): { path: string } & AsyncDisposable {
  const path = mkdtempSync(join(tmpdir(), "rolloutd-images-"));
  chmodSync(path, 0o755);
  return { path, [Symbol.asyncDispose]: () => removeTree(path) };
}

/** Images in a folder of their own; a second call with the same folder stands for another process. */
export function testImages(
  folder: string,
  over: { bytesMax?: number; clock?: Clock; env?: Record<string, string> } = {},
): Images {
  return openImages({
    dataDir: folder,
    imagesDir: join(folder, "images"),
    bytesMax: over.bytesMax ?? Number.MAX_SAFE_INTEGER,
    recipesDir: null,
    sandboxUid: TEST_SANDBOX_UID,
    bwrapPath: testBwrap,
    env: over.env ?? {},
    clock: over.clock ?? systemClock,
  });
}

/** Builds with defaults. */
export function make(
  images: Images,
  source: ImageSource,
  over: { name?: string; rebuild?: boolean; signal?: AbortSignal; onStep?: (step: string) => void } = {},
) {
  return images.builder.build(source, {
    name: over.name ?? "made",
    rebuild: over.rebuild ?? false,
    signal: over.signal ?? new AbortController().signal,
    onProgress: ({ step }) => over.onStep?.(step),
  });
}

/** Puts an image with one file into the store without a builder. */
export async function putImage(images: Images, name: string, text: string): Promise<string> {
  const { store } = images;
  const id = Bun.SHA256.hash(text, "hex").slice(0, 16);
  await using draft = await store.begin(new AbortController().signal);
  const contents = draft.makeFolder("rootfs", TEST_SANDBOX_UID);
  await Bun.write(join(contents, "file"), text);
  const manifest = {
    id,
    kind: "root" as const,
    source: "test",
    key: id,
    baseId: null,
    bytes: text.length,
    entries: 1,
    createdAtMs: 1,
    env: {},
    path: "/usr/bin",
    uid: 0,
    cwd: null,
    notes: [],
    unusable: null,
  };
  await store.publish(draft, { name, manifest, contents: "rootfs" });
  return id;
}

/** Every path below `top` as `mode text` of what it is, sorted: what file-by-file comparisons compare. */
export function treeOf(top: string): Record<string, string> {
  const found: Record<string, string> = {};
  const walk = (folder: string) => {
    for (const name of readdirSync(join(top, folder)).sort()) {
      const path = `${folder}/${name}`;
      const stat = lstatSync(join(top, path));
      const mode = (stat.mode & 0o7777).toString(8);
      if (stat.isSymbolicLink()) found[path] = `-> ${readlinkSync(join(top, path))}`;
      else if (stat.isDirectory()) found[path] = `${mode} folder`;
      else if (stat.isFile())
        found[path] = `${mode} ${stat.nlink > 1 ? `x${stat.nlink} ` : ""}${readFileSync(join(top, path), "utf8")}`;
      else found[path] = `${mode} special`;
      if (stat.isDirectory()) walk(path);
    }
  };
  walk("");
  return found;
}

/** Of an image in the store. */
export function contentsOf(images: Images, name: string): string {
  const lease = images.store.lease(name);
  if (lease === null) throw new Error(`there is no image ${name}`);
  lease.release();
  return lease.folder;
}

/** What lies in the store besides its standing folders: drafts and pointers that were left. */
export function leftInStore(images: Images): string[] {
  const { folders } = images.store;
  return readdirSync(folders.root).filter((name) => name.startsWith("tmp-"));
}

/** Makes a folder and gives it. */
export function folderIn(parent: string, name: string): string {
  const path = join(parent, name);
  mkdirSync(path);
  return path;
}

/** A folder with the wheel of `tiny_pkg` 1.0, and what pip needs to know to take it and nothing else. */
export async function aWheelFolder(parent: string): Promise<Record<string, string>> {
  const wheels = folderIn(parent, "wheels");
  chmodSync(wheels, 0o755);
  const child = Bun.spawn(["/usr/bin/python3", "-c", MAKE_WHEEL, wheels], { stdout: "ignore", stderr: "inherit" });
  if ((await child.exited) !== 0) throw new Error("no wheel could be made");
  return { PIP_NO_INDEX: "1", PIP_FIND_LINKS: wheels };
}

const MAKE_WHEEL = `
import sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1] + "/tiny_pkg-1.0-py3-none-any.whl", "w")
info = "tiny_pkg-1.0.dist-info/"
wheel.writestr("tiny_pkg.py", "def main(): print('tiny says hello')\\n")
wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: tiny-pkg\\nVersion: 1.0\\n")
wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
wheel.writestr(info + "entry_points.txt", "[console_scripts]\\ntiny = tiny_pkg:main\\n")
wheel.writestr(info + "RECORD", "")
wheel.close()
`;

/** The message of the error that a promise must reject with. */
export async function rejection(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  throw new Error("nothing was refused");
}

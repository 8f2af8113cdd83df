import {
  chmodSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import type { SandboxImage } from "../../src/sandbox/image.ts";
import { TEST_SANDBOX_UID } from "./bwrap.ts";

/** What a layer holds: text of a file, `null` for a folder, `{ link }` for a symlink. */
export type LayerFiles = Readonly<Record<string, string | null | { link: string }>>;

export interface OverlayImage extends Disposable {
  image: SandboxImage;
  /** The folders of the layers, the topmost first. */
  lower: readonly string[];
}

/** What makes a root that programs of the host run in. */
const BASE: LayerFiles = {
  etc: null,
  "etc/passwd": "root:x:0:0:root:/root:/bin/bash\nagent:x:1000:1000::/home/agent:/bin/bash\n",
  home: null,
  "home/agent": null,
  usr: null,
  bin: { link: "usr/bin" },
  lib: { link: "usr/lib" },
  lib64: { link: "usr/lib64" },
};

/** An image of layers, the topmost first, over a root with the host's `/usr`; its folders go when it is disposed. */
export function anOverlayImage(layers: readonly LayerFiles[], over: Partial<SandboxImage> = {}): OverlayImage {
  const parent = mkdtempSync("/var/tmp/rolloutd-overlay-");
  chmodSync(parent, 0o755);
  const lower = [...layers, BASE].map((files, at) => makeLayer(join(parent, `layer-${at}`), files));
  const image = {
    name: "layers",
    id: `layers-${parent.slice(-6)}`,
    source: "a test",
    lower,
    mounts: ["--ro-bind", "/usr", "/usr"],
    files: [],
    path: "/usr/bin:/bin",
    env: { HOME: "/home/agent" },
    uid: 1_000,
    ...over,
  };
  return { image, lower, [Symbol.dispose]: () => rmSync(parent, { recursive: true }) };
}

function makeLayer(folder: string, files: LayerFiles): string {
  mkdirSync(folder);
  for (const [name, content] of Object.entries(files)) {
    const path = join(folder, name);
    mkdirSync(dirname(path), { recursive: true });
    if (content === null) mkdirSync(path, { recursive: true });
    else if (typeof content === "string") writeFileSync(path, content);
    else symlinkSync(content.link, path);
  }
  if (TEST_SANDBOX_UID !== null) giveTo(TEST_SANDBOX_UID, folder);
  return folder;
}

/** Not by a recursive listing, which would follow the symlinks. */
function giveTo(uid: number, path: string): void {
  lchownSync(path, uid, uid);
  if (!lstatSync(path).isDirectory()) return;
  for (const name of readdirSync(path)) giveTo(uid, join(path, name));
}

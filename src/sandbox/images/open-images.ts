import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import type { Clock } from "../../clock.ts";
import { letThrough } from "../bundled-bwrap.ts";
import { createHostImage } from "../host-image.ts";
import type { ImageCatalog } from "../image.ts";
import { createImageCatalog } from "./catalog.ts";
import { ImageBuilder } from "./images.ts";
import { problemOfOwners } from "./owner.ts";
import { ImageStore } from "./store.ts";

export interface ImagesOptions {
  /** The server's own folder; root's is opened so far that the sandbox uid can pass. */
  dataDir: string;
  imagesDir: string;
  bytesMax: number;
  recipesDir: string | null;
  /** Null for an ordinary user. */
  sandboxUid: number | null;
  bwrapPath: () => Promise<string>;
  env: Readonly<Record<string, string>>;
  clock: Clock;
}

/** All that works on images, over one folder. */
export interface Images {
  readonly store: ImageStore;
  readonly builder: ImageBuilder;
  readonly catalog: ImageCatalog;
  readonly recipesDir: string | null;
  /** Why sandboxes cannot use the images of this folder; null when they can. */
  problem(): string | null;
}

/** Opens the images of this machine. Touches nothing on disk until something is built, and holds nothing open. */
export function openImages(options: ImagesOptions): Images {
  const { bytesMax, sandboxUid, bwrapPath, env, clock } = options;
  const [dataDir, folder] = [resolve(options.dataDir), resolve(options.imagesDir)];
  const host = createHostImage({ usrLocal: false });
  const store = new ImageStore({ folder, bytesMax, clock });
  const prepare = () => {
    if (!folder.startsWith(`${dataDir}/`)) return;
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    if (sandboxUid !== null) letThrough(dataDir, sandboxUid);
  };
  const ownerUid = sandboxUid ?? process.getuid?.() ?? 0;
  const problem = () => problemOfOwners(store, ownerUid);
  const builder = new ImageBuilder({ store, host, bwrapPath, sandboxUid, prepare, problem, env, clock });
  const catalog = createImageCatalog(host, store, ownerUid);
  return { store, builder, catalog, recipesDir: options.recipesDir, problem };
}

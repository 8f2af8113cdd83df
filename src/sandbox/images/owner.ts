import { statSync } from "node:fs";
import type { Manifest } from "./manifest.ts";
import type { ImageStore } from "./store.ts";

/**
 * What is wrong with an image when sandboxes have the uid `ownerUid`: files of another uid are not theirs to read and write
 * as the image means it. Null when nothing is.
 */
export function problemOfOwner({ folders }: ImageStore, manifest: Manifest, ownerUid: number): string | null {
  const uid = statSync(folders.contents(manifest), { throwIfNoEntry: false })?.uid ?? ownerUid;
  if (uid === ownerUid) return null;
  return `${folders.root} holds images of uid ${uid}, and sandboxes here are uid ${ownerUid}: that needs another --images folder`;
}

/** The same for all images of a store: the first that is wrong speaks for them. */
export function problemOfOwners(store: ImageStore, ownerUid: number): string | null {
  for (const id of new Set(store.names().values())) {
    const manifest = store.manifest(id);
    const problem = manifest === null ? null : problemOfOwner(store, manifest, ownerUid);
    if (problem !== null) return problem;
  }
  return null;
}

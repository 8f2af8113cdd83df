import { RolloutError } from "../../errors.ts";
import { createHostImage } from "../host-image.ts";
import type { ImageCatalog, ImageInfo, ImageLease, SandboxImage } from "../image.ts";
import { fixedCatalog } from "../image.ts";
import type { Manifest } from "./manifest.ts";
import { problemOfOwner } from "./owner.ts";
import type { ImageStore } from "./store.ts";

/** Files that tell the machine's name to programs; an image brings those of another. */
const OWN_NAMES = [
  { path: "/etc/hosts", text: "127.0.0.1 localhost sandbox\n::1 localhost\n" },
  { path: "/etc/hostname", text: "sandbox\n" },
];

/**
 * The images of the machine itself, `host` first, and what the store holds at the moment it is asked: what another process
 * builds is there at once. `lease` throws RolloutError task_invalid for an image on which nothing can start, image_missing
 * for one of another uid than `ownerUid`.
 */
export function createImageCatalog(host: SandboxImage, store: ImageStore, ownerUid: number): ImageCatalog {
  const fixed = fixedCatalog([host, createHostImage({ usrLocal: true })]);
  return {
    list: () => [...fixed.list(), ...[...store.names().keys()].flatMap((name) => describeImage(host, store, name))],
    lease(name): ImageLease | null {
      const own = fixed.lease(name);
      if (own !== null) return own;
      const lease = store.lease(idOf(name, host));
      if (lease === null) return null;
      try {
        checkUsable(store, { name, manifest: lease.manifest, ownerUid });
      } catch (error) {
        lease.release();
        throw error;
      }
      return { image: toSandboxImage(host, name, lease), release: () => lease.release() };
    },
  };
}

function checkUsable(
  store: ImageStore,
  { name, manifest, ownerUid }: { name: string; manifest: Manifest; ownerUid: number },
): void {
  const problem = problemOfOwner(store, manifest, ownerUid);
  if (problem !== null) throw new RolloutError("image_missing", `${name}: ${problem}`);
  if (manifest.unusable !== null) throw new RolloutError("task_invalid", `image ${name}: ${manifest.unusable}`);
}

function describeImage(host: SandboxImage, store: ImageStore, name: string): ImageInfo[] {
  const manifest = store.find(name);
  if (manifest === null) return []; // removed since
  const { id } = manifest;
  return [
    {
      name,
      id: idOnHost(manifest, host),
      source: manifest.source,
      bytes: manifest.bytes,
      inUse: store.inUse(id),
      lastUsedAtMs: store.lastUsedAtMs(id),
    },
  ];
}

/** A layer lies on the host, so where the host has changed since, what a sandbox sees has too. */
export function idOnHost({ id, baseId }: Manifest, host: SandboxImage): string {
  return baseId === null || baseId === host.id ? id : `${id}+${host.id}`;
}

/** What the store knows of an id that `idOnHost` gave; a name is left as it is. */
function idOf(name: string, host: SandboxImage): string {
  const suffix = `+${host.id}`;
  return name.endsWith(suffix) ? name.slice(0, -suffix.length) : name;
}

function toSandboxImage(
  host: SandboxImage,
  name: string,
  { manifest, folder }: { manifest: Manifest; folder: string },
): SandboxImage {
  const { kind, source, path, env, uid, cwd } = manifest;
  const own = { name, id: idOnHost(manifest, host), source, path, env, uid, cwd };
  if (kind === "root") return { ...own, lower: [folder], mounts: [], files: OWN_NAMES, pretendsOwners: uid === 0 };
  return { ...own, lower: host.lower, mounts: [...host.mounts, "--ro-bind", folder, "/usr/local"], files: host.files };
}

import { closeSync, constants, fstatSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { z } from "zod";
import { IMAGE_LIMITS } from "../../limits.ts";

/** What is written down beside the files of an image. */
export interface Manifest {
  /** Hash of what the image holds; also the name of its folder. */
  id: string;
  /** `layer`: read-only at `/usr/local` of the image `host`; `root`: a whole root filesystem. */
  kind: "layer" | "root";
  source: string;
  /** Equal for builds from the same recipe, lock and base: then the first is used again. */
  key: string;
  /** Id of the image `host` that a layer was built on; null for a root. */
  baseId: string | null;
  bytes: number;
  entries: number;
  createdAtMs: number;
  env: Record<string, string>;
  path: string;
  uid: number;
  cwd: string | null;
  /** What a user should know: left out, missing, changed. */
  notes: string[];
  /** Why no sandbox can start on it; null when one can. */
  unusable: string | null;
}

const ManifestWire = z.strictObject({
  version: z.literal(1),
  id: z.string().regex(/^[0-9a-f]{16}$/),
  kind: z.enum(["layer", "root"]),
  source: z.string(),
  key: z.string(),
  base_id: z.string().nullable(),
  bytes: z.int().min(0),
  entries: z.int().min(0),
  created_at_ms: z.number().min(0),
  env: z.record(z.string(), z.string()),
  path: z.string().min(1),
  uid: z.int().min(0).max(65_535),
  cwd: z.string().nullable(),
  notes: z.array(z.string()),
  unusable: z.string().nullable(),
});

/** Null when there is none, or what is there is not one that this version writes. */
export function readManifest(file: string): Manifest | null {
  const text = readSmallFile(file, IMAGE_LIMITS.manifestBytesMax);
  if (text === null) return null;
  try {
    const wire = ManifestWire.parse(JSON.parse(text));
    return {
      id: wire.id,
      kind: wire.kind,
      source: wire.source,
      key: wire.key,
      baseId: wire.base_id,
      bytes: wire.bytes,
      entries: wire.entries,
      createdAtMs: wire.created_at_ms,
      env: wire.env,
      path: wire.path,
      uid: wire.uid,
      cwd: wire.cwd,
      notes: wire.notes,
      unusable: wire.unusable,
    };
  } catch {
    return null; // another version's, or cut short by a full disk
  }
}

/** Writes it as `readManifest` reads it. */
export function writeManifest(file: string, manifest: Manifest): void {
  const wire: z.input<typeof ManifestWire> = {
    version: 1,
    id: manifest.id,
    kind: manifest.kind,
    source: manifest.source,
    key: manifest.key,
    base_id: manifest.baseId,
    bytes: manifest.bytes,
    entries: manifest.entries,
    created_at_ms: manifest.createdAtMs,
    env: manifest.env,
    path: manifest.path,
    uid: manifest.uid,
    cwd: manifest.cwd,
    notes: manifest.notes,
    unusable: manifest.unusable,
  };
  writeFileSync(file, `${JSON.stringify(wire, null, 2)}\n`, { flag: "wx", mode: 0o644 });
}

/** A regular file of at most `bytesMax`, read as UTF-8; null when it is anything else. Follows no symlink. */
export function readSmallFile(file: string, bytesMax: number): string | null {
  let fd: number;
  try {
    fd = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch {
    return null;
  }
  try {
    const stat = fstatSync(fd);
    return stat.isFile() && stat.size <= bytesMax ? readFileSync(fd, "utf8") : null;
  } finally {
    closeSync(fd);
  }
}

import { renameSync, writeFileSync } from "node:fs";
import { z } from "zod";
import { IMAGE_LIMITS } from "../../limits.ts";
import { type Manifest, readSmallFile } from "./manifest.ts";

/** What a name or a key means, and where that came from: the same files may be had in several ways. */
export interface Pointer {
  id: string;
  source: string;
  createdAtMs: number;
  notes: string[];
}

const PointerWire = z.strictObject({
  version: z.literal(1),
  id: z.string().regex(/^[0-9a-f]{16}$/),
  source: z.string(),
  created_at_ms: z.number().min(0),
  notes: z.array(z.string()),
});

/** Null when there is none, or what is there is not one that this version writes. */
export function readPointer(file: string): Pointer | null {
  const text = readSmallFile(file, IMAGE_LIMITS.manifestBytesMax);
  if (text === null) return null;
  try {
    const { id, source, created_at_ms, notes } = PointerWire.parse(JSON.parse(text));
    return { id, source, createdAtMs: created_at_ms, notes };
  } catch {
    return null; // another version's, or cut short by a full disk
  }
}

/** Writes `unfinished` and renames it: whoever reads `file` sees the old pointer or the new one. */
export function writePointer(file: string, { id, source, createdAtMs, notes }: Pointer, unfinished: string): void {
  const wire: z.input<typeof PointerWire> = { version: 1, id, source, created_at_ms: createdAtMs, notes };
  writeFileSync(unfinished, `${JSON.stringify(wire)}\n`, { flag: "wx", mode: 0o644 });
  renameSync(unfinished, file);
}

/** An image as that pointer's build made it. */
export function manifestOf(image: Manifest, { source, createdAtMs, notes }: Pointer): Manifest {
  return { ...image, source, createdAtMs, notes };
}

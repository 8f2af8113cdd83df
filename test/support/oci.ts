import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** One member of a layer. `link` is a hard link to another path, `symlink` a symbolic one. */
export interface LayerEntry {
  path: string;
  text?: string;
  folder?: true;
  link?: string;
  symlink?: string;
  /** A character device. */
  device?: [major: number, minor: number];
  fifo?: true;
  mode?: number;
  uid?: number;
}

export interface OciOptions {
  layers: readonly (readonly LayerEntry[])[];
  config?: { Env?: string[]; WorkingDir?: string; User?: string };
  architecture?: string;
}

const BLOCK = 512;

/** Writes an OCI layout with one image into `folder`, byte by byte: no tool is in between that could mend what is wrong. */
export function writeOciLayout(folder: string, options: OciOptions): void {
  const blob = blobsOf(folder);
  const { manifest } = describe(options, blob);
  const digest = blob(Buffer.from(JSON.stringify(manifest)));
  writeFileSync(join(folder, "oci-layout"), JSON.stringify({ imageLayoutVersion: "1.0.0" }));
  writeFileSync(
    join(folder, "index.json"),
    JSON.stringify({
      schemaVersion: 2,
      manifests: [{ mediaType: "application/vnd.oci.image.manifest.v1+json", ...digest }],
    }),
  );
}

/** The same image as one file, as `docker save` wrote it before version 25. */
export function dockerArchive(options: OciOptions): Uint8Array {
  const config = Buffer.from(JSON.stringify(configOf(options)));
  const layers = options.layers.map((entries, i) => ({ path: `layer${i}/layer.tar`, bytes: tarOf(entries) }));
  const name = `${sha256(config)}.json`;
  const manifest = [{ Config: name, RepoTags: ["test/image:latest"], Layers: layers.map(({ path }) => path) }];
  return tarOf([
    { path: name, text: config.toString() },
    ...layers.map(({ path, bytes }) => ({ path, text: Buffer.from(bytes).toString("latin1") })),
    { path: "manifest.json", text: JSON.stringify(manifest) },
  ]);
}

/** A folder's files as a tar, for a layout that is one file. */
export function tarOfFiles(files: Readonly<Record<string, Uint8Array>>): Uint8Array {
  return tarOf(Object.entries(files).map(([path, bytes]) => ({ path, text: Buffer.from(bytes).toString("latin1") })));
}

function describe(options: OciOptions, blob: (bytes: Uint8Array) => StoredBlob) {
  const layers = options.layers.map((entries) => ({
    mediaType: "application/vnd.oci.image.layer.v1.tar",
    ...blob(tarOf(entries)),
  }));
  const config = {
    mediaType: "application/vnd.oci.image.config.v1+json",
    ...blob(Buffer.from(JSON.stringify(configOf(options)))),
  };
  return { manifest: { schemaVersion: 2, config, layers } };
}

interface StoredBlob {
  digest: string;
  size: number;
}

function blobsOf(folder: string): (bytes: Uint8Array) => StoredBlob {
  mkdirSync(join(folder, "blobs/sha256"), { recursive: true });
  return (bytes) => {
    const name = sha256(bytes);
    writeFileSync(join(folder, "blobs/sha256", name), bytes);
    return { digest: `sha256:${name}`, size: bytes.length };
  };
}

function configOf({ layers, config = {}, architecture }: OciOptions) {
  return {
    architecture: architecture ?? (process.arch === "arm64" ? "arm64" : "amd64"),
    os: "linux",
    config,
    rootfs: { type: "layers", diff_ids: layers.map((entries) => `sha256:${sha256(tarOf(entries))}`) },
  };
}

/** ustar; texts are taken as latin1, so that they can be bytes. */
export function tarOf(entries: readonly LayerEntry[]): Uint8Array {
  const parts = entries.flatMap((entry) => {
    const body = Buffer.from(entry.text ?? "", "latin1");
    const padding = Buffer.alloc((BLOCK - (body.length % BLOCK)) % BLOCK);
    return [headerOf(entry, body.length), body, padding];
  });
  return Buffer.concat([...parts, Buffer.alloc(2 * BLOCK)]);
}

function headerOf(entry: LayerEntry, size: number): Buffer {
  const header = Buffer.alloc(BLOCK);
  const put = (text: string, at: number) => header.write(text, at, "latin1");
  const octal = (value: number, width: number) => `${value.toString(8).padStart(width - 1, "0")}\0`;
  put(entry.path, 0);
  put(octal(entry.mode ?? (entry.folder ? 0o755 : 0o644), 8), 100);
  put(octal(entry.uid ?? 0, 8), 108);
  put(octal(0, 8), 116);
  put(octal(size, 12), 124);
  put(octal(1_600_000_000, 12), 136);
  put(typeOf(entry), 156);
  put(entry.link ?? entry.symlink ?? "", 157);
  put("ustar\x0000", 257);
  const [major, minor] = entry.device ?? [0, 0];
  put(octal(major, 8), 329);
  put(octal(minor, 8), 337);
  put("        ", 148);
  const sum = header.reduce((total, byte) => total + byte, 0);
  put(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return header;
}

function typeOf(entry: LayerEntry): string {
  if (entry.folder) return "5";
  if (entry.link !== undefined) return "1";
  if (entry.symlink !== undefined) return "2";
  if (entry.device !== undefined) return "3";
  return entry.fifo ? "6" : "0";
}

function sha256(bytes: Uint8Array): string {
  return Bun.SHA256.hash(bytes, "hex");
}

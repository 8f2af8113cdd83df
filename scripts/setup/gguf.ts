/** A value of a GGUF file's metadata. Integers of 64 bits are numbers: none that we read exceeds 2^53. */
export type GgufValue = string | number | boolean | readonly GgufValue[];

/** Entries and array elements that are read at most: a broken file must not fill the memory. */
const COUNT_MAX = 10_000_000;

/** The metadata of a GGUF file (version 2 or 3), of which `bytes` is the whole or a long enough beginning. Throws when it is none. */
export function readGgufMetadata(bytes: Uint8Array): Map<string, GgufValue> {
  const reader = new Reader(bytes);
  if (reader.text(4) !== "GGUF") throw new Error("not a GGUF file");
  const version = reader.u32();
  if (version !== 2 && version !== 3) throw new Error(`GGUF version ${version} is not read`);
  reader.count();
  const entries = reader.count();
  const metadata = new Map<string, GgufValue>();
  for (let index = 0; index < entries; index += 1) {
    const key = reader.text(reader.count());
    metadata.set(key, reader.value(reader.u32()));
  }
  return metadata;
}

class Reader {
  readonly #view: DataView;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  u32(): number {
    return this.#view.getUint32(this.#step(4), true);
  }

  count(): number {
    const value = Number(this.#view.getBigUint64(this.#step(8), true));
    if (value > COUNT_MAX) throw new Error(`a GGUF count of ${value} is beyond belief`);
    return value;
  }

  text(length: number): string {
    const start = this.#step(length);
    return Buffer.from(this.#view.buffer, this.#view.byteOffset + start, length).toString("utf8");
  }

  value(type: number): GgufValue {
    const view = this.#view;
    switch (type) {
      case 0:
        return view.getUint8(this.#step(1));
      case 1:
        return view.getInt8(this.#step(1));
      case 2:
        return view.getUint16(this.#step(2), true);
      case 3:
        return view.getInt16(this.#step(2), true);
      case 4:
        return view.getUint32(this.#step(4), true);
      case 5:
        return view.getInt32(this.#step(4), true);
      case 6:
        return view.getFloat32(this.#step(4), true);
      case 7:
        return view.getUint8(this.#step(1)) !== 0;
      case 8:
        return this.text(this.count());
      case 9:
        return this.#array();
      case 10:
        return Number(view.getBigUint64(this.#step(8), true));
      case 11:
        return Number(view.getBigInt64(this.#step(8), true));
      case 12:
        return view.getFloat64(this.#step(8), true);
      default:
        throw new Error(`GGUF value type ${type} is unknown`);
    }
  }

  #array(): GgufValue[] {
    const type = this.u32();
    const length = this.count();
    const values: GgufValue[] = [];
    for (let index = 0; index < length; index += 1) values.push(this.value(type));
    return values;
  }

  #step(bytes: number): number {
    const at = this.#at;
    if (at + bytes > this.#view.byteLength) throw new Error("the GGUF file ends inside its metadata");
    this.#at += bytes;
    return at;
  }
}

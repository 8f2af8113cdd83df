import { describe, expect, test } from "bun:test";
import { readGgufMetadata } from "../../scripts/setup/gguf.ts";
import { tokenizerOf } from "../../scripts/setup/gguf-tokenizer.ts";

/** A GGUF file's beginning with these entries; each value comes with its type's bytes. */
function gguf(entries: Record<string, Uint8Array>): Uint8Array {
  const parts: Uint8Array[] = [Buffer.from("GGUF"), u32(3), u64(0), u64(Object.keys(entries).length)];
  for (const [key, value] of Object.entries(entries)) parts.push(text(key), value);
  return Buffer.concat(parts);
}

const u32 = (value: number) => Buffer.from(Uint32Array.of(value).buffer);
const u64 = (value: number) => Buffer.from(BigUint64Array.of(BigInt(value)).buffer);
const text = (value: string) => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)]);
const typedText = (value: string) => Buffer.concat([u32(8), text(value)]);

describe("readGgufMetadata", () => {
  test("reads texts, numbers, truth values and lists", () => {
    const list = Buffer.concat([u32(9), u32(8), u64(2), text("a"), text("é")]);
    const bytes = gguf({
      name: typedText("x"),
      size: Buffer.concat([u32(4), u32(7)]),
      flag: Buffer.concat([u32(7), Buffer.of(1)]),
      ratio: Buffer.concat([u32(6), Buffer.from(Float32Array.of(0.5).buffer)]),
      list,
    });
    expect(Object.fromEntries(readGgufMetadata(bytes))).toEqual({
      name: "x",
      size: 7,
      flag: true,
      ratio: 0.5,
      list: ["a", "é"],
    });
  });

  test.each<[string, Uint8Array, RegExp]>([
    ["another file", Buffer.from("PK\u0003\u0004 and more"), /not a GGUF/],
    ["a file that ends too early", gguf({ name: typedText("x") }).slice(0, -1), /ends inside/],
    ["a count beyond belief", Buffer.concat([Buffer.from("GGUF"), u32(3), u64(0), u64(2 ** 50)]), /beyond belief/],
    ["a type that does not exist", gguf({ name: u32(99) }), /type 99/],
  ])("refuses %s", (_what, bytes, message) => {
    expect(() => readGgufMetadata(bytes)).toThrow(message);
  });
});

describe("tokenizerOf", () => {
  test("refuses a pre-tokenizer it does not know, since a guess would give wrong ids", () => {
    const metadata = readGgufMetadata(
      gguf({ "tokenizer.ggml.model": typedText("gpt2"), "tokenizer.ggml.pre": typedText("qwen2") }),
    );
    expect(() => tokenizerOf(metadata)).toThrow(/gpt2\/qwen2/);
  });
});

import { describe, expect, test } from "bun:test";
import {
  packArrays,
  packBytes,
  packJson,
  packText,
  unpackArrays,
  unpackJson,
  unpackText,
} from "../../src/store/codec.ts";

describe("packArrays", () => {
  test("gives back every array with its kind, length and bits", () => {
    const arrays = [
      Int32Array.of(-1, 0, 2_147_483_647),
      new Float32Array([-0.5, -0, Number.NaN, Number.NEGATIVE_INFINITY, 1e-45]),
      Uint8Array.of(0, 1, 255),
      new Int32Array(0),
    ];
    const found = unpackArrays(packArrays(arrays));
    expect(found.map((array) => array.constructor.name)).toEqual([
      "Int32Array",
      "Float32Array",
      "Uint8Array",
      "Int32Array",
    ]);
    expect(found.map((array) => Buffer.from(array.buffer).toString("hex"))).toEqual(
      arrays.map((array) => Buffer.from(array.buffer).toString("hex")),
    );
  });

  test("reads only the view when an array is part of a larger buffer", () => {
    const whole = Int32Array.of(1, 2, 3, 4);
    const [part] = unpackArrays(packArrays([whole.subarray(1, 3)]));
    expect(part).toEqual(Int32Array.of(2, 3));
  });

  test("keeps a million random ids", () => {
    const ids = Int32Array.from({ length: 1_000_000 }, (_, index) => (index * 7_919) % 151_936);
    const [found] = unpackArrays(packArrays([ids]));
    expect(Bun.SHA256.hash(found ?? new Uint8Array(), "hex")).toBe(Bun.SHA256.hash(ids, "hex"));
  });
});

describe("unpackArrays", () => {
  const raw = Bun.zstdDecompressSync(packArrays([Int32Array.of(1, 2)]));
  const changed = (change: (bytes: Uint8Array) => Uint8Array) => () =>
    unpackArrays(packBytes(change(Uint8Array.from(raw))));
  const withByte = (at: number, value: number) => changed((bytes) => bytes.with(at, value));

  test.each([
    ["is cut short", changed((bytes) => bytes.slice(0, -1)), /array 0 reaches byte 15 of 14/],
    ["is too long", changed((bytes) => Uint8Array.of(...bytes, 0)), /1 bytes follow its last array/],
    ["has another format", withByte(0, 9), /its format is 9, this version reads 1/],
    ["has an unknown kind", withByte(2, 7), /array 0 is of unknown kind 7/],
    ["ends in its header", changed((bytes) => bytes.slice(0, 4)), /ends inside the header of its 1 arrays/],
    ["is empty", changed(() => new Uint8Array(0)), /has 0 bytes and no header/],
    ["is no zstd frame", () => unpackArrays(Uint8Array.of(1, 2, 3, 4)), /zstd cannot read it/],
  ])("refuses a blob that %s", (_name, read, message) => {
    expect(read).toThrow(message);
    expect(read).toThrow(expect.objectContaining({ reason: "store_failed" }));
  });
});

describe("packJson", () => {
  test("gives back values with unicode, escapes and nesting", () => {
    const value = { text: '\u0000 \ud83d\ude00 "q"', list: [1.5, null, { deep: [true] }] };
    expect(unpackJson(packJson(value))).toEqual(value);
  });

  test("is refused when the blob holds other text", () => {
    expect(() => unpackJson(packText("{"))).toThrow(/it holds no JSON/);
    expect(unpackText(packText("{"))).toBe("{");
  });
});

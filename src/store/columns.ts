/** Kinds of columns. Those named `packed` are zstd blobs (`codec.ts`). */
import { customType, integer, text } from "drizzle-orm/sqlite-core";
import { packBytes, packJson, packText, unpackBytes, unpackJson, unpackText } from "./codec.ts";

/** A value as compressed JSON; `T` is what the verbs put in. */
export const packedJson = <T>(name: string) =>
  customType<{ data: T; driverData: Uint8Array }>({
    dataType: () => "blob",
    toDriver: (value) => packJson(value),
    fromDriver: (blob) => unpackJson(blob) as T,
  })(name);
/** Text, compressed. */
export const packedText = customType<{ data: string; driverData: Uint8Array }>({
  dataType: () => "blob",
  toDriver: packText,
  fromDriver: unpackText,
});
/** Bytes, compressed. */
export const packedBytes = customType<{ data: Uint8Array; driverData: Uint8Array }>({
  dataType: () => "blob",
  toDriver: packBytes,
  fromDriver: unpackBytes,
});
/** Arrays are packed by `turn-rows.ts`, which knows their order. */
export const packedArrays = customType<{ data: Uint8Array; driverData: Uint8Array }>({ dataType: () => "blob" });
/** A value as JSON that SQLite can read; `T` is what the verbs put in. */
export const json = <T>(name: string) => text(name, { mode: "json" }).$type<T>();
/** True or false, as 1 or 0. */
export const flag = (name: string) => integer(name, { mode: "boolean" });

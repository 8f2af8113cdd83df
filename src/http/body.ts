import type { z } from "@hono/zod-openapi";
import type { Context } from "hono";
import { RequestError } from "../errors.ts";
import { LIMITS } from "../limits.ts";
import { parseWith } from "./faults.ts";
import { parseJson } from "./json.ts";

/**
 * The body of a request, checked; `bytes` is what was sent. Throws RequestError body_too_large, body_unreadable,
 * field_unknown or field_invalid.
 */
export async function readBody<Schema extends z.ZodType>(
  c: Context,
  schema: Schema,
): Promise<{ value: z.output<Schema>; bytes: Uint8Array }> {
  requireJson(c);
  const bytes = await readBytes(c);
  return { value: parseWith(schema, parseJson(decode(bytes))), bytes };
}

/** The query of a request, checked. */
export function readQuery<Schema extends z.ZodType>(c: Context, schema: Schema): z.output<Schema> {
  return parseWith(schema, rawQuery(c));
}

/** The query as it was sent. A parameter that is given twice is an error, since one of them would be lost. */
export function rawQuery(c: Context): Readonly<Record<string, string>> {
  const given = c.req.queries();
  const twice = Object.keys(given).find((name) => (given[name]?.length ?? 0) > 1);
  if (twice !== undefined) {
    throw new RequestError("field_invalid", `${twice} is given twice`, [{ path: twice, message: "is given twice" }]);
  }
  return Object.fromEntries(Object.entries(given).map(([name, values]) => [name, values[0] ?? ""]));
}

/** A JSON type is asked for by name: a web page cannot send one to another origin without asking first. */
function requireJson(c: Context): void {
  const type = c.req.header("content-type")?.split(";")[0]?.trim().toLowerCase() ?? "";
  if (type === "application/json" || /^application\/[\w.-]+\+json$/.test(type)) return;
  const found = type === "" ? "no Content-Type" : `Content-Type ${type}`;
  throw new RequestError("body_unreadable", `${found}; send Content-Type: application/json`);
}

async function readBytes(c: Context): Promise<Uint8Array> {
  const declared = Number(c.req.header("content-length") ?? 0);
  if (declared > LIMITS.bodyBytesMax) throw tooLarge();
  const chunks: Uint8Array[] = [];
  let length = 0;
  const body: ReadableStream<Uint8Array> | null = c.req.raw.body;
  for await (const chunk of body ?? []) {
    length += chunk.length;
    if (length > LIMITS.bodyBytesMax) throw tooLarge();
    chunks.push(chunk);
  }
  return chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks);
}

function tooLarge(): RequestError {
  return new RequestError("body_too_large", `a body may have ${LIMITS.bodyBytesMax} bytes`);
}

function decode(bytes: Uint8Array): string {
  if (bytes.length === 0) throw new RequestError("body_unreadable", "the body is empty");
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new RequestError("body_unreadable", `byte ${firstBadByte(bytes)} is no UTF-8`);
  }
}

/** Where decoding stops: found by halving, since the decoder does not say. */
function firstBadByte(bytes: Uint8Array): number {
  let good = 0;
  let bad = bytes.length;
  while (good < bad) {
    const middle = (good + bad + 1) >> 1;
    if (isUtf8Start(bytes.subarray(0, middle))) good = middle;
    else bad = middle - 1;
  }
  return good;
}

/** `stream`: a character that is cut at the end is not yet wrong. */
function isUtf8Start(bytes: Uint8Array): boolean {
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: true });
    return true;
  } catch {
    return false;
  }
}

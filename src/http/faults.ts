import { z } from "@hono/zod-openapi";
import { type InputFault, RequestError } from "../errors.ts";

/** Checks `value`; throws RequestError field_unknown or field_invalid with a fault for each thing wrong. */
export function parseWith<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.flatMap((issue) => faultsOf(issue, schema));
  const [first] = faults;
  const unknown = parsed.error.issues.every((issue) => issue.code === "unrecognized_keys");
  const more = faults.length > 1 ? ` (and ${faults.length - 1} more)` : "";
  const detail = `${first?.path || "the request"} ${first?.message}${more}`;
  throw new RequestError(unknown ? "field_unknown" : "field_invalid", detail, faults);
}

function faultsOf(issue: z.core.$ZodIssue, schema: z.ZodType): InputFault[] {
  const node = nodeAt(schema, issue.path);
  if (issue.code === "unrecognized_keys") {
    const accepted = node instanceof z.ZodObject ? Object.keys(node.shape).join(", ") : undefined;
    return issue.keys.map((key) => fault([...issue.path, key], "is not a known field", accepted));
  }
  return [fault(issue.path, messageOf(issue), node ? describe(node) : undefined)];
}

function fault(path: readonly PropertyKey[], message: string, accepted: string | undefined): InputFault {
  return { path: path.map(String).join("."), message, ...(accepted === undefined ? {} : { accepted }) };
}

function messageOf(issue: z.core.$ZodIssue): string {
  if (issue.code === "invalid_type" && issue.input === undefined && issue.message.endsWith("undefined")) {
    return "is missing";
  }
  if (issue.code === "too_small") return `is below ${issue.minimum}`;
  if (issue.code === "too_big") return `is above ${issue.maximum}`;
  if (issue.code === "invalid_value") return "is none of the accepted values";
  return issue.message.charAt(0).toLowerCase() + issue.message.slice(1);
}

/** The schema that a path leads to, past defaults and options; null where the path leaves what schemas know. */
function nodeAt(schema: z.ZodType, path: readonly PropertyKey[]): z.ZodType | null {
  let node: unknown = bare(schema);
  for (const step of path) {
    if (node instanceof z.ZodObject) node = node.shape[String(step)];
    else if (node instanceof z.ZodArray) node = node.element;
    else if (node instanceof z.ZodRecord) node = node.valueType;
    else return null;
    node = bare(node);
  }
  return node instanceof z.ZodType ? node : null;
}

function bare(schema: unknown): unknown {
  let node = schema;
  while (node instanceof z.ZodOptional || node instanceof z.ZodDefault || node instanceof z.ZodNullable) {
    node = node.unwrap();
  }
  return node;
}

/** `integer from 1 to 500`, `"a" or "b"`: what a person needs to mend the request. */
function describe(node: z.ZodType): string | undefined {
  if (node instanceof z.ZodPipe) return node.description;
  const known = z.toJSONSchema(node, { io: "input", unrepresentable: "any" });
  if (known.enum) return known.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (known.const !== undefined) return JSON.stringify(known.const);
  if (typeof known.type !== "string") return node.description;
  const range = rangeOf(known);
  const note = node.description === undefined ? "" : ` (${node.description})`;
  return `${known.type}${range}${note}`;
}

function rangeOf(known: z.core.JSONSchema.BaseSchema): string {
  const [low, high] =
    known.type === "string"
      ? [known.minLength, known.maxLength]
      : known.type === "array"
        ? [known.minItems, known.maxItems]
        : [known.minimum ?? known.exclusiveMinimum, known.maximum ?? known.exclusiveMaximum];
  const unit = known.type === "string" ? " characters" : known.type === "array" ? " items" : "";
  if (low === undefined && high === undefined) return "";
  if (high === undefined) return ` of at least ${low}${unit}`;
  return low === undefined ? ` of at most ${high}${unit}` : ` from ${low} to ${high}${unit}`;
}

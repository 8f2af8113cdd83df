import { z } from "zod";

/** A command that cannot go on: the message is all the user sees, `exitCode` what the shell sees. */
export class CliError extends Error {
  override readonly name = "CliError";
  constructor(
    message: string,
    readonly exitCode = 1,
  ) {
    super(message);
  }
}

/** The server could not be reached, or went away before it had answered: the same request may be sent again later. */
export class UnreachableError extends CliError {}

const Problem = z.object({
  reason: z.string(),
  detail: z.string().default(""),
  errors: z.array(z.object({ path: z.string(), message: z.string(), accepted: z.string().optional() })).default([]),
});

/** One server, asked over REST. Answers are parsed by the caller's schema; problems become CliErrors in words. */
export class ApiClient {
  readonly #url: string;
  readonly #token: string | null;

  constructor(server: { url: string; token: string | null }) {
    this.#url = server.url.replace(/\/+$/, "");
    this.#token = server.token;
  }

  get url(): string {
    return this.#url;
  }

  async get<T>(path: string, schema: z.ZodType<T>): Promise<T> {
    return this.#send("GET", path, schema);
  }

  async post<T>(path: string, schema: z.ZodType<T>, body?: unknown, headers: Record<string, string> = {}): Promise<T> {
    return this.#send("POST", path, schema, { body: JSON.stringify(body ?? {}), headers });
  }

  async delete(path: string): Promise<void> {
    await this.#send("DELETE", path, z.unknown());
  }

  async #send<T>(
    method: string,
    path: string,
    schema: z.ZodType<T>,
    sent: { body?: string; headers?: Record<string, string> } = {},
  ): Promise<T> {
    const { status, ok, text } = await this.#fetch(method, path, sent);
    if (!ok) throw new CliError(describeProblem(method, path, status, text));
    const parsed = schema.safeParse(text === "" ? null : tryJson(text));
    if (parsed.success) return parsed.data;
    const [issue] = parsed.error.issues;
    const where = `${issue?.path.map(String).join(".") || "the answer"}: ${issue?.message}`;
    throw new CliError(`${method} ${path} answered in an unknown form (${where}); is the server another version?`);
  }

  async #fetch(
    method: string,
    path: string,
    sent: { body?: string; headers?: Record<string, string> },
  ): Promise<{ status: number; ok: boolean; text: string }> {
    const headers: Record<string, string> = { ...sent.headers };
    if (sent.body !== undefined) headers["content-type"] = "application/json";
    if (this.#token !== null) headers.authorization = `Bearer ${this.#token}`;
    try {
      const body = sent.body === undefined ? {} : { body: sent.body };
      const signal = AbortSignal.timeout(CALL_MS_MAX);
      const response = await fetch(`${this.#url}${path}`, { method, headers, ...body, signal });
      return { status: response.status, ok: response.ok, text: await response.text() };
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      throw new UnreachableError(
        `no server answers at ${this.#url} (${why}); start one with \`rolloutd serve\`, or name it with --url`,
      );
    }
  }
}

/** Above the longest `wait_s` that commands use. */
const CALL_MS_MAX = 90_000;

function describeProblem(method: string, path: string, status: number, text: string): string {
  const parsed = Problem.safeParse(tryJson(text));
  if (!parsed.success) return `${method} ${path}: ${status} ${text.slice(0, 500)}`;
  const { reason, detail, errors } = parsed.data;
  const lines = errors.map(({ path: where, message, accepted }) => {
    const form = accepted === undefined ? "" : ` (accepted: ${accepted})`;
    return `  ${where || "body"} ${message}${form}`;
  });
  const how = status === 401 || reason === "token_wrong" ? " (given by --token or ROLLOUTD_TOKEN)" : "";
  return [`${reason}: ${detail}${how}`, ...lines].join("\n");
}

function tryJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null; // shown as it came by the caller
  }
}

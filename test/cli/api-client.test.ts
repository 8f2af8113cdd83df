import { describe, expect, test } from "bun:test";
import { z } from "zod";
import { ApiClient, CliError } from "../../src/cli/api-client.ts";

describe("ApiClient", () => {
  test("says how a token is given when the server asks for one", async () => {
    const problem = { reason: "token_missing", detail: "send Authorization: Bearer TOKEN" };
    using server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch: () => Response.json(problem, { status: 401 }),
    });
    const client = new ApiClient({ url: server.url.href, token: null });
    const error = await client.get("/v1/status", z.unknown()).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(CliError);
    expect(String(error)).toContain("--token or ROLLOUTD_TOKEN");
  });
});

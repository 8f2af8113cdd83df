import { describe, expect, test } from "bun:test";
import { ApiClient } from "../../src/cli/api-client.ts";
import { watchJobs } from "../../src/cli/watch.ts";
import type { Clock } from "../../src/clock.ts";
import { rejectionOf } from "../support/store.ts";

/** A clock whose sleeps end at once and are counted. */
function aHastyClock(): Clock & { sleptMs: number[] } {
  const sleptMs: number[] = [];
  const sleep = (ms: number) => {
    sleptMs.push(ms);
    return Promise.resolve();
  };
  return { sleptMs, nowMs: () => 0, sleep };
}

const page = (results: unknown[], next: number) => Response.json({ results, next, last: next });
const result = {
  seq: 1,
  job: {
    id: "job_1",
    group_id: "g",
    task_id: "t",
    handler: "math",
    model: "m",
    state: "finished",
    created_at: "",
    finished_at: "",
    outcome: null,
    timing: {},
    attempts: [],
    artifacts: [],
  },
};

function follow(port: number, clock: Clock) {
  const client = new ApiClient({ url: `http://127.0.0.1:${port}`, token: null });
  return watchJobs(client, { jobIds: new Set(["job_1"]), after: 0, format: "none", onResult: () => {}, clock });
}

describe("watchJobs", () => {
  test("goes on when the server is away for a while", async () => {
    let server: Bun.Server<undefined> | null = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => page([], 0) });
    const port = server.port ?? 0;
    await server.stop(true);
    server = null;
    const clock = aHastyClock();
    clock.sleep = async (ms) => {
      clock.sleptMs.push(ms);
      if (clock.sleptMs.length === 3) {
        server = Bun.serve({ hostname: "127.0.0.1", port, fetch: () => page([result], 1) });
      }
    };
    expect((await follow(port, clock)).results).toHaveLength(1);
    expect(clock.sleptMs).toEqual([500, 1_000, 2_000]);
    await (server as Bun.Server<undefined> | null)?.stop(true);
  });

  test("gives up after a bounded time, and says where to go on", async () => {
    const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => page([], 0) });
    const port = server.port ?? 0;
    await server.stop(true);
    const clock = aHastyClock();
    const error = await rejectionOf(follow(port, clock));
    expect(error.message).toContain(`no server answers at http://127.0.0.1:${port}`);
    expect(error.message).toContain("rolloutd results --after 0 --follow");
    expect(clock.sleptMs.reduce((sum, ms) => sum + ms, 0)).toBeLessThan(60_000);
  });

  test("does not ask again for what the server refuses", async () => {
    using server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch: () => Response.json({ reason: "results_expired", detail: "gone" }, { status: 410 }),
    });
    const clock = aHastyClock();
    expect((await rejectionOf(follow(server.port ?? 0, clock))).message).toContain("results_expired");
    expect(clock.sleptMs).toEqual([]);
  });
});

import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { startRealModel } from "../support/model.ts";

// The first run fetches the model.
setDefaultTimeout(120_000);

const gone = (pid: number) => !existsSync(`/proc/${pid}`);

describe("startLlamaCpp", () => {
  test("answers when it resolves and is gone when stop does", async () => {
    const { server } = await startRealModel();
    expect((await fetch(`${server.url}/health`)).status).toBe(200);
    await server.stop();
    expect(gone(server.pid)).toBe(true);
  });

  test("ends with its parent, however that dies", async () => {
    const support = join(import.meta.dir, "../support/model.ts");
    const code = `const { server } = await (await import(${JSON.stringify(support)})).startRealModel();
      console.log(server.pid); await new Promise(() => setInterval(() => {}, 1_000));`;
    const parent = Bun.spawn([process.execPath, "-e", code], { stdout: "pipe" });
    let pid = 0;
    for await (const chunk of parent.stdout) {
      pid = Number(Buffer.from(chunk).toString());
      break;
    }
    expect(gone(pid)).toBe(false);
    parent.kill("SIGKILL");
    await parent.exited;
    while (!gone(pid)) await new Promise((resolve) => setImmediate(resolve));
  });
});

import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { createStore } from "../../src/store/client.ts";
import { aFolder, aSetClock, aStore, rejectionOf, submitOne } from "../support/store.ts";

/** The writing program, once it has acknowledged `lines` jobs. */
async function aWriter(file: string, lines: number) {
  const program = join(import.meta.dir, "../programs/write-jobs.ts");
  const child = Bun.spawn([process.execPath, program, file], { stdout: "pipe", stderr: "inherit" });
  const reader = child.stdout.getReader();
  const decoder = new TextDecoder();
  let text = "";
  const acknowledged = () => text.split("\n").slice(1, -1);
  const readMore = async () => {
    const { value, done } = await reader.read();
    if (value) text += decoder.decode(value, { stream: true });
    return !done;
  };
  while (!text.includes("\n") || acknowledged().length < lines) if (!(await readMore())) break;
  return {
    /** Kills it and gives all that it had acknowledged. */
    async kill(): Promise<readonly string[]> {
      child.kill("SIGKILL");
      await child.exited;
      while (await readMore());
      return acknowledged();
    },
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await child.exited;
    },
  };
}

describe("createStore", () => {
  test.each([1, 40, 200, 500])("has every acknowledged job after the writer was killed at the %d-th", async (lines) => {
    using folder = aFolder();
    const file = join(folder.path, "rolloutd.db");
    await using writer = await aWriter(file, lines);
    const acknowledged = await writer.kill();
    expect(acknowledged.length).toBeGreaterThanOrEqual(lines);
    await using opened = await aStore({ file });
    const found = await Promise.all(acknowledged.map((id) => opened.store.job(id)));
    expect(found.filter((job) => job?.state !== "queued")).toEqual([]);
    expect((await opened.store.counts()).queued).toBeGreaterThanOrEqual(acknowledged.length);
  });

  test("refuses a file that another process has open, and takes it once that one was killed", async () => {
    using folder = aFolder();
    const file = join(folder.path, "rolloutd.db");
    await using writer = await aWriter(file, 1);
    const refused = await rejectionOf(createStore({ file, clock: aSetClock() }));
    expect(refused).toMatchObject({ name: "RolloutError", reason: "store_failed" });
    expect(refused.message).toContain(`the data folder ${folder.path} is locked by another server`);
    await writer.kill();
    await using opened = await aStore({ file });
    expect(await submitOne(opened.store)).toHaveLength(1);
  });

  test("refuses a file that this process has open, and takes it once that store was disposed of", async () => {
    using folder = aFolder();
    const file = join(folder.path, "rolloutd.db");
    const first = await aStore({ file });
    const [id] = await submitOne(first.store);
    expect((await rejectionOf(createStore({ file, clock: aSetClock() }))).message).toContain("is locked by another");
    await first.store[Symbol.asyncDispose]();
    await using second = await aStore({ file });
    expect((await second.store.job(String(id)))?.id).toBe(String(id));
  });

  test("refuses a file that a newer version made, and one that is no database", async () => {
    using folder = aFolder();
    const newer = join(folder.path, "newer.db");
    using database = new Database(newer);
    database.run("PRAGMA user_version = 999");
    expect((await rejectionOf(createStore({ file: newer, clock: aSetClock() }))).message).toContain(
      "was made by a newer version: it has 999 migrations",
    );
    const text = join(folder.path, "text.db");
    await Bun.write(text, "this is no database, however long it may be ".repeat(100));
    expect((await rejectionOf(createStore({ file: text, clock: aSetClock() }))).message).toContain(
      `cannot open ${text}: file is not a database`,
    );
  });

  test("makes the folder, readable by its owner alone", async () => {
    using folder = aFolder();
    const file = join(folder.path, "deep/er/rolloutd.db");
    await using opened = await aStore({ file });
    await submitOne(opened.store);
    const { mode } = await Bun.file(file).stat();
    expect(mode & 0o777).toBe(0o600);
  });

  test("rejects calls after it was disposed of, and commits those made before", async () => {
    using folder = aFolder();
    const file = join(folder.path, "rolloutd.db");
    const { store } = await aStore({ file });
    const before = submitOne(store);
    await store[Symbol.asyncDispose]();
    const [id] = await before;
    expect(await rejectionOf(store.counts())).toMatchObject({ reason: "store_failed", detail: "the store is closed" });
    await using again = await aStore({ file });
    expect((await again.store.job(String(id)))?.state).toBe("queued");
  });
});

describe("Store.died", () => {
  /** Opens a store and gives the Worker behind it. */
  async function withWorker() {
    const workers: Worker[] = [];
    const Original = globalThis.Worker;
    globalThis.Worker = class extends Original {
      constructor(...args: ConstructorParameters<typeof Worker>) {
        super(...args);
        workers.push(this);
      }
    };
    try {
      return { opened: await aStore(), worker: workers[0] };
    } finally {
      globalThis.Worker = Original;
    }
  }

  test("resolves when the Worker ends by itself, and every call is refused from then on", async () => {
    const { opened, worker } = await withWorker();
    worker?.terminate();
    expect(await opened.store.died).toMatchObject({ reason: "store_failed" });
    expect(await rejectionOf(opened.store.counts())).toMatchObject({ reason: "store_failed" });
  });

  test("does not resolve because the store was closed", async () => {
    const { opened } = await withWorker();
    await opened.store[Symbol.asyncDispose]();
    expect(await Promise.race([opened.store.died, Promise.resolve("alive")])).toBe("alive");
  });
});

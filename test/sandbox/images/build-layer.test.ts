import { describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { ImageSource } from "../../../src/sandbox/images/images.ts";
import { parseRecipe } from "../../../src/sandbox/images/recipe.ts";
import { testBwrap } from "../../support/bwrap.ts";
import {
  aFolder,
  aWheelFolder,
  contentsOf,
  leftInStore,
  make,
  rejection,
  testImages,
  treeOf,
} from "../../support/images.ts";
import { eventually, leftSince, NOTHING, processesMarked, residue } from "../../support/leaks.ts";
import { TEST_LIMITS, testSandboxHost } from "../../support/sandbox-host.ts";

const NEVER = new AbortController().signal;

function tiny(pipLock: string | null = null): ImageSource {
  return {
    recipe: parseRecipe("tiny", 'base = "host"\npip = ["tiny-pkg==1.0"]\nenv = { MARK = "set" }', pipLock, "tiny"),
  };
}

/** An index that takes a question and never answers: a build that asks it hangs. */
function aDeafIndex() {
  const asked = Promise.withResolvers<void>();
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch() {
      asked.resolve();
      return new Promise<Response>(() => {});
    },
  });
  const env = { PIP_INDEX_URL: `http://127.0.0.1:${server.port}/simple` };
  return { env, asked: asked.promise, [Symbol.asyncDispose]: () => server.stop(true) };
}

describe("buildLayer", () => {
  test("gives sandboxes Python packages and their programs, read-only, on the host's own python3", async () => {
    await using folder = aFolder();
    const images = testImages(folder.path, { env: await aWheelFolder(folder.path) });
    const { manifest } = await make(images, tiny(), { name: "tiny" });
    expect(manifest).toMatchObject({
      kind: "layer",
      uid: 0,
      env: { MARK: "set" },
      baseId: expect.stringMatching(/^host-/),
    });
    const hashBefore = treeOf(contentsOf(images, "tiny"));
    const host = await testSandboxHost({ images: images.catalog });
    const sandbox = await host.open({ image: "tiny", limits: TEST_LIMITS }, NEVER);
    const command =
      'python3 -c "import tiny_pkg; tiny_pkg.main()"; tiny; echo $MARK; touch /usr/local/x 2>/dev/null || echo closed';
    const { output } = await sandbox.shell(command, { timeoutMs: 20_000, signal: NEVER });
    expect(output.trim().split("\n")).toEqual(["tiny says hello", "tiny says hello", "set", "closed"]);
    expect(images.catalog.list()[2]?.inUse).toBe(1);
    expect(await rejection(images.store.remove("tiny", NEVER))).toMatch("sandboxes run on tiny");
    await host.close();
    expect(treeOf(contentsOf(images, "tiny"))).toEqual(hashBefore);
    await images.store.remove("tiny", NEVER);
  });

  test("is refused by a lock whose hash is another, with what pip says, and leaves nothing", async () => {
    await using folder = aFolder();
    const images = testImages(folder.path, { env: await aWheelFolder(folder.path) });
    const before = residue();
    const wrong = tiny(`tiny-pkg==1.0 --hash=sha256:${"0".repeat(64)}\n`);
    expect(await rejection(make(images, wrong))).toMatch(/DO NOT MATCH THE HASHES/);
    expect(leftInStore(images)).toEqual([]);
    expect(await leftSince(before)).toEqual(NOTHING);
  });

  test("happens once where two ask for it at the same time, and the second hears what the first is at", async () => {
    await using folder = aFolder();
    const env = await aWheelFolder(folder.path);
    const steps: string[] = [];
    const [first, second] = await Promise.all([
      make(testImages(folder.path, { env }), tiny(), { name: "one" }),
      make(testImages(folder.path, { env }), tiny(), { name: "two", onStep: (step) => steps.push(step) }),
    ]);
    expect([first.isNew, second.isNew].filter(Boolean)).toHaveLength(1);
    expect(first.manifest.id).toBe(second.manifest.id);
    const images = testImages(folder.path);
    expect([...images.store.names().keys()]).toEqual(["one", "two"]);
    if (!second.isNew) expect(steps).toContain("wait for another build of this image");
    expect(leftInStore(images)).toEqual([]);
  });

  test("is done again on request, and not when nothing changed", async () => {
    await using folder = aFolder();
    const images = testImages(folder.path, { env: await aWheelFolder(folder.path) });
    const built = [
      await make(images, tiny()),
      await make(images, tiny()),
      await make(images, tiny(), { rebuild: true }),
    ];
    expect(built.map(({ isNew }) => isNew)).toEqual([true, false, true]);
  });

  test("ends with all its processes when it is aborted, and leaves nothing", async () => {
    await using folder = aFolder();
    await using index = aDeafIndex();
    const images = testImages(folder.path, { env: index.env });
    const before = residue();
    const stop = new AbortController();
    const building = make(images, tiny(), { signal: stop.signal });
    await index.asked;
    stop.abort(new Error("enough"));
    expect(await rejection(building)).toMatch("enough");
    expect(await leftSince(before)).toEqual(NOTHING);
    expect(leftInStore(images)).toEqual([]);
  });

  test.each([
    ["SIGKILL", null, 1],
    ["SIGINT", 130, 0],
    ["SIGTERM", 130, 0],
  ] as const)(
    "of a command that gets %s leaves no process, and no folder once it was swept",
    async (signal, code, left) => {
      await using folder = aFolder();
      await using index = aDeafIndex();
      const recipe = join(folder.path, "tiny");
      await Bun.write(join(recipe, "recipe.toml"), 'base = "host"\npip = ["tiny-pkg==1.0"]\n');
      const data = join(folder.path, "data");
      const cli = join(import.meta.dir, "../../../src/cli.ts");
      const child = Bun.spawn([process.execPath, cli, "image", "build", recipe, "--data", data], {
        env: { ...process.env, ROLLOUTD_BWRAP: await testBwrap(), ...index.env },
        stdio: ["ignore", "ignore", "pipe"],
      });
      const said = new Response(child.stderr).text();
      await index.asked;
      expect(processesMarked(data).length).toBeGreaterThan(0);
      child.kill(signal);
      await child.exited;
      expect(child.exitCode).toBe(code);
      expect(await eventually(() => processesMarked(data).length === 0)).toBe(true);
      if (code !== null) expect(await said).toContain("stopped; what was built so far is removed");
      const images = testImages(data);
      expect(leftInStore(images)).toHaveLength(left);
      // A process that is gone by name may still be closing its files, and with them its locks.
      for (let i = 0; i < 500 && leftInStore(images).length > 0; i += 1) await images.store.sweep();
      expect([leftInStore(images), readdirSync(images.store.folders.locks)]).toEqual([[], []]);
    },
  );
});

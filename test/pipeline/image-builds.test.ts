import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { systemClock } from "../../src/clock.ts";
import { silentLog } from "../../src/log.ts";
import { BackgroundBuilds } from "../../src/pipeline/image-builds.ts";
import { aFolder, aWheelFolder, leftInStore, putImage, rejection, testImages } from "../support/images.ts";
import { eventually, leftSince, NOTHING, residue } from "../support/leaks.ts";

async function buildsIn(path: string, env: Record<string, string>) {
  const recipesDir = join(path, "recipes");
  await Bun.write(join(recipesDir, "tiny/recipe.toml"), 'base = "host"\npip = ["tiny-pkg==1.0"]\n');
  const images = { ...testImages(path, { env }), recipesDir };
  const drained: string[] = [];
  const drain = (imageId: string) => Promise.resolve(void drained.push(imageId));
  return { images, drained, builds: new BackgroundBuilds({ images, drain, clock: systemClock, log: silentLog }) };
}

/** Nothing listens there: pip tries for a while, then gives up. */
const NOWHERE = { PIP_INDEX_URL: "http://127.0.0.1:1/simple", PIP_RETRIES: "100" };

describe("BackgroundBuilds", () => {
  test("builds, tells the steps and the end, and removes", async () => {
    await using folder = aFolder();
    const { images, drained, builds } = await buildsIn(folder.path, await aWheelFolder(folder.path));
    const begun = builds.start({ name: "mine", recipe: "tiny" });
    expect(begun).toMatchObject({ name: "mine", state: "building", id: null, endedAtMs: null });
    expect(() => builds.start({ name: "mine", recipe: "tiny" })).toThrow("mine is being built already");
    expect(await rejection(builds.remove("mine"))).toMatch("is being built");
    expect(await eventually(() => builds.build("mine")?.state !== "building", 20_000)).toBe(true);
    expect(builds.build("mine")).toMatchObject({ state: "built", stepsDone: 2, steps: 2, error: null });
    expect(images.store.find("mine")?.id).toBe(builds.build("mine")?.id ?? "");
    const lease = images.catalog.lease("mine");
    expect(await rejection(builds.remove("mine"))).toMatch("image_busy");
    lease?.release();
    await builds.remove("mine");
    expect(new Set(drained)).toEqual(new Set([lease?.image.id ?? ""]));
    expect([builds.build("mine"), images.store.find("mine")]).toEqual([null, null]);
    expect(await rejection(builds.remove("mine"))).toMatch("image_absent");
    await builds[Symbol.asyncDispose]();
  });

  test("says why a build failed and what of a request is wrong", async () => {
    await using folder = aFolder();
    const { builds } = await buildsIn(folder.path, { PIP_NO_INDEX: "1" });
    builds.start({ name: "mine", recipe: "tiny" });
    expect(await eventually(() => builds.build("mine")?.state === "failed", 20_000)).toBe(true);
    expect(builds.build("mine")?.error).toContain("No matching distribution found for tiny-pkg==1.0");
    const wrongs = [
      [{ name: "mine", recipe: "nope" }, "there are debian, python, tiny"],
      [{ name: "A", recipe: "tiny" }, "lower-case letters"],
      [{ name: "host", recipe: "tiny" }, "always there"],
      [{ name: "mine", archive: "relative.tar" }, "is no absolute path"],
    ] as const;
    for (const [request, why] of wrongs) expect(() => builds.start(request)).toThrow(why);
    expect(await rejection(builds.remove("host"))).toMatch("always there");
    await builds[Symbol.asyncDispose]();
  });

  test("refuses more at once than its bound, and ends them all when the server closes", async () => {
    await using folder = aFolder();
    const before = residue();
    const { images, builds } = await buildsIn(folder.path, NOWHERE);
    await putImage(images, "other", "one");
    for (const name of ["a", "b"]) builds.start({ name, recipe: "tiny" });
    expect(() => builds.start({ name: "c", recipe: "tiny" })).toThrow("more have to wait");
    const isRunning = () => residue().processes.length > before.processes.length;
    expect(await eventually(isRunning, 10_000)).toBe(true);
    await builds[Symbol.asyncDispose]();
    expect(["a", "b"].map((name) => builds.build(name)?.error)).toEqual([
      "the server is closing",
      "the server is closing",
    ]);
    expect(await leftSince(before)).toEqual(NOTHING);
    expect(leftInStore(images)).toEqual([]);
  });
});

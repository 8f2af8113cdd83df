import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import { runCli } from "../support/cli.ts";
import { aFolder, aWheelFolder, testImages } from "../support/images.ts";
import { leftSince, NOTHING, type Residue, residue } from "../support/leaks.ts";
import { startServerProcess } from "../support/server-process.ts";

setDefaultTimeout(60_000);

let before: Residue;
beforeAll(() => {
  before = residue();
});
afterAll(async () => {
  expect(await leftSince(before)).toEqual(NOTHING);
});

async function aRecipe(parent: string, text: string): Promise<string> {
  const folder = join(parent, "tiny");
  await Bun.write(join(folder, "recipe.toml"), text);
  return folder;
}

describe("rolloutd image", () => {
  test("builds, lists, inspects and removes on the folder alone, and builds the unchanged no second time", async () => {
    await using folder = aFolder();
    const env = await aWheelFolder(folder.path);
    const recipe = await aRecipe(folder.path, 'base = "host"\npip = ["tiny-pkg==1.0"]\n');
    const run = (...args: string[]) => runCli(["image", ...args, "--data", join(folder.path, "data")], env);
    const first = await run("build", recipe, "--json");
    expect([first.code, first.err]).toEqual([0, "1/2 install Python packages\n2/2 check and hash the files\n"]);
    const { id } = JSON.parse(first.out);
    expect(JSON.parse(first.out)).toMatchObject({
      name: "tiny",
      is_new: true,
      notes: [expect.stringContaining("pip.lock")],
    });
    expect(JSON.parse((await run("build", recipe, "--name", "other", "--json")).out)).toMatchObject({
      id,
      is_new: false,
    });
    expect((await run("build", recipe)).out).toContain(`tiny is ${id}, and was there`);
    const listed = JSON.parse((await run("ls", "--json")).out);
    expect(listed.map((one: { name: string }) => one.name)).toEqual(["host", "host-local", "other", "tiny"]);
    expect((await run("ls")).out).toMatch(/tiny +[0-9a-f]{16} +\d+\.\d MB/);
    expect(JSON.parse((await run("inspect", "tiny", "--json")).out)).toMatchObject({
      kind: "layer",
      uid: 0,
      source: "recipe tiny on host",
    });
    expect((await run("inspect", "tiny")).out).toContain(id);
    for (const name of ["tiny", "other"]) expect((await run("rm", name)).code).toBe(0);
    expect([...testImages(join(folder.path, "data")).store.names()]).toEqual([]);
  });

  test.each([
    [["build", "nope"], 2, 'there is no recipe "nope"; there are debian, python'],
    [["build", "./nope"], 2, "there is no "],
    [["import", "x", "/nonexistent.tar"], 2, "there is no /nonexistent.tar"],
    [["import", "Not/A/Name", "/etc/hostname"], 2, "lower-case letters"],
    [["rm", "nope"], 1, "there is no image nope"],
    [["rm", "host"], 2, "always there"],
    [["inspect", "nope"], 1, "there is no image nope"],
  ] as const)("%p ends with %p and says why", async (args, code, why) => {
    await using folder = aFolder();
    const answer = await runCli(["image", ...args, "--data", join(folder.path, "data")]);
    expect({ code: answer.code, said: answer.err }).toEqual({ code, said: expect.stringContaining(why) });
    expect(answer.err).not.toContain("    at ");
  });

  test("works beside a running server, which sees at once what was built and keeps what it uses", async () => {
    await using folder = aFolder();
    const env = await aWheelFolder(folder.path);
    const data = join(folder.path, "data");
    const recipes = join(folder.path, "recipes");
    await aRecipe(recipes, 'base = "host"\npip = ["tiny-pkg==1.0"]\n');
    await using server = await startServerProcess(["--data", data, "--recipes", recipes], env);
    const ask = async (method: string, path: string, body?: unknown) => {
      const answer = await fetch(`${server.url}${path}`, {
        method,
        ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
      });
      return { status: answer.status, body: answer.status === 204 ? null : await answer.json() };
    };
    const task = { id: "t", handler: "math", prompt: "p", answer: "1", image: "tiny" };
    const refused = await ask("POST", "/v1/jobs", { task });
    expect(refused).toMatchObject({
      status: 422,
      body: { reason: "image_unknown", errors: [{ path: "task.image" }] },
    });
    expect(refused.body.detail).toContain("rolloutd image import tiny ARCHIVE");

    const built = await runCli(["image", "build", "tiny", "--data", data, "--recipes", recipes], env);
    expect(built.code).toBe(0);
    const listed = await ask("GET", "/v1/images");
    expect(listed.body[2]).toMatchObject({ name: "tiny", in_use: 0, last_used_at: null });
    expect(await ask("POST", "/v1/jobs", { task })).toMatchObject({ status: 202 });

    expect(await ask("POST", "/v1/images", { name: "again", recipe: "tiny" })).toMatchObject({ status: 202 });
    let seen = await ask("GET", "/v1/images/again");
    while (seen.body.build.state === "building") seen = await ask("GET", "/v1/images/again");
    expect(seen.body).toMatchObject({ image: { id: listed.body[2].id }, build: { state: "built", error: null } });
    expect((await ask("DELETE", "/v1/images/again")).status).toBe(204);
    expect((await ask("DELETE", "/v1/images/again")).status).toBe(404);
    expect(await server.end("SIGTERM")).toBe(0);
  });
});

import { describe, expect, test } from "bun:test";
import { RequestError } from "../../src/errors.ts";
import type { BuildView, ImageBuilds, ImageRequest } from "../../src/pipeline/image-builds.ts";
import { anApp } from "../support/server.ts";

const BUILD: BuildView = {
  name: "team/app:1",
  state: "building",
  id: null,
  step: "unpack its layers",
  stepsDone: 2,
  steps: 4,
  line: "...",
  error: null,
  startedAtMs: 0,
  endedAtMs: null,
};
const BUILD_WIRE = {
  name: "team/app:1",
  state: "building",
  id: null,
  step: "unpack its layers",
  steps_done: 2,
  steps: 4,
  line: "...",
  error: null,
  started_at: "1970-01-01T00:00:00.000Z",
  ended_at: null,
};

function fakeBuilds(over: Partial<ImageBuilds> = {}): ImageBuilds & { asked: ImageRequest[] } {
  const asked: ImageRequest[] = [];
  return {
    asked,
    start(request) {
      asked.push(request);
      return BUILD;
    },
    build: (name) => (name === BUILD.name ? BUILD : null),
    remove: () => Promise.resolve(),
    ...over,
  };
}

describe("POST /v1/images", () => {
  test("begins a build from a recipe or an archive and answers 202 at once", async () => {
    const imageBuilds = fakeBuilds();
    await using opened = await anApp({ imageBuilds });
    const sent = [
      { name: "python", recipe: "python" },
      { name: "team/app:1", archive: "/srv/app.tar" },
    ];
    for (const body of sent) {
      expect(await opened.ask("POST", "/v1/images", body)).toMatchObject({ status: 202, body: BUILD_WIRE });
    }
    expect(imageBuilds.asked).toEqual(sent as ImageRequest[]);
  });

  test("takes the recipe's name for one that is not given, and asks for that of an archive", async () => {
    const imageBuilds = fakeBuilds();
    await using opened = await anApp({ imageBuilds });
    expect(await opened.ask("POST", "/v1/images", { recipe: "python" })).toMatchObject({ status: 202 });
    expect(imageBuilds.asked).toEqual([{ name: "python", recipe: "python" }]);
    const answer = await opened.ask("POST", "/v1/images", { archive: "/srv/app.tar" });
    expect(answer).toMatchObject({ status: 422, body: { reason: "field_invalid", errors: [{ path: "name" }] } });
  });

  test("refuses neither and both, and unknown fields", async () => {
    await using opened = await anApp({ imageBuilds: fakeBuilds() });
    for (const body of [{ name: "x" }, { name: "x", recipe: "a", archive: "/b" }]) {
      const answer = await opened.ask("POST", "/v1/images", body);
      expect(answer).toMatchObject({
        status: 422,
        body: { reason: "field_invalid", detail: "give either a recipe or an archive" },
      });
    }
    const answer = await opened.ask("POST", "/v1/images", { name: "x", recipe: "a", path: "/b" });
    expect(answer).toMatchObject({ status: 422, body: { reason: "field_unknown" } });
  });
});

describe("GET /v1/images/{name}", () => {
  test("tells an image and the latest build of that name, with slashes as %2F", async () => {
    await using opened = await anApp({ imageBuilds: fakeBuilds() });
    const build = await opened.ask("GET", `/v1/images/${encodeURIComponent("team/app:1")}`);
    expect(build).toMatchObject({ status: 200, body: { name: "team/app:1", image: null, build: BUILD_WIRE } });
    const image = await opened.ask("GET", "/v1/images/host");
    expect(image).toMatchObject({ status: 200, body: { name: "host", image: { id: "abc", in_use: 2 }, build: null } });
    expect(await opened.ask("GET", "/v1/images/nope")).toMatchObject({ status: 404, body: { reason: "image_absent" } });
  });
});

describe("DELETE /v1/images/{name}", () => {
  test("answers 204, or 409 while the image is in use", async () => {
    const removed: string[] = [];
    const remove = (name: string) => {
      if (name === "busy") return Promise.reject(new RequestError("image_busy", "sandboxes run on busy"));
      removed.push(name);
      return Promise.resolve();
    };
    await using opened = await anApp({ imageBuilds: fakeBuilds({ remove }) });
    expect(await opened.ask("DELETE", "/v1/images/team%2Fapp")).toMatchObject({ status: 204 });
    expect(await opened.ask("DELETE", "/v1/images/busy")).toMatchObject({
      status: 409,
      body: { reason: "image_busy" },
    });
    expect(removed).toEqual(["team/app"]);
  });
});

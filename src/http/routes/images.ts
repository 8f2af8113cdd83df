import { type OpenAPIHono, z } from "@hono/zod-openapi";
import type { Context } from "hono";
import { wireTime } from "../../clock.ts";
import { RequestError } from "../../errors.ts";
import type { BuildView } from "../../pipeline/image-builds.ts";
import type { ListedImage } from "../../pipeline/rollouts.ts";
import { ImageBuildWire, ImageDetailWire, ImageWire } from "../answers.ts";
import { readBody } from "../body.ts";
import type { AppDeps } from "../deps.ts";
import { mount } from "../mount.ts";
import { ImageSpecWire } from "../schemas.ts";

const tag = "images";

/** The root filesystems that sandboxes can have. */
export function addImageRoutes(app: OpenAPIHono, { rollouts, imageBuilds }: AppDeps): void {
  mount(
    app,
    { method: "get", path: "/v1/images", summary: "All images", tag, answers: { 200: z.array(ImageWire) } },
    (c) => c.json(rollouts.images().map(toImageWire)),
  );
  mount(
    app,
    {
      method: "post",
      path: "/v1/images",
      summary: "Build an image from a recipe, or import an archive or OCI layout of the server's machine",
      tag,
      body: ImageSpecWire,
      answers: { 202: ImageBuildWire },
      problems: [409, 429],
    },
    async (c) => {
      const { value } = await readBody(c, ImageSpecWire);
      const { name, recipe, archive } = value;
      if ((recipe === undefined) === (archive === undefined)) {
        const message = "give either a recipe or an archive";
        throw new RequestError("field_invalid", message, [{ path: "recipe", message }]);
      }
      const source = recipe === undefined ? { archive: archive ?? "" } : { recipe };
      const called = name ?? recipe;
      if (called === undefined) {
        const message = "is missing: an archive does not say what to call the image";
        throw new RequestError("field_invalid", `name: ${message}`, [{ path: "name", message }]);
      }
      return c.json(toBuildWire(imageBuilds.start({ name: called, ...source })), 202);
    },
  );
  mount(
    app,
    {
      method: "get",
      path: "/v1/images/{name}",
      summary: "An image and the latest build of that name; slashes in the name as %2F",
      tag,
      answers: { 200: ImageDetailWire },
      problems: [404],
    },
    (c) => {
      const name = nameOf(c);
      const image = rollouts.images().find((one) => one.name === name);
      const build = imageBuilds.build(name);
      if (image === undefined && build === null) throw new RequestError("image_absent", `there is no image ${name}`);
      return c.json({
        name,
        image: image === undefined ? null : toImageWire(image),
        build: build === null ? null : toBuildWire(build),
      });
    },
  );
  mount(
    app,
    {
      method: "delete",
      path: "/v1/images/{name}",
      summary: "Remove an image that no sandbox uses",
      tag,
      answers: { 204: z.null() },
      problems: [404, 409],
    },
    async (c) => {
      await imageBuilds.remove(nameOf(c));
      return c.body(null, 204);
    },
  );
}

function nameOf(c: Context): string {
  return c.req.param("name") ?? "";
}

function toImageWire({ name, id, source, bytes, inUse, lastUsedAtMs }: ListedImage): z.input<typeof ImageWire> {
  const last_used_at = lastUsedAtMs === null ? null : wireTime(lastUsedAtMs);
  return { name, id, source, bytes, in_use: inUse, last_used_at };
}

function toBuildWire(build: BuildView): z.input<typeof ImageBuildWire> {
  return {
    name: build.name,
    state: build.state,
    id: build.id,
    step: build.step,
    steps_done: build.stepsDone,
    steps: build.steps,
    line: build.line,
    error: build.error,
    started_at: wireTime(build.startedAtMs),
    ended_at: build.endedAtMs === null ? null : wireTime(build.endedAtMs),
  };
}

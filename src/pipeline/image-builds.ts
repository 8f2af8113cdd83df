import type { Clock } from "../clock.ts";
import { RequestError } from "../errors.ts";
import { IMAGE_LIMITS } from "../limits.ts";
import type { Log } from "../log.ts";
import { HOST_NAMES } from "../sandbox/host-image.ts";
import { ImageError } from "../sandbox/images/image-error.ts";
import type { ImageSource } from "../sandbox/images/images.ts";
import type { Images } from "../sandbox/images/open-images.ts";
import { findRecipe } from "../sandbox/images/recipes.ts";
import { problemOfName } from "../sandbox/images/store-folders.ts";

/** What an image is to be made from: a recipe by name, or an archive or OCI layout by its path on this machine. */
export type ImageRequest = { name: string } & ({ recipe: string } | { archive: string });

/** A build of this server, from its request to when it is forgotten. */
export interface BuildView {
  name: string;
  state: "building" | "built" | "failed";
  /** Of the image, once it is built. */
  id: string | null;
  step: string;
  /** Steps done, and all of them. */
  stepsDone: number;
  steps: number;
  /** What the program of this step wrote last. */
  line: string | null;
  /** Why it failed. */
  error: string | null;
  startedAtMs: number;
  endedAtMs: number | null;
}

/** What HTTP may ask about images, beside their list. */
export interface ImageBuilds {
  /** Begins a build and answers at once. Throws RequestError image_busy | builds_full | field_invalid. */
  start(request: ImageRequest): BuildView;
  /** The latest build of that name; null when there was none that is remembered. */
  build(name: string): BuildView | null;
  /** Throws RequestError image_absent | image_busy. */
  remove(name: string): Promise<void>;
}

interface Parts {
  images: Images;
  /** Ends the sandboxes that wait on an image for whoever asks next, so that it can be removed. */
  drain: (imageId: string) => Promise<void>;
  clock: Clock;
  log: Log;
}

/** Builds in the background. Disposing it stops them, and resolves when nothing of them runs. */
export class BackgroundBuilds implements ImageBuilds, AsyncDisposable {
  readonly #parts: Parts;
  /** By name, the latest last. */
  readonly #builds = new Map<string, BuildView>();
  readonly #running = new Set<Promise<void>>();
  readonly #closing = new AbortController();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  start(request: ImageRequest): BuildView {
    const { name } = request;
    const source = this.#sourceOf(request);
    if (this.#builds.get(name)?.state === "building") {
      throw new RequestError("image_busy", `${name} is being built already`);
    }
    if (this.#running.size >= IMAGE_LIMITS.buildsMax) {
      throw new RequestError("builds_full", `${IMAGE_LIMITS.buildsMax} images are being built; more have to wait`);
    }
    const startedAtMs = this.#parts.clock.nowMs();
    const unknown = { id: null, line: null, error: null, endedAtMs: null };
    const build: BuildView = {
      name,
      state: "building",
      step: "start",
      stepsDone: 0,
      steps: 1,
      startedAtMs,
      ...unknown,
    };
    this.#builds.delete(name);
    this.#builds.set(name, build);
    this.#forgetOld();
    const running = this.#work(build, source).finally(() => this.#running.delete(running));
    this.#running.add(running);
    return build;
  }

  build(name: string): BuildView | null {
    return this.#builds.get(name) ?? null;
  }

  async remove(name: string): Promise<void> {
    if (HOST_NAMES.some((own) => own === name))
      throw new RequestError("image_busy", `\`${name}\` is this machine itself and always there`);
    if (this.#builds.get(name)?.state === "building") throw new RequestError("image_busy", `${name} is being built`);
    try {
      const known = this.#parts.images.catalog.list().find((image) => image.name === name);
      if (known !== undefined) await this.#parts.drain(known.id);
      await this.#parts.images.store.remove(name, this.#closing.signal);
      this.#builds.delete(name);
    } catch (error) {
      if (error instanceof ImageError && error.fault === "absent")
        throw new RequestError("image_absent", error.message);
      if (error instanceof ImageError && error.fault === "busy") throw new RequestError("image_busy", error.message);
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new ImageError("failed", "the server is closing"));
    await Promise.allSettled(this.#running);
  }

  #sourceOf(request: ImageRequest): ImageSource {
    const invalid = (path: string, message: string) =>
      new RequestError("field_invalid", `${path}: ${message}`, [{ path, message }]);
    const problem = problemOfName(request.name);
    if (problem !== null) throw invalid("name", problem);
    if ("archive" in request) {
      const isAbsolute = request.archive.startsWith("/") && !request.archive.includes("\0");
      if (!isAbsolute) throw invalid("archive", "is no absolute path on the server's machine");
      return { archive: request.archive };
    }
    try {
      return { recipe: findRecipe(request.recipe, this.#parts.images.recipesDir) };
    } catch (error) {
      throw error instanceof ImageError ? invalid("recipe", error.message) : error;
    }
  }

  async #work(build: BuildView, source: ImageSource): Promise<void> {
    const { images, clock, log } = this.#parts;
    try {
      const { manifest, isNew, before, removed } = await images.builder.build(source, {
        name: build.name,
        rebuild: false,
        signal: this.#closing.signal,
        onProgress: ({ step, at, of, line }) => Object.assign(build, { step, stepsDone: at, steps: of, line }),
      });
      Object.assign(build, { state: "built", id: manifest.id, stepsDone: build.steps, line: null });
      log.info("image:built", { name: build.name, id: manifest.id, is_new: isNew, before, removed });
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      Object.assign(build, { state: "failed", error: why });
      // What was asked for, or this machine, is at fault: no place in our code tells more.
      const known = error instanceof ImageError;
      log.warn("image:build_failed", { name: build.name, error: known ? `${error.fault}: ${why}` : error });
    } finally {
      build.endedAtMs = clock.nowMs();
    }
  }

  #forgetOld(): void {
    for (const [name, { state }] of this.#builds) {
      if (this.#builds.size <= IMAGE_LIMITS.buildsKeptMax) return;
      if (state !== "building") this.#builds.delete(name);
    }
  }
}

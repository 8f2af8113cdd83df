import { describe, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createHostImage } from "../../../src/sandbox/host-image.ts";
import { createImageCatalog } from "../../../src/sandbox/images/catalog.ts";
import { TEST_SANDBOX_UID } from "../../support/bwrap.ts";
import { aFolder, contentsOf, leftInStore, putImage, rejection, testImages } from "../../support/images.ts";
import { aSetClock } from "../../support/store.ts";

const NEVER = new AbortController().signal;
const OWNER_UID = TEST_SANDBOX_UID ?? process.getuid?.() ?? 0;

describe("ImageStore", () => {
  test("makes nothing on disk before the first image, and finds none", async () => {
    await using folder = aFolder();
    const { store } = testImages(folder.path);
    expect([
      [...store.names()],
      store.find("x"),
      store.lease("x"),
      await store.sweep(),
      await store.collect(null),
    ]).toEqual([[], null, null, 0, []]);
    expect(await rejection(store.remove("x", NEVER))).toMatch("there is no image x");
    expect(readdirSync(folder.path)).toEqual([]);
  });

  test("shows an image to another process at once, by name and by id", async () => {
    await using folder = aFolder();
    const [ours, theirs] = [testImages(folder.path), testImages(folder.path)];
    const id = await putImage(ours, "team/x:1", "one");
    expect([theirs.store.find("team/x:1")?.id, theirs.store.find(id)?.id]).toEqual([id, id]);
    expect(await Bun.file(join(contentsOf(theirs, id), "file")).text()).toBe("one");
  });

  test("finds nothing by a name that is a path out of its folder", async () => {
    await using folder = aFolder();
    const { store } = testImages(folder.path);
    await putImage(testImages(folder.path), "x", "one");
    for (const name of ["../names/x", "..", ".", "", "x\0", "/x", "names/../x"]) expect(store.find(name)).toBeNull();
  });

  test("removes no image that this or another process holds, and does once it is released", async () => {
    await using folder = aFolder();
    const [ours, theirs] = [testImages(folder.path), testImages(folder.path)];
    const id = await putImage(ours, "x", "one");
    const [first, second] = [theirs.store.lease("x"), theirs.store.lease(id)];
    for (const { store } of [ours, theirs])
      expect(await rejection(store.remove("x", NEVER))).toMatch("sandboxes run on x");
    first?.release();
    first?.release();
    expect(theirs.store.inUse(id)).toBe(1);
    expect(await rejection(ours.store.remove("x", NEVER))).toMatch("sandboxes run on x");
    second?.release();
    await ours.store.remove("x", NEVER);
    expect([theirs.store.lease("x"), theirs.store.lease(id), theirs.store.findKey(id)]).toEqual([null, null, null]);
    const { folders } = ours.store;
    expect([folders.images, folders.names, folders.keys, folders.locks].map((path) => readdirSync(path))).toEqual([
      [],
      [],
      [],
      [],
    ]);
    expect(leftInStore(ours)).toEqual([]);
  });

  test("keeps an image while another name means it", async () => {
    await using folder = aFolder();
    const { store } = testImages(folder.path);
    const id = await putImage(testImages(folder.path), "x", "one");
    const image = store.manifest(id);
    if (image === null) throw new Error("it was put there");
    expect(await store.point("y", image, NEVER)).toEqual({ before: null, removed: [] });
    await store.remove("x", NEVER);
    expect([...store.names()]).toEqual([["y", id]]);
    await store.remove(id, NEVER);
    expect([...store.names()]).toEqual([]);
    expect(await store.point("z", image, NEVER)).toBeNull();
  });

  test("tells the source, time and notes of each name, though two mean the same image", async () => {
    await using folder = aFolder();
    const { store, catalog } = testImages(folder.path);
    const id = await putImage(testImages(folder.path), "x", "one");
    const image = store.manifest(id);
    if (image === null) throw new Error("it was put there");
    await store.point("y", { ...image, source: "another", createdAtMs: 2, notes: ["as told"] }, NEVER);
    expect([store.find("x"), store.find("y")]).toMatchObject([
      { id, source: "test", createdAtMs: 1, notes: [] },
      { id, source: "another", createdAtMs: 2, notes: ["as told"] },
    ]);
    expect(catalog.list().slice(-2)).toMatchObject([{ source: "test" }, { source: "another" }]);
  });

  test("says what a name meant until now and what went", async () => {
    await using folder = aFolder();
    const { store } = testImages(folder.path, { bytesMax: 4 });
    const first = await putImage(testImages(folder.path), "x", "one");
    const second = store.manifest(await putImage(testImages(folder.path), "y", "two"));
    if (second === null) throw new Error("it was put there");
    expect(await store.point("x", second, NEVER)).toEqual({ before: first, removed: [first] });
    const third = store.manifest(await putImage(testImages(folder.path), "z", "six"));
    if (third === null) throw new Error("it was put there");
    expect(await store.point("z", third, NEVER)).toEqual({ before: null, removed: ["x", "y"] });
  });

  test("drops what a name meant before, unless it is held: then with the next image", async () => {
    await using folder = aFolder();
    const images = testImages(folder.path);
    const first = await putImage(images, "x", "one");
    const lease = images.store.lease("x");
    const second = await putImage(images, "x", "two");
    expect([images.store.find(first)?.id, images.store.find("x")?.id]).toEqual([first, second]);
    lease?.release();
    await putImage(images, "y", "three");
    expect(images.store.find(first)).toBeNull();
  });

  test("makes room by what was not used for longest, never by what is held or newest", async () => {
    await using folder = aFolder();
    const clock = aSetClock();
    const images = testImages(folder.path, { bytesMax: 10, clock });
    for (const name of ["a", "b", "c"]) await putImage(images, name, `${name}${name}${name}`);
    for (const name of ["a", "b", "c"]) {
      clock.ms += 1_000;
      images.store.lease(name)?.release();
    }
    const held = images.store.lease("a"); // the least recently used but for this
    clock.ms += 1_000;
    await putImage(images, "d", "dddddddd");
    expect([...images.store.names().keys()]).toEqual(["a", "d"]);
    held?.release();
    await putImage(images, "e", "e".repeat(50));
    expect([...images.store.names().keys()]).toEqual(["e"]);
  });

  test("is swept of folders that a killed build left, and of nothing that lives", async () => {
    await using folder = aFolder();
    const images = testImages(folder.path);
    await putImage(images, "x", "one");
    const dead = join(images.store.folders.root, "tmp-dead");
    mkdirSync(join(dead, "rootfs", "closed", "inside"), { recursive: true });
    chmodSync(join(dead, "rootfs", "closed"), 0o555);
    writeFileSync(join(images.store.folders.root, "tmp-torn.pointer"), "abc");
    await using draft = await images.store.begin(NEVER);
    expect(await testImages(folder.path).store.sweep()).toBe(1);
    expect([existsSync(dead), existsSync(draft.folder)]).toEqual([false, true]);
    expect(leftInStore(images)).toHaveLength(1);
    expect([...images.store.names().keys()]).toEqual(["x"]);
  });

  test("takes a manifest of another version, or a torn one, for no image", async () => {
    await using folder = aFolder();
    const images = testImages(folder.path);
    const id = await putImage(images, "x", "one");
    writeFileSync(images.store.folders.manifest(id), '{"version": 2}');
    const other = testImages(folder.path);
    expect([other.store.find("x"), [...other.store.names()], other.catalog.lease("x")]).toEqual([null, [], null]);
  });
});

describe("createImageCatalog", () => {
  test("counts this server's sandboxes and tells when an image was last used", async () => {
    await using folder = aFolder();
    const clock = aSetClock();
    const images = testImages(folder.path, { clock });
    await putImage(images, "x", "one");
    expect(images.catalog.list()[2]).toMatchObject({ name: "x", bytes: 3, inUse: 0, lastUsedAtMs: null });
    clock.ms += 5_000;
    const leases = [images.catalog.lease("x"), images.catalog.lease("x")];
    expect(images.catalog.list()[2]).toMatchObject({ inUse: 2, lastUsedAtMs: clock.ms });
    for (const lease of leases) lease?.release();
    expect(images.catalog.list()[2]).toMatchObject({ inUse: 0 });
    expect(leases[0]?.image).toMatchObject({ name: "x", mounts: [], lower: [expect.stringMatching(/\/rootfs$/)] });
  });

  test("refuses an image of another uid, and one on which nothing can start, and holds neither", async () => {
    await using folder = aFolder();
    const images = testImages(folder.path);
    const id = await putImage(images, "x", "one");
    expect(images.problem()).toBeNull();
    const foreign = createImageCatalog(createHostImage({ usrLocal: false }), images.store, OWNER_UID + 1);
    expect(() => foreign.lease("x")).toThrow("that needs another --images folder");
    const manifest = images.store.manifest(id);
    if (manifest !== null) manifest.unusable = "no /bin/sh";
    expect(() => images.catalog.lease("x")).toThrow("task_invalid: image x: no /bin/sh");
    expect(images.store.inUse(id)).toBe(0);
  });

  test("gives a layer another id where the host has changed since it was built", async () => {
    await using folder = aFolder();
    const images = testImages(folder.path);
    const id = await putImage(images, "x", "one");
    const manifest = images.store.manifest(id);
    const host = { ...createHostImage({ usrLocal: false }), id: "host-new" };
    if (manifest !== null) Object.assign(manifest, { kind: "layer", baseId: "host-old" });
    const lease = createImageCatalog(host, images.store, OWNER_UID).lease("x");
    expect(lease?.image.id).toBe(`${id}+host-new`);
    expect(lease?.image.mounts.slice(-3)).toEqual(["--ro-bind", expect.stringMatching(/\/layer$/), "/usr/local"]);
    const again = createImageCatalog(host, images.store, OWNER_UID).lease(lease?.image.id ?? "");
    expect(again?.image.id).toBe(`${id}+host-new`);
    for (const one of [lease, again]) one?.release();
  });
});

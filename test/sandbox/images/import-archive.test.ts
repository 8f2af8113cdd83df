import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ImageError } from "../../../src/sandbox/images/image-error.ts";
import { TEST_SANDBOX_UID } from "../../support/bwrap.ts";
import {
  aFolder,
  contentsOf,
  folderIn,
  leftInStore,
  make,
  rejection,
  testImages,
  treeOf,
} from "../../support/images.ts";
import { leftSince, NOTHING, residue } from "../../support/leaks.ts";
import { dockerArchive, type OciOptions, tarOfFiles, writeOciLayout } from "../../support/oci.ts";
import { TEST_LIMITS, testSandboxHost } from "../../support/sandbox-host.ts";

/** Without them nothing can be imported; set-up installs them when it is run by root. */
const lacks = ["/usr/bin/skopeo", "/usr/bin/umoci"].filter((program) => !existsSync(program));
if (lacks.length > 0) console.error(`SKIPPED: imports of images, as ${lacks.join(" and ")} are missing`);
const importTest = test.skipIf(lacks.length > 0);

const MIXED: OciOptions = {
  config: { Env: ["PATH=/opt/bin:/bin", "A=b=c", "no variable", "1X=2"], WorkingDir: "/srv/app", User: "app:app" },
  layers: [
    [
      { path: "bin/", folder: true },
      { path: "bin/tool", text: "tool", mode: 0o4755 },
      { path: "bin/group", text: "group", mode: 0o2755 },
      { path: "bin/same", link: "bin/tool" },
      { path: "gone/", folder: true },
      { path: "gone/a", text: "a" },
      { path: "gone-file", text: "x" },
      { path: "opaque/", folder: true },
      { path: "opaque/old", text: "old" },
      { path: "opaque/deep/", folder: true },
      { path: "opaque/deep/old", text: "old" },
      { path: "data", text: "first", uid: 1234 },
      { path: "closed/", folder: true, mode: 0o000 },
      { path: "read-only/", folder: true, mode: 0o555 },
      { path: "read-only/file", text: "ro", mode: 0o400 },
      { path: "null", device: [1, 3] },
      { path: "pipe", fifo: true },
      { path: "link", symlink: "bin/tool" },
    ],
    [
      { path: ".wh.gone", text: "" },
      { path: ".wh.gone-file", text: "" },
      { path: "opaque/", folder: true },
      { path: "opaque/.wh..wh..opq", text: "" },
      { path: "opaque/new", text: "new" },
      { path: "data", text: "second" },
      { path: "again", link: "bin/tool" },
    ],
  ],
};

const MIXED_TREE = {
  "/again": "755 x3 tool",
  "/bin": "755 folder",
  "/bin/group": "755 group",
  "/bin/same": "755 x3 tool",
  "/bin/tool": "755 x3 tool",
  "/closed": "500 folder",
  "/data": "644 second",
  "/link": "-> bin/tool",
  "/opaque": "755 folder",
  "/opaque/new": "644 new",
  "/pipe": "644 special",
  "/read-only": "555 folder",
  "/read-only/file": "400 ro",
};

describe("importArchive", () => {
  importTest("gives an OCI layout's files as its layers mean them, and its settings", async () => {
    await using folder = aFolder();
    const images = testImages(folder.path);
    const layout = folderIn(folder.path, "layout");
    writeOciLayout(layout, MIXED);
    const before = residue();
    const { manifest } = await make(images, { archive: layout }, { name: "team/app:1" });
    const tree = treeOf(contentsOf(images, "team/app:1"));
    const { "/null": device, ...rest } = tree;
    expect(rest).toEqual(MIXED_TREE);
    // umoci puts an empty file in the place of a device.
    expect([undefined, "644 "]).toContain(device);
    expect(manifest).toMatchObject({ env: { A: "b=c" }, path: "/opt/bin:/bin", uid: 1_000, cwd: "/srv/app" });
    expect(manifest.notes).toContain("no bash: the shell tool does not work in it");
    expect(manifest.unusable).toBe("no /bin/sh: no sandbox can start on it");
    expect(await leftSince(before)).toEqual(NOTHING);
    expect(leftInStore(images)).toEqual([]);
    if (TEST_SANDBOX_UID !== null) {
      const owner = statSync(contentsOf(images, "team/app:1")).uid;
      expect(owner).toBe(TEST_SANDBOX_UID);
    }
  });

  importTest("reads the same from a layout in a tar and from an archive of docker save", async () => {
    await using folder = aFolder();
    const images = testImages(folder.path);
    const layout = folderIn(folder.path, "layout");
    writeOciLayout(layout, MIXED);
    const names = readdirSync(layout, { recursive: true, encoding: "utf8" }).filter((name) =>
      statSync(join(layout, name)).isFile(),
    );
    const files = Object.fromEntries(names.map((name) => [name, readFileSync(join(layout, name))]));
    const tar = join(folder.path, "layout.tar");
    writeFileSync(tar, tarOfFiles(files), { mode: 0o600 });
    const docker = join(folder.path, "docker.tar");
    writeFileSync(docker, dockerArchive(MIXED), { mode: 0o600 });
    const [first, second, third] = [
      await make(images, { archive: layout }, { name: "a" }),
      await make(images, { archive: tar }, { name: "b" }),
      await make(images, { archive: docker }, { name: "c" }),
    ];
    expect([second.manifest.id, third.manifest.id]).toEqual([first.manifest.id, first.manifest.id]);
    expect([...images.store.names().keys()]).toEqual(["a", "b", "c"]);
  });

  importTest("never writes through a symlink of one layer to outside, absolute, relative or by a chain", async () => {
    await using folder = aFolder();
    const images = testImages(folder.path);
    const outside = folderIn(folder.path, "outside");
    writeFileSync(join(outside, "victim"), "untouched");
    const up = "../".repeat(8) + outside.slice(1);
    const attacks: Record<string, OciOptions> = {
      absolute: {
        layers: [
          [{ path: "x", symlink: outside }],
          [
            { path: "x/planted", text: "bad" },
            { path: "x/victim", text: "bad" },
          ],
        ],
      },
      relative: { layers: [[{ path: "x", symlink: up }], [{ path: "x/planted", text: "bad" }]] },
      chain: {
        layers: [
          [
            { path: "a", symlink: "b" },
            { path: "b", symlink: outside },
          ],
          [{ path: "a/planted", text: "bad" }],
        ],
      },
      "one layer": {
        layers: [
          [
            { path: "x", symlink: outside },
            { path: "x/planted", text: "bad" },
          ],
        ],
      },
      "dots in a path": { layers: [[{ path: `${up}/planted`, text: "bad" }]] },
      "hard link": { layers: [[{ path: "x", link: `${up}/victim` }], [{ path: "x", text: "bad" }]] },
      "hard link through a symlink": {
        layers: [
          [
            { path: "d", symlink: outside },
            { path: "x", link: "d/victim" },
          ],
          [{ path: "x", text: "bad" }],
        ],
      },
      whiteout: { layers: [[{ path: "x", symlink: outside }], [{ path: "x/.wh.victim", text: "" }]] },
      opaque: { layers: [[{ path: "x", symlink: outside }], [{ path: "x/.wh..wh..opq", text: "" }]] },
    };
    const kept: Record<string, true> = {
      absolute: true,
      relative: true,
      chain: true,
      "one layer": true,
      "dots in a path": true,
    };
    for (const [name, options] of Object.entries(attacks)) {
      const layout = folderIn(folder.path, name.replaceAll(" ", "-"));
      writeOciLayout(layout, options);
      const called = `attack-${name.replaceAll(" ", "-")}`;
      const outcome = await make(images, { archive: layout }, { name: called }).then(
        () => treeOf(contentsOf(images, called)),
        (error: unknown) => (error instanceof ImageError ? "refused" : String(error)),
      );
      // The root of the image is the root of its links: what would have come outside lies at the same path inside.
      const inside = typeof outcome === "string" ? outcome : (outcome[`${outside}/planted`] ?? "nothing");
      expect({ name, inside }).toEqual({
        name,
        inside: name in kept ? "644 bad" : expect.stringMatching(/^(refused|nothing)$/),
      });
      expect({ name, found: treeOf(outside) }).toEqual({ name, found: { "/victim": "644 untouched" } });
    }
    expect(leftInStore(images)).toEqual([]);
  });

  importTest(
    "refuses what is no image, is broken or is for another machine, says why, and leaves nothing",
    async () => {
      await using folder = aFolder();
      const images = testImages(folder.path);
      const foreign = folderIn(folder.path, "foreign");
      writeOciLayout(foreign, { layers: [[{ path: "x", text: "x" }]], architecture: "s390x" });
      const text = join(folder.path, "text.tar");
      writeFileSync(text, "no tar at all");
      const other = join(folder.path, "other.tar");
      writeFileSync(other, tarOfFiles({ readme: Buffer.from("hello") }));
      const torn = join(folder.path, "torn.tar");
      writeFileSync(torn, dockerArchive(MIXED).subarray(0, 5_000));
      const refusals: [string, RegExp][] = [
        [foreign, /s390x|no image found/],
        [text, /tar -tf \/archive ended with|tar/],
        [other, /neither an OCI layout nor an archive of `docker save`/],
        [torn, /ended with/],
        [folderIn(folder.path, "empty"), /no index\.json/],
        [join(folder.path, "missing"), /there is no /],
      ];
      for (const [archive, why] of refusals) expect(await rejection(make(images, { archive }))).toMatch(why);
      expect([...images.store.names()]).toEqual([]);
      expect(leftInStore(images)).toEqual([]);
    },
  );

  importTest("says that nothing can start on a shell without its libraries", async () => {
    await using folder = aFolder();
    const images = testImages(folder.path);
    const archive = join(folder.path, "bare.tar");
    const text = readFileSync("/bin/sh").toString("latin1");
    writeFileSync(archive, dockerArchive({ layers: [[{ path: "bin/sh", text, mode: 0o755 }]] }));
    const { manifest } = await make(images, { archive });
    expect(manifest.unusable).toStartWith("/bin/sh does not run");
    expect(manifest.notes).toContain(manifest.unusable ?? "");
  });

  importTest("is not repeated for an unchanged archive, and is for a changed one", async () => {
    await using folder = aFolder();
    const images = testImages(folder.path);
    const docker = join(folder.path, "docker.tar");
    writeFileSync(docker, dockerArchive(MIXED));
    const first = await make(images, { archive: docker });
    const second = await make(images, { archive: docker });
    writeFileSync(docker, dockerArchive({ layers: [[{ path: "other", text: "now" }]] }));
    const third = await make(images, { archive: docker });
    expect([first.isNew, second.isNew, third.isNew]).toEqual([true, false, true]);
    expect(third.manifest.id).not.toBe(first.manifest.id);
    // No name means the first any more.
    expect(images.store.find(first.manifest.id)).toBeNull();
  });

  importTest("puts a later layer in the place of an earlier one, whatever kind each is", async () => {
    await using folder = aFolder();
    const images = testImages(folder.path);
    const layout = folderIn(folder.path, "layout");
    const [file, link] = [{ text: "file" }, { symlink: "elsewhere" }];
    writeOciLayout(layout, {
      layers: [
        [
          { path: "file-to-folder", ...file },
          { path: "folder-to-file/", folder: true },
          { path: "folder-to-file/inner", ...file },
          { path: "folder-to-link/", folder: true },
          { path: "folder-to-link/inner", ...file },
          { path: "link-to-file", ...link },
          { path: "first", text: "shared" },
          { path: "second", link: "first" },
          { path: "mode", text: "same", mode: 0o644 },
          { path: "kept/", folder: true },
          { path: "kept/inner", ...file },
        ],
        [
          { path: "file-to-folder/", folder: true },
          { path: "file-to-folder/inner", ...file },
          { path: "folder-to-file", ...file },
          { path: "folder-to-link", ...link },
          { path: "link-to-file", ...file },
          { path: "first", text: "own" },
          { path: "mode", text: "same", mode: 0o6711 },
          { path: "kept/", folder: true, mode: 0o2700 },
          { path: "kept/.wh.never-there", text: "" },
        ],
      ],
    });
    await make(images, { archive: layout });
    expect(treeOf(contentsOf(images, "made"))).toEqual({
      "/file-to-folder": "755 folder",
      "/file-to-folder/inner": "644 file",
      "/first": "644 own",
      "/folder-to-file": "644 file",
      "/folder-to-link": "-> elsewhere",
      "/kept": "700 folder",
      "/kept/inner": "644 file",
      "/link-to-file": "644 file",
      "/mode": "711 same",
      "/second": "644 shared",
    });
  });

  importTest("gives a sandbox the image's user, variables and working directory", async () => {
    const before = residue();
    await using folder = aFolder();
    const images = testImages(folder.path);
    const archive = join(folder.path, "busy.tar");
    writeFileSync(
      archive,
      dockerArchive(await anImageWithShell({ Env: ["WHO=image"], WorkingDir: "/srv/app", User: "app" })),
    );
    await make(images, { archive }, { name: "shell" });
    const host = await testSandboxHost({ images: images.catalog });
    const sandbox = await host.open({ image: "shell", limits: TEST_LIMITS }, new AbortController().signal);
    const options = { timeoutMs: 20_000, signal: new AbortController().signal };
    const { output } = await sandbox.shell("pwd; echo $WHO $UID; echo x >/srv/app/new && echo written", options);
    expect(output.trim().split("\n")).toEqual(["/srv/app", "image 1000", "written"]);
    await host.close();
    expect(existsSync(join(contentsOf(images, "shell"), "srv/app/new"))).toBe(false);
    expect(await leftSince(before)).toEqual(NOTHING);
  });
});

/** bash, sh and what they load, of this machine. */
async function anImageWithShell(config: NonNullable<OciOptions["config"]>): Promise<OciOptions> {
  const programs = ["/bin/bash", "/bin/sh", "/usr/bin/env"];
  const libraries = new Set<string>();
  for (const program of programs) {
    const listed = await new Response(Bun.spawn(["ldd", program]).stdout).text();
    for (const [path] of listed.matchAll(/\/\S+/g)) libraries.add(path);
  }
  const folders = ["srv/", "srv/app/"].map((path) => ({ path, folder: true as const }));
  const files = [...programs, ...libraries].map((path) => ({
    path: path.slice(1),
    text: readFileSync(path).toString("latin1"),
    mode: 0o755,
  }));
  return { layers: [[...folders, ...files]], config };
}

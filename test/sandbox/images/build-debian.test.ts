import { describe, expect, test } from "bun:test";
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { readAptSources } from "../../../src/sandbox/images/apt-sources.ts";
import { parseRecipe } from "../../../src/sandbox/images/recipe.ts";
import { aFolder, contentsOf, leftInStore, make, testImages, treeOf } from "../../support/images.ts";
import { leftSince, NOTHING, residue } from "../../support/leaks.ts";
import { TEST_LIMITS, testSandboxHost } from "../../support/sandbox-host.ts";

const NEVER = new AbortController().signal;
const BUILD_MS_MAX = 300_000;

/** Without it no Debian can be made; set-up installs it when it is run by root. */
const lacks = [
  ...(existsSync("/usr/bin/mmdebstrap") ? [] : ["/usr/bin/mmdebstrap"]),
  ...(readAptSources().some(({ uri }) => /\/debian\/?$/.test(uri)) ? [] : ["a mirror of Debian in apt's sources"]),
];
if (lacks.length > 0) console.error(`SKIPPED: the build of Debian, for want of ${lacks.join(" and ")}`);

const RECIPE = `
base = "debian:bookworm"
apt = ["python3"]
run = ["echo made >/etc/mark\\nchown daemon:daemon /etc/mark", "test \\"$(cat /etc/mark)\\" = made && ln -s mark /etc/mark-link"]
env = { MARK = "set" }
uid = 1000
`;

describe("buildDebian", () => {
  test.skipIf(lacks.length > 0)(
    "makes a root filesystem of one uid, in which commands ran and apt can install",
    async () => {
      await using folder = aFolder();
      const images = testImages(folder.path);
      const before = residue();
      const recipe = parseRecipe("small", RECIPE, null, "small");
      const { manifest } = await make(images, { recipe }, { name: "small" });
      expect(await leftSince(before)).toEqual(NOTHING);
      expect(leftInStore(images)).toEqual([]);
      expect(manifest).toMatchObject({ kind: "root", uid: 1_000, baseId: null });
      const rootfs = contentsOf(images, "small");
      const tree = treeOf(rootfs);
      expect(tree["/etc/mark"]).toBe("644 made\n");
      expect(tree["/etc/mark-link"]).toBe("-> mark");
      expect(tree["/etc/hostname"]).toBe("644 sandbox\n");
      expect(tree["/etc/resolv.conf"]).toBe("644 ");
      expect(Object.values(tree).filter((what) => /^[2467]\d{3} /.test(what))).toEqual([]);
      const { uid } = statSync(rootfs);
      expect(
        new Set(
          Object.keys(tree)
            .filter((path) => !tree[path]?.startsWith("->"))
            .map((path) => statSync(join(rootfs, path)).uid),
        ),
      ).toEqual(new Set([uid]));

      const host = await testSandboxHost({ images: images.catalog });
      const sandbox = await host.open({ image: "small", limits: TEST_LIMITS }, NEVER);
      const command =
        "id -u; echo $MARK; . /etc/os-release; echo $VERSION_CODENAME; echo new >/etc/mark && cat /etc/mark; python3 -c 'print(6*7)'";
      const { output } = await sandbox.shell(command, { timeoutMs: 20_000, signal: NEVER });
      expect(output.trim().split("\n")).toEqual(["1000", "set", "bookworm", "new", "42"]);
      await host.close();
      expect(treeOf(rootfs)).toEqual(tree);
    },
    BUILD_MS_MAX,
  );
});

import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type AptSource, readAptSources, securityMirror } from "./apt-sources.ts";
import { type BuildContext, type Built, DEFAULT_PATH } from "./build-context.ts";
import { PIP_ENV, pipPackages } from "./build-layer.ts";
import { runBuildStep } from "./build-step.ts";
import { hostView, rootView } from "./confine.ts";
import { ImageError } from "./image-error.ts";
import type { Recipe } from "./recipe.ts";

const MMDEBSTRAP = "/usr/bin/mmdebstrap";
const KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg";
/** Suites that security updates come to directly. */
const ROLLING = ["sid", "unstable", "testing"];
const UNPACK = "bootstrap Debian";
const PIP = "install Python packages";

/** Documents and translations: a quarter of a small Debian. Licences stay. */
const LEFT_OUT = [
  "path-exclude=/usr/share/man/*",
  "path-exclude=/usr/share/locale/*",
  "path-exclude=/usr/share/doc/*",
  "path-include=/usr/share/doc/*/copyright",
];

/**
 * Inside there is one uid: apt must not become another to download. Translations of descriptions are 6 MB that nobody reads. Names and addresses of this machine stay out.
 */
const SETTLE = `umount -l "$1/dev" "$1/proc"
printf 'APT::Sandbox::User "root";\\nAcquire::Languages "none";\\n' >"$1/etc/apt/apt.conf.d/90-sandbox"
echo sandbox >"$1/etc/hostname"
printf '127.0.0.1 localhost sandbox\\n::1 localhost\\n' >"$1/etc/hosts"
rm -f "$1/etc/resolv.conf"
: >"$1/etc/resolv.conf"`;

/** Steps of this recipe, in order. */
export function debianSteps({ pip, run }: Recipe): string[] {
  return [UNPACK, ...(pip.length > 0 ? [PIP] : []), ...run.map((command) => `run ${command.split("\n")[0]}`)];
}

/**
 * Bootstraps Debian with mmdebstrap, as one unprivileged uid that is root of its own namespaces, then runs the recipe's
 * commands in it. Needs no root, no uid ranges, no setuid helper.
 */
export async function buildDebian(context: BuildContext, recipe: Recipe): Promise<Built> {
  const { host, draft, signal, report } = context;
  const sources = sourceLines(recipe.base.slice("debian:".length), readAptSources());
  for (const [file, name] of [
    [MMDEBSTRAP, "mmdebstrap"],
    [KEYRING, "debian-archive-keyring"],
  ] as const) {
    if (!existsSync(file))
      throw new ImageError("machine", `${file} is missing: apt-get install --no-install-recommends ${name}`);
  }
  const rootfs = draft.makeFolder("rootfs", host.sandboxUid);
  const work = draft.makeFolder("work", host.sandboxUid);
  report(UNPACK);
  await runBuildStep(
    host,
    {
      argv: [MMDEBSTRAP, ...mmdebstrapOptions(recipe), sources.suite, "/rootfs", ...sources.lines],
      view: hostView({ work, shown: ["/etc/apt/trusted.gpg.d"], mounts: ["--bind", rootfs, "/rootfs"] }),
      env: { ...host.env, TMPDIR: "/tmp" },
      mounts: true,
      network: true,
      onLine: (line) => report(UNPACK, line),
    },
    signal,
  );
  await runInside(context, recipe, { rootfs, work });
  const { uid, env } = recipe;
  return { contents: "rootfs", env: { ...env }, path: DEFAULT_PATH, uid, cwd: null, notes: [], unusable: null };
}

function mmdebstrapOptions({ apt }: Recipe): string[] {
  return [
    "--mode=root",
    "--variant=minbase",
    "--format=directory",
    "--skip=check/empty,chroot/mount",
    // Its own mounts need more than one uid; these end with the namespace they are in.
    `--extract-hook=mount --rbind /dev "$1/dev" && mount --rbind /proc "$1/proc"`,
    `--customize-hook=${SETTLE}`,
    ...LEFT_OUT.map((option) => `--dpkgopt=${option}`),
    ...(apt.length > 0 ? [`--include=${apt.join(",")}`] : []),
  ];
}

async function runInside(
  { host, signal, report }: BuildContext,
  recipe: Recipe,
  { rootfs, work }: { rootfs: string; work: string },
): Promise<void> {
  const view = rootView(rootfs);
  const inside = (step: string, argv: readonly string[], more: { view: string[]; env: Record<string, string> }) => {
    report(step);
    const onLine = (line: string) => report(step, line);
    return runBuildStep(host, { argv, network: true, onLine, ...more }, signal);
  };
  if (recipe.pip.length > 0) {
    const lock = join(work, "pip.lock");
    writeFileSync(lock, recipe.pipLock ?? "", { mode: 0o644 });
    const argv = ["/usr/bin/python3", "-m", "pip", "install", "--no-input", "--no-cache-dir", ...pipPackages(recipe)];
    await inside(PIP, argv, { view: [...view, "--ro-bind", lock, "/tmp/pip.lock"], env: { ...host.env, ...PIP_ENV } });
  }
  const env = { ...host.env, ...recipe.env, HOME: "/root", DEBIAN_FRONTEND: "noninteractive" };
  const steps = debianSteps(recipe).slice(-recipe.run.length);
  for (const [at, command] of recipe.run.entries()) {
    await inside(steps[at] ?? command, ["/bin/sh", "-e", "-c", command], { view, env });
  }
}

/** apt's lines for a suite of Debian, from the mirror that this machine itself uses. Throws ImageError machine. */
export function sourceLines(suite: string, own: readonly AptSource[]): { suite: string; lines: string[] } {
  const main = own.find(({ uri }) => /\/debian\/?$/.test(uri));
  if (main === undefined) {
    const why = "this machine's apt sources name no mirror of Debian";
    throw new ImageError(
      "machine",
      `${why}: add one (a URI that ends in /debian) to a file in /etc/apt/sources.list.d`,
    );
  }
  const lines = [`deb ${main.uri} ${suite} main`];
  if (ROLLING.includes(suite)) return { suite, lines };
  const security = securityMirror(own);
  return {
    suite,
    lines: [
      ...lines,
      `deb ${main.uri} ${suite}-updates main`,
      ...(security === null ? [] : [`deb ${security} ${suite}-security main`]),
    ],
  };
}

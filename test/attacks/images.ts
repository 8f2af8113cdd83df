import {
  chmodSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { fixedCatalog } from "../../src/sandbox/image.ts";
import type { Sandbox } from "../../src/sandbox/sandbox.ts";
import { TEST_SANDBOX_UID } from "../support/bwrap.ts";
import { testSandboxHost } from "../support/sandbox-host.ts";
import { type Attack, never, type Place, SMALL, sh } from "./attack.ts";

/** Text of a program or file, null for a folder, `{ link }` for a symlink. */
type Contents = Readonly<Record<string, string | null | { link: string }>>;

const PROGRAMS: Contents = {
  usr: null,
  bin: { link: "usr/bin" },
  lib: { link: "usr/lib" },
  lib64: { link: "usr/lib64" },
};

interface Parts {
  tries: string;
  must: string;
  contained: unknown;
  contents: (secret: Place["secret"]) => Contents;
  look: (sandbox: Sandbox, secret: Place["secret"]) => Promise<unknown>;
  /** What a start that fails stands for; its reason when left out. */
  lost?: unknown;
}

/** An image that somebody else made, and a sandbox on it; neither the image nor the machine may change by it. */
function imported(name: string, { tries, must, contained, contents, look, lost }: Parts): Attack {
  return {
    name,
    tries,
    must,
    contained,
    async run({ secret }) {
      const folder = mkdtempSync("/var/tmp/attack-image-");
      try {
        chmodSync(folder, 0o755);
        const root = join(folder, "root");
        fill(root, contents(secret));
        const image = {
          name: "evil",
          id: "evil",
          source: "an attack",
          lower: [root],
          mounts: ["--ro-bind", "/usr", "/usr"],
          files: [{ path: "/etc/hosts", text: "127.0.0.1 localhost\n" }],
          path: "/usr/bin:/bin",
          env: {},
          uid: 0,
        };
        const host = await testSandboxHost({ images: fixedCatalog([image]) });
        try {
          const before = list(root);
          const sandbox = await host.open({ image: "evil", limits: SMALL }, never).catch(reasonOf);
          const got = typeof sandbox === "string" ? (lost ?? sandbox) : await look(sandbox, secret);
          if (typeof sandbox !== "string") await sandbox.close();
          if (!isUnchanged(secret)) return "the machine changed";
          return list(root) === before ? got : "the image changed";
        } finally {
          await host.close();
        }
      } finally {
        rmSync(folder, { recursive: true });
      }
    },
  };
}

function fill(root: string, contents: Contents): void {
  mkdirSync(root);
  for (const [name, content] of Object.entries(contents)) {
    const path = join(root, name);
    mkdirSync(dirname(path), { recursive: true });
    if (content === null) mkdirSync(path, { recursive: true });
    else if (typeof content === "string") writeFileSync(path, content, { mode: 0o755 });
    else symlinkSync(content.link, path);
  }
  if (TEST_SANDBOX_UID !== null)
    for (const path of ["", ...below(root)]) lchownSync(join(root, path), TEST_SANDBOX_UID, TEST_SANDBOX_UID);
}

/** Never through a link. */
function below(folder: string, prefix = ""): string[] {
  return readdirSync(join(folder, prefix), { withFileTypes: true }).flatMap((entry) => {
    const path = join(prefix, entry.name);
    return entry.isDirectory() ? [path, ...below(folder, path)] : [path];
  });
}

/** What would be different if something had been written. */
function list(root: string): string {
  return below(root)
    .map((path) => `${path} ${lstatSync(join(root, path)).mode} ${lstatSync(join(root, path)).mtimeMs}`)
    .join("\n");
}

const isUnchanged = (secret: Place["secret"]) =>
  readdirSync(secret.folder).length === 1 && readFileSync(secret.path, "utf8") === secret.text;

function reasonOf(error: unknown): string {
  return (error as { reason?: string }).reason ?? String(error);
}

/** What an image that somebody else made tries when a sandbox starts on it. */
export const IMAGES: readonly Attack[] = [
  imported("an image of links", {
    tries: "/workspace, /tmp, /run, /proc and /dev as links into a folder of this machine, some upwards by ..",
    must: "it starts with folders in their place, and nothing of the machine is read or changed",
    contained: "alive 0",
    contents: ({ folder }) => ({
      ...PROGRAMS,
      ...links(["workspace", "tmp", "proc", "var"], folder),
      ...links(["run", "dev", "root", "home"], `../../../../../..${folder}`),
      etc: null,
    }),
    look: (sandbox) =>
      sh(
        sandbox,
        "echo x >/tmp/new; echo alive $(cat /var/secret /root/secret /tmp/secret /run/secret 2>/dev/null | wc -l)",
      ),
  }),
  imported("an image whose /etc is a link", {
    tries: "the server writing /etc/hosts of a sandbox into a folder of the machine",
    must: "the start fails, and nothing is written",
    contained: "sandbox_lost",
    contents: ({ folder }) => ({ ...PROGRAMS, ...links(["etc"], folder) }),
    look: async () => "started",
  }),
  imported("a file of the image that is a link", {
    tries: "the server writing /etc/hosts through it onto the machine",
    must: "the start fails, and the machine's file is as it was",
    contained: "sandbox_lost",
    contents: ({ path }) => ({ ...PROGRAMS, "etc/hosts": { link: path } }),
    look: async () => "started",
  }),
  imported("an image whose /usr is a link", {
    tries: "the machine's programs mounted over a folder of the machine",
    must: "the start fails",
    contained: "sandbox_lost",
    contents: ({ folder }) => ({ ...PROGRAMS, ...links(["usr"], folder) }),
    look: async () => "started",
  }),
  imported("an image of files", {
    tries: "/workspace, /tmp, /run, /proc and /dev as files",
    must: "it starts with folders in their place",
    contained: "alive proc",
    contents: () => ({
      ...PROGRAMS,
      ...Object.fromEntries(["workspace", "tmp", "run", "proc", "dev"].map((name) => [name, "a file"])),
      etc: null,
    }),
    look: (sandbox) => sh(sandbox, "echo alive $(stat -fc %T /proc); touch /tmp/x /run/x /workspace/x"),
  }),
  imported("an image without a shell", {
    tries: "a start that never ends",
    must: "the start fails at once",
    contained: "sandbox_lost",
    contents: () => ({ usr: null, bin: null }),
    look: async () => "started",
  }),
  imported("PID 1 that says it is up and ends", {
    tries: "the server looking for a process that is gone, whose number is another's",
    must: "the start fails, or the sandbox is over",
    contained: true,
    contents: () => ({ ...PROGRAMS, bin: null, "bin/sh": "#!/usr/bin/dash\necho up\n" }),
    look: (sandbox) =>
      sh(sandbox, "id").then(
        () => "answered",
        () => true,
      ),
    lost: true,
  }),
  imported("PID 1 that goes on speaking", {
    tries: "lines before the server has finished the start, and ends of sessions that there are not",
    must: "it answers, or ends as its own doing; the server goes on",
    contained: true,
    contents: () => ({
      ...PROGRAMS,
      bin: null,
      "bin/bash": { link: "/usr/bin/bash" },
      "bin/cat": { link: "/usr/bin/cat" },
      "bin/sh":
        '#!/usr/bin/dash\ni=0; echo up; while [ $i -lt 500 ]; do echo "shell $i 0"; echo python; echo up; i=$((i+1)); done\nexec /usr/bin/dash "$@"\n',
    }),
    look: async (sandbox) =>
      ["alive", "sandbox_limit"].includes(String(await sh(sandbox, "echo alive").catch(reasonOf))),
  }),
  imported("a shell that lies", {
    tries: "bash that says it is another process, and that commands are over which it never ran",
    must: "no process outside is taken for it; the answer is its own",
    contained: "",
    contents: () => ({
      ...PROGRAMS,
      bin: null,
      "bin/sh": { link: "/usr/bin/dash" },
      "bin/bash":
        "#!/usr/bin/python3 -IS\nimport re, sys\nfor line in iter(sys.stdin.readline, ''):\n    for nonce in re.findall(r\"036' (\\S+) \", line): print(f'\\n\\x1e{nonce} 2\\x1e', end='', flush=True)\n",
    }),
    look: (sandbox) =>
      sandbox.shell("echo x", { timeoutMs: 1_000, signal: never }).then(({ output }) => output.trim(), reasonOf),
  }),
];

function links(names: readonly string[], to: string): Contents {
  return Object.fromEntries(names.map((name) => [name, { link: to }]));
}

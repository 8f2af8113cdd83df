import { readFileSync } from "node:fs";
import { type Attack, never, sh } from "./attack.ts";

/** The server reads `/workspace/out` after `command`; it must get nothing. `SECRET` is a file of this machine. */
function read(name: string, { tries, command }: { tries: string; command: string }): Attack {
  return {
    name,
    tries,
    must: "the server reads nothing",
    contained: null,
    async run({ open, secret }) {
      const sandbox = await open();
      await sh(sandbox, command.replaceAll("FOLDER", secret.folder).replaceAll("SECRET", secret.path));
      const bytes = await sandbox.readFile("/workspace/out", 1_000_000);
      return bytes === null ? null : Buffer.from(bytes).toString("latin1").slice(0, 100);
    },
  };
}

/** Leading the server to a wrong place when it reads or writes files of a sandbox. */
export const READS: readonly Attack[] = [
  read("an absolute symlink", { tries: "a file of the machine", command: "ln -s SECRET out" }),
  read("a relative symlink", {
    tries: "a file of the machine, by ..",
    command: "ln -s ../../../../../../../../..SECRET out",
  }),
  read("a symlink to a folder", {
    tries: "a file behind a linked folder",
    command: "ln -s FOLDER link; ln -s link/secret out",
  }),
  read("a magic link", { tries: "/proc/1/root and /proc/self/cwd", command: "ln -s /proc/1/root/SECRET out" }),
  read("a link to a descriptor", { tries: "a descriptor of the server", command: "ln -s /proc/self/fd/3 out" }),
  read("a device", { tries: "a file without an end", command: "ln -s /dev/zero out" }),
  read("a terminal", { tries: "becoming the server's terminal", command: "ln -s /dev/tty out" }),
  read("a FIFO", { tries: "a file that never answers", command: "mkfifo out" }),
  read("a socket", {
    tries: "a file that cannot be opened",
    command: "python3 -c \"import socket; socket.socket(1).bind('out')\"",
  }),
  read("a kernel file", { tries: "the server's own environment", command: "ln -s /proc/1/environ out" }),
  read("a blocking kernel file", { tries: "a file that waits", command: "ln -s /proc/kmsg out" }),
  read("a loop of links", { tries: "an endless search", command: "ln -s out out" }),
  read("a folder", { tries: "what is no file", command: "mkdir out" }),
  read("a long chain of links", {
    tries: "4,000 links",
    command:
      "touch f0; python3 -c \"import os\nfor i in range(1, 4001): os.symlink(f'f{i - 1}', f'f{i}')\"; ln -s f4000 out",
  }),
  {
    name: "a sparse artifact",
    tries: "30 MB that take no room, read into the server's memory",
    must: "refused by its length",
    contained: "sandbox_limit",
    async run({ open }) {
      const sandbox = await open();
      await sh(sandbox, "truncate -s 30M out");
      return sandbox.readFile("/workspace/out", 1_000_000).then(
        () => "read",
        (error: unknown) => (error as { reason?: string }).reason,
      );
    },
  },
  {
    name: "a race of folders",
    tries: "a folder that is a link to the machine's at the right moment",
    must: "never a byte of the machine",
    contained: 0,
    async run({ open, secret }) {
      const sandbox = await open();
      await sh(
        sandbox,
        `mkdir real; echo own > real/secret; ln -s ${secret.folder} fake; (while :; do mv -T real here; mv -T here real; mv -T fake here; mv -T here fake; done) >/dev/null 2>&1 &`,
      );
      let leaked = 0;
      for (let i = 0; i < 3_000; i += 1) {
        const bytes = await sandbox.readFile("/workspace/here/secret", 1_000);
        if (bytes !== null && Buffer.from(bytes).toString().includes(secret.text)) leaked += 1;
      }
      return leaked;
    },
  },
  {
    name: "a write through a link",
    tries: "the server writing a task's file onto the machine",
    must: "the machine's file is as it was",
    contained: true,
    async run({ open, secret }) {
      const sandbox = await open();
      await sh(sandbox, `ln -s ${secret.folder} escape; ln -s ${secret.path} file; ln -s /proc/self/fd/1 out`);
      for (const path of ["/workspace/escape/secret", "/workspace/file", "/workspace/escape/new", "/workspace/out"])
        await sandbox.writeFile({ path, bytes: Buffer.from("changed") }, never).catch(() => {});
      return readFileSync(secret.path, "utf8") === secret.text;
    },
  },
];

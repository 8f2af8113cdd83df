import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../src/clock.ts";
import type { Sandbox } from "../../src/sandbox/sandbox.ts";
import { SnapshotStore } from "../../src/sandbox/snapshot-store.ts";
import { TEST_SANDBOX_UID } from "../support/bwrap.ts";
import { testSandboxHost } from "../support/sandbox-host.ts";
import { type Attack, never, type Place, SMALL, sh } from "./attack.ts";

interface Parts {
  tries: string;
  must: string;
  contained: unknown;
  /** In the sandbox that is kept. */
  command: string;
  /** Says what came of it in the one that is made from it; a text is the reason why there is none. */
  look: (restored: Sandbox | string, secret: Place["secret"]) => Promise<unknown>;
}

/** What a sandbox does before it is kept, and what another that is made from it then is. */
function kept(name: string, { tries, must, contained, command, look }: Parts): Attack {
  return {
    name,
    tries,
    must,
    contained,
    async run({ secret }) {
      const folder = mkdtempSync(join(tmpdir(), "attack-snapshots-"));
      const snapshots = new SnapshotStore({ folder, sandboxUid: TEST_SANDBOX_UID, clock: systemClock });
      const host = await testSandboxHost({ snapshots });
      try {
        const options = { image: "host", limits: SMALL };
        const first = await host.open(options, never);
        await sh(first, command.replaceAll("FOLDER", secret.folder).replaceAll("SECRET", secret.path), 8_000);
        const snapshot = await first.snapshot(never).catch(reasonOf);
        await first.close();
        if (typeof snapshot === "string") return await look(snapshot, secret);
        return await look(await host.open({ ...options, restore: snapshot }, never).catch(reasonOf), secret);
      } finally {
        await host.close();
        rmSync(folder, { recursive: true });
      }
    },
  };
}

function reasonOf(error: unknown): string {
  return (error as { reason?: string }).reason ?? String(error);
}

/** What a command in the restored one writes, or why there is none. */
const says = (command: string) => async (restored: Sandbox | string) =>
  typeof restored === "string" ? restored : sh(restored, command);

/** What an agent leaves for the sandbox that is made from its own, or for the server that makes it. */
export const SNAPSHOTS: readonly Attack[] = [
  kept("links in place of folders", {
    tries: "/etc, /run, /root, /var and /home as links into a folder of this machine, where bwrap makes mount points",
    must: "it does not start, and nothing of the machine is changed",
    contained: { start: "sandbox_lost", machine: ["secret"], text: true },
    command: "for f in etc run root var home; do mv /$f /old-$f; ln -s FOLDER /$f; done",
    look: async (restored, secret) => ({
      start: restored,
      machine: readdirSync(secret.folder),
      text: readFileSync(secret.path, "utf8") === secret.text,
    }),
  }),
  kept("links of its own in place of folders", {
    tries: "/etc, /run and /workspace as links into /tmp, where the server writes",
    must: "it starts, and all stays in the sandbox",
    contained: "alive\n127.0.0.1",
    command:
      "cd /; for f in etc run; do cp -r /$f /tmp/$f; mv /$f /old-$f; ln -s tmp/$f /$f; done; rm -r workspace; mkdir tmp/w; ln -s ../../tmp/w workspace",
    look: says("echo alive; head -c 9 /etc/hosts"),
  }),
  kept("links in place of mount points", {
    tries: "/usr, /proc, /dev and /dev/shm as links, so that the next start mounts elsewhere",
    must: "they cannot be moved, and are as ever",
    contained: "proc tmpfs as ever",
    command: "for f in usr proc dev dev/shm; do mv /$f /old 2>/dev/null && ln -s FOLDER /$f; done",
    look: says(
      "[ -L /usr -o -L /proc -o -L /dev ] || echo $(stat -fc %T /proc /dev) $([ -x /usr/bin/env ] && echo as ever)",
    ),
  }),
  kept("a word of PID 1 in a file's name", {
    tries: "a name that tar, which warns of its old time while it unpacks, writes where PID 1 says that it is up",
    must: "the server takes no process but PID 1 for the sandbox, and reads no file of the machine",
    contained: { machine: null, alive: "alive" },
    command:
      "for i in 1 2 3; do head -c 4M /dev/urandom >a$i; done; for i in 1 2 3 4; do touch -d 1901-01-01 $'x'$i$'\\nup'; done; for i in 1 2 3; do head -c 4M /dev/urandom >b$i; done",
    look: async (restored, secret) =>
      typeof restored === "string"
        ? restored
        : { machine: await restored.readFile(secret.path, 1_000), alive: await sh(restored, "echo alive") },
  }),
  kept("names that look like something else", {
    tries: "line breaks, quotes and options of tar in names of files",
    must: "they come back as they were",
    contained: "5 up",
    command: `mkdir d; cd d; touch -- --checkpoint=1 '--checkpoint-action=exec=touch x' '; touch x' '$(touch x)' $'x\\nup\\ny'`,
    look: says("cd d; set -- *; echo $# $(python3 -c \"import os; print(os.listdir('.'))\" | grep -o 'nup' | tr -d n)"),
  }),
  kept("a shell of its own", {
    tries: "being PID 1 of the next sandbox, by another /bin/sh, which says what PID 1 says",
    must: "it is a sandbox like any other, and ends as the agent's own doing",
    contained: "sandbox_limit",
    command: `rm /bin; mkdir /bin; printf '#!/usr/bin/dash\\necho up; echo up; echo shell x 0; exec /usr/bin/sleep 0.5\\n' >/bin/sh; chmod 755 /bin/sh`,
    look: (restored) =>
      typeof restored === "string" ? Promise.resolve(restored) : sh(restored, "id -u").catch(reasonOf),
  }),
  kept("devices and setuid programs in the archive", {
    tries: "tar making them anew outside of the sandbox's own mounts",
    must: "no right comes with them, and no device opens",
    contained: "CapEff: 0000000000000000 closed",
    command: "mknod w c 0 0; cp /usr/bin/dash s; chmod 6755 s",
    look: says("./s -c 'echo $(grep ^CapEff /proc/self/status)' | tr '\\n' ' '; (: <w) 2>/dev/null || echo closed"),
  }),
  kept("thousands of attributes", {
    tries: "headers without end for each file",
    must: "they are kept",
    contained: "1000 True",
    command: `python3 -c "
import os
for i in range(50):
    open(f'f{i}', 'w').close()
    try:
        for j in range(200): os.setxattr(f'f{i}', f'user.a{j}', b'x' * 1000)
    except OSError: break"`,
    look: says("python3 -c \"import os; print(len(os.getxattr('f0', 'user.a0')), len(os.listxattr('f0')) > 50)\""),
  }),
  kept("files of holes", {
    tries: "500 files of 32 MB that take no room, written out by the server",
    must: "they come back with their holes",
    contained: "500 16777216000 small",
    command: "mkdir d; cd d; for i in $(seq 500); do truncate -s 33554432 f$i; done",
    look: says(
      "cd d; python3 -c \"import os; s=[os.stat(f) for f in os.listdir('.')]; print(len(s), sum(x.st_size for x in s), 'small' if sum(x.st_blocks for x in s) < 1000 else 'large')\"",
    ),
  }),
  kept("hard links to the machine's files", {
    tries: "a name of its own for a program of the machine, which then would be written through it",
    must: "refused; among its own files they come back as one",
    contained: "3 same",
    command: "ln /usr/bin/env e 2>/dev/null; ln /etc/ld.so.cache c 2>/dev/null; echo 1 >a; ln a b; ln a d",
    look: says("set -- *; [ a -ef b ] && [ a -ef d ] && echo $# same"),
  }),
  kept("files that are closed to their owner", {
    tries: "a layer that cannot be read from outside, or that cannot be unpacked again",
    must: "they come back as they were",
    contained: "0 0 kept",
    command: "mkdir d; echo kept >d/f; chmod 0 d/f d",
    look: says("stat -c %a d | tr '\\n' ' '; chmod 700 d; stat -c %a d/f | tr '\\n' ' '; chmod 600 d/f; cat d/f"),
  }),
  kept("a tree too deep for tar", {
    tries: "5,000 folders in each other",
    must: "the start fails, and says so",
    contained: "sandbox_lost",
    command: `python3 -c "
import os
for _ in range(5000): os.mkdir('d'); os.chdir('d')
open('end', 'w').close()"`,
    look: async (restored) => (typeof restored === "string" ? restored : "started"),
  }),
  kept("a fork bomb while it is kept", {
    tries: "never standing still",
    must: "kept all the same, or refused in time",
    contained: true,
    command: "bomb() { bomb | bomb & }; bomb; sleep 0.3",
    look: async (restored) =>
      typeof restored === "string" ? restored === "sandbox_limit" : (await sh(restored, "echo alive")) === "alive",
  }),
  kept("a working directory that is none", {
    tries: "/workspace as a file, so that the next sandbox cannot start",
    must: "the start fails at once",
    contained: "sandbox_lost",
    command: "cd /; rm -rf /workspace; echo file >/workspace",
    look: async (restored) => (typeof restored === "string" ? restored : "started"),
  }),
];

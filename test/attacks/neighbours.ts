import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../src/clock.ts";
import { SnapshotStore } from "../../src/sandbox/snapshot-store.ts";
import { TEST_SANDBOX_UID } from "../support/bwrap.ts";
import { testSandboxHost } from "../support/sandbox-host.ts";
import { type Attack, never, py, SMALL, sh } from "./attack.ts";

/** What one sandbox leaves by `leave`, another must not see by `look`. */
function unseen(name: string, { tries, leave, look }: { tries: string; leave: string; look: string }): Attack {
  return {
    name,
    tries,
    must: "each sees its own only",
    contained: { own: "seen", other: "unseen" },
    async run({ open }) {
      const [one, other] = [await open(), await open()];
      await sh(one, leave);
      const ask = (box: typeof one) => sh(box, `{ ${look}; } >/dev/null 2>&1 && echo seen || echo unseen`);
      return { own: await ask(one), other: await ask(other) };
    },
  };
}

/** Between two sandboxes, side by side or one after the other. */
export const NEIGHBOURS: readonly Attack[] = [
  unseen("files of a neighbour", {
    tries: "files in every writable folder",
    leave: "for d in /tmp /var/tmp /run /workspace /root /home; do echo mine > $d/left-here; done",
    look: "ls /tmp/left-here || ls /var/tmp/left-here || ls /run/left-here || ls /workspace/left-here || ls /root/left-here || ls /home/left-here",
  }),
  unseen("shared memory of a neighbour", {
    tries: "/dev/shm",
    leave: "echo mine > /dev/shm/left-here",
    look: "cat /dev/shm/left-here",
  }),
  unseen("segments of a neighbour", {
    tries: "System V shared memory",
    leave: "ipcmk -M 100",
    look: "ipcs -m | grep 0x",
  }),
  unseen("semaphores of a neighbour", {
    tries: "System V semaphores and queues",
    leave: "ipcmk -S 1; ipcmk -Q",
    look: "ipcs -s | grep 0x",
  }),
  unseen("processes of a neighbour", {
    tries: "process lists",
    leave: "(exec -a marked-one sleep 1000 &); until grep -qa [m]arked-one /proc/[0-9]*/cmdline; do :; done",
    look: "cat /proc/[0-9]*/cmdline | grep -a [m]arked-one",
  }),
  unseen("abstract sockets of a neighbour", {
    tries: "names of sockets",
    leave:
      "python3 -c \"import socket, time; s = socket.socket(1); s.bind('\\0left-here'); s.listen(); time.sleep(1000)\" & sleep 0.3",
    look: "grep -a @left-here /proc/net/unix",
  }),
  unseen("ports of a neighbour", {
    tries: "a service of another sandbox on 127.0.0.1",
    leave:
      "python3 -c \"import socket, time; s = socket.socket(); s.bind(('127.0.0.1', 4321)); s.listen(); time.sleep(1000)\" & sleep 0.3",
    look: "python3 -c \"import socket; socket.create_connection(('127.0.0.1', 4321), 2)\"",
  }),
  unseen("the name of a neighbour", {
    tries: "what each says of itself in the kernel's tables",
    leave: "echo marked > /proc/self/comm; exec 8>/tmp/lock; flock 8",
    look: "grep -c POSIX /proc/locks; lsns 2>/dev/null | grep marked; test -e /tmp/lock",
  }),
  {
    name: "namespaces shared with a neighbour or the machine",
    tries: "any namespace that is not its own",
    must: "seven namespaces differ between two sandboxes and from this machine's",
    contained: 0,
    async run({ open }) {
      const kinds = ["user", "pid", "ipc", "uts", "net", "mnt", "cgroup"];
      const ask = `for n in ${kinds.join(" ")}; do readlink /proc/self/ns/$n; done`;
      const { readlinkSync } = await import("node:fs");
      const own = kinds.map((kind) => readlinkSync(`/proc/self/ns/${kind}`));
      const [one, two] = [await sh(await open(), ask), await sh(await open(), ask)];
      const all = [...own, ...one.split("\n"), ...two.split("\n")];
      return all.length - new Set(all).size;
    },
  },
  {
    name: "what a sandbox before it left",
    tries: "files, memory and processes of the last sandbox in the same place",
    must: "nothing of it is there",
    contained: "0",
    async run({ host, open }) {
      const first = await host.open({ image: "host", limits: SMALL }, never);
      await sh(first, "for d in /tmp /dev/shm /run /workspace /root; do echo UNIQUE-WORD > $d/w; done; sleep 1000 &");
      await first.close();
      return sh(await open(), "cat /tmp/w /dev/shm/w /run/w /workspace/w /root/w 2>/dev/null | grep -c UNIQUE-WORD");
    },
  },
  {
    name: "shared writable inodes",
    tries: "a file that two sandboxes, or a sandbox and the machine, could both write",
    must: "there is none",
    contained: "",
    async run({ open }) {
      const find =
        "find / -xdev -writable -type f -links +1 2>/dev/null; find /usr /etc/alternatives /etc/ssl/certs -writable ! -type l 2>/dev/null | head -3";
      return sh(await open(), find);
    },
  },
  {
    name: "a locked file of the machine",
    tries: "leases and mandatory locks on programs that the machine runs",
    must: "a lease is refused: the file is not its own",
    contained: "refused",
    async run({ open }) {
      const code = `
import fcntl, os
fd = os.open("/usr/bin/env", os.O_RDONLY)
try: fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK); print("leased")
except OSError: print("refused")`;
      return py(await open(), code);
    },
  },
  {
    name: "sandboxes that were started ahead",
    tries: "being handed a sandbox that another has, or had: its files, processes, shell and name",
    must: "each of 20, four at a time, is fresh, and nobody else's",
    contained: { fresh: 20, own: 20, warm: true },
    async run() {
      const host = await testSandboxHost({ warmMax: 4 });
      const look =
        'echo $(ls -A /tmp /workspace /dev/shm /root | grep -c left) $(pgrep -c sleep) $(ipcs -m | grep -c 0x) "$LEFT"';
      const leave =
        "LEFT=here; for d in /tmp /workspace /dev/shm /root; do echo $BOX >$d/left; done; ipcmk -M 100 >/dev/null; (setsid sleep 1000 &) ; cat /tmp/left";
      let [fresh, own, warm] = [0, 0, false];
      for (let round = 0; round < 5; round += 1) {
        await systemClock.sleep(60); // so that there are some
        warm ||= host.warm > 0;
        const boxes = await Promise.all([1, 2, 3, 4].map(() => host.open({ image: "host", limits: SMALL }, never)));
        const seen = await Promise.all(boxes.map((box) => sh(box, look)));
        const left = await Promise.all(boxes.map((box, at) => sh(box, leave.replace("$BOX", `box-${at}`))));
        fresh += seen.filter((text) => text === "0 0 0").length;
        own += left.filter((text, at) => text === `box-${at}`).length;
        await Promise.all(boxes.map((box) => box.close()));
      }
      await host.close();
      return { fresh, own, warm };
    },
  },
  {
    name: "a snapshot of another's sandbox",
    tries: "being started from what another left, by a number that it made up",
    must: "refused",
    contained: "task_invalid",
    async run() {
      const folder = mkdtempSync(join(tmpdir(), "attack-snapshots-"));
      const snapshots = new SnapshotStore({ folder, sandboxUid: TEST_SANDBOX_UID, clock: systemClock });
      const host = await testSandboxHost({ snapshots });
      const options = { image: "host", limits: SMALL };
      const one = await host.open(options, never);
      const kept = await one.snapshot(never);
      const tries = ["../../etc/passwd", "snp_..", kept.id.slice(0, -1), `${kept.id}/../${kept.id}`];
      const reasons = await Promise.all(
        [...tries.map((id) => ({ ...kept, id })), { ...kept, sha256: "0".repeat(64) }].map((restore) =>
          host.open({ ...options, restore }, never).then(
            () => "started",
            (error: unknown) => (error as { reason?: string }).reason,
          ),
        ),
      );
      await host.close();
      rmSync(folder, { recursive: true });
      return [...new Set(reasons)].join(" ");
    },
  },
];

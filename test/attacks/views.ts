import { readFileSync } from "node:fs";
import { descendantsOf } from "../../src/sandbox/process-tree.ts";
import { type Attack, pythonAttack, refusedCommand, sh, shellAttack } from "./attack.ts";

/** Looking at, or changing, what belongs to the machine or the server. */
export const VIEWS: readonly Attack[] = [
  {
    name: "kernel uid 0",
    tries: "being root outside, whatever it looks like inside",
    must: "no process of a sandbox is uid 0 outside, and /proc/sys stays closed",
    contained: { uids: false, settings: "closed" },
    async run({ open }) {
      const sandbox = await open();
      const settings = await sh(
        sandbox,
        "(setsid sleep 100 &); for f in kernel/core_pattern kernel/modprobe vm/overcommit_memory fs/file-max; do [ -w /proc/sys/$f ] && echo open; done | grep . || echo closed",
      );
      const uids = descendantsOf(process.pid).map(
        (pid) => /^Uid:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1],
      );
      return { uids: uids.length === 0 || uids.includes("0"), settings };
    },
  },
  {
    name: "the server's secrets",
    tries: "environment, command lines and mounts of every process it sees",
    must: "no word of the server: neither its environment nor its folders",
    contained: { environment: false, folder: false, secret: false },
    async run({ open, secret }) {
      const seen = await sh(
        await open(),
        "env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'; ls -l /proc/[0-9]*/fd /proc/[0-9]*/exe /proc/[0-9]*/cwd /proc/[0-9]*/root 2>/dev/null; cat /proc/self/mountinfo; ls -lR /home /root /var /run /tmp 2>/dev/null",
      );
      return {
        environment: seen.includes("from-the-server"),
        folder: seen.includes(process.cwd()) || seen.includes(secret.folder),
        secret: seen.includes(secret.text),
      };
    },
  },
  {
    name: "the machine's files by name",
    tries: "the path itself, and through /proc/self/root, /proc/1/root, /proc/*/cwd and ..",
    must: "not there",
    contained: "0",
    async run({ open, secret }) {
      const path = secret.path;
      const ways = [path, `/proc/self/root${path}`, `/proc/1/root${path}`, `/proc/self/cwd/../../../../..${path}`];
      return sh(
        await open(),
        `cat ${ways.join(" ")} /oldroot${path} /proc/[0-9]*/cwd/../..${path} 2>/dev/null | wc -l`,
      );
    },
  },
  shellAttack("descriptors left open", {
    tries: "what its own shell and PID 1 hold: a host folder, the filter, bwrap's arguments",
    must: "pipes of its own session, /dev/null and nothing else",
    command:
      "for p in 1 $$; do for f in /proc/$p/fd/*; do readlink $f; done; done | grep -v -e '^pipe:' -e '^/dev/null$' -e '^/proc' -e '^socket:' | sort -u",
    contained: "",
  }),
  shellAttack("capabilities", {
    tries: "any right of root in any namespace",
    must: "all sets empty, no new privileges, seccomp on",
    command: "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status | tr -s '[:space:]' ' '",
    contained:
      "CapInh: 0000000000000000 CapPrm: 0000000000000000 CapEff: 0000000000000000 CapBnd: 0000000000000000 CapAmb: 0000000000000000 NoNewPrivs: 1 Seccomp: 2",
  }),
  shellAttack("setuid programs of its own", {
    tries: "a copy of a program with the setuid bit",
    must: "it runs with no right that it had not before",
    command:
      "cp /bin/sh /tmp/s && chmod 6755 /tmp/s && /tmp/s -c 'grep ^CapEff /proc/self/status; id -u' | tr -s '[:space:]' ' '",
    contained: "CapEff: 0000000000000000 0",
  }),
  shellAttack("setuid programs of the machine", {
    tries: "su, mount, passwd and others below /usr that carry the bit",
    must: "no mount honours it",
    command: "cut -d' ' -f2,4 /proc/self/mounts | grep -v -E '[ ,]nosuid(,|$)'",
    contained: "",
  }),
  refusedCommand("another uid", "becoming a user that owns files outside", "setpriv --reuid=1000 true"),
  refusedCommand("device nodes", "the machine's disk", "mknod /tmp/disk b 8 0"),
  shellAttack("devices", {
    tries: "memory, kernel log, disks, loop, fuse, kvm and tun below /dev",
    must: "none is there",
    command:
      "ls /dev | grep -E '^(mem|kmem|kmsg|port|sd|vd|nvme|loop|fuse|kvm|net|vhost|vsock|dri|nvidia|mapper|snd|input)' | wc -l",
    contained: "0",
  }),
  shellAttack("kernel file systems", {
    tries: "/sys, cgroups, debugfs, tracefs, securityfs",
    must: "none is there",
    command:
      "cat /proc/self/mounts | cut -d' ' -f3 | grep -cE '^(sysfs|cgroup|cgroup2|debugfs|tracefs|securityfs|configfs|bpf|efivarfs)$'; ls /sys 2>/dev/null | wc -l",
    contained: "0\n0",
  }),
  refusedCommand("sysrq", "crashing the machine", "echo c > /proc/sysrq-trigger"),
  refusedCommand(
    "core_pattern",
    "a program that the kernel runs as root at the next crash",
    "echo '|/tmp/x' > /proc/sys/kernel/core_pattern",
  ),
  shellAttack("settings of its own namespaces", {
    tries: "raising bounds on shared memory, semaphores, messages and process ids, which uid 0 of a namespace owns",
    must: "none can be written",
    command:
      "find /proc/sys -type f -writable 2>/dev/null | while read f; do [ -w $f ] && (: >$f) 2>/dev/null && echo $f; done; cd /proc/sys/kernel; for f in shmmni msgmnb sem pid_max ns_last_pid; do (cat $f >$f) 2>/dev/null && echo $f; done; true",
    contained: "",
  }),
  shellAttack("files of the kernel that can be written", {
    tries: "any below /proc that is not of a process of its own",
    must: "none but /proc/pressure, which sets an alarm for whoever opens it",
    command:
      "find /proc -maxdepth 6 -type f -writable -not -path '/proc/[0-9]*' -not -path '/proc/*self*' 2>/dev/null | grep -v -e ^/proc/pressure/ -e ^/proc/sys/",
    contained: "",
  }),
  refusedCommand(
    "read-only folders",
    "changing programs that other sandboxes and the machine use",
    "touch /usr/x || touch /bin/x || touch /etc/alternatives/x || echo >> /etc/ld.so.cache",
  ),
  refusedCommand(
    "the device folder",
    "half of the machine's memory, in bwrap's own /dev",
    "touch /dev/x || mkdir /dev/y",
  ),
  pythonAttack("the program that started it", {
    tries: "overwriting bwrap or the shell through /proc/1/exe and /proc/self/exe (CVE-2019-5736)",
    must: "not writable",
    code: `import os
def open_for_write(path):
    try: os.close(os.open(path, os.O_WRONLY)); return "open"
    except OSError as error: return type(error).__name__ if error.errno in (1, 13, 30) else os.strerror(error.errno)
print({open_for_write(f"/proc/{pid}/exe") for pid in ["1", "self", os.getppid()]} <= {"PermissionError", "OSError", "Text file busy"})`,
    contained: "True",
  }),
  shellAttack("core dumps", {
    tries: "a core file of a setuid or server process, by a crash",
    must: "no core is written, and the limit cannot be raised",
    command:
      "ulimit -c unlimited 2>/dev/null && echo raised; sh -c 'kill -SEGV $$' 2>/dev/null; ls /workspace | grep -c core",
    contained: "0",
  }),
  shellAttack("the host's name, users and packages", {
    tries: "hostname, /etc/passwd, /etc/shadow, machine-id, dpkg",
    must: "its own name and users; the rest is not there",
    command:
      "hostname; wc -l </etc/passwd; cat /etc/shadow /etc/machine-id /var/lib/dpkg/status /etc/fstab 2>/dev/null | wc -c",
    contained: "sandbox\n2\n0",
  }),
];

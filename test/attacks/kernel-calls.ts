import { ABSENT, type CallNumbers, CHECKED, REFUSED } from "../../src/sandbox/seccomp-calls.ts";
import { type Attack, pythonAttack } from "./attack.ts";

/** `call(number, ...)` gives the name of the error, or "done". Each runs in a child, which it may kill. */
const PRELUDE = `
import ctypes, errno, os, signal
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    ctypes.set_errno(0)
    answer = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    return "done" if answer >= 0 else errno.errorcode[ctypes.get_errno()]
def apart(work):
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, str(work()).encode())
        os._exit(0)
    os.close(writer)
    said = os.read(reader, 1000).decode()
    status = os.waitpid(pid, 0)[1]
    return said or signal.Signals(os.WTERMSIG(status)).name
`;

function numberOf(numbers: CallNumbers): number {
  const number = process.arch === "arm64" ? numbers.arm64 : numbers.x64;
  if (number === null) throw new Error("this machine has no such call");
  return number;
}

/** `args` as Python. */
function callAttack(
  name: string,
  { tries, numbers, args, error }: { tries: string; numbers: CallNumbers; args: string; error: string },
): Attack {
  return pythonAttack(name, {
    tries,
    must: error,
    code: `${PRELUDE}print(apart(lambda: call(${numberOf(numbers)}, ${args})))`,
    contained: error,
  });
}

const refused = (name: keyof typeof REFUSED, tries: string, args = "0, 0, 0, 0, 0, 0") =>
  callAttack(name, { tries, numbers: REFUSED[name], args, error: "EPERM" });
const absent = (name: keyof typeof ABSENT, tries: string, args = "0, 0, 0, 0, 0, 0") =>
  callAttack(name, { tries, numbers: ABSENT[name], args, error: "ENOSYS" });

const CLONE_FLAGS = { mount: 0x00020000, user: 0x10000000, network: 0x40000000, pid: 0x20000000 };

function socketAttack(family: string, number: number): Attack {
  return pythonAttack(`socket family ${family}`, {
    tries: `kernel code behind AF_${family}, where many bugs were`,
    must: "EAFNOSUPPORT",
    code: `import socket, errno
try: socket.socket(${number}, socket.SOCK_RAW); print("open")
except OSError as error: print(errno.errorcode[error.errno])`,
    contained: "EAFNOSUPPORT",
  });
}

/** Machine code of x86-64 that makes a call by another way in, run in a child. */
function codeAttack(name: string, parts: { tries: string; bytes: string; must: string; contained: string }): Attack {
  const { tries, must, bytes, contained } = parts;
  return pythonAttack(name, {
    tries,
    must,
    code: `${PRELUDE}
import mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex("${bytes}"))
enter = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
print(apart(enter))`,
    contained,
  });
}

const X64_CODE: readonly Attack[] = [
  codeAttack("int 0x80", {
    tries: "the calls of i386, whose numbers a filter for x86-64 would read wrong: ptrace (26)",
    bytes: "b81a000000" + "31db31c931d231f6" + "cd80" + "c3",
    must: "the process is killed (SIGSYS)",
    contained: "SIGSYS",
  }),
  codeAttack("x32 calls", {
    tries: "ptrace by its x32 number (0x40000000 + 521)",
    bytes: "b809020040" + "31ff31f631d24d31d2" + "0f05" + "c3",
    must: "ENOSYS",
    contained: "-38",
  }),
];

/** Calls into the kernel that lead out of a sandbox, or that have led out of sandboxes. */
export const KERNEL_CALLS: readonly Attack[] = [
  refused("ptrace", "taking over another process", "0, 0, 0, 0"),
  refused("process_vm_readv", "reading another process's memory", "1, 0, 0, 0, 0, 0"),
  refused("process_vm_writev", "writing another process's memory", "1, 0, 0, 0, 0, 0"),
  refused("pidfd_getfd", "taking another process's descriptors", "3, 0, 0"),
  refused("kcmp", "telling which descriptors of other processes are the same"),
  refused("process_madvise", "changing another process's memory"),
  refused("keyctl", "reading keys of the user's keyring", "0, -3, 1"),
  refused("add_key", "leaving a key for the next sandbox", 'b"user", b"name", b"value", 5, -3'),
  refused("request_key", "asking the machine's key helper to run", 'b"user", b"name", b"value", -3'),
  refused("bpf", "loading a program into the kernel", "5, 0, 64"),
  refused("perf_event_open", "watching other processes through counters"),
  refused("userfaultfd", "stopping the kernel in the middle of a copy", "1"),
  refused("mount", "mounting over what is read-only", 'b"x", b"/mnt", b"tmpfs", 0, 0'),
  refused("umount2", "taking away what covers the machine's own files", 'b"/proc", 2'),
  refused("fsopen", "the mount calls that older filters do not know (CVE-2021-41133)", 'b"tmpfs", 0'),
  refused("open_tree", "cloning a mount tree", '-100, b"/", 1'),
  refused("move_mount", "moving a mount", '-100, b"/tmp", -100, b"/mnt", 0'),
  refused("mount_setattr", "making a read-only mount writable", '-100, b"/usr", 0, 0, 0'),
  refused("fspick", "changing a mount's options", '-100, b"/usr", 0'),
  refused("pivot_root", "another root", 'b"/", b"/"'),
  refused("chroot", "another root", 'b"/tmp"'),
  refused("setns", "entering another namespace", "0, 0"),
  refused("unshare", "a user namespace of its own, with all capabilities in it", "0x10000000"),
  refused("open_by_handle_at", "opening a file of the machine by its number (the shocker exploit)", "-100, 0, 0"),
  refused("name_to_handle_at", "learning the numbers of files", '-100, b"/", 0, 0, 0'),
  refused("init_module", "loading a kernel module", '0, 0, b""'),
  refused("kexec_load", "another kernel"),
  refused("reboot", "the machine's end", "0xfee1dead, 672274793, 0x4321fedc"),
  refused("swapon", "swap of its own", 'b"/tmp/x", 0'),
  refused("syslog", "addresses in the kernel's log", "3, 0, 0"),
  refused("quotactl", "other users' quotas"),
  refused("acct", "a file that the kernel writes to", 'b"/tmp/x"'),
  refused("fanotify_init", "hearing of other sandboxes' files", "0, 0"),
  refused("clock_settime", "the machine's clock", "0, 0"),
  refused("settimeofday", "the machine's clock", "0, 0"),
  refused("adjtimex", "the machine's clock", "0"),
  refused("sethostname", "the machine's name", 'b"pwned", 5'),
  refused("memfd_secret", "memory that the kernel itself cannot read", "0"),
  refused("move_pages", "where other processes' memory lies"),
  absent("io_uring_setup", "calls that no filter sees", "4, 0"),
  absent("io_uring_enter", "calls that no filter sees"),
  absent("clone3", "namespaces by flags that no filter can read", "0, 0"),
  absent("memfd_create", "memory that no limit counts, and programs that have no file", 'b"x", 0'),
  absent(
    "io_setup",
    "contexts of AIO, of which the whole machine has 65,536 (fs.aio-max-nr)",
    "65536, ctypes.byref(ctypes.c_ulong(0))",
  ),
  absent("sync", "having the machine write to its disks, again and again"),
  absent("syncfs", "the same for the file system of /usr", 'os.open("/usr", 0)'),
  absent("msgget", "32 GB of messages of System V, which outlive their makers and no limit counts", "0, 0o1600"),
  ...Object.entries(CLONE_FLAGS).map(([name, flag]) =>
    callAttack(`clone with a new ${name} namespace`, {
      tries: "a namespace by the old call",
      numbers: CHECKED.clone,
      args: `${flag | 17}, 0, 0, 0, 0`,
      error: "EPERM",
    }),
  ),
  callAttack("personality without randomness", {
    tries: "addresses that can be known beforehand",
    numbers: CHECKED.personality,
    args: "0x0040000",
    error: "EPERM",
  }),
  callAttack("a call from the future", {
    tries: "a call that a later kernel brings and this filter does not know",
    numbers: { x64: 999, arm64: 999 },
    args: "0, 0",
    error: "ENOSYS",
  }),
  callAttack("shared memory of System V", {
    tries: "1 GB that outlives its makers and that no limit counts",
    numbers: CHECKED.shmget,
    args: "0, 1 << 30, 0o1600",
    error: "ENOMEM",
  }),
  callAttack("semaphores of System V", {
    tries: "2 MB a set, 32,000 times, which outlive their makers and no limit counts",
    numbers: CHECKED.semget,
    args: "0, 32000, 0o1600",
    error: "EINVAL",
  }),
  callAttack("huge pages", {
    tries: "the machine's store of huge pages",
    numbers: CHECKED.mmap,
    args: "0, 1 << 21, 3, 0x44022, -1, 0",
    error: "ENOMEM",
  }),
  pythonAttack("protocols in modules", {
    tries: "SCTP, DCCP, L2TP, UDP-Lite and MPTCP, by protocol and by type of socket: the kernel loads modules for them",
    must: "refused before the kernel looks for them",
    code: `import socket, errno
def open(family, kind, protocol):
    try: socket.socket(family, kind, protocol); return "open"
    except OSError as error: return errno.errorcode[error.errno]
kinds = [(1, 132), (5, 132), (5, 0), (6, 33), (6, 0), (2, 115), (3, 115), (2, 136), (1, 262), (4, 0), (10, 0)]
print(sorted({open(family, *kind) for family in (2, 10) for kind in kinds}))`,
    contained: "['EPROTONOSUPPORT', 'ESOCKTNOSUPPORT']",
  }),
  callAttack("socketpair of other families", {
    tries: "a pair of TIPC's sockets, by the call that the filter of socket does not see",
    numbers: CHECKED.socketpair,
    args: "30, 1, 0, ctypes.create_string_buffer(8)",
    error: "EAFNOSUPPORT",
  }),
  pythonAttack("ordinary sockets", {
    tries: "nothing: what programs need must go on working",
    must: "TCP, UDP and pairs of Unix sockets are made",
    code: `import socket
kept = [socket.socket(family, kind | flags, protocol) for family in (2, 10) for flags in (0, 0o2000000 | 0o4000) for kind, protocol in ((1, 0), (1, 6), (2, 0), (2, 17))]
kept += socket.socketpair()
print(len(kept))`,
    contained: "18",
  }),
  socketAttack("VSOCK", 40),
  socketAttack("PACKET", 17),
  socketAttack("ALG", 38),
  socketAttack("XDP", 44),
  socketAttack("BLUETOOTH", 31),
  socketAttack("TIPC", 30),
  socketAttack("RDS", 21),
  pythonAttack("netlink beside routes", {
    tries: "netfilter (12), audit (9), uevents (15) and generic netlink (16)",
    must: "EAFNOSUPPORT",
    code: `import socket, errno
def open(protocol):
    try: socket.socket(16, socket.SOCK_RAW, protocol); return "open"
    except OSError as error: return errno.errorcode[error.errno]
print({open(protocol) for protocol in (4, 6, 9, 12, 15, 16, 21)})`,
    contained: "{'EAFNOSUPPORT'}",
  }),
  pythonAttack("raw sockets", {
    tries: "packets of its own making",
    must: "EPERM",
    code: `import socket, errno
try: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP); print("open")
except OSError as error: print(errno.errorcode[error.errno])`,
    contained: "EPERM",
  }),
  pythonAttack("TIOCSTI", {
    tries: "typing into a terminal, also with the high half of the number set (CVE-2019-10063), TIOCLINUX and TIOCSETD",
    must: "EPERM, each",
    code: `${PRELUDE}
master, slave = os.openpty()
print([call(${numberOf(CHECKED.ioctl)}, slave, number, b"x") for number in (0x5412, 0x5412 | 1 << 32, 0x541c, 0x5423)])`,
    contained: "['EPERM', 'EPERM', 'EPERM', 'EPERM']",
  }),
  pythonAttack("the kernel keyring of the session", {
    tries: "a key that another sandbox of the same user could read, through /proc/keys",
    must: "nothing to see",
    code: `import os
print([os.path.exists(p) and open(p).read() for p in ("/proc/keys",)] if os.access("/proc/keys", os.R_OK) else "nothing")`,
    contained: "['']",
  }),
  ...(process.arch === "x64" ? X64_CODE : []),
];

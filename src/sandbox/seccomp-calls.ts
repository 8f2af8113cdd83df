/** Kernel calls that a sandbox is refused, with their numbers; null where the ABI has no such call. */

export interface CallNumbers {
  x64: number | null;
  arm64: number | null;
}

const both = (x64: number | null, arm64: number | null): CallNumbers => ({ x64, arm64 });

/**
 * Refused with EPERM whatever the arguments: other processes' memory, keyrings, kernel programs, mounts and
 * namespaces, devices and modules, the clock, handles that pass by path checks.
 */
export const REFUSED = {
  ptrace: both(101, 117),
  process_vm_readv: both(310, 270),
  process_vm_writev: both(311, 271),
  kcmp: both(312, 272),
  pidfd_getfd: both(438, 438),
  process_madvise: both(440, 440),
  add_key: both(248, 217),
  request_key: both(249, 218),
  keyctl: both(250, 219),
  bpf: both(321, 280),
  perf_event_open: both(298, 241),
  userfaultfd: both(323, 282),
  mount: both(165, 40),
  umount2: both(166, 39),
  pivot_root: both(155, 41),
  chroot: both(161, 51),
  setns: both(308, 268),
  unshare: both(272, 97),
  open_tree: both(428, 428),
  move_mount: both(429, 429),
  fsopen: both(430, 430),
  fsconfig: both(431, 431),
  fsmount: both(432, 432),
  fspick: both(433, 433),
  mount_setattr: both(442, 442),
  open_tree_attr: both(467, 467),
  swapon: both(167, 224),
  swapoff: both(168, 225),
  reboot: both(169, 142),
  kexec_load: both(246, 104),
  kexec_file_load: both(320, 294),
  init_module: both(175, 105),
  finit_module: both(313, 273),
  delete_module: both(176, 106),
  iopl: both(172, null),
  ioperm: both(173, null),
  modify_ldt: both(154, null),
  uselib: both(134, null),
  nfsservctl: both(180, 42),
  lookup_dcookie: both(212, 18),
  settimeofday: both(164, 170),
  clock_settime: both(227, 112),
  clock_adjtime: both(305, 266),
  adjtimex: both(159, 171),
  sethostname: both(170, 161),
  setdomainname: both(171, 162),
  acct: both(163, 89),
  quotactl: both(179, 60),
  quotactl_fd: both(443, 443),
  syslog: both(103, 116),
  vhangup: both(153, 58),
  name_to_handle_at: both(303, 264),
  open_by_handle_at: both(304, 265),
  fanotify_init: both(300, 262),
  migrate_pages: both(256, 238),
  move_pages: both(279, 239),
  memfd_secret: both(447, 447),
} as const satisfies Record<string, CallNumbers>;

/**
 * Answered ENOSYS, so that callers fall back: libuv to epoll, glibc to clone (whose flags a filter can read), libffi to
 * a file, databases from native AIO to threads. A memfd is memory that no limit of ours counts and the kernel, when
 * memory runs out, does not blame on its owner; messages of System V are such memory too, up to 32 GB of them. Contexts of
 * AIO are numbered for the whole machine (fs.aio-max-nr). A sandbox has no disk to sync, but would make the machine's busy.
 */
export const ABSENT = {
  io_uring_setup: both(425, 425),
  io_uring_enter: both(426, 426),
  io_uring_register: both(427, 427),
  clone3: both(435, 435),
  memfd_create: both(319, 279),
  msgget: both(68, 186),
  io_setup: both(206, 0),
  sync: both(162, 81),
  syncfs: both(306, 267),
} as const satisfies Record<string, CallNumbers>;

/** Refused only with certain arguments. */
export const CHECKED = {
  clone: { x64: 56, arm64: 220 },
  personality: { x64: 135, arm64: 92 },
  ioctl: { x64: 16, arm64: 29 },
  socket: { x64: 41, arm64: 198 },
  socketpair: { x64: 53, arm64: 199 },
  shmget: { x64: 29, arm64: 194 },
  semget: { x64: 64, arm64: 190 },
  mmap: { x64: 9, arm64: 222 },
} as const satisfies Record<string, CallNumbers>;

/** Seem to succeed while an image is built: a user namespace with one uid knows no other owner. */
export const PRETENDED = {
  chown: both(92, null),
  fchown: both(93, 55),
  lchown: both(94, null),
  fchownat: both(260, 54),
} as const satisfies Record<string, CallNumbers>;

/** Seem to succeed then where they would make a device, which no user namespace may: the call, and which argument is the mode. */
export const MAKES_DEVICE = [
  { numbers: both(133, null), modeArgument: 1 },
  { numbers: both(259, 33), modeArgument: 2 },
] as const;

import { assert } from "../errors.ts";
import { ABSENT, type CallNumbers, CHECKED, MAKES_DEVICE, PRETENDED, REFUSED } from "./seccomp-calls.ts";

/**
 * The seccomp filter as classic BPF, put together by hand: no library, and every instruction can be counted.
 * A deny list rots as kernels grow, so every number above `CALL_NUMBER_MAX` is unknown and answered ENOSYS.
 */

export type FilterArchitecture = "x64" | "arm64";

/** One instruction: operation, jumps when true and false (instructions to skip), operand. */
type Instruction = [code: number, jumpTrue: number, jumpFalse: number, operand: number];

const LOAD_WORD = 0x20;
const JUMP_ALWAYS = 0x05;
const JUMP_EQUAL = 0x15;
const JUMP_AT_LEAST = 0x35;
const JUMP_ANY_BIT = 0x45;
const RETURN = 0x06;

const ALLOW = 0x7fff0000;
const KILL_PROCESS = 0x80000000;
const answer = (errno: number) => 0x00050000 | errno;
const [EPERM, ENOMEM, EINVAL, ENOSYS, EPROTONOSUPPORT, ESOCKTNOSUPPORT, EAFNOSUPPORT] = [1, 12, 22, 38, 93, 94, 97];

const AUDIT_ARCH = { x64: 0xc000003e, arm64: 0xc00000b7 } as const;
/** Newest call that was looked at. x32 calls carry bit 30, so they are above it too. */
const CALL_NUMBER_MAX = 470;

/** Offsets into `struct seccomp_data`. The low half of an argument is what the kernel itself looks at. */
const NUMBER_AT = 0;
const ARCHITECTURE_AT = 4;
const argumentAt = (index: number) => 16 + 8 * index;

/** Every CLONE_NEW* flag: cgroup, uts, ipc, user, pid, net, mount. */
const CLONE_NEW_ANY = 0x7e020000;
/** What Docker's profile allows: the Linux and 32-bit personas, and asking for the present one. */
const PERSONALITIES = [0, 8, 0x20000, 0x20008, 0xffffffff];
/** TIOCSTI, TIOCSETD, TIOCLINUX: typing into a terminal. */
const TERMINAL_CONTROLS = [0x5412, 0x5423, 0x541c];
/** Of the kinds of files, only character and block devices have this bit of the mode. */
const DEVICE_BIT = 0o020000;
const [AF_UNIX, AF_INET, AF_INET6, AF_NETLINK] = [1, 2, 10, 16];
const NETLINK_ROUTE = 0;
/** Types of sockets above SOCK_RAW, such as DCCP's and SCTP's, have one of these bits; the flags are higher ones. */
const OTHER_SOCKET_TYPES = 0xc;
/** Whatever the type stands for, ICMP, TCP, UDP, ICMPv6: others load modules of the kernel (SCTP, L2TP), or are MPTCP. */
const PROTOCOLS = [0, 1, 6, 17, 58];
/**
 * A segment outlives every process that touched it and no limit of ours counts it, so 4,096 of them (the kernel's own
 * bound) must stay small. PostgreSQL asks for 56 bytes, X falls back to its socket.
 */
const SHARED_SEGMENT_BYTES_MAX = 65_536;
/** The same for sets of semaphores, of which the kernel allows 32,000 of 32,000, 64 bytes each. PostgreSQL makes sets of 20. */
const SEMAPHORES_MAX = 32;
/** Huge pages are the machine's own store, for its databases and virtual machines. */
const MAP_HUGETLB = 0x40000;

/**
 * The filter for `bwrap --seccomp`, little endian as both architectures are. With `pretendsOwners` giving a file to another
 * user seems to succeed, as in `pretendingFilter`.
 */
export function seccompFilter(architecture: FilterArchitecture, pretendsOwners = false): Uint8Array {
  const program: Instruction[] = [
    [LOAD_WORD, 0, 0, ARCHITECTURE_AT],
    [JUMP_EQUAL, 1, 0, AUDIT_ARCH[architecture]],
    [RETURN, 0, 0, KILL_PROCESS],
    [LOAD_WORD, 0, 0, NUMBER_AT],
    [JUMP_AT_LEAST, 0, 1, CALL_NUMBER_MAX + 1],
    [RETURN, 0, 0, answer(ENOSYS)],
    ...refuseAll(numbersOf(REFUSED, architecture), EPERM),
    ...refuseAll(numbersOf(ABSENT, architecture), ENOSYS),
    ...(pretendsOwners ? refuseAll(numbersOf(PRETENDED, architecture), 0) : []),
    ...forCall(CHECKED.clone[architecture], refuseBits(0, CLONE_NEW_ANY, EPERM)),
    ...forCall(CHECKED.personality[architecture], refuseOthers(0, PERSONALITIES, EPERM)),
    ...forCall(CHECKED.ioctl[architecture], refuseThese(1, TERMINAL_CONTROLS)),
    ...forCall(CHECKED.socket[architecture], socketRules()),
    ...forCall(CHECKED.socketpair[architecture], refuseOthers(0, [AF_UNIX], EAFNOSUPPORT)),
    ...forCall(CHECKED.shmget[architecture], refuseAbove(1, SHARED_SEGMENT_BYTES_MAX, ENOMEM)),
    ...forCall(CHECKED.semget[architecture], refuseAbove(1, SEMAPHORES_MAX, EINVAL)),
    ...forCall(CHECKED.mmap[architecture], refuseBits(3, MAP_HUGETLB, ENOMEM)),
    [RETURN, 0, 0, ALLOW],
  ];
  return encode(program);
}

/**
 * The filter for programs that build an image with one uid: giving a file to another user, or making a device, seems to
 * succeed, as installers of packages insist on it. All else is allowed: what they build they may also run.
 */
export function pretendingFilter(architecture: FilterArchitecture): Uint8Array {
  return encode([
    [LOAD_WORD, 0, 0, ARCHITECTURE_AT],
    [JUMP_EQUAL, 1, 0, AUDIT_ARCH[architecture]],
    [RETURN, 0, 0, KILL_PROCESS],
    [LOAD_WORD, 0, 0, NUMBER_AT],
    ...refuseAll(numbersOf(PRETENDED, architecture), 0),
    ...MAKES_DEVICE.flatMap(({ numbers, modeArgument }) => {
      const number = numbers[architecture];
      return number === null ? [] : forCall(number, refuseBits(modeArgument, DEVICE_BIT, 0));
    }),
    [RETURN, 0, 0, ALLOW],
  ]);
}

const own = new Map<boolean, Uint8Array>();

/** The filter for the machine this runs on, assembled once. */
export function filterForThisMachine({ pretendsOwners }: { pretendsOwners: boolean }): Uint8Array {
  assert(process.arch === "x64" || process.arch === "arm64", "sandboxes run on x64 and arm64");
  const known = own.get(pretendsOwners) ?? seccompFilter(process.arch, pretendsOwners);
  own.set(pretendsOwners, known);
  return known;
}

function numbersOf(calls: Record<string, CallNumbers>, architecture: FilterArchitecture): number[] {
  return Object.values(calls).flatMap((numbers) => numbers[architecture] ?? []);
}

/** Falls through to the next instruction when none of `numbers` is meant. */
function refuseAll(numbers: readonly number[], errno: number): Instruction[] {
  const tests = numbers.map((number, i): Instruction => [JUMP_EQUAL, numbers.length - i, 0, number]);
  return [...tests, [JUMP_ALWAYS, 0, 0, 1], [RETURN, 0, 0, answer(errno)]];
}

/** `body` for one call; what it does not refuse is allowed. */
function forCall(number: number, body: readonly Instruction[]): Instruction[] {
  return [[JUMP_EQUAL, 0, body.length + 1, number], ...body, [RETURN, 0, 0, ALLOW]];
}

function refuseBits(argument: number, bits: number, errno: number): Instruction[] {
  return [
    [LOAD_WORD, 0, 0, argumentAt(argument)],
    [JUMP_ANY_BIT, 0, 1, bits],
    [RETURN, 0, 0, answer(errno)],
  ];
}

function refuseThese(argument: number, values: readonly number[]): Instruction[] {
  return [[LOAD_WORD, 0, 0, argumentAt(argument)], ...refuseAll(values, EPERM)];
}

function refuseOthers(argument: number, allowed: readonly number[], errno: number): Instruction[] {
  const tests = allowed.map((value, i): Instruction => [JUMP_EQUAL, allowed.length - i, 0, value]);
  return [[LOAD_WORD, 0, 0, argumentAt(argument)], ...tests, [RETURN, 0, 0, answer(errno)]];
}

/** For an argument of 64 bits, where both halves count. */
function refuseAbove(argument: number, most: number, errno: number): Instruction[] {
  return [
    [LOAD_WORD, 0, 0, argumentAt(argument) + 4],
    [JUMP_EQUAL, 0, 2, 0],
    [LOAD_WORD, 0, 0, argumentAt(argument)],
    [JUMP_AT_LEAST, 0, 1, most + 1],
    [RETURN, 0, 0, answer(errno)],
  ];
}

/** Unix, IPv4, IPv6, and of netlink only routing, which `ip` and getifaddrs ask: all else is kernel surface. */
function socketRules(): Instruction[] {
  const internet = [
    ...refuseBits(1, OTHER_SOCKET_TYPES, ESOCKTNOSUPPORT),
    ...refuseOthers(2, PROTOCOLS, EPROTONOSUPPORT),
  ];
  return [
    ...refuseOthers(0, [AF_UNIX, AF_INET, AF_INET6, AF_NETLINK], EAFNOSUPPORT),
    [LOAD_WORD, 0, 0, argumentAt(0)],
    [JUMP_EQUAL, 0, 3, AF_NETLINK],
    [LOAD_WORD, 0, 0, argumentAt(2)],
    [JUMP_EQUAL, internet.length + 3, 0, NETLINK_ROUTE],
    [RETURN, 0, 0, answer(EAFNOSUPPORT)],
    // Both numbers of the internet, and the one that is left, Unix.
    [JUMP_EQUAL, 1, 0, AF_INET],
    [JUMP_EQUAL, 0, internet.length, AF_INET6],
    ...internet,
  ];
}

function encode(program: readonly Instruction[]): Uint8Array {
  const view = new DataView(new ArrayBuffer(program.length * 8));
  program.forEach(([code, jumpTrue, jumpFalse, operand], i) => {
    assert(jumpTrue >= 0 && jumpTrue < 256 && jumpFalse >= 0 && jumpFalse < 256, "a BPF jump is one byte");
    view.setUint16(i * 8, code, true);
    view.setUint8(i * 8 + 2, jumpTrue);
    view.setUint8(i * 8 + 3, jumpFalse);
    view.setUint32(i * 8 + 4, operand >>> 0, true);
  });
  return new Uint8Array(view.buffer);
}

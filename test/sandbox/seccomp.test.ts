import { dlopen, FFIType, ptr } from "bun:ffi";
import { describe, expect, test } from "bun:test";
import { constants } from "node:os";
import { type FilterArchitecture, pretendingFilter, seccompFilter } from "../../src/sandbox/seccomp.ts";
import {
  ABSENT,
  type CallNumbers,
  CHECKED,
  MAKES_DEVICE,
  PRETENDED,
  REFUSED,
} from "../../src/sandbox/seccomp-calls.ts";

/** Numbers of <linux/audit.h>, by which libseccomp knows architectures too. */
const AUDIT = { x64: 0xc000003e, arm64: 0xc00000b7, i386: 0x40000003 } as const;
const ARCHITECTURES: readonly FilterArchitecture[] = ["x64", "arm64"];
const { EPERM, ENOSYS, ENOMEM, EAFNOSUPPORT } = constants.errno;
const ALLOWED = "allowed";
const KILLED = "killed";
/** Newest call that libseccomp 2.5.4 knows, `process_mrelease`; our own numbers go further. */
const LIBSECCOMP_KNOWS = 448;

/** What a filter answers, as the kernel runs classic BPF over `struct seccomp_data`. */
function run(filter: Uint8Array, audit: number, number: number, args: readonly bigint[] = []): string | number {
  const data = new DataView(new ArrayBuffer(64));
  data.setUint32(0, number, true);
  data.setUint32(4, audit, true);
  for (const [i, arg] of args.entries()) data.setBigUint64(16 + 8 * i, arg, true);
  const code = new DataView(filter.buffer, filter.byteOffset);
  let accumulator = 0;
  for (let at = 0; at < filter.length / 8; at += 1) {
    const operation = code.getUint16(at * 8, true);
    const [yes, no] = [code.getUint8(at * 8 + 2), code.getUint8(at * 8 + 3)];
    const operand = code.getUint32(at * 8 + 4, true);
    const jump = (holds: boolean) => (holds ? yes : no);
    if (operation === 0x20) accumulator = data.getUint32(operand, true);
    else if (operation === 0x05) at += operand;
    else if (operation === 0x15) at += jump(accumulator === operand);
    else if (operation === 0x35) at += jump(accumulator >= operand);
    else if (operation === 0x45) at += jump((accumulator & operand) !== 0);
    else if (operation === 0x06) return answerOf(operand);
    else throw new Error(`the filter has an operation ${operation} that this machine does not know`);
  }
  throw new Error("the filter ended without an answer");
}

function answerOf(value: number): string | number {
  if (value === 0x7fff0000) return ALLOWED;
  if (value === 0x80000000) return KILLED;
  return value - 0x00050000;
}

function eachOf(calls: Record<string, CallNumbers>, architecture: FilterArchitecture): [string, number][] {
  return Object.entries(calls).flatMap(([name, numbers]) => {
    const number = numbers[architecture];
    return number === null ? [] : ([[name, number]] as [string, number][]);
  });
}

describe.each(ARCHITECTURES)("seccompFilter for %s", (architecture) => {
  const filter = seccompFilter(architecture);
  const audit = AUDIT[architecture];
  const call = (number: number, ...args: (number | bigint)[]) => run(filter, audit, number, args.map(BigInt));

  test("refuses what no sandbox needs, whatever the arguments", () => {
    const numbers = new Set<number>();
    for (const [name, number] of eachOf(REFUSED, architecture)) {
      expect([name, call(number)]).toEqual([name, EPERM]);
      expect([name, call(number, 1, 2, 3)]).toEqual([name, EPERM]);
      numbers.add(number);
    }
    for (const [name, number] of eachOf(ABSENT, architecture)) expect([name, call(number)]).toEqual([name, ENOSYS]);
    expect(numbers.size).toBeGreaterThan(50);
  });

  test("allows every other number up to the newest one it knows, and no further", () => {
    const special = new Set(
      [REFUSED, ABSENT, CHECKED].flatMap((calls) => eachOf(calls, architecture).map(([, number]) => number)),
    );
    for (let number = 0; number <= 470; number += 1)
      if (!special.has(number)) expect([number, call(number)]).toEqual([number, ALLOWED]);
    for (const number of [471, 500, 4_095, 0x7fffffff, 0xffffffff]) expect(call(number)).toBe(ENOSYS);
  });

  test("knows no x32 call and kills a call of another architecture", () => {
    for (let number = 0; number <= 600; number += 1) expect(call(0x40000000 + number)).toBe(ENOSYS);
    for (const other of Object.values(AUDIT)) if (other !== audit) expect(run(filter, other, 0)).toBe(KILLED);
  });

  test("lets clone make threads and processes, but no namespace", () => {
    const number = CHECKED.clone[architecture];
    expect(call(number, 0x11)).toBe(ALLOWED); // SIGCHLD: fork
    expect(call(number, 0x3d0f00)).toBe(ALLOWED); // what pthread_create asks for
    for (const flag of [0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000])
      expect([flag, call(number, flag | 0x11)]).toEqual([flag, EPERM]);
  });

  test("compares the half of an argument that the kernel compares", () => {
    const number = CHECKED.ioctl[architecture];
    for (const request of [0x5412, 0x5423, 0x541c]) {
      expect(call(number, 0, request)).toBe(EPERM);
      expect(call(number, 0, BigInt(request) | (1n << 32n))).toBe(EPERM); // CVE-2019-10063
    }
    expect(call(number, 0, 0x5401)).toBe(ALLOWED); // TCGETS: isatty
  });

  test("opens sockets of the families that programs use, and of netlink the one that lists addresses", () => {
    const number = CHECKED.socket[architecture];
    for (const family of [1, 2, 10]) expect(call(number, family, 1, 0)).toBe(ALLOWED);
    expect(call(number, 16, 3, 0)).toBe(ALLOWED);
    for (const protocol of [2, 4, 6, 9, 12, 15, 16, 21]) expect(call(number, 16, 3, protocol)).toBe(EAFNOSUPPORT);
    for (let family = 0; family < 64; family += 1)
      if (![1, 2, 10, 16].includes(family)) expect([family, call(number, family)]).toEqual([family, EAFNOSUPPORT]);
  });

  test("takes back no persona's randomness, and allows small shared segments only", () => {
    const personality = CHECKED.personality[architecture];
    for (const persona of [0, 8, 0xffffffff]) expect(call(personality, persona)).toBe(ALLOWED);
    for (const persona of [0x0040000, 0x0100000, 0x0400000]) expect(call(personality, persona)).toBe(EPERM);
    const shmget = CHECKED.shmget[architecture];
    expect(call(shmget, 0, 56)).toBe(ALLOWED);
    expect(call(shmget, 0, 65_537)).toBe(ENOMEM);
    expect(call(shmget, 0, 1n << 32n)).toBe(ENOMEM);
  });

  test("is a valid program: every jump stays inside, every path returns", () => {
    const view = new DataView(filter.buffer);
    const count = filter.length / 8;
    for (let i = 0; i < count; i += 1) {
      const [code, yes, no] = [view.getUint16(i * 8, true), view.getUint8(i * 8 + 2), view.getUint8(i * 8 + 3)];
      if (code === 0x05) expect(i + 1 + view.getUint32(i * 8 + 4, true)).toBeLessThan(count);
      else if (code !== 0x06) expect(i + 1 + Math.max(yes, no)).toBeLessThan(count);
    }
    expect(view.getUint16((count - 1) * 8, true)).toBe(0x06);
    expect(count).toBeLessThan(4_096); // BPF_MAXINSNS
  });
});

describe("the numbers of kernel calls", () => {
  test.each(ARCHITECTURES)("are those that libseccomp has for %s", (architecture) => {
    const { symbols } = dlopen("libseccomp.so.2", {
      seccomp_syscall_resolve_name_arch: { args: [FFIType.u32, FFIType.ptr], returns: FFIType.i32 },
    });
    let compared = 0;
    for (const [name, number] of [REFUSED, ABSENT, CHECKED].flatMap((calls) => eachOf(calls, architecture))) {
      const theirs = symbols.seccomp_syscall_resolve_name_arch(AUDIT[architecture], ptr(Buffer.from(`${name}\0`)));
      // -1: younger than the library.
      if (theirs === -1 && number > LIBSECCOMP_KNOWS) continue;
      expect([name, theirs]).toEqual([name, number]);
      compared += 1;
    }
    expect(compared).toBeGreaterThan(60);
  });

  test.each(ARCHITECTURES)("are null only where libseccomp has none for %s", (architecture) => {
    const { symbols } = dlopen("libseccomp.so.2", {
      seccomp_syscall_resolve_name_arch: { args: [FFIType.u32, FFIType.ptr], returns: FFIType.i32 },
    });
    for (const [name, numbers] of [REFUSED, ABSENT, CHECKED].flatMap((calls) => Object.entries<CallNumbers>(calls))) {
      if (numbers[architecture] !== null) continue;
      const theirs = symbols.seccomp_syscall_resolve_name_arch(AUDIT[architecture], ptr(Buffer.from(`${name}\0`)));
      expect([name, theirs < 0]).toEqual([name, true]);
    }
  });
});

describe.each(ARCHITECTURES)("pretendingFilter for %s", (architecture) => {
  const call = (filter: Uint8Array, number: number, ...args: number[]) =>
    run(filter, AUDIT[architecture], number, args.map(BigInt));

  test("lets changes of owner and the making of devices seem done, and allows all else", () => {
    const filter = pretendingFilter(architecture);
    for (const [name, number] of eachOf(PRETENDED, architecture))
      expect([name, call(filter, number)]).toEqual([name, 0]);
    for (const { numbers, modeArgument } of MAKES_DEVICE) {
      const number = numbers[architecture];
      if (number === null) continue;
      const withMode = (mode: number) => call(filter, number, ...Array.from({ length: modeArgument }, () => 0), mode);
      for (const device of [0o020644, 0o060644]) expect(withMode(device)).toBe(0);
      for (const other of [0o010644, 0o100644, 0o140644, 0o644]) expect(withMode(other)).toBe(ALLOWED);
    }
    expect(call(filter, CHECKED.clone[architecture], 0x7e020000)).toBe(ALLOWED);
    expect(run(filter, AUDIT[architecture === "x64" ? "arm64" : "x64"], 0)).toBe(KILLED);
  });

  test("is apart from that of sandboxes, which pretend owners only where the image has one user", () => {
    const [plain, pretending] = [seccompFilter(architecture), seccompFilter(architecture, true)];
    for (const [name, number] of eachOf(PRETENDED, architecture)) {
      expect([name, call(plain, number), call(pretending, number)]).toEqual([name, ALLOWED, 0]);
    }
    for (const [name, number] of eachOf(REFUSED, architecture)) {
      expect([name, call(pretending, number)]).toEqual([name, EPERM]);
    }
  });
});

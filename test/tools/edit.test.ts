import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { LIMITS } from "../../src/limits.ts";
import type { Sandbox, SandboxHost } from "../../src/sandbox/sandbox.ts";
import { AttachmentBudget, Attachments } from "../../src/tools/attachments.ts";
import { createToolbox } from "../../src/tools/toolbox.ts";
import { TEST_LIMITS, testSandboxHost } from "../support/sandbox-host.ts";

setDefaultTimeout(60_000);

const never = new AbortController().signal;
const toolbox = createToolbox(["str_replace_editor", "edit"]);
let host: SandboxHost;
let sandbox: Sandbox;

beforeAll(async () => {
  host = await testSandboxHost();
  sandbox = await host.open(
    { image: "host", limits: { ...TEST_LIMITS, diskBytes: 128 << 20, fileBytes: 20 * 2 ** 30 } },
    never,
  );
});
afterAll(() => host.close());

async function edit(command: string, path: string, more: Record<string, unknown> = {}): Promise<string> {
  const attachments = new Attachments(new AttachmentBudget(), { turn: 0, call: 1 });
  const context = { sandbox, toolMs: 5_000, outputChars: 16_384, attachments, signal: never };
  return (await toolbox.call("str_replace_editor", JSON.stringify({ command, path, ...more }), context)).output;
}
const sh = async (command: string) => (await sandbox.shell(command, { timeoutMs: 20_000, signal: never })).output;
const textOf = async (path: string) => Buffer.from((await sandbox.readFile(path, 1 << 24)) ?? []).toString();

describe("edit", () => {
  test("creates, views, replaces and inserts, and keeps the mode", async () => {
    expect(await edit("create", "/workspace/x/a.sh", { file_text: "echo 1\n" })).toContain("1 lines");
    await sh("chmod 755 /workspace/x/a.sh");
    expect(await edit("view", "/workspace/x/a.sh")).toBe("     1\techo 1");
    await edit("str_replace", "/workspace/x/a.sh", { old_str: "echo 1", new_str: "echo 2" });
    await edit("insert", "/workspace/x/a.sh", { insert_line: 1, new_str: "echo 3" });
    expect(await sh("/workspace/x/a.sh")).toBe("2\n3\n");
  });

  test.each([
    ["a path that is not there", "/nope", "does not exist"],
    ["a binary file", "/usr/bin/env", "is a binary file of"],
    ["a device", "/dev/zero", "is a device"],
    ["a FIFO", "/tmp/fifo", "is a FIFO"],
    ["a socket", "/tmp/socket", "is a socket"],
    ["a file of /proc", "/proc/self/environ", "does not exist"],
    ["a file of /proc by its pid", "/proc/1/environ", "is a kernel file"],
    ["a dangling symlink", "/tmp/dangling", "does not exist"],
    ["a loop of symlinks", "/tmp/loop", "does not exist"],
    ["a file that may not be read", "/tmp/closed", "may not be read"],
    ["a path through a file", "/etc/passwd/x", "does not exist"],
    ["a path of 4,096 parts", `${"/a".repeat(4_096)}`, "does not exist"],
  ])("answers a view of %s clearly, and a change the same", async (_, path, answer) => {
    await sh(
      "cd /tmp; mkfifo fifo; ln -s /nowhere dangling; ln -s loop loop; touch closed; chmod 0 closed; python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('/tmp/socket')\"",
    );
    expect(await edit("view", path)).toContain(answer);
    expect(await edit("str_replace", path, { old_str: "a", new_str: "b" })).toContain(answer);
  });

  test("lists a folder two levels deep, without what is hidden, bounded, and without the help of the agent's shell", async () => {
    await sh(
      "mkdir -p /tmp/tree/a/b/c /tmp/tree/.git/x; touch /tmp/tree/z '/tmp/tree/with\nnewline'; find() { echo no; }; stat() { false; }",
    );
    expect(await edit("view", "/tmp/tree/")).toBe(
      "/tmp/tree/ is a folder:\n/tmp/tree/a/\n/tmp/tree/a/b/\n/tmp/tree/with\nnewline\n/tmp/tree/z",
    );
    await sh(
      "mkdir /tmp/many; cd /tmp/many; seq 1 3000 | xargs touch; mkdir -p /tmp/empty; ln -s /tmp/tree /tmp/to-tree; cd /",
    );
    const many = await edit("view", "/tmp/many");
    expect(many.split("\n")).toHaveLength(LIMITS.viewNamesMax + 2);
    expect(many).toEndWith("[more are there; use bash]");
    expect(await edit("view", "/tmp/empty")).toBe("/tmp/empty is a folder without visible files.");
    expect(await edit("view", "/tmp/to-tree")).toContain("/tmp/to-tree/a/b/");
    expect(await edit("view", "/")).toContain("/workspace/");
  });

  test.each([
    ["a read-only path", "/usr/new", "EROFS"],
    ["a path below a file", "/etc/passwd/new", "ENOTDIR"],
    ["a folder", "/workspace", "EISDIR"],
    ["a device", "/dev/null", "EACCES"],
    ["a FIFO", "/tmp/fifo", "ENXIO"],
  ])("answers a write to %s and goes on", async (_, path, answer) => {
    await sh("test -p /tmp/fifo || mkfifo /tmp/fifo");
    expect(await edit("create", path, { file_text: "x" })).toContain(answer);
  });

  test("answers a full disk, and the file is as it was told", async () => {
    const big = "x".repeat(1 << 20);
    await edit("create", "/workspace/big", { file_text: "as it was" });
    await sh("for i in 1 2; do head -c 1G /dev/zero > /workspace/fill$i; done");
    expect(await edit("create", "/workspace/big", { file_text: big })).toContain("disk is full");
    expect(await textOf("/workspace/big")).toBe("as it was");
    await sh("rm /workspace/fill*");
    expect(await edit("create", "/workspace/big", { file_text: big })).toContain("was written");
  });

  test("shows the near misses with their lines when the text does not stand there", async () => {
    await edit("create", "/workspace/near.py", { file_text: "def f():\n\treturn compute(first, second)\n" });
    const indented = await edit("str_replace", "/workspace/near.py", {
      old_str: "    return compute(first, second)",
      new_str: "pass",
    });
    expect(indented).toContain("does not occur");
    expect(indented).toContain("2: \treturn compute(first, second)");
    const mistyped = await edit("str_replace", "/workspace/near.py", {
      old_str: "return compute(first, third)",
      new_str: "pass",
    });
    expect(mistyped).toContain("2: \treturn compute(first, second)");
    const twice = await edit("str_replace", "/workspace/near.py", { old_str: "e", new_str: "E" });
    expect(twice).toContain("at lines 1, 2");
  });

  test("keeps CRLF where all lines have it, whatever the model wrote", async () => {
    await sh("printf 'a\\r\\nb\\r\\nc' > /workspace/crlf");
    expect(await edit("view", "/workspace/crlf")).toBe("     1\ta\n     2\tb\n     3\tc\n[lines end with CRLF]");
    await edit("str_replace", "/workspace/crlf", { old_str: "a\nb\n", new_str: "A\nB\nB2\n" });
    await edit("insert", "/workspace/crlf", { insert_line: 0, new_str: "first\r\n" });
    expect(await textOf("/workspace/crlf")).toBe("first\r\nA\r\nB\r\nB2\r\nc");
  });

  test("changes nothing but what it was asked for where line ends are mixed", async () => {
    await sh("printf 'a\\r\\nb\\nc\\r\\n' > /workspace/mixed");
    expect(await edit("view", "/workspace/mixed")).toContain("some lines end with CRLF");
    expect(await edit("str_replace", "/workspace/mixed", { old_str: "a\nb", new_str: "x" })).toContain("1: a");
    await edit("str_replace", "/workspace/mixed", { old_str: "b\n", new_str: "B\n" });
    expect(await textOf("/workspace/mixed")).toBe("a\r\nB\nc\r\n");
  });

  test("keeps tabs and a missing newline at the end", async () => {
    await edit("create", "/workspace/tabs", { file_text: "\tx\n\ty" });
    await edit("str_replace", "/workspace/tabs", { old_str: "\ty", new_str: "\t\tz" });
    expect(await textOf("/workspace/tabs")).toBe("\tx\n\t\tz");
  });

  test("writes through a symlink inside the sandbox, and removes none by undo", async () => {
    await sh("cd /workspace; echo real > real; ln -s real link");
    await edit("str_replace", "/workspace/link", { old_str: "real", new_str: "changed" });
    expect(await sh("cat /workspace/real; readlink /workspace/link")).toBe("changed\nreal\n");
    await edit("undo_edit", "/workspace/link");
    expect(await sh("cat /workspace/real; readlink /workspace/link")).toBe("real\nreal\n");
  });

  test("answers at once about a file of a million lines, and views a range of one that is too large to change", async () => {
    await sh("yes '' | head -n 1048576 > /workspace/lines");
    const start = performance.now();
    await edit("view", "/workspace/lines");
    await edit("str_replace", "/workspace/lines", { old_str: "x", new_str: "y" });
    expect(performance.now() - start).toBeLessThan(2_000);
    await sh("seq 1 2000000 > /workspace/large");
    expect(await edit("str_replace", "/workspace/large", { old_str: "x", new_str: "y" })).toContain(
      "at most 1048576 are read. bash can",
    );
    expect(await edit("view", "/workspace/large")).toContain("holds 14888896 bytes: give view_range");
    expect(await edit("view", "/workspace/large", { view_range: [1_000_000, 1_000_002] })).toBe(
      "1000000\t1000000\n1000001\t1000001\n1000002\t1000002",
    );
    expect(await edit("view", "/workspace/large", { view_range: [1_999_999, -1] })).toBe(
      "1999999\t1999999\n2000000\t2000000",
    );
    expect(await edit("view", "/workspace/large", { view_range: [1, 2] })).toBe("     1\t1\n     2\t2");
    expect(await edit("view", "/workspace/large", { view_range: [3_000_000, -1] })).toContain("was not found");
  });

  test("reads a bounded part of a file that says it holds 10 GB", async () => {
    await sh("truncate -s 10G /workspace/sparse");
    expect(await edit("view", "/workspace/sparse")).toContain("holds 10737418240 bytes");
    const start = performance.now();
    expect(await edit("view", "/workspace/sparse", { view_range: [1, 2] })).toContain(
      "is a binary file of 10737418240",
    );
    expect(await edit("view", "/workspace/sparse", { view_range: [2, 3] })).toContain("was not found");
    expect(performance.now() - start).toBeLessThan(2_000);
    expect(await edit("create", "/workspace/sparse", { file_text: "x" })).toContain("at most");
    await sh("rm /workspace/sparse");
  });

  test("counts a text that overlaps itself as standing there twice, and does not take minutes over a long one", async () => {
    await edit("create", "/workspace/aaa", { file_text: "aaa\n" });
    expect(await edit("str_replace", "/workspace/aaa", { old_str: "aa", new_str: "b" })).toContain("occurs 2 times");
    await edit("create", "/workspace/aaa", { file_text: "a".repeat(1 << 19) });
    const start = performance.now();
    const many = await edit("str_replace", "/workspace/aaa", { old_str: "a".repeat(1 << 17), new_str: "b" });
    expect(many).toContain("occurs 1000 or more times");
    expect(performance.now() - start).toBeLessThan(2_000);
  });

  test("views a range, and names the lines there are when it is wrong", async () => {
    await edit("create", "/workspace/r", { file_text: "a\nb\nc\n" });
    expect(await edit("view", "/workspace/r", { view_range: [2, -1] })).toBe("     2\tb\n     3\tc");
    expect(await edit("view", "/workspace/r", { view_range: [4, 5] })).toContain("has 3 lines");
  });
});

describe("undo_edit", () => {
  test("takes changes of a file back one by one, to a file that was not there", async () => {
    const path = "/workspace/undone";
    await edit("create", path, { file_text: "1\n" });
    await edit("str_replace", path, { old_str: "1", new_str: "2" });
    await edit("create", path, { file_text: "3\n" });
    expect(await edit("undo_edit", path)).toContain("was taken back; it has 1 lines");
    expect(await textOf(path)).toBe("2\n");
    await edit("undo_edit", path);
    expect(await textOf(path)).toBe("1\n");
    expect(await edit("undo_edit", path)).toContain("was removed: it did not exist before");
    expect(await sandbox.kindOf(path)).toBeNull();
    expect(await edit("undo_edit", path)).toContain("no change of /workspace/undone to take back");
  });

  test("leaves a file alone that something else changed since", async () => {
    await edit("create", "/workspace/shared", { file_text: "mine\n" });
    await sh("echo theirs > /workspace/shared");
    expect(await edit("undo_edit", "/workspace/shared")).toContain("changed by something else");
    expect(await textOf("/workspace/shared")).toBe("theirs\n");
  });

  test("puts bytes back that are no text, and forgets the oldest changes beyond its bounds", async () => {
    await sh("printf '\\377\\000\\n' > /workspace/bytes");
    await edit("create", "/workspace/bytes", { file_text: "text" });
    await edit("undo_edit", "/workspace/bytes");
    expect(await sandbox.readFile("/workspace/bytes", 10)).toEqual(Uint8Array.of(255, 0, 10));
    const path = "/workspace/often";
    for (let i = 0; i <= LIMITS.undoChangesMax; i += 1) await edit("create", path, { file_text: `${i}` });
    for (let i = 0; i < LIMITS.undoChangesMax; i += 1) expect(await edit("undo_edit", path)).toContain("taken back");
    expect(await textOf(path)).toBe("0");
    expect(await edit("undo_edit", path)).toContain("no change");
  });

  test("knows nothing of another sandbox's changes", async () => {
    await edit("create", "/workspace/here", { file_text: "x" });
    await using other = await host.open({ image: "host", limits: TEST_LIMITS }, never);
    const attachments = new Attachments(new AttachmentBudget(), { turn: 0, call: 1 });
    const context = { sandbox: other, toolMs: 5_000, outputChars: 16_384, attachments, signal: never };
    const answer = await toolbox.call("edit", '{"command":"undo_edit","path":"/workspace/here"}', context);
    expect(answer.output).toContain("no change");
  });
});

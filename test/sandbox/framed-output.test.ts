import { describe, expect, test } from "bun:test";
import { closeSync, writeSync } from "node:fs";
import { openPipe } from "../../src/libc.ts";
import { BoundedOutput, pushMerged } from "../../src/sandbox/bounded-output.ts";
import { FramedOutput } from "../../src/sandbox/framed-output.ts";
import { PipeReader } from "../../src/sandbox/pipe-reader.ts";

const never = new AbortController().signal;
const sink = () => new BoundedOutput({ headBytesMax: 100, tailBytesMax: 100 });

function framed() {
  const { readFd, writeFd } = openPipe("read");
  const reader = new PipeReader(readFd);
  return {
    output: new FramedOutput(reader),
    write: (text: string) => writeSync(writeFd, text),
    async [Symbol.asyncDispose]() {
      closeSync(writeFd);
      await reader.close();
    },
  };
}

describe("FramedOutput", () => {
  test("finds a mark that arrives byte by byte, and leaves what follows for the next", async () => {
    await using pipe = framed();
    const first = sink();
    const waiting = pipe.output.until(["abc"], first, never);
    for (const byte of "out\n\x1eabc 7\x1enext\n\x1edef\x1e") {
      pipe.write(byte);
      await Bun.sleep(0);
    }
    expect(await waiting).toEqual({ nonce: "abc", words: ["7"] });
    expect(first.text()).toBe("out");
    const second = sink();
    expect(await pipe.output.until(["def"], second, never)).toMatchObject({ nonce: "def" });
    expect(second.text()).toBe("next");
  });

  test("takes the earliest of several marks and passes over those of others", async () => {
    await using pipe = framed();
    pipe.write("\n\x1exyz 1\x1ea\n\x1esecond 2\x1eb\n\x1efirst 3\x1e");
    const seen = sink();
    expect(await pipe.output.until(["first", "second"], seen, never)).toEqual({ nonce: "second", words: ["2"] });
    expect(seen.text()).toBe("\n\x1exyz 1\x1ea");
  });

  test("goes on after an abort where it stopped", async () => {
    await using pipe = framed();
    const stop = new AbortController();
    const seen = sink();
    pipe.write("one\n\x1eab");
    const waiting = pipe.output.until(["abc"], seen, stop.signal);
    await Bun.sleep(0);
    stop.abort();
    expect(await waiting).toBe("aborted");
    pipe.write("c 0\x1e");
    expect(await pipe.output.until(["abc"], seen, never)).toEqual({ nonce: "abc", words: ["0"] });
    expect(seen.text()).toBe("one");
  });

  test("gives all that is left at the end of the pipe", async () => {
    const { readFd, writeFd } = openPipe("read");
    const reader = new PipeReader(readFd);
    writeSync(writeFd, "rest\n\x1eabc");
    closeSync(writeFd);
    const seen = sink();
    expect(await new FramedOutput(reader).until(["abc"], seen, never)).toBe("ended");
    expect(seen.text()).toBe("rest\n\x1eabc");
    await reader.close();
  });
});

describe("BoundedOutput", () => {
  test.each([1, 7, 64, 1_000])("keeps head and tail and counts the middle, in pieces of %d bytes", (size) => {
    const output = new BoundedOutput({ headBytesMax: 10, tailBytesMax: 5 });
    const all = Buffer.from(Array.from({ length: 1_000 }, (_, i) => 97 + (i % 26)));
    for (let at = 0; at < all.length; at += size) output.push(all.subarray(at, at + size));
    expect(output.text()).toBe(`abcdefghij\n[... 985 bytes left out ...]\n${all.subarray(-5).toString()}`);
    expect(output).toMatchObject({ totalBytes: 1_000, truncated: true });
  });

  test("holds few objects for many tiny writes", () => {
    const chunks: Uint8Array[] = [];
    const all = Buffer.from(Array.from({ length: 10_000 }, (_, i) => i % 256));
    for (const byte of all) pushMerged(chunks, Uint8Array.of(byte));
    expect(chunks.length).toBeLessThan(20);
    expect(Buffer.concat(chunks)).toEqual(all);
  });

  test("is exact up to its bound, and the head alone where no tail is kept", () => {
    const exact = new BoundedOutput({ headBytesMax: 3, tailBytesMax: 3 });
    exact.push(Buffer.from("abcdef"));
    expect([exact.text(), exact.truncated]).toEqual(["abcdef", false]);
    const head = new BoundedOutput({ headBytesMax: 3, tailBytesMax: 0 });
    head.push(Buffer.from("abcdef"));
    expect([head.text(), head.truncated]).toEqual(["abc", true]);
  });
});

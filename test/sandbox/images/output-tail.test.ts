import { describe, expect, test } from "bun:test";
import { IMAGE_LIMITS } from "../../../src/limits.ts";
import { OutputTail } from "../../../src/sandbox/images/output-tail.ts";

describe("OutputTail", () => {
  test("leads with the line that names the error, and says that lines were left out", () => {
    const tail = new OutputTail();
    const lines = Array.from({ length: 60 }, (_, at) => (at === 5 ? "E: Unable to locate package nope" : `line ${at}`));
    for (const line of lines) tail.push(line);
    const kept = IMAGE_LIMITS.outputLinesKept;
    expect(tail.toError("apt ended with 100").message.split("\n")).toEqual([
      "apt ended with 100:",
      "E: Unable to locate package nope",
      `the last ${kept} of 60 lines of its output:`,
      ...lines.slice(-kept),
    ]);
  });

  test("gives all of a short output, and points to doctor when bubblewrap itself refused", () => {
    const [short, refused] = [new OutputTail(), new OutputTail()];
    short.push("E: no");
    expect(short.toError("apt ended with 1").message).toBe("apt ended with 1:\nE: no");
    refused.push("bwrap: Creating new namespace failed: No space left on device");
    expect(refused.toError("pip ended with 1")).toMatchObject({
      fault: "machine",
      message: expect.stringContaining("rolloutd doctor"),
    });
  });
});

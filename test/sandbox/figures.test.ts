import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { LIMITS } from "../../src/limits.ts";
import { createHostImage } from "../../src/sandbox/host-image.ts";
import { fixedCatalog } from "../../src/sandbox/image.ts";
import type { Sandbox, SandboxHost } from "../../src/sandbox/sandbox.ts";
import { AttachmentBudget, Attachments } from "../../src/tools/attachments.ts";
import { createToolbox } from "../../src/tools/toolbox.ts";
import { pythonPackages } from "../support/python-packages.ts";
import { TEST_LIMITS, testSandboxHost } from "../support/sandbox-host.ts";

setDefaultTimeout(300_000);

const never = new AbortController().signal;
const MOUNTED = "/opt/packages";
const PNG = Buffer.from([0x89, 0x50, 0x4e, 0x47]);
let host: SandboxHost;
let sandbox: Sandbox;

beforeAll(async () => {
  const packages = await pythonPackages("matplotlib");
  const base = createHostImage({ usrLocal: false });
  const image = { ...base, mounts: [...base.mounts, "--ro-bind", packages, MOUNTED], env: { PYTHONPATH: MOUNTED } };
  host = await testSandboxHost({ images: fixedCatalog([image]) });
  const limits = { ...TEST_LIMITS, memoryBytes: 4 * 2 ** 30, diskBytes: 64 << 20, fileBytes: 64 << 20 };
  sandbox = await host.open({ image: "host", limits }, never);
});
afterAll(() => host.close());

const py = (code: string, timeoutMs = 60_000) => sandbox.python(code, { timeoutMs, signal: never });

describe("figures of a Python cell", () => {
  test("are given as PNG images, once, in their order, and closed", async () => {
    await py("import matplotlib.pyplot as plt");
    const two = await py(
      "plt.figure(figsize=(1, 1)); plt.plot([1, 2])\nplt.figure(figsize=(2, 1)); plt.plot([2, 1])\nplt.show()",
    );
    expect(two).toMatchObject({ output: "", exitCode: 0, figuresLost: 0 });
    expect(two.figures.map((figure) => Buffer.from(figure.subarray(0, 4)).equals(PNG))).toEqual([true, true]);
    // The width stands in bytes 16 to 19 of a PNG.
    const widths = two.figures.map((figure) => Buffer.from(figure).readUInt32BE(16));
    expect(widths).toEqual([100, 200]);
    expect((await py("plt.get_fignums()")).output).toBe("[]\n");
    expect((await py("1")).figures).toEqual([]);
  });

  test("come with an error of the cell, and are bounded in number", async () => {
    const many = await py(`for i in range(${LIMITS.figuresMax + 3}): plt.figure(figsize=(1, 1))\n1 / 0`);
    expect(many.exitCode).toBe(1);
    expect(many.figures).toHaveLength(LIMITS.figuresMax);
    expect(many.figuresLost).toBe(3);
  });

  test("are bounded in bytes, and one that cannot be drawn is told of", async () => {
    const noise = "import numpy\nplt.figure(figsize=(40, 40), dpi=100)\nplt.imshow(numpy.random.rand(4000, 4000, 3))";
    const large = await py(noise);
    expect(large).toMatchObject({ figures: [], figuresLost: 1 });
    const broken = await py("plt.figure(figsize=(1, 1))\nplt.title('$\\\\nothing{$')");
    expect(broken.figuresLost).toBe(1);
    expect(broken.output).toContain("A figure could not be saved: ValueError");
    await py("plt.close('all')");
    expect(await py("6 * 7")).toMatchObject({ output: "42\n", figuresLost: 0 });
  });

  test("can be interrupted while they are drawn", async () => {
    await py("import time\ndef slow(*a, **k): time.sleep(100)\nreal = plt.Figure.savefig\nplt.Figure.savefig = slow");
    const late = await py("plt.figure(figsize=(1, 1))\nprint('drawn')", 500);
    expect(late).toMatchObject({ timedOut: true, figures: [], figuresLost: 1 });
    expect(late.output).toContain("drawn\nA figure could not be saved: KeyboardInterrupt");
    await py("plt.Figure.savefig = real; plt.close('all')");
    expect((await py("'alive'")).output).toBe("'alive'\n");
  });

  test.each([
    ["a symlink to a file of the host", "os.symlink('/etc/passwd', path)"],
    ["a FIFO", "os.mkfifo(path)"],
    ["a folder", "os.mkdir(path)"],
    ["a file that is no PNG", "open(path, 'w').write('text')"],
    ["nothing", "pass"],
  ])("are not taken where the cell puts %s in their place", async (_, act) => {
    const code = `import os\ndef forge(self, path, **k):\n  ${act}\nreal = plt.Figure.savefig\nplt.Figure.savefig = forge\nplt.figure()`;
    expect(await py(code)).toMatchObject({ figures: [], figuresLost: 1 });
    await py("plt.Figure.savefig = real");
    expect((await py("plt.figure(figsize=(1, 1)); 1")).figures).toHaveLength(1);
  });

  test("become attachments that the model is told of", async () => {
    const attachments = new Attachments(new AttachmentBudget(), { turn: 2, call: 1 });
    const context = { sandbox, toolMs: 60_000, outputChars: 16_384, attachments, signal: never };
    const code = JSON.stringify({ code: "plt.figure(figsize=(1, 1)); print('x')" });
    const answer = await createToolbox(["python"]).call("python", code, context);
    expect(answer.output).toBe("x\n[figure saved as figure-2-1-1.png]");
    expect(answer.attachments.map((file) => file.name)).toEqual(["figure-2-1-1.png"]);
  });
});

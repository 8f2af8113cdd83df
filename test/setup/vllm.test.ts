import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import { cacheDir } from "../../scripts/setup/cache.ts";
import { runCommand } from "../../scripts/setup/command.ts";
import { ensureLlamaCpp } from "../../scripts/setup/model.ts";
import { installTorch } from "../../scripts/setup/vllm.ts";
import { aFolder } from "../support/store.ts";

setDefaultTimeout(60_000);
const PIP_SETTINGS = { PIP_CONFIG_FILE: "/dev/null", PIP_NO_INDEX: "1", PIP_FIND_LINKS: "" };
const before = Object.fromEntries(Object.keys(PIP_SETTINGS).map((name) => [name, process.env[name]]));

afterEach(() => {
  for (const [name, value] of Object.entries(before)) {
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  }
});

describe("installTorch", () => {
  test("says why, and installs nothing, when pip offers no build for CPUs", async () => {
    using folder = aFolder();
    const environment = join(folder.path, "venv");
    const { python } = await ensureLlamaCpp(cacheDir(), () => {});
    await runCommand(["python3", "-m", "venv", "--without-pip", environment]);
    Object.assign(process.env, PIP_SETTINGS);
    const why = await installTorch([python, "-m", "pip", "--python", join(environment, "bin", "python3")]);
    expect(why).toStartWith("pip offers no CPU build of torch (ERROR: No matching distribution found for torch==");
    expect([...new Bun.Glob("**/torch").scanSync({ cwd: environment, onlyFiles: false })]).toEqual([]);
  });
});

import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { cacheDir } from "../../scripts/setup/cache.ts";
import { runCommand } from "../../scripts/setup/command.ts";
import { testBwrap } from "../../test/support/bwrap.ts";

const PACKAGES = ["swe-rex==1.4.0", "mini-swe-agent==2.4.6"];

/** Medians of one `echo hi` in the shells of other systems, ms. Empty when they cannot be installed; says why. */
export async function shellPeers(): Promise<{ name: string; median: number }[]> {
  const environment = join(cacheDir(), "bench-peers");
  const python = join(environment, "bin/python");
  try {
    if (!existsSync(join(environment, "ready"))) {
      await runCommand(["python3", "-m", "venv", environment]);
      await runCommand([python, "-m", "pip", "install", "--quiet", ...PACKAGES]);
      await Bun.write(join(environment, "ready"), "");
    }
    const path = `${dirname(await testBwrap())}:${process.env.PATH ?? ""}`;
    const out = await runCommand([python, join(import.meta.dir, "shell_peers.py")], { env: { PATH: path } });
    return out
      .trim()
      .split("\n")
      .flatMap((line) => {
        const { name, median_ms, problem } = JSON.parse(line) as {
          name: string;
          median_ms: number | null;
          problem?: string;
        };
        if (median_ms === null) console.error(`peer ${name} was not measured: ${problem}`);
        return median_ms === null ? [] : [{ name, median: median_ms }];
      });
  } catch (error) {
    console.error(`peers' shells were not measured: ${error instanceof Error ? error.message : String(error)}`);
    return [];
  }
}

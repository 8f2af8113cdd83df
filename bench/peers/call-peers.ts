import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { cacheDir } from "../../scripts/setup/cache.ts";
import { runCommand } from "../../scripts/setup/command.ts";
import { testBwrap } from "../../test/support/bwrap.ts";

const PACKAGES = ["swe-rex==1.4.0", "mini-swe-agent==2.4.6", "jupyter-client==8.6.3", "ipykernel==6.29.5"];

export interface CallPeer {
  kind: "shell" | "python";
  name: string;
  median: number;
}

/** Medians of one `echo hi`, or of the cell `1`, in other systems, ms. Empty when they cannot be installed; says why. */
export async function callPeers(): Promise<CallPeer[]> {
  const environment = join(cacheDir(), "bench-peers");
  const python = join(environment, "bin/python");
  try {
    const ready = join(environment, `ready-${Bun.hash(PACKAGES.join()).toString(36)}`);
    if (!existsSync(ready)) {
      await runCommand(["python3", "-m", "venv", environment]);
      await runCommand([python, "-m", "pip", "install", "--quiet", ...PACKAGES]);
      await Bun.write(ready, "");
    }
    const path = `${dirname(await testBwrap())}:${process.env.PATH ?? ""}`;
    const out = await runCommand([python, join(import.meta.dir, "call_peers.py")], { env: { PATH: path } });
    return out
      .trim()
      .split("\n")
      .flatMap((line) => {
        const { kind, name, median_ms, problem } = JSON.parse(line) as {
          kind: CallPeer["kind"];
          name: string;
          median_ms: number | null;
          problem?: string;
        };
        if (median_ms === null) console.error(`peer ${name} was not measured: ${problem}`);
        return median_ms === null ? [] : [{ kind, name, median: median_ms }];
      });
  } catch (error) {
    console.error(`peers were not measured: ${error instanceof Error ? error.message : String(error)}`);
    return [];
  }
}

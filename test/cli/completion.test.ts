import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Command } from "commander";
import { completionScript } from "../../src/cli/completion.ts";
import { runCli } from "../support/cli.ts";
import { eventually } from "../support/leaks.ts";
import { aFolder } from "../support/store.ts";

/** Types `keys` into a bash on a terminal that has sourced `script`, until what it shows has all of `wanted`. */
async function typed(script: string, keys: string, wanted: readonly string[], cwd = "/"): Promise<string> {
  using folder = aFolder();
  const file = join(folder.path, "completion.bash");
  writeFileSync(
    file,
    `${script}\nPS1='ready> '\nbind 'set show-all-if-ambiguous on'\nbind 'set enable-bracketed-paste off'\n`,
  );
  let shown = "";
  const decoder = new TextDecoder();
  const hear = (bytes: Uint8Array) => {
    shown += decoder.decode(bytes, { stream: true });
  };
  const shell = Bun.spawn(["/bin/bash", "--noprofile", "--rcfile", file, "-i"], {
    cwd,
    env: { PATH: "/usr/bin:/bin", TERM: "dumb", HOME: folder.path },
    terminal: { cols: 200, rows: 50, data: (_terminal, bytes) => hear(bytes) },
  });
  try {
    expect(await eventually(() => shown.includes("ready> "))).toBe(true);
    shown = "";
    shell.terminal?.write(keys);
    await eventually(() => wanted.every((word) => shown.includes(word)));
    return shown;
  } finally {
    shell.kill("SIGKILL");
    await shell.exited;
  }
}

describe("completionScript", () => {
  const program = new Command("tool");
  program.command("serve").option("--port <n>", "a port").option("--watch", "a switch");
  program.command("backend").command("add <url>").option("--role <role>", "it's a role");
  const script = completionScript(program, "bash");

  test("completes commands, also those of a command", async () => {
    expect(await typed(script, "tool \t", ["backend", "serve"])).toMatch(/backend\s+serve/);
    expect(await typed(script, "tool backend a\t", ["tool backend add "])).toContain("tool backend add ");
  });

  test("completes the options of the command that was typed", async () => {
    const shown = await typed(script, "tool serve --\t", ["--port", "--watch", "--help"]);
    for (const flag of ["--port", "--watch", "--help"]) expect(shown).toContain(flag);
    expect(shown).not.toContain("--role");
  });

  test("completes files where a value or an argument stands", async () => {
    using folder = aFolder();
    writeFileSync(join(folder.path, "unusual-name"), "");
    for (const line of ["tool serve unus\t", "tool serve --port unus\t"]) {
      expect(await typed(script, line, ["unusual-name "], folder.path)).toContain("unusual-name ");
    }
  });

  test("knows for each shell every command and option of the real program, in quotes that hold", async () => {
    for (const shell of ["bash", "zsh", "fish"]) {
      const { out, code } = await runCli(["completion", shell]);
      expect(code).toBe(0);
      for (const word of ["serve", "backend", "drain", "sandboxes-max"]) expect(out).toContain(word);
      expect(
        (
          out
            .split("\n")
            .filter((line) => line.startsWith("complete"))
            .join("")
            .match(/'/g) ?? []
        ).length % 2,
      ).toBe(0);
    }
    expect((await runCli(["completion", "tcsh"])).err).toContain("bash, zsh, fish");
  });
});

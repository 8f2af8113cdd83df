import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { cacheDir, SYSTEM_CACHE } from "../../scripts/setup/cache.ts";

/** The interpreter that sandboxes of the image `host` have. */
const PYTHON = "/usr/bin/python3";

/** A folder with the real package of that name and what it needs, installed by pip once for each version of Python. Throws with pip's words. */
export async function pythonPackages(name: string): Promise<string> {
  const version = await output([PYTHON, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]);
  const places = [cacheDir(), SYSTEM_CACHE].map((cache) => join(cache, `${name}-python${version.trim()}`));
  const there = places.find((place) => existsSync(place));
  if (there !== undefined) return there;
  const [folder = ""] = places;
  mkdirSync(cacheDir(), { recursive: true });
  const made = mkdtempSync(`${folder}-`);
  try {
    const options = ["--quiet", "--target", join(made, "packages"), "--only-binary", ":all:", "--no-compile"];
    await output(["python3", "-m", "pip", "install", ...options, "--python-version", version.trim(), name]);
    // In one step: two test runs at once both get a whole folder.
    if (!existsSync(folder)) renameSync(join(made, "packages"), folder);
  } finally {
    rmSync(made, { recursive: true, force: true });
  }
  return folder;
}

async function output(command: string[]): Promise<string> {
  const child = Bun.spawn(command, { stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  const [stdout, stderr, exitCode] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  if (exitCode !== 0) throw new Error(`${command.join(" ")} ended with ${exitCode}: ${stderr}`);
  return stdout;
}

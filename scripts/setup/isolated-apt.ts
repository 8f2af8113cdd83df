import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { runCommand } from "./command.ts";

/** Keys of Debian's archives; apt checks every signature with them. */
export const DEBIAN_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg";

export interface IsolatedApt {
  /** An empty folder of the caller's: package lists go below it, and so does what is fetched. */
  work: string;
  /** One line of a sources.list each, without options: `deb-src URI SUITE COMPONENT`. */
  sources: readonly string[];
  /** Debian's name of an architecture; null for the machine's own. */
  architecture: string | null;
}

/**
 * Fetches with apt from `sources` alone into `work`: `command` is what follows `apt-get` once the lists are there.
 * Reads and changes nothing of the machine's own apt, and needs no root.
 */
export async function fetchWithApt(apt: IsolatedApt, command: readonly string[]): Promise<void> {
  const { work, sources, architecture } = apt;
  const list = join(work, "sources.list");
  const status = join(work, "status");
  await writeFile(list, sources.map((line) => line.replace(/^(\S+) /, `$1 [signed-by=${DEBIAN_KEYRING}] `)).join("\n"));
  await writeFile(status, "");
  await mkdir(join(work, "lists", "partial"), { recursive: true });
  await mkdir(join(work, "cache", "archives", "partial"), { recursive: true });
  const settings = {
    "Dir::Etc::SourceList": list,
    "Dir::Etc::SourceParts": "-",
    "Dir::State::Lists": join(work, "lists"),
    "Dir::Cache": join(work, "cache"),
    "APT::Sandbox::User": "root",
    ...(architecture === null
      ? {}
      : { "APT::Architecture": architecture, "APT::Architectures": architecture, "Dir::State::Status": status }),
  };
  const options = Object.entries(settings).flatMap(([key, value]) => ["-o", `${key}=${value}`]);
  await runCommand(["apt-get", ...options, "update"], { cwd: work });
  await runCommand(["apt-get", ...options, ...command], { cwd: work });
}

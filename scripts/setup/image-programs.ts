import { existsSync } from "node:fs";
import { aptInstall } from "./bubblewrap.ts";
import { step } from "./command.ts";
import type { Report } from "./model.ts";

/** What builds and imports images, with the package that brings it. */
const PROGRAMS: Readonly<Record<string, string>> = {
  "/usr/bin/skopeo": "skopeo",
  "/usr/bin/umoci": "umoci",
  "/usr/bin/mmdebstrap": "mmdebstrap",
  "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
};

/**
 * Installs as root what images are built and imported with. An ordinary user is told what lacks: the tests that need it are
 * skipped and say so, all else works without. Gives what is missing still.
 */
export async function ensureImagePrograms(report: Report): Promise<string[]> {
  const missing = Object.entries(PROGRAMS).flatMap(([file, name]) => (existsSync(file) ? [] : [name]));
  if (missing.length === 0) return [];
  if (process.getuid?.() === 0) {
    await step(`packages ${missing.join(" ")}`, report, () => aptInstall(missing));
    return [];
  }
  report(
    `${missing.join(", ")} missing, for images; root installs them: apt-get install --no-install-recommends ${missing.join(" ")}`,
  );
  return missing;
}

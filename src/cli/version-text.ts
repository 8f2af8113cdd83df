import notice from "../../NOTICE" with { type: "text" };
import { BUILD, VERSION } from "../version.ts";

/** What `rolloutd version` prints: one fact a line, the name and version first. */
export function versionText(): string {
  const facts = [
    ["build", BUILD === null ? "source" : `commit ${BUILD.commit}, ${BUILD.builtAt}`],
    ["bun", Bun.version],
    ["platform", `${process.platform}-${process.arch}`],
    ["bubblewrap", BUILD?.bwrapVersion ? `${BUILD.bwrapVersion}, inside` : "none inside: this machine's is used"],
  ] as const;
  return [`rolloutd ${VERSION}`, ...facts.map(([name, value]) => `${name.padEnd(11)}${value}`)].join("\n");
}

/** The notices and licences of everything that a binary holds. */
export function licensesText(): string {
  return notice.trimEnd();
}

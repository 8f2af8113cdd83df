import manifest from "../package.json" with { type: "json" };

/** `0.1.0`, as in package.json. */
export const VERSION: string = manifest.version;

/** What `bun run build` writes into a binary. */
export interface BuildInfo {
  /** The commit it was built from, with `+changes` when files differed from it; `unknown` outside a checkout. */
  commit: string;
  /** When, in UTC to the second. */
  builtAt: string;
  /** Version of the bubblewrap inside; null when it carries none. */
  bwrapVersion: string | null;
}

/** The build replaces this name by an object; from source nothing has it. */
declare const ROLLOUTD_BUILD: BuildInfo | undefined;

/** How this program was built; null when it runs from source. */
export const BUILD: BuildInfo | null = typeof ROLLOUTD_BUILD === "undefined" ? null : ROLLOUTD_BUILD;

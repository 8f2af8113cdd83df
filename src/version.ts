import manifest from "../package.json" with { type: "json" };

/** `0.1.0`, as in package.json. */
export const VERSION: string = manifest.version;

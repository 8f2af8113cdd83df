/**
 * Where a Worker's entry point is; `path` counts from src. This file stands at the root of src because bundling moves
 * all code into the executable's root while the Workers keep their folders: a path relative to any other file would
 * be right in a checkout only.
 */
export function workerUrl(path: string): URL {
  return new URL(`./${path}`, import.meta.url);
}

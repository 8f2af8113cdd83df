import { readFileSync } from "node:fs";
import { join } from "node:path";

/**
 * Runs while the program is bundled or loaded: the SQL files of `migrations/` in order, each as its statements.
 * The binary carries them, so it needs no folder beside it.
 */
export function embeddedMigrations(): string[][] {
  const folder = join(import.meta.dir, "../../migrations");
  const journal: { entries: { tag: string }[] } = JSON.parse(readFileSync(join(folder, "meta/_journal.json"), "utf8"));
  return journal.entries.map(({ tag }) =>
    readFileSync(join(folder, `${tag}.sql`), "utf8").split("--> statement-breakpoint"),
  );
}

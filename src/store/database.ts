import { Database } from "bun:sqlite";
import { chmodSync, mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { drizzle } from "drizzle-orm/bun-sqlite";
import { RolloutError } from "../errors.ts";
import { LIMITS } from "../limits.ts";
import { lockFile } from "./lock.ts";
import { embeddedMigrations } from "./migrations.macro.ts" with { type: "macro" };

/** The one connection, as the verbs see it. */
export type Db = ReturnType<typeof drizzle<Record<string, never>, Database>>;

export interface OpenDatabase extends Disposable {
  client: Database;
  db: Db;
}

/** What no file stands behind: for tests. */
const IN_MEMORY = ":memory:";

/**
 * Opens `file` for this process alone, makes its folder if there is none, and brings its tables up to date. Throws
 * RolloutError store_failed when another server has it, when a newer version made it, or when it is no database.
 */
export function openDatabase(file: string): OpenDatabase {
  if (file !== IN_MEMORY) mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const lock = file === IN_MEMORY ? null : lockFile(`${file}.lock`);
  let client: Database | null = null;
  try {
    client = new Database(file, { create: true, strict: true });
    // Prompts and API keys are nobody else's business, whatever the umask says.
    if (file !== IN_MEMORY) chmodSync(file, 0o600);
    configure(client);
    migrate(client, file);
  } catch (cause) {
    client?.close();
    lock?.[Symbol.dispose]();
    if (cause instanceof RolloutError) throw cause;
    const detail = cause instanceof Error ? cause.message : String(cause);
    throw new RolloutError("store_failed", `cannot open ${file}: ${detail}`, { cause });
  }
  const opened = client;
  return {
    client: opened,
    db: drizzle({ client: opened }),
    [Symbol.dispose]() {
      // So that the file alone is the database, and may be copied.
      opened.run("PRAGMA wal_checkpoint(TRUNCATE)");
      opened.close();
      lock?.[Symbol.dispose]();
    },
  };
}

function configure(client: Database): void {
  client.run("PRAGMA journal_mode = WAL");
  // NORMAL survives the death of the process; only FULL survives the death of the machine, and group commit pays for it.
  client.run("PRAGMA synchronous = FULL");
  client.run(`PRAGMA busy_timeout = ${LIMITS.storeBusyMs}`);
  client.run("PRAGMA foreign_keys = ON");
}

/** `user_version` counts the migrations that were applied; each is one transaction. */
function migrate(client: Database, file: string): void {
  const migrations = embeddedMigrations();
  const row = client.query<{ user_version: number }, []>("PRAGMA user_version").get();
  const applied = row?.user_version ?? 0;
  if (applied > migrations.length) {
    throw new RolloutError(
      "store_failed",
      `${file} was made by a newer version: it has ${applied} migrations, this one knows ${migrations.length}`,
    );
  }
  for (const [index, statements] of migrations.entries()) {
    if (index < applied) continue;
    client
      .transaction(() => {
        for (const statement of statements) client.run(statement);
        client.run(`PRAGMA user_version = ${index + 1}`);
      })
      .immediate();
  }
}

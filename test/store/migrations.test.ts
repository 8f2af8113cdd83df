import { describe, expect, test } from "bun:test";
import { is } from "drizzle-orm";
import { getTableConfig, SQLiteTable } from "drizzle-orm/sqlite-core";
import { openDatabase } from "../../src/store/database.ts";
import * as tables from "../../src/store/tables.ts";

const configs = Object.values(tables)
  .filter((table) => is(table, SQLiteTable))
  .map((table) => getTableConfig(table));

describe("openDatabase", () => {
  test("makes the tables, columns and indexes that tables.ts names (else: bun run migrate)", () => {
    using database = openDatabase(":memory:");
    const ask = (statement: string) => database.client.query<{ name: string }, []>(statement).all();
    const named = (rows: readonly { name: string }[]) => rows.map((row) => row.name).sort();
    for (const { name, columns, indexes } of configs) {
      expect([name, named(ask(`PRAGMA table_info(${name})`))]).toEqual([name, named(columns)]);
      const made = named(ask(`PRAGMA index_list(${name})`));
      for (const { config } of indexes) expect(made).toContain(config.name);
    }
    expect(configs).toHaveLength(14);
  });

  test("serves every claim from its partial index, without a sort", () => {
    using database = openDatabase(":memory:");
    const plan = (statement: string) =>
      database.client
        .query<{ detail: string }, []>(`EXPLAIN QUERY PLAN ${statement}`)
        .all()
        .map((row) => row.detail);
    const order = "ORDER BY priority DESC, created_at, id LIMIT 1";
    expect(plan(`SELECT id FROM jobs WHERE model = 'm' AND state = 'queued' ${order}`)).toEqual([
      "SEARCH jobs USING COVERING INDEX jobs_claim (model=?)",
    ]);
    expect(plan(`SELECT id FROM jobs WHERE state = 'awaiting_eval' ${order}`)).toEqual([
      "SCAN jobs USING COVERING INDEX jobs_claim_eval",
    ]);
  });
});

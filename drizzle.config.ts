import type { Config } from "drizzle-kit";

/** Read by `bun run migrate` alone: it compares the tables with the newest snapshot and writes the next SQL file. */
const config: Config = {
  dialect: "sqlite",
  schema: "./src/store/tables.ts",
  out: "./migrations",
};

// drizzle-kit asks for a default export; this is the only one in the repository.
export default config;

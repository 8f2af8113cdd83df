/** Writes the tables of attacks into docs/sandbox.md; the tests compare them. */
import { join } from "node:path";
import { attackTables, withTables } from "../test/attacks/tables.ts";

const path = join(import.meta.dir, "../docs/sandbox.md");
await Bun.write(path, withTables(await Bun.file(path).text(), attackTables()));

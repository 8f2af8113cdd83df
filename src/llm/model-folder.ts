import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";

const Context = z.looseObject({ max_position_embeddings: z.int().min(1) });
const Config = z.union([Context, z.looseObject({ text_config: Context }).transform((config) => config.text_config)]);

/** The longest context that a model's own config.json tells, tokens; null when the folder has none that does. */
export async function contextOfFolder(folder: string): Promise<number | null> {
  const text = await readFile(join(folder, "config.json"), "utf8").catch(() => null);
  if (text === null) return null;
  try {
    return Config.safeParse(JSON.parse(text)).data?.max_position_embeddings ?? null;
  } catch {
    return null;
  }
}

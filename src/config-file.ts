import { z } from "zod";
import { parseToml } from "./toml.ts";

/** A setting that cannot be used: which one, where it came from, and what is accepted. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
}

/** The settings of a TOML file as they stand there, unchecked. Throws ConfigError with the path, and the line of a fault. */
export async function readConfigFile(file: string): Promise<Record<string, unknown>> {
  let text: string;
  try {
    text = await Bun.file(file).text();
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new ConfigError(`--config ${file} cannot be read: ${why}`, { cause });
  }
  try {
    return z.record(z.string(), z.unknown()).parse(parseToml(text));
  } catch (cause) {
    throw new ConfigError(`--config ${file} is not TOML: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    });
  }
}

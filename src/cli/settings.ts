import { type Command, Option } from "commander";
import { flagName, type OptionKey, SERVER_OPTIONS } from "../config.ts";

/** What the flags of a command say of a server's settings. */
export interface Settings {
  flags: Readonly<Record<string, unknown>>;
  /** The TOML file of `--config`. */
  configFile: string | null;
}

export const ALL_SETTINGS = Object.keys(SERVER_OPTIONS) as OptionKey[];
/** Those that say which sandboxes there are and how they are started: for commands that use them without a server. */
export const SANDBOX_SETTINGS: readonly OptionKey[] = [
  "data",
  "images",
  "recipes",
  "sandbox_uid",
  "network_private",
  "bwrap",
];

const REPEATED: readonly OptionKey[] = ["backend", "allowed_host"];

/** Gives `command` a flag for each of `keys`, and `--config`, as `serve` has them. */
export function addSettings(command: Command, keys: readonly OptionKey[]): Command {
  command.option("--config <file>", "TOML file with settings of serve, written in snake_case");
  for (const key of keys) {
    const option = new Option(`${flagName(key)} <value>`, describe(key));
    if (REPEATED.includes(key)) {
      option.argParser((value: string, previous: string[] | undefined) => [...(previous ?? []), value]);
    }
    command.addOption(option);
  }
  return command.addHelpText(
    "after",
    "\nEach setting may also come from the environment: --sandbox-uid is ROLLOUTD_SANDBOX_UID.",
  );
}

/** What was given of `keys`. */
export function settingsOf(options: Readonly<Record<string, unknown>>, keys: readonly OptionKey[]): Settings {
  const flags = Object.fromEntries(keys.map((key) => [key, options[toCamel(key)]]));
  return { flags, configFile: typeof options.config === "string" ? options.config : null };
}

/** The schema's description and its default, in one line. */
function describe(key: OptionKey): string {
  const schema = SERVER_OPTIONS[key];
  const fallback: unknown = schema.safeParse(undefined).data;
  const isShown = (typeof fallback === "string" || typeof fallback === "number") && fallback !== "";
  return `${schema.description ?? key}${isShown ? ` (default: ${fallback})` : ""}`;
}

function toCamel(key: string): string {
  return key.replace(/_([a-z])/g, (_match, letter: string) => letter.toUpperCase());
}

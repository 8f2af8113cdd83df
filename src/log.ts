/** JSON log lines on stderr, one object a line: `{"at", "level", "event", ...}`. Events are `area:what`. */
import { systemClock, wireTime } from "./clock.ts";

export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export interface Log {
  debug(event: string, fields?: Record<string, unknown>): void;
  info(event: string, fields?: Record<string, unknown>): void;
  warn(event: string, fields?: Record<string, unknown>): void;
  error(event: string, fields?: Record<string, unknown>): void;
}

/** Writes lines of `level` and above with `write`; an Error among the fields becomes its message and its causes. */
export function createLog(level: LogLevel, write: (line: string) => void): Log {
  const floor = LOG_LEVELS.indexOf(level);
  const at =
    (own: LogLevel) =>
    (event: string, fields: Record<string, unknown> = {}) => {
      if (LOG_LEVELS.indexOf(own) < floor) return;
      const line = { at: wireTime(systemClock.nowMs()), level: own, event, ...fields };
      write(`${JSON.stringify(line, (_key, value) => (value instanceof Error ? describe(value) : value))}\n`);
    };
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

/** A log that says nothing: for tests and for commands whose output is their answer. */
export const silentLog: Log = createLog("error", () => {});

function describe(error: Error): unknown {
  const cause = error.cause instanceof Error ? describe(error.cause) : error.cause;
  return { message: error.message, stack: error.stack, ...(cause === undefined ? {} : { cause }) };
}

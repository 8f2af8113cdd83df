/** One thing that was looked at on this machine. */
export interface Finding {
  check: string;
  /** `broken`: sandboxes do not start or do not confine, and no server does. `lacking`: it works, but for `consequence`. */
  state: "ok" | "lacking" | "broken";
  detail: string;
  /** What it means for whoever runs a server here; null when all is well. */
  consequence: string | null;
  /** A command or setting that mends it; null when all is well or nothing can be said. */
  fix: string | null;
}

/** What is said of a check that does not hold. */
export interface Fault {
  state?: "lacking" | "broken";
  consequence: string;
  fix: string | null;
}

/** `fault` counts when it does not hold; `broken` unless it says otherwise. */
export function finding(check: string, holds: boolean, detail: string, fault: Fault): Finding {
  if (holds) return { check, state: "ok", detail, consequence: null, fix: null };
  return { check, state: fault.state ?? "broken", detail, consequence: fault.consequence, fix: fault.fix };
}

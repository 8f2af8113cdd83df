import { SingleBar } from "cli-progress";
import type { Clock } from "../clock.ts";
import { type ApiClient, CliError, UnreachableError } from "./api-client.ts";
import { untilInterrupted } from "./output.ts";
import { askPatiently } from "./patience.ts";
import { formatReward } from "./table.ts";
import { type WireResult, WireResults } from "./wire.ts";

/** What a watched set of jobs has come to so far. */
export class Tally {
  readonly results: WireResult[] = [];
  readonly failures = new Map<string, number>();
  #rewards = 0;
  #rewarded = 0;

  add(result: WireResult): void {
    this.results.push(result);
    const outcome = result.job.outcome;
    if (outcome === null) return;
    if (outcome.reward !== null) {
      this.#rewards += outcome.reward;
      this.#rewarded += 1;
    } else this.failures.set(outcome.end_reason, (this.failures.get(outcome.end_reason) ?? 0) + 1);
  }

  get meanReward(): number | null {
    return this.#rewarded === 0 ? null : this.#rewards / this.#rewarded;
  }

  /** `none`, or `backend_unreachable 2, cancelled 1`. */
  get failureText(): string {
    const parts = [...this.failures].map(([reason, count]) => `${reason} ${count}`);
    return parts.length === 0 ? "none" : parts.join(", ");
  }
}

export interface WatchOptions {
  jobIds: ReadonlySet<string>;
  /** Place in the results log to start after. */
  after: number;
  format: "native" | "none";
  /** Called with each finished job of the set, in commit order. */
  onResult: (result: WireResult) => void | Promise<void>;
  /** For the pauses before a server that is away is asked again. */
  clock: Clock;
}

const WAIT_S = 5;
const PAGE_ROWS = 100;
/** Where there is no terminal a line of progress comes no more often than this. */
const LINE_EVERY_SECONDS = 5;

/**
 * Follows the results log until every job of the set is in it, with a progress bar on a terminal and a line now and
 * then elsewhere. Returns the tally; what it reads past other jobs is skipped. Throws CliError when the server stays
 * away, and with exit code 130 at Ctrl-C; both say how to go on, since the jobs do.
 */
export async function watchJobs(client: ApiClient, options: WatchOptions): Promise<Tally> {
  const tally = new Tally();
  const progress = openProgress(options.jobIds.size);
  const startMs = performance.now();
  let after = options.after;
  const goOn = () =>
    `${tally.results.length} of ${options.jobIds.size} jobs were seen to finish; the others go on in the server. ` +
    `Read their results with: rolloutd results --after ${after} --follow`;
  const follow = async () => {
    while (tally.results.length < options.jobIds.size) {
      const path = `/v1/results?after=${after}&limit=${PAGE_ROWS}&wait_s=${WAIT_S}&format=${options.format}`;
      const page = await askPatiently(options.clock, () => client.get(path, WireResults));
      for (const result of page.results) {
        if (!options.jobIds.has(result.job.id)) continue;
        tally.add(result);
        await options.onResult(result);
      }
      after = page.next;
      progress.update(tally, (performance.now() - startMs) / 1_000);
    }
  };
  try {
    await untilInterrupted(follow, goOn);
  } catch (error) {
    if (!(error instanceof UnreachableError)) throw error;
    throw new CliError(`${error.message}\n${goOn()}`);
  } finally {
    progress.stop();
  }
  return tally;
}

interface Progress {
  update(tally: Tally, seconds: number): void;
  stop(): void;
}

function openProgress(total: number): Progress {
  const facts = (tally: Tally, seconds: number) => ({
    rate: (tally.results.length / Math.max(seconds, 0.001)).toFixed(1),
    reward: formatReward(tally.meanReward),
    failures: tally.failureText,
  });
  if (!process.stderr.isTTY) {
    let shown = 0;
    let shownAtSeconds = 0;
    return {
      update(tally, seconds) {
        const isDue = tally.results.length === total || seconds - shownAtSeconds >= LINE_EVERY_SECONDS;
        if (tally.results.length === shown || !isDue) return;
        shown = tally.results.length;
        shownAtSeconds = seconds;
        const { rate, reward, failures } = facts(tally, seconds);
        console.error(`${shown}/${total} finished, ${rate}/s, mean reward ${reward}, without reward: ${failures}`);
      },
      stop() {},
    };
  }
  const bar = new SingleBar({
    format:
      "{bar} {value}/{total} | {rate}/s | mean reward {reward} | without reward: {failures} | {duration_formatted}",
    stream: process.stderr,
    hideCursor: true,
    barsize: 24,
  });
  bar.start(total, 0, { rate: "0.0", reward: "-", failures: "none" });
  return {
    update: (tally, seconds) => bar.update(tally.results.length, facts(tally, seconds)),
    stop: () => bar.stop(),
  };
}

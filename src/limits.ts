/**
 * Every bound in one place: what it limits, what it costs, what happens when it is reached.
 * Defaults that a user may change are in `config.ts`; these are the walls around them.
 */
export const LIMITS = {
  /** A request body; larger ones are 413. The ids of a 1M-token trajectory as JSON take about 7 MB. */
  bodyBytesMax: 64 * 1024 * 1024,
  /** Tasks in one request and jobs in one group: one store transaction writes them all. */
  tasksPerRequestMax: 10_000,
  groupSizeMax: 1_024,
  /** Jobs not yet finished; beyond it submissions get 429. A queued job costs about 1 kB on disk. */
  unfinishedJobsMax: 1_000_000,
  /** Longest `wait_s`. */
  waitSecondsMax: 60,
  /** Rows of one page of a listing and of the results log. */
  pageRowsMax: 1_000,
  /** Open event streams; each holds a socket and about 12 kB. */
  eventStreamsMax: 1_000,
  /** Events kept for resumption with Last-Event-ID; older ones are deleted. */
  eventsKeptMax: 200_000,
  /** Files of one task, and all their bytes; they are written into the sandbox at INIT. */
  taskFilesMax: 1_000,
  taskFilesBytesMax: 32 * 1024 * 1024,
  /** Characters of one tool answer that the model is shown; the middle is cut out and counted. */
  observationCharsMax: 16_384,
  /** Bytes of a tool's output that the server keeps in memory while it runs: head and tail halves. */
  outputBytesMax: 1024 * 1024,
  /** A file that is read out of a sandbox. */
  sandboxFileBytesMax: 16 * 1024 * 1024,
  /** Replies in a row without a well-formed call before the job ends with `format_errors`. */
  formatErrorsMax: 5,
  /** Pause before a second attempt, doubled each time up to the maximum, ms. */
  retryDelayMs: 500,
  retryDelayMaxMs: 30_000,
  /** How long an idle pool slot goes without asking the queue, ms: a missed wake-up costs no more than this. */
  poolIdleMs: 1_000,
} as const;

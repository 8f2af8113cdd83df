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
  /** Files and folders of one sandbox; each costs about 1 kB of kernel memory that no disk limit counts. */
  sandboxInodesMax: 100_000,
  /** Descriptors of one process in a sandbox. */
  sandboxOpenFilesMax: 4_096,
  /** Processes of a sandbox that are ours (supervisors, shell, worker, bwrap); added to the agent's own limit. */
  sandboxOwnProcesses: 12,
  /** From spawn to the first word of a sandbox's PID 1, ms; a start takes about 15 on an idle machine. */
  sandboxStartMs: 20_000,
  /** How long killed processes may take to be gone before the log says so, ms; it takes about 1. */
  sandboxKillMs: 10_000,
  /** What each step of the time-out ladder waits for the shell to answer, ms: INT, INT, KILL, KILL. */
  sandboxLadderStepMs: 400,
  /** Pause between two looks at a session whose supervisor the agent killed, ms. */
  sandboxLookMs: 20,
  /** Restarting the shell or the Python worker inside a live sandbox, ms. */
  sandboxRestartMs: 10_000,
  /** Longest command or cell that goes through a pipe at once; longer ones go through a file. A pipe takes 64 kB. */
  sandboxPipeBytesMax: 16 * 1024,
  /** What a sandbox's PID 1 may say over its life: some 50 bytes a restart. An agent that floods its pipe is ended. */
  sandboxControlBytesMax: 1024 * 1024,
  /** A file that the edit tool reads: it works on all lines at once, a second for 16 MB of them. */
  editFileBytesMax: 1024 * 1024,
  /** A line of a program's stdout; grading protocols stay far below. */
  programLineBytesMax: 16 * 1024 * 1024,
  /** Replies in a row without a well-formed call before the job ends with `format_errors`. */
  formatErrorsMax: 5,
  /** Identical turns in a row, beyond the first, before the job ends with `repetition`. */
  repeatedTurnsMax: 8,
  /** One call of a candidate's function by a hidden test, or one run of its program, ms. */
  candidateCallMs: 10_000,
  /** Times a candidate is started anew after it hung or died; then the rest of its tests fail unrun. */
  candidateStopsMax: 3,
  /** Pause before a second attempt, doubled each time up to the maximum, ms. */
  retryDelayMs: 500,
  retryDelayMaxMs: 30_000,
  /** Pause before the end of an attempt is written again after the store failed, doubled up to the maximum, ms. */
  endRetryMs: 50,
  endRetryMsMax: 30_000,
  /** How long a handler may go on after its signal has aborted, and an error hook at all, ms; then it is left alone. */
  handlerGraceMs: 5_000,
  /** Between two looks at which models have a healthy backend, ms: RUN's time is exact to this much around an outage. */
  outageLookMs: 200,
  /** How long an idle pool slot goes without asking the queue, ms: a missed wake-up costs no more than this. */
  poolIdleMs: 1_000,
  /** Calls handed to the store's Worker and not yet answered; the next one is refused. Each holds its input in memory. */
  storePendingMax: 65_536,
  /** Calls that one transaction of the store takes; what arrived beyond them waits for the next. */
  storeBatchMax: 512,
  /** How long the store waits for a reader of its file (sqlite3 shell, backup), ms. */
  storeBusyMs: 5_000,
  /** Events between two trims of the event table: it may exceed `eventsKeptMax` by so many. */
  eventsTrimEvery: 1_000,
  /** Characters of one page of the results log; the page ends early beyond it, and `next` says where. */
  resultsCharsMax: 64 * 1024 * 1024,
} as const;

/** Bounds of rendering: what they limit and what happens when they are reached. */
export const TOKEN_LIMITS = {
  /** Rendered prompts kept per renderer, least recently used out first; siblings of a group share one. */
  promptsKeptMax: 256,
  /** Ids in all kept prompts of a renderer; 4 million take about 36 MB with their attribution. */
  promptIdsKeptMax: 4_000_000,
  /** Characters of one rendering; a longer one is refused before it is tokenised (1 MB takes about a second). */
  renderedCharsMax: 16_000_000,
  /** Bytes of each tokenizer file; the largest known (gpt-oss) has 28 MB. */
  tokenizerFileBytesMax: 128 * 1024 * 1024,
  /** Answers of a Worker that are awaited at once; more callers than this are a leak, and are refused. */
  workerCallsMax: 10_000,
  /** Calls read out of one turn; those after it make the turn malformed. */
  callsPerTurnMax: 32,
} as const;

/** Bounds of the model side: what they limit, what they cost, what happens when they are reached. Times are ms. */
export const LLM_LIMITS = {
  /** Registered backends; further ones are refused. */
  backendsMax: 64,
  /** One answer of a server. The log-probs of a whole vocabulary of 150k tokens as JSON take 15 MB. */
  responseBytesMax: 64 * 1024 * 1024,
  /** Answers to health and other small questions. */
  controlMs: 5_000,
  /** All of a probe, which waits for a first answer: one of a loaded vLLM on a CPU took 27 s. */
  probeMs: 120_000,
  /** One rendering or decoding by a server. */
  renderMs: 30_000,
  /** Tokens that llama.cpp is asked for at once: it frees a slot only when a request ends, so this bounds a cancel. */
  sliceTokensMax: 64,
  /** Positions without a log-prob that are asked again in one slice; more than this and the answer is invalid. */
  reaskedPositionsMax: 64,
  /** First size of the list a missing log-prob is looked for in; then the whole vocabulary is asked for. */
  reaskProbsMax: 512,
  /** Chunks between a stream's first and last: a large interval makes vLLM send only these two. */
  streamIntervalTokens: 4_096,
  /** Ids that a server may answer with; no known vocabulary has a hundredth of it. */
  tokenIdMax: 16_777_215,
  /** Log-probs above 0 by rounding alone are taken as 0; more than this is a fault. */
  logprobRounding: 1e-4,
  /** Backends one turn is sent to before the job's attempt ends. */
  failoversMax: 4,
  /** Between two health questions to one backend. */
  healthIntervalMs: 2_000,
  /** Health questions in a row that fail before a backend without other signs of failure is given up. */
  healthFailuresMax: 2,
  /** Wait before an unhealthy backend is probed again, doubled each time up to the maximum. */
  retryMs: 1_000,
  retryMsMax: 30_000,
  /** Tokens a job is taken to need before its first turn says better. */
  jobTokensGuess: 2_048,
  /** Context tokens assumed where a server does not tell. */
  contextTokensGuess: 4_096,
  /** Load above the least loaded backend at which a job with a queue before it moves, as a part of capacity. */
  repinMargin: 0.25,
  /** Messages of a server's error that are kept, characters. */
  errorCharsMax: 500,
} as const;

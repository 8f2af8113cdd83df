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
  /** Bytes of one tool's output that are kept as an artifact when the model is not shown all; in a file without a name while it runs. */
  outputFileBytesMax: 8 * 1024 * 1024,
  /** Files that tools keep in one attempt (whole outputs, figures), and all their bytes; the model is told of what is not kept. */
  toolFilesMax: 200,
  toolFilesBytesMax: 32 * 1024 * 1024,
  /** Figures kept of one Python cell, and the bytes of each. */
  figuresMax: 16,
  figureBytesMax: 4 * 1024 * 1024,
  /** A line that the model types into a running program; the kernel's own line editing takes 4,095 bytes of it. */
  terminalInputBytesMax: 4_000,
  /** How long a command in a terminal may be silent before the model gets what it wrote so far, ms. */
  terminalQuietMs: 10_000,
  /** The same for a program that a line or key was typed into: without an answer, and after its last word. */
  terminalTypedMs: 2_000,
  terminalAnswerMs: 300,
  /** Pause between two looks at whether a terminal's program wrote something, ms. */
  terminalLookMs: 100,
  /** A file that is read out of a sandbox. */
  sandboxFileBytesMax: 16 * 1024 * 1024,
  /** Processes of a sandbox that are ours (supervisors, shell, worker, bwrap); added to the agent's own limit. */
  sandboxOwnProcesses: 12,
  /** From spawn to the first word of a sandbox's PID 1, ms; a start takes about 15 on an idle machine. */
  sandboxStartMs: 20_000,
  /** How long killed processes may take to be gone before the log says so, ms; it takes about 1. */
  sandboxKillMs: 10_000,
  /** How long a call goes before other sandboxes' work where a cgroup can have it so, ms. */
  favourMs: 100,
  /** Between two looks at the stock of started sandboxes, ms: half of what was never needed meanwhile is closed. */
  warmLookMs: 15_000,
  /** How long stopping all processes of a sandbox for a snapshot may take, ms; one that is in a call to the disk waits. */
  snapshotStillMs: 2_000,
  /** Making one snapshot, or checking it before a start, ms; a gigabyte takes about two seconds. */
  snapshotMs: 300_000,
  /** One snapshot's file, and all of a server's; beyond it none is made. */
  snapshotBytesMax: 64 * 1024 * 1024 * 1024,
  snapshotsBytesMax: 256 * 1024 * 1024 * 1024,
  /** What tar writes for one file beside its content: headers of 512 bytes, more for long names and attributes. */
  snapshotHeaderBytes: 4_096,
  /** What each step of the time-out ladder waits for the shell to answer, ms: INT, INT, KILL, KILL. */
  sandboxLadderStepMs: 400,
  /** Pause between two looks at a session whose supervisor the agent killed, ms. */
  sandboxLookMs: 20,
  /** Restarting the shell or the Python worker inside a live sandbox, ms. */
  sandboxRestartMs: 10_000,
  /**
   * Longest command or cell that goes through a pipe at once; longer ones go through a file. A pipe takes 64 kB, or a page
   * when other sandboxes of the user who started the server hold many (fs.pipe-user-pages-soft).
   */
  sandboxPipeBytesMax: 3 * 1024,
  /** What a sandbox's PID 1 may say over its life: some 50 bytes a restart. An agent that floods its pipe is ended. */
  sandboxControlBytesMax: 1024 * 1024,
  /** inotify instances of one sandbox, and watches of all of them; a user has 128 instances for all its sandboxes. */
  sandboxWatchersMax: 8,
  sandboxWatchesMax: 8_192,
  /** Pseudo-terminals of one sandbox; all of them together have 3,072. */
  sandboxTerminalsMax: 24,
  /** Rules of one task's network list. */
  networkRulesMax: 64,
  /** Connections of one sandbox to the outside at once; each costs two sockets of the server and a thread of its forwarder. */
  networkConnectionsMax: 64,
  /** Attempts of one sandbox that are written down; the others are counted. */
  networkAttemptsMax: 1_000,
  /** The head of a request to the proxy, bytes. */
  networkHeadBytesMax: 16 * 1024,
  /** Name lookup and connection together, ms. */
  networkConnectMs: 15_000,
  /** Addresses of one name that are tried. */
  networkAddressesMax: 4,
  /** What one sandbox may send and receive; then its connections are cut off. */
  networkBytesMax: 8 * 1024 * 1024 * 1024,
  /** A file that the edit tool changes: it works on all lines at once, a second for 16 MB of them. */
  editFileBytesMax: 1024 * 1024,
  /** Bytes of a larger file that one view reads to find its lines, in pieces of 1 MiB; it takes about 2 ms each. */
  viewBytesMax: 64 * 1024 * 1024,
  /** Names that a view of a folder shows. */
  viewNamesMax: 200,
  /** Changes of one sandbox that the edit tool can take back, and the bytes of the texts before them; the oldest go first. */
  undoChangesMax: 100,
  undoBytesMax: 4 * 1024 * 1024,
  /** A line of a program's stdout; grading protocols stay far below. */
  programLineBytesMax: 16 * 1024 * 1024,
  /** Replies in a row without a well-formed call before the job ends with `format_errors`. */
  formatErrorsMax: 5,
  /** Identical turns in a row, beyond the first, before the job ends with `repetition`. */
  repeatedTurnsMax: 8,
  /** One call of a candidate's function by a hidden test, or one run of its program, ms. */
  candidateCallMs: 10_000,
  /** What a hidden test may do with one answer of a candidate, ms. */
  judgeStepMs: 20_000,
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

/** Bounds of images and their builds: what they limit and what happens when they are reached. Times are ms. */
export const IMAGE_LIMITS = {
  /** One program of a build; it is killed then. A slow mirror gives a Debian base in some minutes. */
  stepMs: 3_600_000,
  /** Waiting for another build of the same image, in this process or another. */
  buildWaitMs: 7_200_000,
  /** Builds that a server runs at once; more are 429. */
  buildsMax: 2,
  /** Ended builds that a server still tells about; the oldest go first. */
  buildsKeptMax: 64,
  /** Waiting for the store's own lock, which is held for some renames. */
  storeLockMs: 30_000,
  lockPollMs: 50,
  /** How long the killed programs of a build may take to be gone. */
  killMs: 10_000,
  /** Address space of one program of a build: compilers and resolvers of packages stay below. */
  stepMemoryBytes: 16 * 1024 ** 3,
  /** Processes of one step at once. */
  stepProcessesMax: 4_096,
  /** One file of an image. */
  fileBytesMax: 32 * 1024 ** 3,
  /** Files and folders of one image; the largest public ones have about 500,000. */
  entriesMax: 4_000_000,
  /** Of a build's output only the end is kept, for the message when it fails. */
  outputLinesKept: 20,
  /** Of its lines that name an error the first, wherever they stand: they come before the end. */
  outputErrorsKept: 3,
  outputLineCharsMax: 500,
  recipeBytesMax: 64 * 1024,
  pipLockBytesMax: 4 * 1024 * 1024,
  manifestBytesMax: 1024 * 1024,
  /** Index, manifest and configuration of an OCI image. */
  ociJsonBytesMax: 4 * 1024 * 1024,
  /** Images of one store. */
  imagesMax: 10_000,
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
  /** Nesting of JSON that templates are given; Python's reader gives up at about a thousand. */
  jsonDepthMax: 500,
  /** Variables that a model's folder gives its chat template. */
  templateVariablesMax: 64,
} as const;

/** Bounds of the model side: what they limit, what they cost, what happens when they are reached. Times are ms. */
export const LLM_LIMITS = {
  /** Registered backends; further ones are refused. */
  backendsMax: 64,
  /** One answer of a server. The log-probs of a whole vocabulary of 150k tokens as JSON take 15 MB. */
  responseBytesMax: 64 * 1024 * 1024,
  /** Answers to health and other small questions. */
  controlMs: 5_000,
  /** A request that ends a turn which nobody waits for any more: it must not hold up the cancel by more. */
  abortMs: 1_000,
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
  /** A recorded session that is answered again, all of it in memory. */
  recordingCharsMax: 256 * 1024 * 1024,
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

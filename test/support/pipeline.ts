import { join } from "node:path";
import { systemClock } from "../../src/clock.ts";
import type { Job } from "../../src/job/job.ts";
import { DEFAULT_LIMITS, type JobLimits } from "../../src/job/limits.ts";
import { createScriptedEngine, type ScriptedOptions } from "../../src/llm/engines/scripted.ts";
import { createBackends } from "../../src/llm/registry.ts";
import { silentLog } from "../../src/log.ts";
import { LiveJobs } from "../../src/pipeline/live-job.ts";
import { Pipeline, type PipelineLimits } from "../../src/pipeline/pipeline.ts";
import { createStore } from "../../src/store/client.ts";
import type { Store } from "../../src/store/store.ts";
import { Supervisor } from "../../src/supervisor.ts";
import type { Handler } from "../../src/tasks/handler.ts";
import { createRegistry, type Registry } from "../../src/tasks/registry.ts";
import { DEFAULT_SAMPLING } from "../../src/trajectory/sampling.ts";
import { testSandboxHost } from "./sandbox-host.ts";
import { aFolder } from "./store.ts";

const LIMITS: PipelineLimits = {
  initWorkers: 2,
  runWorkers: 4,
  evalWorkers: 2,
  readyMax: 2,
  sandboxesMax: 12,
  evalReserve: 4,
  limitsMax: {},
};

export interface PipelineOptions {
  /** One scripted backend for each; the text of each turn. */
  models: readonly Omit<ScriptedOptions, "clock" | "model">[];
  limits?: Partial<PipelineLimits>;
  backendWaitMs?: number;
  turnMs?: number;
  /** An existing database, to open it again; else a new one that is gone afterwards. */
  file?: string;
  /** What the pipeline is given instead of the store, to fail or to be late where a test wants it. */
  storeFor?(store: Store): Store;
  /** Parts of the built-in handlers replaced, in every handler. */
  handler?: Partial<Handler>;
}

/** Real store, real sandboxes, real pools, and a model that says what the test wants. */
export async function aPipeline(options: PipelineOptions) {
  await using opened = new AsyncDisposableStack();
  const folder = opened.use(aFolder());
  const store = opened.use(
    await createStore({ file: options.file ?? join(folder.path, "rolloutd.db"), clock: systemClock }),
  );
  const sandboxes = await testSandboxHost();
  opened.defer(() => sandboxes.close());
  const engines = new Map(
    options.models.map((model, at) => [
      `http://scripted-${at}`,
      createScriptedEngine({ clock: systemClock, model: "policy", ...model }),
    ]),
  );
  const backends = opened.use(
    await createBackends({
      clock: systemClock,
      log: silentLog,
      backendWaitMs: options.backendWaitMs ?? 2_000,
      turnMs: options.turnMs ?? 2_000,
      engineFor: (spec) => engines.get(spec.url) ?? null,
    }),
  );
  await store.recover();
  const observer = { stageEnded() {}, attemptFailed() {}, turnEnded() {}, toolEnded() {}, jobFinished() {} };
  const registry = withHandler(createRegistry(systemClock), options.handler ?? {});
  const supervisor = new Supervisor(silentLog);
  const parts = {
    store: options.storeFor?.(store) ?? store,
    sandboxes,
    backends,
    registry,
    live: new LiveJobs(),
    clock: systemClock,
    log: silentLog,
    observer,
    supervisor,
  };
  const pipeline = new Pipeline(parts, { ...LIMITS, ...options.limits });
  pipeline.start();
  for (const url of engines.keys()) {
    const spec = {
      url,
      model: "policy",
      role: "policy",
      kind: "auto",
      apiKey: null,
      weight: 1,
      policyVersion: null,
      tokenizer: null,
    } as const;
    await backends.add(spec, { probe: true });
  }
  const rest = opened.move();
  return {
    store,
    sandboxes,
    backends,
    pipeline,
    live: parts.live,
    /** Submits `n` jobs of one task and gives their ids. */
    async submit(
      task: Record<string, unknown>,
      over: { n?: number; limits?: Partial<JobLimits>; priority?: number; tokenExact?: boolean } = {},
    ) {
      const request = {
        model: "policy",
        tokenExact: over.tokenExact ?? true,
        sampling: DEFAULT_SAMPLING,
        limits: { ...DEFAULT_LIMITS, ...over.limits },
        priority: over.priority ?? 0,
        stream: null,
        labels: {},
      };
      const { groups } = await pipeline.submit({ tasks: [task], n: over.n ?? 1, request, idempotency: null });
      return groups.flatMap((group) => group.jobIds);
    },
    finish: (jobId: string): Promise<Job> => pipeline.waitForJob(jobId, 20_000, new AbortController().signal),
    async [Symbol.asyncDispose]() {
      await pipeline.drain(0);
      await supervisor.drain();
      await rest.disposeAsync();
    },
  };
}

function withHandler(registry: Registry, over: Partial<Handler>): Registry {
  return {
    ...registry,
    parse(raw) {
      const { task, handler } = registry.parse(raw);
      return { task, handler: { ...handler, ...over } };
    },
  };
}

/** A word problem whose answer is 7, in one turn. */
export const A_WORD_TASK = { id: "word", handler: "math", prompt: "3 + 4?", answer: "7", tool_format: "none" };

/** An agent with a shell that is to leave `done` in a file. */
export const A_SHELL_TASK = {
  id: "shell",
  handler: "command",
  prompt: "Write done into out.txt.",
  tool_format: "fenced",
  tools: ["bash"],
  artifacts: ["/workspace/out.txt"],
  eval: {
    command: ["sh", "/grader/score.sh"],
    files: [
      { path: "/grader/score.sh", text: 'if [ "$(cat /workspace/out.txt)" = done ]; then echo 1; else echo 0; fi' },
    ],
  },
};

/** A turn that calls bash. */
export function bash(command: string): string {
  return `\`\`\`bash\n${command}\n\`\`\``;
}

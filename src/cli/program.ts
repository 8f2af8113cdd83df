import { Argument, Command, InvalidArgumentError, Option } from "commander";
import { clientEnvironment } from "../config.ts";
import type { Images } from "../sandbox/images/open-images.ts";
import { VERSION } from "../version.ts";
import { ApiClient } from "./api-client.ts";
import { backendCommands } from "./backend.ts";
import { cancel } from "./cancel.ts";
import { completionScript, SHELLS, type Shell } from "./completion.ts";
import { runDemo } from "./demo.ts";
import type { DoctorOptions } from "./doctor.ts";
import { addImageCommands } from "./image-commands.ts";
import { printResults } from "./results.ts";
import { ALL_SETTINGS, addSettings, SANDBOX_SETTINGS, type Settings, settingsOf } from "./settings.ts";
import { showJob } from "./show.ts";
import { printStatus } from "./status.ts";
import { submitFile } from "./submit.ts";
import { verifyPath } from "./verify.ts";
import { licensesText, versionText } from "./version-text.ts";

/** Commands that need more than HTTP; `cli.ts` gives them. Each resolves with the exit code. */
export interface LocalCommands {
  serve(settings: Settings): Promise<number>;
  doctor(settings: Settings, options: DoctorOptions): Promise<number>;
  /** The images that the settings name. */
  images(flags: Readonly<Record<string, unknown>>): Promise<Images>;
  taskCheck(path: string, settings: Settings, options: { json: boolean }): Promise<number>;
}

/** The command line. `exit` gets the code of the command that ran. */
export function createProgram(local: LocalCommands, exit: (code: number) => void): Command {
  const program = new Command("rolloutd")
    .description("Rollout server for reinforcement learning of LLM agents.")
    .version(VERSION)
    .showHelpAfterError("(run with --help for what is accepted)")
    .configureHelp({ sortSubcommands: false })
    .exitOverride();
  addServe(program, local, exit);
  addJobCommands(program, exit);
  addBackendCommands(program);
  addImageCommands(program, (flags) => local.images(flags));
  addLocalCommands(program, local, exit);
  program.addHelpText(
    "after",
    `
First steps:
  rolloutd doctor                                        what this machine lacks, and how to mend it
  rolloutd serve --backend http://127.0.0.1:8000         beside a vLLM server
  rolloutd submit tasks.jsonl --n 8 --watch              in another terminal
  rolloutd show JOB                                      one rollout, with its tokens`,
  );
  return program;
}

/**
 * The arguments after the program's name, without a request for help when they name a command that there is not: commander
 * answers that with the help of the command above and success, and says what is wrong only when nobody asks for help.
 */
export function withoutVainHelp(program: Command, args: readonly string[]): string[] {
  const asked = args[0] === "help" ? args.slice(1) : [...args];
  let command = program;
  for (const word of asked) {
    if (word.startsWith("-") || command.commands.length === 0) break;
    const next = command.commands.find((one) => one.name() === word);
    if (next === undefined) {
      return word === "help" ? [...args] : asked.filter((one) => one !== "--help" && one !== "-h");
    }
    command = next;
  }
  return [...args];
}

function addServe(program: Command, local: LocalCommands, exit: (code: number) => void): void {
  const serve = program.command("serve").description("start the server; SIGTERM or Ctrl-C drains it");
  addSettings(serve, ALL_SETTINGS).action(async (options: Record<string, unknown>) =>
    exit(await local.serve(settingsOf(options, ALL_SETTINGS))),
  );
}

function addJobCommands(program: Command, exit: (code: number) => void): void {
  withServer(program.command("submit <file>"))
    .description("submit the tasks of a JSONL file: native tasks (docs/tasks.md), GSM8K or HumanEval rows")
    .option("--n <count>", "jobs of each task, one group", positive, 1)
    .option("--limit <count>", "take only the first tasks of the file", positive)
    .option("--watch", "follow the jobs to the end, with progress", false)
    .option("--out <file>", "with --watch: write job and trajectory of each result, one JSON object a line")
    .option("--model <name>", "model to roll out with; default: the one that is registered")
    .option("--temperature <value>", "sampling temperature (default: 1)", decimal)
    .option("--top-p <value>", "nucleus sampling", decimal)
    .option("--max-tokens <count>", "sampled tokens of one turn (default: 1024)", positive)
    .option("--turns-max <count>", "model calls of one job (default: 30)", positive)
    .option("--priority <value>", "higher is earlier", integer, 0)
    .option("--label <key=value>", "label of the jobs; may be given several times", label, {})
    .action(async (file: string, options: SubmitFlags) =>
      exit(await submitFile(clientOf(options), file, toSubmit(options))),
    );
  withServer(program.command("show <job>"))
    .description("a job's outcome, conversation, tool calls, trained tokens and timings")
    .option("--tokens", "every token with id, mask, log-prob and version", false)
    .action((job: string, options: ServerFlags & { tokens: boolean }) => showJob(clientOf(options), job, options));
  withServer(program.command("results"))
    .description("finished jobs in commit order")
    .option("--after <seq>", "start after this place in the log", place, 0)
    .option("--limit <count>", "stop after so many", positive)
    .option("--follow", "wait for more at the end", false)
    .option("--json", "one JSON object a line, with the trajectory", false)
    .action((options: ServerFlags & { after: number; limit?: number; follow: boolean; json: boolean }) =>
      printResults(clientOf(options), { ...options, limit: options.limit ?? null }),
    );
  withServer(program.command("cancel <id>"))
    .description("cancel a job or a group; returns when its processes are gone")
    .action((id: string, options: ServerFlags) => cancel(clientOf(options), id));
  withServer(program.command("status"))
    .description("queues, pools, sandboxes and backends of a running server")
    .action((options: ServerFlags) => printStatus(clientOf(options)));
}

function addBackendCommands(program: Command): void {
  const backend = program.command("backend").description("the LLM servers that a running rolloutd uses");
  withServer(backend.command("add <url>"))
    .description("register http://host:port, unix:/path or replay:/path, and probe it")
    .option("--model <name>", "model it serves; default: the one it names")
    .option("--role <role>", "policy, or judge for graders", "policy")
    .option("--kind <kind>", "vllm, sglang, llamacpp, prorl, or chat for text alone; default: found by its routes")
    .option("--tokenizer <folder>", "the model's tokenizer.json and chat template, on the server's machine")
    .option("--policy-version <version>", "name of the weights it serves now")
    .option("--api-key <key>", "sent as bearer token")
    .action((url: string, options) => backendCommands.add(clientOf(options), url, options));
  withServer(backend.command("ls"))
    .description("list them")
    .action((options) => backendCommands.ls(clientOf(options)));
  for (const [name, text] of [
    ["show", "what the probe found, and its load"],
    ["probe", "probe it again"],
    ["drain", "give it no new jobs"],
  ] as const) {
    withServer(backend.command(`${name} <id>`))
      .description(text)
      .action((id: string, options) => backendCommands[name](clientOf(options), id));
  }
  withServer(backend.command("rm <id>"))
    .description("remove it")
    .option("--force", "also while jobs stick to it; they move to another", false)
    .action((id: string, options) => backendCommands.rm(clientOf(options), id, options));
}

function addLocalCommands(program: Command, local: LocalCommands, exit: (code: number) => void): void {
  const taskCheck = program
    .command("task")
    .description("tools for authors of tasks")
    .command("check <file>")
    .description("grade each task for an idle agent and for its reference solution, without a model")
    .option("--json", "one JSON object a line", false);
  addSettings(taskCheck, SANDBOX_SETTINGS).action(async (file: string, options: { json: boolean }) =>
    exit(await local.taskCheck(file, settingsOf({ ...options }, SANDBOX_SETTINGS), options)),
  );
  program
    .command("verify <path>")
    .description(
      "check token ledgers (hash chain, ids, masks, log-probs, versions) of a data folder or of exported trajectories",
    )
    .option("--quiet", "only what is rejected, and the sum", false)
    .action(async (path: string, options: { quiet: boolean }) => exit(await verifyPath(path, options)));
  const doctor = program
    .command("doctor")
    .description("check that this machine can confine sandboxes, and say what mends it; exit code 1 when it cannot")
    .option("--json", "one JSON object", false)
    .addOption(
      new Option(
        "--apparmor-profile",
        "print an AppArmor profile for this program (Ubuntu 24.04 and later), and nothing else",
      )
        .default(false)
        .conflicts("json"),
    );
  addSettings(doctor, SANDBOX_SETTINGS).action(async (options: DoctorOptions) =>
    exit(await local.doctor(settingsOf({ ...options }, SANDBOX_SETTINGS), options)),
  );
  withServer(program.command("demo"))
    .description("run four small groups on a running server and its model")
    .option("--model <name>", "model to roll out with; default: the one that is registered")
    .option("--out <folder>", "where demo/ is written", "./rolloutd-demo")
    .action(async (options: ServerFlags & { model?: string; out: string }) => {
      const summary = await runDemo(clientOf(options), options.out, { model: options.model ?? null });
      exit(summary.failed === 0 && summary.rejected === 0 ? 0 : 1);
    });
  program
    .command("version")
    .description("print version, commit, build date and what is inside")
    .option("--licenses", "the licences of what is inside instead", false)
    .action((options: { licenses: boolean }) => console.log(options.licenses ? licensesText() : versionText()));
  program
    .command("completion")
    .description("print a script that completes commands and options: source <(rolloutd completion bash)")
    .addArgument(new Argument("<shell>").choices(SHELLS))
    .action((shell: Shell) => console.log(completionScript(program, shell)));
}

interface ServerFlags {
  url?: string;
  token?: string;
}

interface SubmitFlags extends ServerFlags {
  n: number;
  limit?: number;
  watch: boolean;
  out?: string;
  model?: string;
  temperature?: number;
  topP?: number;
  maxTokens?: number;
  turnsMax?: number;
  priority: number;
  label: Record<string, string>;
}

function toSubmit(flags: SubmitFlags) {
  const given = (entries: Record<string, number | undefined>) =>
    Object.fromEntries(Object.entries(entries).filter(([, value]) => value !== undefined));
  return {
    n: flags.n,
    limit: flags.limit ?? null,
    watch: flags.watch || flags.out !== undefined,
    out: flags.out ?? null,
    model: flags.model ?? null,
    sampling: given({ temperature: flags.temperature, top_p: flags.topP, max_tokens: flags.maxTokens }),
    limits: given({ turns_max: flags.turnsMax }),
    labels: flags.label,
    priority: flags.priority,
  };
}

function withServer(command: Command): Command {
  return command
    .option("--url <url>", "the server (default: ROLLOUTD_URL, else http://127.0.0.1:8006)")
    .option("--token <token>", "bearer token (default: ROLLOUTD_TOKEN)");
}

function clientOf(flags: ServerFlags): ApiClient {
  const environment = clientEnvironment();
  return new ApiClient({ url: flags.url ?? environment.url, token: flags.token ?? environment.token });
}

function integer(text: string): number {
  if (/^-?\d{1,15}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("expected a whole number");
}

function positive(text: string): number {
  const value = integer(text);
  if (value >= 1) return value;
  throw new InvalidArgumentError("expected a whole number of at least 1");
}

function place(text: string): number {
  const value = integer(text);
  if (value >= 0) return value;
  throw new InvalidArgumentError("expected a whole number of at least 0");
}

function decimal(text: string): number {
  const value = text.trim() === "" ? Number.NaN : Number(text);
  if (Number.isFinite(value)) return value;
  throw new InvalidArgumentError("expected a number");
}

function label(text: string, previous: Record<string, string>): Record<string, string> {
  const at = text.indexOf("=");
  if (at < 1) throw new InvalidArgumentError("expected key=value");
  return { ...previous, [text.slice(0, at)]: text.slice(at + 1) };
}

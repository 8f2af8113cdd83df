import type { SessionStart } from "./session-process.ts";

const COMMAND_PATH = "/run/terminal-command";

/** As most terminals, and as the model's screen would be: programs wrap their lines at it. */
const COLUMNS = 80;
const ROWS = 24;

/** What bash would print between two commands. */
const PROMPTS = "PS0= PS1= PS2=";

/** Marks of one command: it began, it ended by itself, or bash came back to its prompt because it was interrupted. */
export interface TerminalMarks {
  begun: string;
  ended: string;
  prompt: string;
}

/** The bash of the sandbox's terminal. */
export interface TerminalKind extends SessionStart {
  /** The line that runs `command`; its text goes through a file, as a terminal takes 4,095 bytes in a line. Throws sandbox_limit when the disk is full. */
  line(command: string, marks: TerminalMarks): string;
  /** A line that makes a bash that waits at its prompt answer with a mark `nonce EXIT_CODE`. */
  ask(nonce: string): string;
}

/**
 * An interactive bash on a pseudo-terminal with job control. Echo and carriage returns at line ends are off: what is typed stands in the trajectory as the
 * model's own words. Marks go to /dev/tty, so that an agent which sends bash's output elsewhere does not lose them.
 */
export function terminalKind(writeFile: (path: string, text: string) => void): TerminalKind {
  return {
    name: "terminal",
    prepare: () => {},
    hello: (nonce) =>
      `stty -echo -onlcr rows ${ROWS} cols ${COLUMNS} 2>/dev/null; set +o history; set +H; exec 10>&-; ${PROMPTS}; ${mark(nonce, "$$")}\n`,
    line(command, { begun, ended, prompt }) {
      writeFile(COMMAND_PATH, command.replaceAll("\0", ""));
      // A command may have turned the echo on, sent signals elsewhere, or replaced what runs at the prompt.
      return [
        " stty -echo -onlcr isig icanon 2>/dev/null",
        PROMPTS,
        `PROMPT_COMMAND=${quote(`${mark(prompt, "$?")}; PROMPT_COMMAND=`)}`,
        mark(begun, ""),
        `\\builtin eval "$(<${COMMAND_PATH})"`,
        `${mark(ended, "$?")}\n`,
      ].join("; ");
    },
    ask: (nonce) => ` ${mark(nonce, "$?")}\n`,
    lost: "shell variables, functions, jobs and the working directory are lost; files are kept.",
    missing: "the image has neither script(1) nor python3, of which a terminal needs one",
    isCarried: true,
  };
}

function mark(nonce: string, word: string): string {
  return `\\builtin printf '\\n\\036%s %s\\036' ${nonce} "${word}" 2>/dev/null >/dev/tty`;
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

import { LIMITS } from "../limits.ts";
import { exitCodeOf, signalOf } from "./command-result.ts";
import type { SessionKind } from "./session.ts";

const COMMAND_PATH = "/run/command";

/** An interactive bash looks for its terminal when a signal ends a command, and says that there is none. */
const TERMINAL_NOISE = /^bash: \[\d+: \d+ \(\d+\)\] tcsetattr: .*\n?/gm;

/** What bash would print or run between two commands, which nobody waits for there. */
const PROMPTS = "PS0= PS1= PS2= PROMPT_COMMAND=";

/**
 * The persistent bash. It is interactive, so that an interrupt gives it back with its variables; its prompts are
 * empty. Each command reads an empty stdin and writes to descriptor 1 whatever `exec` redirections it makes.
 * A long command goes through a file, since bash reads a pipe byte by byte.
 */
export function shellKind(writeFile: (path: string, text: string) => void): SessionKind {
  return {
    name: "shell",
    prepare: () => {},
    hello: (nonce) => `\nunset PS1 PS2; ${PROMPTS}; set +o history; set +mH; exec 9>&1 10>&-; ${mark(nonce, "$$")}\n`,
    request(text, nonce) {
      const command = text.replaceAll("\0", "");
      const inline = quote(command);
      const short = Buffer.byteLength(inline) <= LIMITS.sandboxPipeBytesMax;
      if (!short) writeFile(COMMAND_PATH, command);
      const source = short ? inline : `"$(<${COMMAND_PATH})"`;
      // Opened anew, so that a program which leaves its output non-blocking (a killed node) spoils no other's.
      // The line break first: after a syntax error bash would else take the brace for a command.
      return `\n{ \\builtin eval ${source}\n} </dev/null >|/proc/self/fd/9 2>&1 9>&-; { ${mark(nonce, "$?")}; ${PROMPTS}; } 2>/dev/null\n`;
    },
    resync: (nonce) => `${mark(nonce, "$?")}\n`,
    read: (words) => ({ signal: signalOf(exitCodeOf(words)), figures: [], figuresLost: 0 }),
    clean: (output) => output.replace(TERMINAL_NOISE, ""),
    lost: "shell variables, functions and the working directory are lost; files are kept.",
    missing: null,
    isCarried: false,
  };
}

/** No alias (the backslash) or function (`builtin`) of the agent takes the name, and no IFS of its own splits the word. */
function mark(nonce: string, word: string): string {
  return `\\builtin printf '\\n\\036%s %s\\036' ${nonce} "${word}"`;
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

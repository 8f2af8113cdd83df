import type { Command, Option } from "commander";

export const SHELLS = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof SHELLS)[number];

/** One command of the tree: the words that lead to it, and what may follow them. */
interface Place {
  /** `` for the program itself, `backend add` for a command of a command. */
  path: string;
  commands: readonly { name: string; description: string }[];
  options: readonly { flag: string; description: string; takesValue: boolean }[];
}

/** A script that completes the commands and options of `program` in `shell`; after them come names of files. */
export function completionScript(program: Command, shell: Shell): string {
  const name = program.name();
  const places = placesOf(program, []);
  return { bash: bashScript, zsh: zshScript, fish: fishScript }[shell](name, places);
}

function placesOf(command: Command, words: readonly string[]): Place[] {
  const help = { flag: "--help", description: "how to use it", takesValue: false };
  const place = {
    path: words.join(" "),
    commands: command.commands.map((child) => ({ name: child.name(), description: child.description() })),
    options: [...command.options.map(toFlag), help],
  };
  return [place, ...command.commands.flatMap((child) => placesOf(child, [...words, child.name()]))];
}

function toFlag(option: Option): Place["options"][number] {
  const takesValue = option.required || option.optional;
  return { flag: option.long ?? option.flags, description: option.description, takesValue };
}

/** The words typed so far, less options, as far as they lead down the tree: `$path` in each of the scripts. */
function knownPaths(places: readonly Place[]): string {
  return places.flatMap(({ path }) => (path === "" ? [] : [`"${path}"`])).join("|");
}

function wordsOf({ commands, options }: Place): { commands: string; flags: string; valued: string } {
  return {
    commands: commands.map(({ name }) => name).join(" "),
    flags: options.map(({ flag }) => flag).join(" "),
    valued: options
      .filter(({ takesValue }) => takesValue)
      .map(({ flag }) => flag)
      .join("|"),
  };
}

function bashScript(name: string, places: readonly Place[]): string {
  const cases = places.map((place) => {
    const { commands, flags, valued } = wordsOf(place);
    return `    "${place.path}") commands="${commands}" flags="${flags}" valued="|${valued}|" ;;`;
  });
  return `# source <(${name} completion bash)
_${name}() {
  local cur=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD-1]} path= commands= flags= valued= i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "\${path:+$path }\${COMP_WORDS[i]}" in
      ${knownPaths(places)}) path="\${path:+$path }\${COMP_WORDS[i]}" ;;
    esac
  done
  case $path in
${cases.join("\n")}
  esac
  COMPREPLY=()
  case $valued in *"|$before|"*) return ;; esac
  case $cur in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$cur")) ;;
    *) COMPREPLY=($(compgen -W "$commands" -- "$cur")) ;;
  esac
}
complete -o bashdefault -o default -F _${name} ${name}
`;
}

function zshScript(name: string, places: readonly Place[]): string {
  const described = (word: string, text: string) => quote(`${word.replaceAll(":", "\\:")}:${text}`);
  const cases = places.map(({ path, commands, options }) => {
    const words = commands.map((command) => described(command.name, command.description)).join(" ");
    const flags = options.map((option) => described(option.flag, option.description)).join(" ");
    const valued = options.filter(({ takesValue }) => takesValue).map(({ flag }) => flag);
    return `    "${path}") commands=(${words}) flags=(${flags}) valued=(${valued.join(" ")}) ;;`;
  });
  return `#compdef ${name}
# source <(${name} completion zsh), or put it into a folder of $fpath as _${name}
_${name}() {
  local route="" word
  local -a commands flags valued
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "\${route:+$route }$word" in
      (${knownPaths(places)}) route="\${route:+$route }$word" ;;
    esac
  done
  case $route in
${cases.join("\n")}
  esac
  if (( \${valued[(Ie)\${words[CURRENT-1]}]} )); then
    _files
  elif [[ \${words[CURRENT]} == -* ]]; then
    _describe option flags
  elif (( \${#commands} )); then
    _describe command commands
  else
    _files
  fi
}
if [ "$funcstack[1]" = _${name} ]; then _${name} "$@"; else compdef _${name} ${name}; fi
`;
}

function fishScript(name: string, places: readonly Place[]): string {
  const lines = places.flatMap(({ path, commands, options }) => {
    const when = `-n ${quote(`test (__${name}_path) = ${path === "" ? '""' : `"${path}"`}`)}`;
    const noFiles = commands.length > 0 ? " -f" : "";
    return [
      ...commands.map((one) => `complete -c ${name} ${when}${noFiles} -a ${one.name} -d ${quote(one.description)}`),
      ...options.map(({ flag, description, takesValue }) => {
        const value = takesValue ? " -r" : "";
        return `complete -c ${name} ${when} -l ${flag.replace(/^--/, "")}${value} -d ${quote(description)}`;
      }),
    ];
  });
  const paths = places.flatMap(({ path }) => (path === "" ? [] : [`"${path}"`])).join(" ");
  return `# ${name} completion fish | source
function __${name}_path
  set -l path ""
  for word in (commandline -opc)[2..]
    set -l longer (string trim -- "$path $word")
    contains -- $longer ${paths}; and set path $longer
  end
  echo -- "$path"
end
${lines.join("\n")}
`;
}

/** In single quotes for zsh and fish; a quote of the text itself becomes one that needs none. */
function quote(text: string): string {
  return `'${text.replaceAll("\\", "/").replaceAll("'", "’")}'`;
}

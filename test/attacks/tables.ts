import { ATTACKS_BY_TITLE } from "./attacks.ts";
import { REWARD } from "./reward.ts";

const [BEGIN, END] = ["<!-- attacks: begin -->\n", "<!-- attacks: end -->"];

/** The suite as Markdown. */
export function attackTables(): string {
  const cell = (text: string) => text.replaceAll("|", "\\|").replaceAll("\n", " ");
  return Object.entries({ ...ATTACKS_BY_TITLE, "The reward": REWARD })
    .map(([title, attacks]) => {
      const rows = attacks.map(({ name, tries, must }) => `| ${cell(name)} | ${cell(tries)} | ${cell(must)} |`);
      return [`### ${title}\n`, "| attack | tries | must |", "|---|---|---|", ...rows, ""].join("\n");
    })
    .join("\n");
}

/** `document` with `tables` between its marks. */
export function withTables(document: string, tables: string): string {
  const [start, end] = [document.indexOf(BEGIN) + BEGIN.length, document.indexOf(END)];
  return `${document.slice(0, start)}\n${tables}\n${document.slice(end)}`;
}

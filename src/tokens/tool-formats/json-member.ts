/**
 * The text of a member of the outermost object, as it stands in `json`, which must be valid JSON. The last one wins
 * where the key is repeated, as in `JSON.parse`. Null when the key is absent. Printing a parsed value again would
 * change spaces, the order of keys and numbers.
 */
export function memberText(json: string, key: string): string | null {
  let depth = 0;
  let found: string | null = null;
  let at = 0;
  let lastString = "";
  let from = -1;
  while (at < json.length) {
    const char = json[at];
    if (char === '"') {
      const end = stringEnd(json, at);
      lastString = json.slice(at, end);
      at = end;
      continue;
    }
    if (char === ":" && depth === 1 && from < 0 && JSON.parse(lastString) === key) from = at + 1;
    if (depth === 1 && from >= 0 && (char === "," || char === "}")) {
      found = json.slice(from, at).trim();
      from = -1;
    }
    if (char === "{" || char === "[") depth += 1;
    if (char === "}" || char === "]") depth -= 1;
    at += 1;
  }
  return found;
}

function stringEnd(json: string, start: number): number {
  let at = start + 1;
  while (at < json.length && json[at] !== '"') at += json[at] === "\\" ? 2 : 1;
  return at + 1;
}

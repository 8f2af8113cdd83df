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

/** Where the JSON object, list or string that begins at `from` ends, by its brackets; null when it does not. */
export function valueEnd(text: string, from: number): number | null {
  let depth = 0;
  let at = from;
  while (at < text.length) {
    const char = text[at];
    if (char === '"') {
      at = stringEnd(text, at);
      if (depth === 0) return at <= text.length ? at : null;
      continue;
    }
    if (char === "{" || char === "[") depth += 1;
    if (char === "}" || char === "]") depth -= 1;
    at += 1;
    if (depth <= 0) return at;
  }
  return null;
}

/** The texts of a JSON list's elements, as they stand in `json`; null when it is no valid list. */
export function elementTexts(json: string): string[] | null {
  try {
    if (!Array.isArray(JSON.parse(json))) return null;
  } catch {
    return null;
  }
  const elements: string[] = [];
  const inner = json.trim().slice(1, -1);
  let depth = 0;
  let from = 0;
  for (let at = 0; at < inner.length; at += 1) {
    const char = inner[at];
    if (char === '"') at = stringEnd(inner, at) - 1;
    else if (char === "{" || char === "[") depth += 1;
    else if (char === "}" || char === "]") depth -= 1;
    else if (char === "," && depth === 0) {
      elements.push(inner.slice(from, at).trim());
      from = at + 1;
    }
  }
  const last = inner.slice(from).trim();
  return last === "" ? elements : [...elements, last];
}

function stringEnd(json: string, start: number): number {
  let at = start + 1;
  while (at < json.length && json[at] !== '"') at += json[at] === "\\" ? 2 : 1;
  return at + 1;
}

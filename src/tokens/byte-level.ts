/**
 * The alphabet of byte-level BPE (GPT-2, Llama 3, Qwen, SmolLM): each byte is one printable character, so a token's
 * name tells how many bytes it stands for.
 */
const BYTE_OF = new Map<string, number>();
const CHAR_OF: string[] = [];
let next = 256;
for (let byte = 0; byte < 256; byte += 1) {
  const printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  const char = String.fromCodePoint(printable ? byte : next++);
  BYTE_OF.set(char, byte);
  CHAR_OF.push(char);
}

/** The character that stands for a byte, 0-255. */
export function byteLevelChar(byte: number): string {
  return CHAR_OF[byte] ?? "";
}

/** How many bytes the token stands for; null when it holds a character outside the alphabet. */
export function byteLevelLength(token: string): number | null {
  let length = 0;
  for (const char of token) {
    if (!BYTE_OF.has(char)) return null;
    length += 1;
  }
  return length;
}

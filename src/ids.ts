/** Chance has one home: ids, nonces and seeds come from here, so that tests can name what is random. */

const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"; // Crockford base 32: no letter that reads as a digit
const TIME_CHARS = 10; // 48 bits of milliseconds, as in a ULID
const RANDOM_CHARS = 12; // 60 bits: two ids of one millisecond collide once in about 10^9 such pairs

export type IdPrefix = "job" | "grp" | "bck" | "att" | "trj" | "bat" | "evl" | "req" | "box" | "snp";

/** `job_01kb…`: ids of one prefix sort by creation time (to the millisecond). */
export function newId(prefix: IdPrefix, nowMs: number): string {
  let time = "";
  for (let rest = Math.floor(nowMs), i = 0; i < TIME_CHARS; i += 1) {
    time = ALPHABET.charAt(rest % 32) + time;
    rest = Math.floor(rest / 32);
  }
  const random = crypto.getRandomValues(new Uint8Array(RANDOM_CHARS));
  return `${prefix}_${time}${Array.from(random, (byte) => ALPHABET.charAt(byte & 31)).join("")}`;
}

/** 128 random bits in hex, for sentinels that an agent must not guess. */
export function newNonce(): string {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(16))).toString("hex");
}

/** A fraction in [0, 1), for jitter only. */
export function jitter(): number {
  return Math.random();
}

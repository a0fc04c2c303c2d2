/**
 * Tickets: the server signs the name of a future answer without seeing it, in exchange for an invitation.
 *
 * Blind RSA signatures (RFC 9474, RSABSSA-SHA384-PSSZERO-Deterministic; 2048 bits, exponent 65537), as in
 * `sfumato.protocol.tickets`. It knows neither page nor network. Numbers travel as base64url of 256 bytes.
 */

import { GuidanceRefused, randomBytes } from "./perturb.js";

const EXPONENT = 65537n;
const BYTES = 256;
const HASH_BYTES = 48;

/** Hide the name of an answer behind a random factor: {hidden, inverse}, both as they travel. */
export async function blind(key, survey, name, random = randomBytes) {
  const modulus = readNumber(key);
  let factor = 0n;
  while (factor < 2n || factor >= modulus) factor = fromBytes(random(BYTES));
  const hidden = ((await encoded(survey, name)) * power(factor, EXPONENT, modulus)) % modulus;
  return { hidden: writeNumber(hidden), inverse: writeNumber(inverted(factor, modulus)) };
}

/** Take the factor out of the signature. What is not a signature of this name is refused: it could be a mark. */
export async function unblind(key, survey, name, inverse, signature) {
  const modulus = readNumber(key);
  const ticket = (readNumber(signature) * readNumber(inverse)) % modulus;
  if (power(ticket, EXPONENT, modulus) !== (await encoded(survey, name))) throw new GuidanceRefused("ticket_bad");
  return writeNumber(ticket);
}

/** EMSA-PSS with SHA-384, MGF1 and no salt (RFC 8017), for a modulus of 2048 bits. */
async function encoded(survey, name) {
  const said = await digest(new TextEncoder().encode(`sfumato ticket|${survey}|${name}`));
  const hash = await digest(joined(new Uint8Array(8), said));
  const block = new Uint8Array(BYTES - HASH_BYTES - 1);
  block[block.length - 1] = 1;
  for (let start = 0, count = 0; start < block.length; start += HASH_BYTES, count += 1) {
    const mask = await digest(joined(hash, new Uint8Array([0, 0, 0, count])));
    for (let at = start; at < Math.min(start + HASH_BYTES, block.length); at++) block[at] ^= mask[at - start];
  }
  block[0] &= 0x7f; // below the modulus
  return fromBytes(joined(block, hash, new Uint8Array([0xbc])));
}

async function digest(bytes) {
  return new Uint8Array(await globalThis.crypto.subtle.digest("SHA-384", bytes));
}

function joined(...parts) {
  return Uint8Array.from(parts.flatMap((part) => [...part]));
}

function power(base, exponent, modulus) {
  let result = 1n;
  for (let square = base % modulus, left = exponent; left > 0n; left >>= 1n) {
    if (left & 1n) result = (result * square) % modulus;
    square = (square * square) % modulus;
  }
  return result;
}

/** 1 / value: by Euclid's algorithm. */
function inverted(value, modulus) {
  let [a, b, x, y] = [value, modulus, 1n, 0n];
  while (b) [a, b, x, y] = [b, a % b, y, x - (a / b) * y];
  if (a !== 1n) throw new GuidanceRefused("ticket_bad"); // a factor of the key: nobody meets one by chance
  return ((x % modulus) + modulus) % modulus;
}

function fromBytes(bytes) {
  return BigInt(`0x${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`);
}

function readNumber(text) {
  if (typeof text !== "string" || !/^[\w-]{342}$/.test(text)) throw new GuidanceRefused("ticket_bad");
  const plain = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return fromBytes(Uint8Array.from(plain, (letter) => letter.charCodeAt(0)));
}

function writeNumber(number) {
  const pairs = number.toString(16).padStart(2 * BYTES, "0").match(/../g);
  const plain = String.fromCharCode(...pairs.map((pair) => parseInt(pair, 16)));
  return btoa(plain).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

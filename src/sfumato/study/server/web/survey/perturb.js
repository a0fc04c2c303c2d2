/**
 * The perturbation layer of the guided survey: from plain answers to the bits that are sent, and what those reveal.
 *
 * It knows neither page nor network, so it runs in a foreign page, in a worker and in node. Every product and every sum
 * is rounded once and in index order; the same random numbers give the same bits as `sfumato.guidance.bits`:
 *
 *   u[c] = sum of V[j][c] over the chosen j;  x[j] = sum of u[c] * V[j][c]           (t V V', Eq. 7)
 *   p = min(1, x * x), or 0.5 + 0.5 * x from 0 to 1 (linear link);  q = floor + (1 - 2 * floor) * p
 *   bit j is 1 if and only if uniform[j] < q[j]                                      (Eq. 8, with a floor)
 */

export const ORTHONORMAL = 1e-9; // how far V'V may be from the identity
const LISTED = 1 << 14; // most sums of one half of the questions that are listed to find the value nearest to zero
const ROUNDING = 1e-9; // share by which epsilon is rounded up
const IMPOSSIBLE = 1e-300; // stands for a probability of 0 where there is no floor: its logarithm is finite

/** Guidance that no honest collector sends. `reason` is a key of the page's words. */
export class GuidanceRefused extends Error {
  constructor(reason, detail = "") {
    super(detail ? `${reason}: ${detail}` : reason);
    this.name = "GuidanceRefused";
    this.reason = reason;
    this.detail = detail;
  }
}

// -- answers ----------------------------------------------------------------------------------------------------------

export const BLANK = -1; // a question that was left out, where the survey's space has blanks: none of its bits is set

/** Bits of every question: {sizes, starts, width, blank}; question a has the bits starts[a] .. starts[a] + sizes[a] - 1. */
export function answerSpace(sizes, blank = false) {
  if (!sizes.length || sizes.some((size) => !Number.isInteger(size) || size < 1)) throw new RangeError("no choices");
  const starts = [];
  let width = 0;
  for (const size of sizes) {
    starts.push(width);
    width += size;
  }
  return { sizes: [...sizes], starts, width, blank };
}

/** The interval of a number: how many edges are not above it. An edge belongs to the upper interval. */
export function interval(value, edges) {
  return edges.filter((edge) => value >= edge).length;
}

/** Numbers of the bits that are 1 in the one-hot row, ascending; one choice for every question. */
export function oneHot(space, choices) {
  if (choices.length !== space.sizes.length) throw new RangeError("one choice for every question");
  return choices.flatMap((choice, a) => {
    if (choice === BLANK && space.blank) return [];
    if (!Number.isInteger(choice) || choice < 0 || choice >= space.sizes[a]) throw new RangeError("not a choice");
    return [space.starts[a] + choice];
  });
}

// -- randomness -------------------------------------------------------------------------------------------------------

/** `count` * 8 bytes from the system's generator, in pieces that it is willing to give. */
export function randomBytes(count) {
  const bytes = new Uint8Array(count);
  for (let start = 0; start < count; start += 65536) {
    globalThis.crypto.getRandomValues(bytes.subarray(start, Math.min(count, start + 65536)));
  }
  return bytes;
}

/** Numbers in [0, 1): eight bytes each, little-endian, shifted right by 11, times 2^-53. */
export function uniformsFromBytes(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const count = Math.floor(bytes.byteLength / 8);
  return Float64Array.from({ length: count }, (_, i) => Number(view.getBigUint64(8 * i, true) >> 11n) * 2 ** -53);
}

export const uniforms = (count) => uniformsFromBytes(randomBytes(8 * count));

/** "Prefer not to say" (null) becomes a choice drawn uniformly, here and once; given choices stay. */
export function fillBlanks(space, choices, drawn = uniforms(choices.length)) {
  return choices.map((choice, a) => (choice === null ? Math.floor(drawn[a] * space.sizes[a]) : choice));
}

/** 128 random bits as 22 characters: the name of an answer, known to nobody else. */
export function answerId(bytes = randomBytes(16)) {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

// -- guidance ---------------------------------------------------------------------------------------------------------

export async function sha256(data) {
  const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
  const digest = new Uint8Array(await globalThis.crypto.subtle.digest("SHA-256", bytes));
  return [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Guidance as it travels -> {V, width, k}: rows of V one after another. All checks of 4.2 and the hash, or refusal. */
export async function readGuidance(message, width, k) {
  if (message.width !== width || message.k !== k || !Number.isInteger(k) || k < 1 || k > width) {
    throw new GuidanceRefused("guidance_size", `${message.width} x ${message.k}, not ${width} x ${k}`);
  }
  const bytes = decodeBase64(message.v);
  if (bytes === null || bytes.length !== 8 * width * k) throw new GuidanceRefused("guidance_size", "length");
  if ((await sha256(bytes)) !== message.sha256) throw new GuidanceRefused("guidance_hash");
  const view = new DataView(bytes.buffer);
  const V = Float64Array.from({ length: width * k }, (_, i) => view.getFloat64(8 * i, true));
  if (!(departure(V, width, k) <= ORTHONORMAL)) throw new GuidanceRefused("guidance_orthonormal");
  return { V, width, k };
}

function decodeBase64(text) {
  if (typeof text !== "string" || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) return null;
  try {
    return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  } catch {
    return null;
  }
}

/** The largest entry of |V'V - I|; NaN or infinity where V has no finite entries. */
export function departure(V, width, k) {
  let worst = 0;
  for (let a = 0; a < k; a++) {
    for (let b = a; b < k; b++) {
      let sum = 0;
      for (let j = 0; j < width; j++) sum += V[j * k + a] * V[j * k + b];
      const off = Math.abs(sum - (a === b ? 1 : 0));
      if (!(off <= worst)) worst = off;
      if (Number.isNaN(worst)) return NaN;
    }
  }
  return worst;
}

// -- bits -------------------------------------------------------------------------------------------------------------

/** t V V' for the one-hot row whose ones are given. */
export function project(ones, { V, width, k }) {
  const u = new Float64Array(k);
  for (const j of ones) for (let c = 0; c < k; c++) u[c] += V[j * k + c];
  const x = new Float64Array(width);
  for (let j = 0; j < width; j++) for (let c = 0; c < k; c++) x[j] += u[c] * V[j * k + c];
  return x;
}

/** From a projected value to the probability of a one. */
export function probability(x, { floor, link }) {
  const p = link === "linear" ? Math.min(Math.max(0.5 + 0.5 * x, 0), 1) : Math.min(x * x, 1);
  return floor + (1 - 2 * floor) * p;
}

/** P(bit = 1) of every bit. `rule` is {floor, link}, from the survey. */
export function bitProbabilities(ones, guidance, rule) {
  return project(ones, guidance).map((x) => probability(x, rule));
}

/** The numbers of the bits that are sent as ones, ascending: drawn once, then kept. */
export function drawBits(ones, guidance, rule, drawn = uniforms(guidance.width)) {
  const q = bitProbabilities(ones, guidance, rule);
  if (drawn.length !== q.length) throw new RangeError("every bit needs its own uniform number");
  const bits = [];
  for (let j = 0; j < q.length; j++) if (drawn[j] < q[j]) bits.push(j);
  return bits;
}

// -- what is revealed (to somebody who knows all the other answers; no question left blank) ----------------------------

/**
 * Epsilon: the sum over bits of the largest |log-ratio| of that bit over all answers. Whatever was answered, the bits
 * that are sent are at most e^epsilon times as likely as with any other answers. Infinite without a floor.
 */
export function epsilon(guidance, space, rule) {
  if (rule.floor === 0) return Infinity;
  let total = 0;
  for (let j = 0; j < guidance.width; j++) {
    const [low, high] = projectedRange(j, guidance, space, rule.link !== "linear");
    const [least, most] = [probability(low, rule), probability(high, rule)];
    const bit = Math.max(Math.log(most / least), Math.log((1 - least) / (1 - most)));
    total += bit * (1 + ROUNDING) + 1e-13 / rule.floor;
  }
  return total;
}

/** Least and largest x_j over all answers; of |x_j| where the square link needs the value nearest to zero. */
function projectedRange(j, { V, k }, space, nearest) {
  const parts = space.sizes.map((size, a) =>
    Array.from({ length: size + (space.blank ? 1 : 0) }, (_, choice) => {
      let sum = 0;
      if (choice < size) for (let c = 0; c < k; c++) sum += V[j * k + c] * V[(space.starts[a] + choice) * k + c];
      return sum; // a blank adds nothing
    }),
  );
  const low = parts.reduce((sum, part) => sum + Math.min(...part), 0);
  const high = parts.reduce((sum, part) => sum + Math.max(...part), 0);
  if (!nearest) return [low, high];
  const most = Math.max(Math.abs(low), Math.abs(high));
  if (!(low < 0 && high > 0)) return [Math.min(Math.abs(low), Math.abs(high)), most];
  const middle = Math.ceil(parts.length / 2);
  const halves = [parts.slice(0, middle), parts.slice(middle)];
  const listable = halves.every((half) => half.reduce((count, part) => count * part.length, 1) <= LISTED);
  return [listable ? nearestToZero(...halves.map(everySum)) : 0, most];
}

function everySum(parts) {
  let sums = new Float64Array(1);
  for (const part of parts) {
    const longer = new Float64Array(sums.length * part.length);
    part.forEach((value, at) => longer.set(sums.map((sum) => sum + value), at * sums.length));
    sums = longer;
  }
  return sums.sort();
}

/** The smallest |a + b|: one list upwards, the other downwards. */
function nearestToZero(one, other) {
  let best = Infinity;
  for (let i = 0, j = other.length - 1; i < one.length && j >= 0; ) {
    const sum = one[i] + other[j];
    best = Math.min(best, Math.abs(sum));
    if (sum > 0) j -= 1;
    else i += 1;
  }
  return best;
}

/** For every choice of question a, all other answers being as given: [log q, log (1 - q)] of every bit. */
function logTables(ones, a, guidance, space, rule) {
  return Array.from({ length: space.sizes[a] }, (_, choice) => {
    const row = ones.map((one, b) => (b === a ? space.starts[a] + choice : one));
    const q = bitProbabilities(row, guidance, rule);
    return [q, q.map((value) => 1 - value)].map((side) => side.map((value) => Math.log(Math.max(value, IMPOSSIBLE))));
  });
}

/**
 * How sure a collector who knows all the other answers can become of each answer at the very most, over all bits that
 * could be sent; before, every choice was as likely to him as the next. Exact for two choices, never too small for more.
 */
export function mostCertain(ones, guidance, space, rule) {
  return space.sizes.map((size, a) => {
    const tables = logTables(ones, a, guidance, space, rule);
    const [truth, untruth] = tables[ones[a] - space.starts[a]];
    let others = 0;
    tables.forEach(([one, zero], choice) => {
      if (choice === ones[a] - space.starts[a]) return;
      let ratio = 0;
      for (let j = 0; j < one.length; j++) ratio += Math.max(truth[j] - one[j], untruth[j] - zero[j]);
      others += Math.exp(-ratio);
    });
    return 1 / (1 + others);
  });
}

/** What that collector believes of every choice of every question once he holds these bits: rows that add up to 1. */
export function posteriors(ones, bits, guidance, space, rule) {
  const sent = new Set(bits);
  return space.sizes.map((size, a) => belief(logTables(ones, a, guidance, space, rule), (j) => sent.has(j)));
}

function belief(tables, isOne) {
  const scores = tables.map(([one, zero]) => {
    let sum = 0;
    for (let j = 0; j < one.length; j++) sum += isOne(j) ? one[j] : zero[j];
    return sum;
  });
  const top = Math.max(...scores);
  const weights = scores.map((score) => Math.exp(score - top));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight) => weight / total);
}

/**
 * How sure of each true answer that collector becomes on average, over `rounds` simulated answers. The numbers come
 * from a fixed sequence: the same answers give the same picture, and nothing of it is ever sent.
 */
export function usuallyCertain(ones, guidance, space, rule, rounds = 300) {
  const q = bitProbabilities(ones, guidance, rule);
  const next = sequence(20251);
  const drawn = Array.from({ length: rounds }, () => Uint8Array.from(q, (value) => (next() < value ? 1 : 0)));
  return space.sizes.map((_, a) => {
    const tables = logTables(ones, a, guidance, space, rule); // of one question at a time: they are large
    const truth = ones[a] - space.starts[a];
    return drawn.reduce((sum, bits) => sum + belief(tables, (j) => bits[j] === 1)[truth], 0) / rounds;
  });
}

/** A small fixed generator (mulberry32), for pictures only. */
function sequence(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

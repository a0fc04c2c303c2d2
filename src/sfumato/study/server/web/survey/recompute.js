/**
 * Guidance from the published counts, as `sfumato.guidance.Guidance` computes it: so a respondent sees what every level
 * would reveal before any guidance is asked for, and guidance that does not follow from the counts is refused.
 */

import { eigen } from "./eigen.js";
import { GuidanceRefused, ORTHONORMAL, answerSpace, oneHot, sha256 } from "./perturb.js";

const WIDEST = 300; // bits: wider matrices take a phone too long; the page then says that it did not recompute
const TOLERANCE = 1e-6; // share of the largest eigenvalue by which two computations may differ

/** Whether guidance can be recomputed while somebody waits: more than two classes need a matrix of their own each. */
export function canRecompute(width, classes) {
  const matrices = classes > 2 ? classes + 1 : 1;
  return matrices * width ** 3 <= WIDEST ** 3;
}

/** Counts the survey starts from: of the owner's rows, or of random ones that follow from the survey file's first hash. */
export async function startupCounts(survey, hash) {
  const space = answerSpace(survey.questions.map((question) => question.choices.length));
  const classes = survey.label.choices.length;
  const found = {};
  if (survey.start_up?.classes) {
    for (const [label, { n, upper }] of Object.entries(survey.start_up.classes)) {
      found[label] = { n, A: unfold(upper, space.width) };
    }
    return found;
  }
  const seed = survey.origin ?? hash;
  const number = Math.max(space.sizes.length, classes);
  for (let row = 0; row < number; row++) {
    const random = async (size, place) => {
      const digest = await sha256(`${seed}|${place}|${row}`);
      return Number(BigInt(`0x${digest.slice(0, 16)}`) % BigInt(size));
    };
    const choices = await Promise.all(space.sizes.map(random));
    const label = row % classes;
    const part = (found[label] ??= { n: 0, A: new Float64Array(space.width ** 2) });
    const ones = oneHot(space, choices);
    part.n += 1;
    for (const i of ones) for (const j of ones) part.A[i * space.width + j] += 1;
  }
  return found;
}

/** Published counts and start-up rows -> the symmetric matrix A (rows one after another) whose eigenvectors guide. */
export function classDifference(counts, startup, { floor, link, balance = true }) {
  const { width } = counts;
  const labels = [...new Set([...Object.keys(counts.classes), ...Object.keys(startup)])].sort((a, b) => a - b);
  const parts = labels.map((label) => {
    const [received, started] = [counts.classes[label], startup[label]];
    let part = received ? decoded(received, width, { floor, link }) : new Float64Array(width * width);
    if (started) part = combine(part, started.A, 1, 1);
    const rows = (received?.n ?? 0) + (started?.n ?? 0);
    return balance ? part.map((value) => value / Math.max(rows, 1)) : part; // alike, however many answered; or by size
  });
  if (parts.length === 0) return new Float64Array(width * width);
  if (parts.length <= 2) return parts.length === 2 ? combine(parts[0], parts[1], 1, -1) : parts[0];
  const total = parts.reduce((sum, part) => combine(sum, part, 1, 1));
  const share = balance ? 1 / (parts.length - 1) : 1; // of several others the mean, or their sum
  const apart = parts.map((part) => absolute(combine(part, total, 1 + share, -share), width));
  return apart.reduce((sum, part) => combine(sum, part, 1, 1)).map((value) => value / 2);
}

/** A_c with the known part of every bit taken out: a bit of mean q = a + g p becomes (r - a) / g. */
function decoded({ n, upper }, width, { floor, link }) {
  const A = unfold(upper, width);
  const ones = Array.from({ length: width }, (_, i) => A[i * width + i]);
  const [offset, gain] = link === "linear" ? [0.5, 0.5 * (1 - 2 * floor)] : [floor, 1 - 2 * floor];
  return A.map((value, at) => {
    const [i, j] = [Math.floor(at / width), at % width];
    if (i === j) return (ones[i] - n * offset) / gain;
    return (value - offset * (ones[i] + ones[j]) + n * offset * offset) / gain ** 2;
  });
}

function unfold(upper, width) {
  const fits = Array.isArray(upper) && upper.length === (width * (width + 1)) / 2;
  if (!fits) throw new RangeError("counts of another width");
  const A = new Float64Array(width * width);
  let at = 0;
  for (let i = 0; i < width; i++) {
    for (let j = i; j < width; j++) {
      A[i * width + j] = A[j * width + i] = upper[at];
      at += 1;
    }
  }
  return A;
}

const combine = (A, B, a, b) => A.map((value, at) => a * value + b * B[at]);

function absolute(A, width) {
  const { values, vectors } = eigen(A, width);
  const out = new Float64Array(width * width);
  values.forEach((value, c) => {
    for (let i = 0; i < width; i++) {
      const left = Math.abs(value) * vectors[i * width + c];
      for (let j = 0; j < width; j++) out[i * width + j] += left * vectors[j * width + c];
    }
  });
  return out;
}

/** What the published counts say: guidance of every level, and whether some guidance follows from them. */
export class Recomputed {
  /** `rule` is {floor, link, order, mu, balance, k} from the survey (the last two may be missing), `startup` what `startupCounts` gives. */
  constructor(counts, startup, rule) {
    const { order } = rule;
    this.mu = rule.mu;
    this.fixed = rule.k ?? null;
    this.width = counts.width;
    this.A = classDifference(counts, startup, rule);
    const { values, vectors } = eigen(this.A, this.width);
    const size = (value) => (order === "value" ? value : Math.abs(value));
    this.ranks = values.map((_, i) => i).sort((a, b) => size(values[b]) - size(values[a]) || a - b);
    this.values = this.ranks.map((rank) => values[rank]);
    this.sizes = this.values.map(size);
    this.vectors = vectors;
    this.largest = Math.max(...values.map(Math.abs));
  }

  /** Guidance of level k; with nothing counted yet the one direction that tells nothing of anybody. */
  guidance(k) {
    const n = this.width;
    if (!(this.largest > 0)) return { V: new Float64Array(n).fill(1 / Math.sqrt(n)), width: n, k: 1 };
    const V = Float64Array.from({ length: n * k }, (_, at) => this.vectors[Math.floor(at / k) * n + this.ranks[at % k]]);
    return { V, width: n, k };
  }

  /** k*: the survey's own k, or the least k with sigma_(k+1) <= mu sigma_1 [Eq. 6]; 1 when sigma_1 <= 0. */
  level(mu = this.mu) {
    if (this.fixed !== null && this.largest > 0) return this.fixed;
    if (!(this.sizes[0] > 0)) return 1;
    const small = this.sizes.findIndex((value, at) => at > 0 && value <= mu * this.sizes[0]);
    return small < 0 ? this.sizes.length : small;
  }

  /**
   * Refuse V unless it has the level that follows from the counts, and its columns are eigenvectors of A with the k
   * leading eigenvalues. Not entry by entry: signs, and the basis of equal eigenvalues, are the collector's to choose
   * and change nothing in V V'.
   */
  check({ V, width, k }) {
    const levels = [1 - 1e-9, 1, 1 + 1e-9].map((shift) => this.level(shift * this.mu)); // a tie may go either way
    if (!levels.includes(k)) throw new GuidanceRefused("guidance_level", `${levels[1]}`);
    const flat = V.every((value) => Math.abs(value - V[0]) <= ORTHONORMAL);
    if (!(this.largest > 0) && !flat) throw new GuidanceRefused("guidance_counts"); // counts that tell nothing
    const allowed = TOLERANCE * this.largest;
    for (let c = 0; c < k; c++) {
      const image = new Float64Array(width);
      let ritz = 0;
      for (let i = 0; i < width; i++) {
        for (let j = 0; j < width; j++) image[i] += this.A[i * width + j] * V[j * k + c];
        ritz += image[i] * V[i * k + c];
      }
      const eigenvector = image.every((value, i) => Math.abs(value - ritz * V[i * k + c]) <= allowed);
      if (!eigenvector || Math.abs(Math.abs(ritz) - Math.abs(this.values[c])) > allowed) {
        throw new GuidanceRefused("guidance_counts");
      }
    }
  }
}

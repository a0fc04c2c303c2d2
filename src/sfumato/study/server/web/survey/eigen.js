/**
 * Eigenvalues and eigenvectors of a symmetric matrix: Householder's reflections to three diagonals, then the QL method
 * with implicit shifts (Bowdler, Martin, Reinsch and Wilkinson, 1968). Rows lie one after another, and everything runs
 * along rows: 400 bits take less than a second.
 */

const STEPS = 60; // for one eigenvalue; two or three are usual

/** {values, vectors}: in no order; column c of `vectors` belongs to value c. */
export function eigen(symmetric, n) {
  const A = Float64Array.from(symmetric);
  const scale = A.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const { diagonal, beside } = reduced(A, n);
  const rows = new Float64Array(n * n); // row c is to become the eigenvector of value c
  for (let i = 0; i < n; i++) rows[i * n + i] = 1;
  turned(diagonal, beside, rows, n, scale);
  const vectors = new Float64Array(n * n);
  for (let c = 0; c < n; c++) {
    const vector = rows.subarray(c * n, (c + 1) * n);
    for (let k = n - 3; k >= 0; k--) reflect(vector, A, n, k);
    for (let i = 0; i < n; i++) vectors[i * n + c] = vector[i];
  }
  return { values: Array.from(diagonal), vectors };
}

/**
 * Reflection k clears row k right of the entry beside the diagonal: I - v v' / h with h = v'v / 2, for the rest of the
 * matrix A - v w' - w v' with w = p - (v'p / 2h) v and p = A v / h. What is left of row k in A then holds v / sqrt(h).
 */
function reduced(A, n) {
  const [diagonal, beside, w] = [new Float64Array(n), new Float64Array(n), new Float64Array(n)];
  for (let k = 0; k < n - 2; k++) {
    const v = A.subarray(k * n, (k + 1) * n);
    let square = 0;
    for (let j = k + 1; j < n; j++) square += v[j] * v[j];
    const length = Math.sqrt(square);
    beside[k] = v[k + 1] > 0 ? -length : length;
    const half = square - v[k + 1] * beside[k]; // h
    v[k + 1] -= beside[k];
    const root = Math.sqrt(half);
    for (let j = k + 1; j < n; j++) v[j] = root > 0 ? v[j] / root : 0;
    let along = 0;
    for (let i = k + 1; i < n; i++) {
      let sum = 0;
      for (let j = k + 1; j < n; j++) sum += A[i * n + j] * v[j];
      w[i] = sum;
      along += sum * v[i];
    }
    for (let i = k + 1; i < n; i++) w[i] -= (along / 2) * v[i];
    for (let i = k + 1; i < n; i++) for (let j = k + 1; j < n; j++) A[i * n + j] -= v[i] * w[j] + w[i] * v[j];
  }
  for (let i = 0; i < n; i++) diagonal[i] = A[i * n + i];
  if (n > 1) beside[n - 2] = A[(n - 2) * n + n - 1];
  return { diagonal, beside };
}

/** The reflection that row k of A holds, of a vector. */
function reflect(vector, A, n, k) {
  let sum = 0;
  for (let j = k + 1; j < n; j++) sum += A[k * n + j] * vector[j];
  for (let j = k + 1; j < n; j++) vector[j] -= sum * A[k * n + j];
}

/** Rotations that clear what is beside the diagonal, from the first value to the last; `rows` are turned with it. */
function turned(diagonal, beside, rows, n, scale) {
  const small = (i) => Math.abs(beside[i]) <= 2 ** -53 * (Math.abs(diagonal[i]) + Math.abs(diagonal[i + 1]) + scale * 1e-3);
  for (let first = 0; first < n; first++) {
    for (let step = 0; step < STEPS; step++) {
      let last = first;
      while (last < n - 1 && !small(last)) last += 1;
      if (last === first) break;
      sweep(diagonal, beside, rows, n, first, last);
    }
  }
}

function sweep(diagonal, beside, rows, n, first, last) {
  const apart = (diagonal[first + 1] - diagonal[first]) / (2 * beside[first]);
  const shift = apart + (apart >= 0 ? 1 : -1) * Math.hypot(apart, 1);
  let g = diagonal[last] - diagonal[first] + beside[first] / shift;
  let [sine, cosine, lost] = [1, 1, 0];
  for (let i = last - 1; i >= first; i--) {
    const [f, b] = [sine * beside[i], cosine * beside[i]];
    const r = Math.hypot(f, g);
    beside[i + 1] = r;
    if (r === 0) {
      diagonal[i + 1] -= lost;
      beside[last] = 0;
      return;
    }
    [sine, cosine] = [f / r, g / r];
    const d = diagonal[i + 1] - lost;
    const t = (diagonal[i] - d) * sine + 2 * cosine * b;
    lost = sine * t;
    diagonal[i + 1] = d + lost;
    g = cosine * t - b;
    const [here, next] = [i * n, (i + 1) * n];
    for (let j = 0; j < n; j++) {
      const x = rows[here + j];
      const y = rows[next + j];
      rows[next + j] = sine * x + cosine * y;
      rows[here + j] = cosine * x - sine * y;
    }
  }
  diagonal[first] -= lost;
  beside[first] = g;
  beside[last] = 0;
}

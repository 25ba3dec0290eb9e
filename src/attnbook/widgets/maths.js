// Pure functions on numbers, on rows (arrays) and on matrices (arrays of rows).

// A seeded generator of uniform numbers in [0, 1) (mulberry32), and normal ones from it (Box-Muller).
export function random(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let x = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x;
    return ((x ^ (x >>> 14)) >>> 0) / 4294967296;
  };
}
export const normal = uniform => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());

// Softmax of numbers; masked ones are −∞. A row with nothing to attend to gives zeros.
export function softmax(row) {
  const top = Math.max(...row);
  if (top === -Infinity) return row.map(() => 0);
  const e = row.map(x => Math.exp(x - top)), sum = e.reduce((a, b) => a + b, 0);
  return e.map(x => x / sum);
}
export const entropy = p => -p.reduce((sum, x) => sum + (x > 0 ? x * Math.log(x) : 0), 0);
export const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
export const transpose = A => A[0].map((_, j) => A.map(row => row[j]));
export const matmul = (A, B) => { const columns = transpose(B); return A.map(row => columns.map(column => dot(row, column))); };

// A number with a power of ten, 1.9 × 10⁻¹⁶; zero as 0.
export const scientific = x => (x === 0 ? "0" : x.toExponential(1).replace(/e\+?(.*)/, (_, power) => `\u00a0×\u00a010${power.replace(/./g, c => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]))}`).replace("-", "−"));

// Activations and their derivatives with respect to the pre-activation z, as in attnbook.feedforward: NAME: [σ, σ′].

const logistic = z => 1 / (1 + Math.exp(-z));

// Φ(z), the distribution function of the standard normal: the rational Chebyshev fit of erfc (Press et al., Numerical
// Recipes, 6.2), correct to 1.2e-7.
const FIT = [
  -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277,
];
function normalDistribution(z) {
  const x = Math.abs(z) / Math.SQRT2,
    t = 1 / (1 + x / 2);
  const tail = (t * Math.exp(-x * x + FIT.reduceRight((sum, c) => sum * t + c, 0))) / 2;
  return z < 0 ? tail : 1 - tail;
}
const normalDensity = z => Math.exp((-z * z) / 2) / Math.sqrt(2 * Math.PI);

export const ACTIVATIONS = {
  relu: [z => (z > 0 ? z : 0), z => (z > 0 ? 1 : 0)],
  sigmoid: [logistic, z => logistic(z) * (1 - logistic(z))],
  tanh: [Math.tanh, z => 1 - Math.tanh(z) ** 2],
  gelu: [z => z * normalDistribution(z), z => normalDistribution(z) + z * normalDensity(z)],
  identity: [z => z, () => 1],
};

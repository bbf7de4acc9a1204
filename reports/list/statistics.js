// Do two sets of repeats differ? The rule of hpcai.metrics.statistics.significance, for any results that a reader picks.
"use strict";
(() => {
  const ALPHA = 0.05;
  const RESOLUTION = 1e-9;
  const MOST_ARRANGEMENTS = 200000;
  const DRAWS = 9999;

  const sum = (values) => values.reduce((all, one) => all + one, 0);
  const mean = (values) => sum(values) / values.length;
  const spread = (values) => {
    const middle = mean(values);
    const range = Math.max(...values) - Math.min(...values);
    if (range <= RESOLUTION * Math.max(...values.map(Math.abs))) return 0;
    return Math.sqrt(sum(values.map((one) => (one - middle) ** 2)) / (values.length - 1));
  };

  // Lanczos' approximation, and the continued fraction of the incomplete beta function (Numerical Recipes, 6.1 and 6.4).
  const LANCZOS = [76.18009172947146, -86.50532032941677, 24.01409824083091, -1.231739572450155, 0.1208650973866179e-2, -0.5395239384953e-5];
  const logGamma = (x) => {
    const base = x + 5.5;
    const series = LANCZOS.reduce((all, one, place) => all + one / (x + place + 1), 1.000000000190015);
    return (x + 0.5) * Math.log(base) - base + Math.log(2.5066282746310005 * series / x);
  };
  const fraction = (a, b, x) => {
    const tiny = 1e-300;
    const away = (value) => (Math.abs(value) < tiny ? tiny : value);
    let c = 1;
    let d = 1 / away(1 - (a + b) * x / (a + 1));
    let found = d;
    for (let m = 1; m <= 500; m += 1) {
      for (const term of [m * (b - m) * x / ((a - 1 + 2 * m) * (a + 2 * m)), -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 1 + 2 * m))]) {
        d = 1 / away(1 + term * d);
        c = away(1 + term / c);
        found *= d * c;
      }
      if (Math.abs(d * c - 1) < 1e-14) break;
    }
    return found;
  };
  const incompleteBeta = (a, b, x) => {
    if (x <= 0 || x >= 1) return x <= 0 ? 0 : 1;
    const front = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log(1 - x));
    return x < (a + 1) / (a + b + 2) ? front * fraction(a, b, x) / a : 1 - front * fraction(b, a, 1 - x) / b;
  };
  const twoSided = (t, freedom) => incompleteBeta(freedom / 2, 0.5, freedom / (freedom + t * t));
  const quantile = (freedom) => {
    let [low, high] = [0, 1e6];
    for (let step = 0; step < 200; step += 1) {
      const middle = (low + high) / 2;
      if (twoSided(middle, freedom) > ALPHA) low = middle; else high = middle;
    }
    return high;
  };

  const choose = (total, chosen) => {
    let count = 1;
    for (let one = 1; one <= chosen; one += 1) count = count * (total - chosen + one) / one;
    return Math.round(count);
  };
  // Too many arrangements to count them all: some are drawn, always the same (mulberry32).
  const draw = (pooled, chosen, isBeyond) => {
    let state = 1;
    const random = () => {
      state = (state + 0x6d2b79f5) | 0;
      let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
      mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
      return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
    };
    let beyond = 1;
    const values = [...pooled];
    for (let pick = 0; pick < DRAWS; pick += 1) {
      for (let place = 0; place < chosen; place += 1) {
        const other = place + Math.floor(random() * (values.length - place));
        [values[place], values[other]] = [values[other], values[place]];
      }
      beyond += isBeyond(sum(values.slice(0, chosen)));
    }
    return { p: beyond / (DRAWS + 1), smallest: 1 / (DRAWS + 1), picks: DRAWS };
  };
  const permutations = (before, after) => {
    const pooled = [...after, ...before];
    const [all, chosen] = [sum(pooled), after.length];
    const statistic = (part) => Math.abs(Math.log(part / chosen) - Math.log((all - part) / before.length));
    const limit = statistic(sum(after)) * (1 - 1e-9) - 1e-12;
    const picks = choose(pooled.length, chosen);
    const smallest = (before.length === after.length ? 2 : 1) / picks;
    if (picks > MOST_ARRANGEMENTS) return draw(pooled, chosen, (part) => statistic(part) >= limit);
    let beyond = 0;
    const walk = (place, left, part) => {
      if (left === 0) { beyond += statistic(part) >= limit; return; }
      for (let next = place; next <= pooled.length - left; next += 1) walk(next + 1, left - 1, part + pooled[next]);
    };
    walk(0, chosen, 0);
    return { p: beyond / picks, smallest, picks };
  };

  // The ratio of means, new over base, with Welch's interval by the delta method, and both p values.
  const compareSamples = (base, next) => {
    const [before, after] = [base, next].map((side) => side.filter((one) => Number.isFinite(one) && one > 0));
    const found = { before: before.length, after: after.length, ratio: NaN, low: NaN, high: NaN, pBounded: NaN, pPermutation: NaN, smallest: NaN, picks: 0, beyondRange: false };
    if (!before.length || !after.length) return found;
    found.ratio = mean(after) / mean(before);
    found.beyondRange = Math.min(...after) > Math.max(...before) || Math.max(...after) < Math.min(...before);
    if (before.length < 2 || after.length < 2) return found;
    const shuffled = permutations(before, after);
    Object.assign(found, { pPermutation: shuffled.p, smallest: shuffled.smallest, picks: shuffled.picks });
    const parts = [before, after].map((side) => (spread(side) / mean(side)) ** 2 / side.length);
    if (sum(parts) === 0) return found;
    const error = Math.sqrt(sum(parts));
    const freedom = sum(parts) ** 2 / (parts[0] ** 2 / (before.length - 1) + parts[1] ** 2 / (after.length - 1));
    found.pBounded = twoSided(Math.abs(Math.log(found.ratio)) / error, Math.min(before.length, after.length) - 1);
    const reach = quantile(freedom) * error;
    found.low = found.ratio * Math.exp(-reach);
    found.high = found.ratio * Math.exp(reach);
    return found;
  };

  // Holm (1979): p values corrected for their number; NaN is not counted.
  const correctHolm = (values) => {
    const corrected = values.map(() => NaN);
    const order = values.map((_, place) => place).filter((place) => Number.isFinite(values[place])).sort((a, b) => values[a] - values[b]);
    let largest = 0;
    order.forEach((place, rank) => {
      largest = Math.max(largest, values[place] * (order.length - rank));
      corrected[place] = Math.min(largest, 1);
    });
    return corrected;
  };

  const restsOnNormal = (found) => found.smallest > ALPHA && Number.isFinite(found.pBounded);
  const pValue = (found) => (Number.isNaN(found.pBounded) ? found.pPermutation : found.pBounded);
  const isSignificant = (found, corrected) => {
    const agrees = restsOnNormal(found) ? found.beyondRange : found.pPermutation <= ALPHA;
    return corrected <= ALPHA && agrees;
  };

  window.hpcaiStatistics = { compareSamples, correctHolm, isSignificant, pValue, restsOnNormal };
})();

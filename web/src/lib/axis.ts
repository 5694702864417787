// Where the lines of a picture's axes are.

// The least step of 1, 2 or 5 times a power of ten of which at most so many make up the length.
export function stepOf(length: number, most: number): number {
  const least = Math.max(length, 1e-6) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(least));
  const factor = [1, 2, 5].find((one) => one * power >= least * (1 - 1e-9)) ?? 10;
  return factor * power;
}

// From 0 to the length.
export function ticks(length: number, most: number): number[] {
  const step = stepOf(length, most);
  return Array.from({ length: Math.floor(length / step + 1e-6) + 1 }, (_, i) => i * step);
}

const TIME_STEPS_S = [10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400];

// Times of day, even ones, between two times (seconds since 1970). zone is what the local clock is ahead, in seconds.
export function timeTicks(from: number, to: number, most: number, zone: number): number[] {
  const step = TIME_STEPS_S.find((one) => (to - from) / one <= most) ?? 86_400;
  const out: number[] = [];
  for (let at = Math.ceil((from + zone) / step) * step - zone; at <= to; at += step) out.push(at);
  return out;
}

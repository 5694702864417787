// Figures and text as pages show them.

// Text from outside without what would turn round or break the text beside it.
export function plain(text: string): string {
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]|\p{Cs}/gu, '\ufffd');
}

// JSON from outside, with all its text plain.
export function parsePlain(json: string): unknown {
  return JSON.parse(json, (_, value: unknown) => (typeof value === 'string' ? plain(value) : value));
}

// Three digits, or all before the point.
export function figure(value: number): string {
  if (!Number.isFinite(value)) return '–';
  const digits = value >= 100 || value === 0 ? 0 : value >= 10 ? 1 : 2;
  return value.toLocaleString('en', { maximumFractionDigits: digits });
}

export function percent(part: number): string {
  return `${(100 * part).toLocaleString('en', { maximumFractionDigits: part < 0.1 && part > 0 ? 1 : 0 })} %`;
}

// How long something took or takes.
export function duration(seconds: number): string {
  if (!Number.isFinite(seconds)) return '–';
  if (Number.isInteger(seconds) && seconds < 60) return `${seconds} s`;
  if (seconds < 0.0995) return `${figure(1000 * Math.max(0, seconds))} ms`;
  if (seconds < 9.995) return `${seconds.toFixed(2)} s`;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return whole % 60 === 0 ? `${whole / 60} min` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
  const minutes = Math.round(seconds / 60);
  return minutes % 60 === 0 ? `${minutes / 60} h` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

// As long ago as that, in steps that let a list be read.
export function age(seconds: number): string {
  if (seconds < 1) return 'now';
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return `${Math.floor(seconds / 3600)} h`;
}

export function clock(at: Date): string {
  return at.toLocaleTimeString('en-GB');
}

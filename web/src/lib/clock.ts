// What time it is for the server: its answers say (Date), in whole seconds. This machine's own clock may be wrong.

let ahead = 0; // of ours, in seconds

export function noteServerTime(date: string | null): void {
  const told = Date.parse(date ?? '');
  if (Number.isFinite(told)) ahead = (told + 500 - Date.now()) / 1000;
}

// Seconds since 1970.
export function serverTime(): number {
  return Date.now() / 1000 + ahead;
}

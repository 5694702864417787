// Changes of the cluster as the page collects them, and what the server is asked with (docs/api.md, "What if").

export type Change =
  | { kind: 'add'; type: string; count: number; region: string; mbits: number | null; ms: number | null }
  | { kind: 'remove'; name: string }
  | { kind: 'slow'; name: string; factor: number }
  | { kind: 'link'; from: string; to: string; mbits: number; ms: number | null };

const BYTES_PER_MBIT = 1e6 / 8;

export function changeText(change: Change): string {
  switch (change.kind) {
    case 'add': {
      const many = change.count === 1 ? '' : `${change.count} × `;
      const place = change.region === '' ? '' : ` in ${change.region}`;
      const net = change.mbits === null ? '' : `, ${change.mbits} Mbit/s and ${change.ms ?? 0} ms to everybody`;
      return `Add ${many}${change.type}${place}${net}`;
    }
    case 'remove':
      return `Remove ${change.name}`;
    case 'slow':
      return change.factor >= 1 ? `${change.name} takes ${change.factor} times as long` : `${change.name} takes ${change.factor} of the time`;
    case 'link':
      return `${change.from} – ${change.to}: ${change.mbits} Mbit/s${change.ms === null ? '' : `, ${change.ms} ms`}`;
  }
}

export function wireChange(change: Change): object {
  switch (change.kind) {
    case 'add':
      return {
        add: change.type, count: change.count, ...(change.region === '' ? {} : { region: change.region }),
        ...(change.mbits === null ? {} : { bandwidth_bytes_per_s: change.mbits * BYTES_PER_MBIT, latency_s: (change.ms ?? 0) / 1000 }),
      };
    case 'remove':
      return { remove: change.name };
    case 'slow':
      return { slow: change.name, factor: change.factor };
    case 'link':
      return {
        link: [change.from, change.to], bandwidth_bytes_per_s: change.mbits * BYTES_PER_MBIT,
        ...(change.ms === null ? {} : { latency_s: change.ms / 1000 }),
      };
  }
}

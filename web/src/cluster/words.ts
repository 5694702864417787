// What happens to machines and requests, in words.

const EVENTS: Record<string, string> = {
  joined: 'joined',
  lost: 'was lost',
  removed: 'was removed',
  draining: 'is being drained',
  drained: 'is drained',
  undrained: 'is used again',
};

// Of a machine that joined, or was lost, and so on.
export function isMachineEvent(kind: string): boolean {
  return Object.hasOwn(EVENTS, kind);
}
export function machineEventText(kind: string, name: string): string {
  return `${name} ${EVENTS[kind]}`;
}
export function placementText(epoch: unknown): string {
  return `Placement ${String(epoch)} is in force`;
}

const REASONS: Record<string, string> = {
  moved: 'moved while it ran',
  worker_lost: 'went on elsewhere: a machine was lost',
  link_broke: 'went on elsewhere: a link broke',
  no_token: 'went on elsewhere: its tokens did not come',
  preempted: 'began anew: others needed its memory',
  worker_emptied: 'went on elsewhere: a machine is emptied',
  cache_forgotten: 'began anew: what was cached is gone',
};

// Why a request got the pipeline that it has.
export function reasonText(reason: string): string {
  return Object.hasOwn(REASONS, reason) ? (REASONS[reason] as string) : reason.replaceAll('_', ' ');
}

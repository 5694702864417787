// How a machine is added, as GET /helix/joining has it, and what the page makes of it.

export interface Joining {
  addresses: string[]; // HOST:PORT of the server, as others reach it
  http_is_loopback: boolean;
  cluster_port_is_loopback: boolean;
  keys: boolean;
  fixed_placement: boolean;
}

export interface MadeKey {
  name: string;
  file: string;
  text: string;
}

// How pairing stands, as /helix/pairing has it.
export interface Pairing {
  state: 'shown' | 'paused' | 'off';
  code?: string;
  seconds_left?: number;
  let_in: string;
  wrong_tries: number;
  expired: boolean;
}

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host.endsWith('.localhost') || host.startsWith('127.') || host === '[::1]';
}

// Where the other machine may find the server: first as this page did, where that was no way that only this machine has.
export function addressesOf(joining: Joining, page: { hostname: string; port: string; protocol: string }): string[] {
  const port = page.port || (page.protocol === 'https:' ? '443' : '80');
  const seen = isLoopback(page.hostname) ? [] : [`${page.hostname}:${port}`];
  return [...new Set([...seen, ...joining.addresses])];
}

// Names of workers, as net/key.h has them.
export function isWorkerName(name: string): boolean {
  return /^[A-Za-z0-9._-]{1,64}$/.test(name);
}

export function command(joining: Joining, address: string, name: string): string {
  const key = joining.keys ? ` --key ${name || 'NAME'}.key` : '';
  const called = !joining.keys && name !== '' ? ` --name ${name}` : '';
  const keyless = joining.keys || isLoopback(address.slice(0, address.lastIndexOf(':'))) ? '' : ' --insecure';
  return `helix worker --join ${address}${called}${key}${keyless}`;
}

export function pairCommand(address: string, name: string): string {
  return `helix worker --join ${address}${name === '' ? '' : ` --name ${name}`} --pair`;
}

// What there is to say of pairing besides the code.
export function pairingText(pairing: Pairing): string {
  const seconds = pairing.seconds_left ?? 0;
  if (pairing.state === 'paused') return `Too many wrong codes were tried. A new one comes in ${seconds} s.`;
  if (pairing.state === 'off') {
    if (pairing.let_in !== '') return `${pairing.let_in} knew the code and may join.`;
    return pairing.expired ? 'No machine came in time: the code is void.' : 'The code is void.';
  }
  const left = `For one machine, valid for ${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}.`;
  return pairing.wrong_tries === 0 ? left : `${left} Wrong codes that were tried: ${pairing.wrong_tries}.`;
}

// The commands that start a server which only its own machine reaches for a network.
export function networkCommands(port: string): string {
  return [
    'helix key new',
    '(umask 077; echo "me $(head -c 24 /dev/urandom | base64)" > api.keys)',
    `helix serve MODEL --listen 0.0.0.0:${port} --key ~/.helix/coordinator.key --api-key-file api.keys`,
  ].join('\n');
}

// The commands that save a key on the other machine, readable by its owner alone.
export function saveCommand(key: MadeKey): string {
  return `(umask 077; cat > ${key.file} <<'END'\n${key.text.trimEnd()}\nEND\n)`;
}

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

// The commands that save a key on the other machine, readable by its owner alone.
export function saveCommand(key: MadeKey): string {
  return `(umask 077; cat > ${key.file} <<'END'\n${key.text.trimEnd()}\nEND\n)`;
}

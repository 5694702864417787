// What the clients' tests share: one line a check, and exit 1 when one has failed.
import assert from 'node:assert/strict';

let failed = 0;

export async function check(name, body) {
  try {
    await body();
    console.log(`ok    ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL  ${name}\n${error.stack}`);
  }
}

export function finish() {
  console.log(failed === 0 ? 'all checks passed' : `${failed} checks failed`);
  process.exit(failed === 0 ? 0 : 1);
}

// The address of the server, without a path.
export function serverAddress() {
  assert.ok(process.env.HELIX_BASE_URL, 'HELIX_BASE_URL is not set');
  return process.env.HELIX_BASE_URL.replace(/\/v1$/, '');
}

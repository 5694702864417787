// The pages that change the cluster, before a modelled one (stand_in.mjs) and before a real one. HELIX_BASE_URL is that;
// HELIX_KEYED_URL a server whose machines need keys; HELIX_BINARY and HELIX_WORKER start workers; pictures go to
// HELIX_PICTURES.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { check, finish } from './check.mjs';
import { launch, NEIGHBOUR, Visitor } from './browser.mjs';
import { three } from './modelled_clusters.mjs';
import { answer, applicable } from './modelled_what_if.mjs';
import { StandIn } from './stand_in.mjs';

const pictures = process.env.HELIX_PICTURES;
const base = process.env.HELIX_BASE_URL;
const standIn = await new StandIn(base).start();
const browser = await launch(process.env.HELIX_CHROMIUM);
standIn.showCluster(three());
standIn.whatIf = { answer: answer() };
standIn.joining = { addresses: ['192.0.2.7:8080', '[2001:db8::7]:8080'], http_is_loopback: false, cluster_port_is_loopback: false, keys: true, fixed_placement: false };

async function photograph({ page }, name) {
  for (const [width, height] of [[1440, 900], [820, 1100], [390, 844]]) {
    for (const theme of ['light', 'dark']) {
      await page.setViewportSize({ width, height });
      await page.evaluate((to) => (document.documentElement.dataset.theme = to), theme);
      const sideways = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(sideways <= 0, `${name} is ${sideways} wider than ${width}`);
      const scroller = page.locator('.scroller.report');
      const whole = await scroller.evaluate((one) => one.scrollHeight - one.clientHeight);
      await page.setViewportSize({ width, height: Math.min(4000, height + whole) });
      await page.screenshot({ path: path.join(pictures, `${name}-${width}-${theme}.png`) });
    }
  }
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.evaluate(() => delete document.documentElement.dataset.theme);
}

const visitor = await new Visitor(browser, `http://${NEIGHBOUR}:${standIn.port}`).open('/#/what-if');
const { page } = visitor;
const list = page.getByRole('list', { name: 'The changes' });
const put = () => visitor.button('Put it on the list').click();

await check('changes are put on a list by the keyboard, and what cannot be is named', async () => {
  await page.getByText('None yet. Without changes').waitFor();
  await page.getByLabel('Type', { exact: true }).focus();
  await page.keyboard.press('Enter');
  await page.getByText('Which type of machine?').waitFor();
  await page.getByLabel('Type', { exact: true }).fill('RTX 4090');
  await page.getByLabel('How many').fill('1.5');
  await page.keyboard.press('Enter');
  await page.getByText('How many must be a whole number from 1 to 100.').waitFor();
  await page.getByLabel('How many').fill('2');
  await page.getByLabel('Latency, ms').fill('3');
  await put();
  await page.getByText('A latency needs a bandwidth beside it.').waitFor();
  await page.getByLabel('Bandwidth, Mbit/s').fill('100');
  await page.getByLabel('Region').selectOption('office');
  await put();
  await visitor.button('Remove').click();
  await page.getByLabel('Machine', { exact: true }).selectOption('den');
  await put();
  await visitor.button('Slow').click();
  await page.getByLabel('Machine', { exact: true }).selectOption('attic');
  await page.getByLabel('Takes so many times as long').fill('0');
  await put();
  await page.getByText('The factor must be from 0.001 to 1000.').waitFor();
  await page.getByLabel('Takes so many times as long').fill('2.5');
  await put();
  await visitor.button('Link').click();
  await page.getByLabel('From', { exact: true }).selectOption('atlas');
  await page.getByLabel('To, and back').selectOption('attic');
  await page.getByLabel('Bandwidth, Mbit/s').fill('8');
  await page.getByLabel('Latency, ms').fill('');
  await put();
  assert.deepEqual(await list.getByRole('listitem').allInnerTexts(), [
    'Add 2 × RTX 4090 in office, 100 Mbit/s and 3 ms to everybody', 'Remove den', 'attic takes 2.5 times as long', 'atlas – attic: 8 Mbit/s']);
  await visitor.checkAccess('a list of changes');
  await visitor.button('Take off the list: attic takes 2.5 times as long').click();
  assert.equal(await list.getByRole('listitem').count(), 3);
  assert.ok(await page.locator('#wi-types option').count() === 0, 'types are those of the kind that is chosen');
});

await check('what the server is asked are bytes per second and seconds; how far it is, is shown', async () => {
  standIn.whatIf = { answer: answer(), holds: true, progress: [{ phase: 'what if', share_done: 0.3 }, { phase: 'simulation', share_done: 0.72 }] };
  await page.getByLabel('say, too, what to buy').check();
  await visitor.button('Work it out').click();
  await page.getByText('72 %, simulates both under the same load').waitFor();
  assert.equal(await page.getByRole('progressbar', { name: 'How far it is' }).evaluate((bar) => bar.value), 0.72);
  assert.deepEqual(standIn.whatIfAsked.at(-1), {
    changes: [
      { add: 'RTX 4090', count: 2, region: 'office', bandwidth_bytes_per_s: 1.25e7, latency_s: 0.003 }, { remove: 'den' },
      { link: ['atlas', 'attic'], bandwidth_bytes_per_s: 1e6 },
    ], suggest: true, stream: true,
  });
  await visitor.checkAccess('a question that is worked on');
  standIn.whatIf.goOn();
  await page.getByRole('heading', { name: 'remove den; add 2 x RTX 4090 in home' }).waitFor();
});

await check('today stands beside what if: figures, what limits, layers, what would help', async () => {
  const cells = async (label, row) => (await page.getByRole('group', { name: label }).getByRole('row').filter({ hasText: row }).first().getByRole('cell').allTextContents()).map((one) => one.trim());
  assert.deepEqual(await cells('Today beside what if', 'Planned flow'), ['390', '612', '+57 %, better']);
  assert.deepEqual(await cells('Today beside what if', 'between two tokens'), ['42 ms', '31 ms', '−26 %, better']);
  assert.deepEqual(await cells('Today beside what if', 'to the first token, p95'), ['2.10 s', '1.10 s', '−48 %, better']);
  const slower = page.getByRole('group', { name: 'Today beside what if' }).getByRole('row').filter({ hasText: 'same load between two tokens' });
  assert.match((await slower.getByRole('cell').last().textContent()).trim(), /^\+9\.1 %, worse$/);
  await page.getByText("today's machines would have 401 tokens/s").waitFor();
  await page.getByText('The load of both is 270 tokens/s').waitFor();
  assert.deepEqual(await cells('Layers on each machine', 'den'), ['', '6–11', '–', '300', '–']);
  assert.deepEqual(await cells('Layers on each machine', 'new-RTX 4090-2'), ['', '–', 'none', '–', '–']);
  assert.equal(await page.getByRole('rowheader', { name: 'den' }).locator('.tag').innerText(), 'removed');
  await page.getByText('It cannot be put in force now. The plan is for what is not there: add 2 x RTX 4090 in home.').waitFor();
  assert.equal(await visitor.button('Apply this plan …').count(), 0);
  await visitor.checkAccess('an answer');
  await photograph(visitor, 'what-if');
  await visitor.button('Try it: add RTX 3060 in home').click();
  assert.equal(await list.getByRole('listitem').last().innerText(), 'Add RTX 3060 in home');
  await page.getByText('The list of changes is another one by now').waitFor();
});

await check('a question is cancelled, one that fails says why, and one at a time is answered', async () => {
  standIn.whatIf = { answer: answer(), holds: true, progress: [{ phase: 'what if', share_done: 0.3 }] };
  await visitor.button('Work it out').click();
  await page.getByText('30 %, plans the changed cluster').waitFor();
  await visitor.button('Cancel').click();
  await visitor.button('Work it out').waitFor();
  for (let i = 0; i < 100 && standIn.whatIfGone === 0; ++i) await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(standIn.whatIfGone, 1, 'the server hears of it');
  assert.equal(await page.locator('.what-if .bad').count(), 0, 'that is no failure');
  standIn.whatIf = { error: 'with these changes: no placement holds layer 7' };
  await visitor.button('Work it out').click();
  await page.getByRole('alert').filter({ hasText: 'no placement holds layer 7' }).waitFor();
  standIn.whatIf = { refuse: [409, 'Another what-if question is being worked on; ask again when it is answered.'] };
  await visitor.button('Work it out').click();
  await page.getByRole('alert').filter({ hasText: 'Another what-if question' }).waitFor();
});

await check('a plan is applied after one more look, and the page says when it is in force', async () => {
  standIn.whatIf = { answer: applicable() };
  await visitor.button('Work it out').click();
  await visitor.button('Apply this plan …').click();
  await page.getByText('Machines load 7.2 GB. den is drained, and stays out').waitFor();
  assert.deepEqual(standIn.told, [], 'nothing is done before');
  standIn.keys = { 'the-chat-key': 'chat', 'the-admin-key': 'admin' };
  await visitor.button('Put it in force').click();
  const dialog = page.getByRole('dialog');
  await dialog.waitFor();
  await visitor.button('Not now', dialog).click();
  await page.getByRole('alert').filter({ hasText: 'This needs an admin key' }).waitFor();
  await visitor.button('Use another key').click();
  await dialog.getByLabel('API key').fill('the-admin-key');
  await visitor.button('Use this key').click();
  await dialog.waitFor({ state: 'detached' });
  await visitor.button('Apply this plan …').click();
  await visitor.button('Put it in force').click();
  await page.getByText('The server has taken it.').waitFor();
  assert.deepEqual(standIn.told, [['/helix/plan', { layers: { atlas: [0, 8], attic: [4, 12] } }], ['/helix/nodes/den/drain', {}]]);
  standIn.changeCluster({ epoch: 2 });
  await page.getByText('The plan is in force: placement 2.').waitFor();
});

await check('who may not apply a plan nor make a key is told why, and how', async () => {
  const guest = await new Visitor(browser, visitor.url).open('/#/what-if');
  const dialog = guest.page.getByRole('dialog');
  await dialog.getByLabel('API key').fill('the-chat-key');
  await guest.button('Use this key').click();
  await guest.button('Work it out').click();
  await guest.page.getByText('This needs an admin key.').waitFor();
  const apply = guest.button('Apply this plan …');
  assert.ok(await apply.isDisabled());
  assert.equal(await apply.getAttribute('aria-describedby'), await guest.page.getByText('This needs an admin key.').getAttribute('id'));
  await guest.checkAccess('a plan that may not be applied');
  await photograph(guest, 'may-not-apply');
  await guest.page.goto(`${visitor.url}/#/add-machine`);
  await guest.page.getByLabel('Its name').fill('shed');
  assert.ok(await guest.button('Make its key').isDisabled());
  await guest.page.getByLabel('Its name').press('Enter');
  await guest.button('Enter an admin key').click();
  await dialog.getByText('This needs an admin key').waitFor();
  await dialog.getByLabel('Admin key').fill('the-chat-key');
  await guest.button('Use this key').click();
  await dialog.getByText('The server knows this key, but it is no admin key.').waitFor();
  await guest.page.screenshot({ path: path.join(pictures, 'admin-key-1440.png') });
  await dialog.getByLabel('Admin key').fill('the-admin-key');
  await guest.button('Use this key').click();
  await dialog.waitFor({ state: 'detached' });
  assert.ok(await guest.button('Make its key').isEnabled());
  assert.equal(standIn.told.filter(([path]) => path === '/helix/keys').length, 0);
  guest.checkConsole(401);
  await guest.close();
  standIn.keys = {};
});

await check('a key is made for a name, with what is to be done with it; the page waits for the machine', async () => {
  await page.goto(`${visitor.url}/#/add-machine`);
  await page.getByRole('heading', { name: 'On the other machine' }).waitFor();
  const command = page.getByRole('group', { name: 'Command that joins' });
  assert.equal(await command.innerText(), `helix worker --join ${NEIGHBOUR}:${standIn.port} --key NAME.key`);
  await page.getByLabel("This server's address").selectOption('192.0.2.7:8080');
  await page.getByLabel('Its name').fill('a b; rm');
  assert.ok(await visitor.button('Make its key').isDisabled());
  assert.equal(await page.getByLabel('Its name').getAttribute('aria-invalid'), 'true');
  await page.getByLabel('Its name').fill('shed');
  assert.equal(await command.innerText(), 'helix worker --join 192.0.2.7:8080 --key shed.key');
  standIn.told = [];
  await page.getByLabel('Its name').press('Enter');
  await page.getByRole('heading', { name: '1. Save its key there, as shed.key' }).waitFor();
  assert.deepEqual(standIn.told, [['/helix/keys', { name: 'shed' }]]);
  assert.match(await page.getByRole('group', { name: 'Commands that save the key' }).innerText(), /^\(umask 077; cat > shed\.key <<'END'\nhelix-key worker shed\n/);
  await page.getByText('this page came by plain HTTP').waitFor();
  await page.evaluate(() => document.addEventListener('copy', () => (window.copied = String(document.activeElement.value))));
  await visitor.button('Copy: Command that joins').click();
  await page.getByText('Copied', { exact: true }).first().waitFor();
  assert.equal(await page.evaluate(() => window.copied), 'helix worker --join 192.0.2.7:8080 --key shed.key');
  await visitor.checkAccess('a key');
  await page.getByText('Waiting for a machine to join.').waitFor();
  await photograph(visitor, 'add-machine');
  const shed = { ...three().workers[1], id: 9, name: 'shed', state: 'idle', layers: [0, 0], incarnation: 4 };
  standIn.changeCluster({ workers: { 9: shed } });
  await page.getByText('shed is here and has no layers.').waitFor();
  standIn.changeCluster({ workers: { 9: { state: 'loading', layers: [4, 8] } } });
  await page.getByText('shed loads layers 4–7.').waitFor();
  standIn.changeCluster({ workers: { 9: { state: 'serving' } } });
  await page.getByText('shed serves layers 4–7.').first().waitFor();
  await page.getByRole('link', { name: 'See it in the cluster' }).waitFor();
});

await check('a code is shown for a machine that makes its key itself, until it is used', async () => {
  const other = await new Visitor(browser, standIn.url).open('/#/add-machine');
  standIn.told = [];
  standIn.pairing = { state: 'shown', code: '1234 5678', seconds_left: 598, tries_left: 3, wrong_tries: 0, let_in: '', expired: false };
  await other.button('Show a pairing code').click();
  await other.page.getByText('1234 5678').waitFor();
  assert.deepEqual(standIn.told, [['/helix/pairing', {}]]);
  await other.page.getByText('For one machine, valid for 9:58.').waitFor();
  assert.match(await other.page.getByRole('group', { name: 'Command that asks for the code' }).innerText(), /^helix worker --join \S+ --pair$/);
  await other.checkAccess('a pairing code');
  await photograph(other, 'pairing-code');
  standIn.pairing = { state: 'paused', seconds_left: 30, wrong_tries: 3, let_in: '', expired: false };
  await other.page.getByText('A new one comes in 30 s.').waitFor();
  assert.equal(await other.page.getByText('1234 5678').count(), 0);
  standIn.pairing = { state: 'off', wrong_tries: 3, let_in: 'shed', expired: false };
  await other.page.getByText('shed knew the code and may join.').first().waitFor();
  await other.button('Show a pairing code').waitFor();
  await other.close();
});

await check('a server that nobody else reaches says so, and what to do about it', async () => {
  standIn.joining = { addresses: ['127.0.0.1:8080'], http_is_loopback: true, cluster_port_is_loopback: true, keys: false, fixed_placement: true };
  const other = await new Visitor(browser, standIn.url).open('/#/add-machine');
  await other.page.getByRole('heading', { name: 'Other machines cannot reach this server yet' }).waitFor();
  assert.match(await other.page.getByRole('group', { name: 'Commands that start the server for a network' }).innerText(), /--listen 0\.0\.0\.0:8080 --key /);
  assert.equal(await other.page.getByRole('group', { name: 'Command that joins' }).innerText(), 'helix worker --join 127.0.0.1:8080');
  await other.page.getByText('The server was started with --placement').waitFor();
  await other.checkAccess('a server on loopback');
  standIn.joining = { ...standIn.joining, http_is_loopback: false, addresses: ['192.0.2.7:8080'] };
  await other.page.reload();
  await other.page.getByRole('heading', { name: 'Other machines cannot join yet' }).waitFor();
  other.checkConsole();
  await other.close();
  visitor.checkConsole(401, 409);
  visitor.checkOrigins();
  await visitor.close();
});

// ---- real clusters

const started = [];
function start(command, options = {}) {
  const child = spawn(command[0], command.slice(1), { stdio: 'ignore', ...options });
  started.push(child);
  return child;
}

await check('a real cluster says what another card would do, and puts a plan in force', async () => {
  const live = await new Visitor(browser, base).open('/#/what-if');
  await live.page.getByLabel('Type', { exact: true }).fill('RTX 4090');
  assert.ok(await live.page.locator('#wi-types option').count() > 40, 'the catalogue');
  await live.page.getByLabel('Bandwidth, Mbit/s').fill('1000');
  await live.page.getByLabel('Latency, ms').fill('1');
  await live.button('Put it on the list').click();
  await live.button('Slow').click();
  await live.page.getByLabel('Machine', { exact: true }).selectOption('w2');
  await live.button('Put it on the list').click();
  await live.button('Work it out').click();
  await live.page.getByRole('heading', { name: 'add RTX 4090; slow w2 by 2' }).waitFor({ timeout: 60_000 });
  const tag = live.page.getByRole('rowheader', { name: 'new-RTX 4090' }).locator('.tag.plus');
  assert.equal(await tag.innerText(), 'new');
  const flows = await live.page.getByRole('group', { name: 'Today beside what if' }).getByRole('row').filter({ hasText: 'Planned flow' }).getByRole('cell').allInnerTexts();
  const [before, after] = flows.map((one) => Number.parseFloat(one.replaceAll(',', '')));
  assert.ok(before > 0 && after > before, `${before} to ${after}`);
  assert.equal(await live.page.getByText('was not simulated').count(), 0);
  await live.page.getByRole('button', { name: /^Take off the list: Add/ }).click();
  await live.page.getByRole('button', { name: /^Take off the list/ }).click();
  await live.button('Work it out').click();
  await live.page.getByRole('heading', { name: 'Planned anew' }).waitFor({ timeout: 60_000 });
  await live.button('Apply this plan …').click();
  await live.button('Put it in force').click();
  await live.page.getByText(/The plan is in force: placement \d+\./).waitFor({ timeout: 60_000 });
  live.checkConsole();
  await live.close();
});

await check('a machine of a real cluster comes while the page waits for it', async () => {
  const live = await new Visitor(browser, base).open('/#/add-machine');
  const line = await live.page.getByRole('group', { name: 'Command that joins' }).innerText();
  assert.equal(line, `helix worker --join ${base.replace('http://', '')}`);
  await live.page.getByText('Waiting for a machine to join.').waitFor();
  const command = JSON.parse(process.env.HELIX_WORKER);
  command[command.indexOf('--name') + 1] = 'w4';
  const worker = start(command);
  await live.page.locator('.came').getByText(/^w4 /).waitFor({ timeout: 30_000 });
  worker.kill();
  await live.page.getByText('Waiting for a machine to join.').waitFor({ timeout: 30_000 });
  live.checkConsole();
  await live.close();
});

await check('a key that the page made lets a machine in, which serves', async () => {
  const keyed = process.env.HELIX_KEYED_URL;
  const folder = mkdtempSync(path.join(tmpdir(), 'helix-page-'));
  const live = await new Visitor(browser, keyed).open('/#/add-machine');
  const dialog = live.page.getByRole('dialog');
  await dialog.getByLabel('API key').fill(process.env.HELIX_KEY);
  await live.button('Use this key').click();
  await live.page.getByLabel('Its name').fill('shed');
  assert.ok(await live.button('Make its key').isDisabled(), 'clients do not let machines in');
  await live.button('Enter an admin key').click();
  await dialog.getByLabel('Admin key').fill(process.env.HELIX_ADMIN_KEY_OF_PAGE);
  await live.button('Use this key').click();
  await dialog.waitFor({ state: 'detached' });
  await live.button('Make its key').click();
  const save = await live.page.getByRole('group', { name: 'Commands that save the key' }).innerText();
  writeFileSync(path.join(folder, 'save.sh'), save);
  const saved = spawn('sh', ['save.sh'], { cwd: folder });
  assert.equal(await new Promise((resolve) => saved.on('exit', resolve)), 0, 'the shell takes the command as it is shown');
  const line = await live.page.getByRole('group', { name: 'Command that joins' }).innerText();
  assert.equal(line, `helix worker --join ${keyed.replace('http://', '')} --key shed.key`);
  const worker = start([process.env.HELIX_BINARY, ...line.split(' ').slice(1), '--threads', '1', '--cache', 'none'], { cwd: folder });
  await live.page.locator('.came').getByText(/^shed serves layers 0–\d+\.$/).waitFor({ timeout: 60_000 });
  await live.button('Make its key').waitFor({ state: 'detached' });
  worker.kill();
  live.checkConsole(401);
  await live.close();
  rmSync(folder, { recursive: true });
});

for (const one of started) one.kill();
await browser.close();
await standIn.stop();
finish();

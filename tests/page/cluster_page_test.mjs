// The page in front of a real cluster: HELIX_BASE_URL is its address, HELIX_KILL the process of one of its workers, and
// HELIX_WORKER the command (JSON) that starts another, w3; HELIX_KEYED_URL a server without workers that wants the key
// HELIX_KEY.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { check, finish } from './check.mjs';
import { launch, Visitor } from './browser.mjs';

const base = process.env.HELIX_BASE_URL;
const STORY = 'Tell me a story about a robot.';
const browser = await launch(process.env.HELIX_CHROMIUM);
const visitor = await new Visitor(browser, base).open();
const { page } = visitor;
let story = '';

await check('the page comes with its headers, and shows the model', async () => {
  await page.getByRole('combobox', { name: 'Model' }).waitFor();
  const models = await (await fetch(`${base}/v1/models`)).json();
  assert.equal(await page.getByRole('combobox', { name: 'Model' }).inputValue(), models.data[0].id);
  const answer = await fetch(base, { headers: { accept: 'text/html' } });
  assert.match(answer.headers.get('content-security-policy'), /^default-src 'none'; script-src 'self';/);
  assert.match(await (await fetch(base)).text(), /POST \/v1\/chat\/completions/); // programs get text
});

await check('tokens are seen as they come', async () => {
  await visitor.setting('Temperature', 0);
  await visitor.setting('Longest answer', 120);
  await visitor.say(STORY);
  const lengths = new Set();
  await visitor.button('Stop').waitFor();
  while (await visitor.button('Stop').isVisible()) {
    lengths.add((await visitor.answer.innerText().catch(() => '')).length);
    await page.waitForTimeout(20);
  }
  assert.ok(lengths.size >= 4, `only ${[...lengths]} characters were seen`);
  story = await visitor.answerText();
  assert.ok(story.split(' ').length > 30, story);
  assert.match(await visitor.answer.innerText(), /\d+ tokens · [\d.]+ tokens\/s · first after [\d.]+ s/);
  assert.equal(await page.evaluate(() => document.activeElement.id), 'composer');
});

await check('an answer is stopped, by the button and by Escape', async () => {
  for (const stop of [() => visitor.button('Stop').click(), () => page.keyboard.press('Escape')]) {
    await visitor.button('Regenerate the answer', visitor.answer).click();
    await visitor.midway(20);
    await stop();
    await visitor.answer.getByText('Stopped.').waitFor();
    const part = await visitor.answerText();
    assert.ok(part.length < story.length && story.startsWith(part), part);
  }
});

await check('answers are branches, and an edited question is one', async () => {
  await visitor.button('Regenerate the answer', visitor.answer).click();
  await visitor.answer.getByText('4/4').waitFor();
  await visitor.answered();
  assert.equal(await visitor.answerText(), story, 'temperature 0 gives the same again');
  const question = page.getByRole('article', { name: 'You said' });
  await visitor.button('Edit the message', question).click();
  await page.getByLabel('Your message').fill('What is a pipeline?');
  await visitor.button('Send', question).click();
  await question.getByText('2/2').waitFor();
  await visitor.answered();
  assert.match(await visitor.answerText(), /machines/);
  await visitor.button('Earlier branch', question).click();
  await question.getByText(STORY).waitFor();
  assert.equal(await visitor.answerText(), story);
  await visitor.kept(() => visitor.button('Earlier branch', visitor.answer).click());
  await visitor.answer.getByText('3/4').waitFor();
  await visitor.answer.getByText('Stopped.').waitFor();
});

await check('the conversation is there again after a reload', async () => {
  await page.reload();
  await visitor.answer.getByText('3/4').waitFor();
  await visitor.kept(() => visitor.button('Later branch', visitor.answer).click());
  assert.equal(await visitor.answerText(), story);
  await page.goto(base);
  await page.getByRole('link', { name: STORY }).click();
  await visitor.answer.waitFor();
  assert.equal(await visitor.answerText(), story);
});

const watcher = await new Visitor(browser, base).open('/#/cluster');
const machine = (name) => watcher.page.locator('.machine', { has: watcher.page.locator(`.name:text-is("${name}")`) });
const news = (text) => watcher.page.locator('.news li').getByText(text).first().waitFor({ timeout: 30_000 });

await check('the cluster is drawn as it was planned, and what flows is seen', async () => {
  await watcher.page.getByText('Live', { exact: true }).waitFor();
  for (const name of ['w0', 'w1', 'w2']) await machine(name).waitFor();
  const { plan, flows, workers } = await (await fetch(`${base}/helix/cluster`)).json();
  assert.equal(await watcher.page.locator('.edge').count(), flows.length);
  assert.equal(workers.length, 3);
  await watcher.page.getByText(`limited by ${plan.limited_by}`).waitFor();
  const tiles = () => watcher.page.locator('.tiles').innerText();
  const planned = Number((await tiles()).match(/Planned\s+([\d.,]+)/)[1].replace(',', ''));
  assert.ok(Math.abs(planned / plan.max_flow_tokens_per_s - 1) < 0.02, `${planned}, not ${plan.max_flow_tokens_per_s}`);
  assert.ok(plan.min_cut.length > 0 && plan.upper_bound_tokens_per_s >= plan.max_flow_tokens_per_s);
  await visitor.button('New chat').click();
  await visitor.say(STORY);
  await watcher.page.waitForFunction(() => /Now\s+[\d.,]*[1-9]/.test(document.querySelector('.tiles').innerText));
  // How strong the colour of a link is depends on how fast this machine is; what it carries is told in any case.
  await watcher.page.waitForFunction(() => [...document.querySelectorAll('.edge title')].some((one) => /now [\d.,]*[1-9]/.test(one.textContent)));
  await visitor.done();
});

await check("a browser's own EventSource reads the feed", async () => {
  const first = await watcher.page.evaluate(() => new Promise((resolve, reject) => {
    const source = new EventSource('/helix/events');
    source.addEventListener('cluster', (event) => {
      source.close();
      resolve(JSON.parse(event.data));
    });
    source.onerror = () => reject(new Error('no feed'));
  }));
  assert.deepEqual(Object.values(first.workers).map((one) => one.name).sort(), ['w0', 'w1', 'w2']);
});

const clerk = await new Visitor(browser, base).open('/#/requests');

await check('a worker is killed in the middle of an answer, and nothing of it is seen', async () => {
  await visitor.button('New chat').click();
  await visitor.say(STORY);
  await visitor.midway(30);
  await clerk.page.locator('.requests .phase').getByText('decode').waitFor();
  process.kill(Number(process.env.HELIX_KILL), 'SIGKILL');
  await visitor.done();
  assert.equal(await visitor.answerText(), story);
  assert.equal(await page.locator('.problem, .banner, .note:not(:has-text("limit"))').count(), 0);
});

await check('but for those who watch the cluster: they see who was lost', async () => {
  await news('w2 was lost');
  await news(/Placement \d+ is in force/);
});

await check('the request that went on elsewhere is told of, with its path, and what it took is in the history', async () => {
  const row = clerk.page.locator('.requests tbody tr').first();
  await row.getByText('stop').or(row.getByText('length')).waitFor();
  const { requests } = await (await fetch(`${base}/helix/cluster`)).json();
  const last = requests.reduce((a, b) => (a.created > b.created ? a : b));
  await row.locator('a').click();
  await clerk.page.getByRole('heading', { name: last.id }).waitFor();
  const moves = clerk.page.getByRole('group', { name: "Table of the request's time" }).getByRole('row').filter({ hasText: /^pipeline/ });
  assert.equal(await moves.count(), last.attempts.length);
  assert.ok(last.attempts.length > 1, JSON.stringify(last));
  await moves.getByText('went on elsewhere: a machine was lost').waitFor();
  assert.equal((await clerk.page.locator('.picture path.path:not(.other)').getAttribute('d')).match(/L/g).length, last.pipeline.length);
  await clerk.checkAccess('a request');
  await clerk.page.screenshot({ path: `${process.env.HELIX_PICTURES}/request-live.png` });
  await clerk.page.getByRole('link', { name: 'History', exact: true }).click();
  await clerk.page.locator('.news li').getByText('w2 was lost').waitFor();
  await clerk.page.locator('.chart').first().waitFor();
  const told = await (await fetch(`${base}/helix/history`)).json();
  const answers = told.samples.map((one) => one[told.columns.indexOf('tokens_per_s')]);
  assert.ok(Math.max(...answers) > 0, String(answers));
  assert.notEqual(await clerk.page.locator('.plot .line-0').first().getAttribute('d'), '');
  const [file] = await Promise.all([clerk.page.waitForEvent('download'), clerk.button('CSV').click()]);
  assert.match(readFileSync(await file.path(), 'utf8'), /^time,tokens_per_s,.*\n\d+/);
  await clerk.page.screenshot({ path: `${process.env.HELIX_PICTURES}/history-live.png` });
  await clerk.checkAccess('the history');
  clerk.checkConsole();
  clerk.checkOrigins();
  await clerk.close();
});

await check('a machine that joins is seen, and one that drains', async () => {
  const [program, ...words] = JSON.parse(process.env.HELIX_WORKER);
  const joined = spawn(program, words, { stdio: 'ignore' });
  try {
    await news('w3 joined');
    await machine('w3').waitFor();
    const body = { method: 'POST', headers: { 'content-type': 'application/json' } };
    assert.equal((await fetch(`${base}/helix/nodes/w3/drain`, body)).status, 202);
    await news('w3 is drained');
    await machine('w3').getByText('drained').waitFor();
    await watcher.checkAccess('the cluster');
  } finally {
    joined.kill('SIGKILL');
  }
  await news('w3 was lost');
  await watcher.page.screenshot({ path: `${process.env.HELIX_PICTURES}/cluster-live.png` });
  watcher.checkConsole();
  watcher.checkOrigins();
  await watcher.close();
});

await check('nothing was wrong on the console, and nothing was asked of others', async () => {
  visitor.checkConsole();
  visitor.checkOrigins();
  await visitor.checkAccess('a conversation');
});
await visitor.close();

await check('a server that wants a key gets it, asked for once', async () => {
  const keyed = await new Visitor(browser, process.env.HELIX_KEYED_URL).open();
  const dialog = keyed.page.getByRole('dialog');
  await dialog.getByText('This server asks for a key').waitFor();
  await keyed.checkAccess('the dialog for a key');
  await keyed.page.screenshot({ path: `${process.env.HELIX_PICTURES}/key-1440.png` });
  await dialog.getByLabel('API key').fill('not-the-key');
  await keyed.button('Use this key').click();
  await dialog.getByText('The server does not know this key.').waitFor();
  await dialog.getByLabel('API key').fill(process.env.HELIX_KEY);
  await keyed.button('Use this key').click();
  await keyed.page.getByRole('combobox', { name: 'Model' }).waitFor();
  await keyed.checkKeepsNo(process.env.HELIX_KEY);
  await keyed.page.reload();
  await keyed.page.getByRole('combobox', { name: 'Model' }).waitFor();
  assert.equal(await dialog.count(), 0, 'asked again');
  await keyed.page.getByText('alice may chat').waitFor();
  const another = await keyed.context.newPage();
  await another.goto(process.env.HELIX_KEYED_URL);
  await another.getByRole('combobox', { name: 'Model' }).waitFor();
  assert.equal(await another.getByRole('dialog').count(), 0, 'another tab is logged in, too');
  await keyed.button('Log out').click();
  await dialog.getByText('This server asks for a key').waitFor();
  assert.equal((await keyed.context.cookies()).length, 0);
  keyed.checkConsole(401);
  await keyed.close();
});

await check('who may only look sees the cluster, and why nothing can be sent', async () => {
  const guest = await new Visitor(browser, process.env.HELIX_KEYED_URL).open();
  const dialog = guest.page.getByRole('dialog');
  await dialog.getByLabel('API key').fill(process.env.HELIX_VIEW_KEY);
  await guest.button('Use this key').click();
  await guest.page.getByText('Your key (wall) may only look, and send nothing.').waitFor();
  assert.ok(await guest.composer.isDisabled());
  assert.ok(await guest.button('Send').isDisabled());
  await guest.checkAccess('who may only look');
  for (const width of [1440, 390]) {
    await guest.page.setViewportSize({ width, height: 844 });
    assert.ok((await guest.page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0);
    await guest.page.screenshot({ path: `${process.env.HELIX_PICTURES}/may-look-${width}.png` });
  }
  await guest.page.setViewportSize({ width: 1440, height: 900 });
  // The server holds to it, whatever the page does.
  const statuses = await guest.page.evaluate(async () => {
    const ask = async (path, headers) =>
      (await fetch(path, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: '{}' })).status;
    return [await ask('/v1/chat/completions', { 'x-helix-page': '1' }), await ask('/helix/what-if', {}), await ask('/helix/keys', { 'x-helix-page': '1' })];
  });
  assert.deepEqual(statuses, [403, 403, 401]);
  await guest.page.getByRole('link', { name: 'Cluster', exact: true }).click();
  await guest.page.getByText('Live', { exact: true }).waitFor();
  await guest.page.getByRole('link', { name: 'Chat', exact: true }).click();
  await guest.button('Enter another key').click();
  await dialog.getByLabel('API key').fill(process.env.HELIX_KEY);
  await guest.button('Use this key').click();
  await guest.page.getByText('alice may chat').waitFor();
  assert.ok(await guest.composer.isEnabled());
  guest.checkConsole(401, 403);
  await guest.close();
});

await browser.close();
finish();

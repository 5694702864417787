// The page of the history, before a modelled cluster (stand_in.mjs). HELIX_BASE_URL is a real server, whose page and
// headers are shown; pictures go to HELIX_PICTURES.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { check, finish } from './check.mjs';
import { launch, NEIGHBOUR, Visitor } from './browser.mjs';
import { emptyHistory, history, sample } from './modelled_requests.mjs';
import { StandIn } from './stand_in.mjs';

const pictures = process.env.HELIX_PICTURES;
const standIn = await new StandIn(process.env.HELIX_BASE_URL).start();
const browser = await launch(process.env.HELIX_CHROMIUM);
const end = Math.floor(Date.now() / 1000 / 10) * 10;

// So that the page asks each second.
standIn.history = { ...emptyHistory(), interval_s: 1 };
standIn.keys = { 'the-key': 'chat' };
const visitor = await new Visitor(browser, `http://${NEIGHBOUR}:${standIn.port}`).open('/#/history');
const { page } = visitor;
const chart = (name) => page.locator('.chart', { has: page.locator(`strong:text-is("${name}")`) });
const slider = (name) => chart(name).getByRole('slider');
const values = async (name) => (await chart(name).locator('.values').innerText()).replace(/\s+/g, ' ').trim();
const line = (name, which) => chart(name).locator(`.plot .line-${which}`).getAttribute('d');

await check('a server that has measured nothing yet says so, asked with a key; then its first figures come', async () => {
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('API key').fill('the-key');
  await visitor.button('Use this key').click();
  await page.getByText('Nothing has been measured yet').waitFor();
  await page.getByText('Nothing in this time.').waitFor();
  standIn.history.samples.push([end - 10, 10, 20, 1, 0, 1, 0, 0.5, 0.5, 0.04, 0.04, 0.1, 0.5, 3]);
  await chart('Throughput').waitFor();
  assert.equal(await values('Throughput'), 'answers 10 prompts 20');
  assert.match(await line('Throughput', 0), /^M[\d. ]+h0\.01$/, 'a dot');
  standIn.history.samples.push([end, null, 20, 0, 0, 0, 0, null, null, null, null, 0.1, 0, 3]);
  await page.waitForFunction(() => document.querySelector('.chart .values').innerText.includes('–'));
  assert.equal(await values('Time per output token'), 'p50 – p95 –');
  await page.getByText('The figures as a table').click();
  await page.getByRole('group', { name: 'Table of the figures, newest first' }).waitFor();
  await visitor.checkAccess('a history with its table');
  const asked = standIn.historyAsked.filter((url) => url.includes('since'));
  assert.ok(asked.includes(`/helix/history?since=${end - 10}`), 'only what is new is asked for');
  assert.equal(standIn.readers.size, 0, 'no stream of events');
});

await check('what was measured is drawn on one axis of time, with gaps and with what happened', async () => {
  standIn.history = { ...history(2160, end), interval_s: 10 };
  await page.reload();
  await chart('Machines').waitFor();
  assert.equal(await page.locator('.chart').count(), 8);
  assert.equal(await chart('Throughput').locator('.mark').count(), 3, 'lost, placement, joined');
  await visitor.button('6 h').click();
  assert.equal(await chart('Throughput').locator('.mark').count(), 6);
  assert.deepEqual(await page.locator('.news li span').allInnerTexts(),
    ['attic joined', 'Placement 2 is in force', 'attic was lost', 'attic is drained', 'attic is being drained', 'attic joined']);
  await page.getByText('A point is 1 min').waitFor();
  await visitor.button('1 h').click();
  const gaps = async (name) => (await line(name, 0)).match(/M/g).length;
  assert.equal(await gaps('Machines'), 2, 'the server said nothing for a while');
  assert.equal(await gaps('Time to first token'), 3, 'and nothing was asked for a while');
});

await check('values are seen by the pointer in all charts at once, and by the keyboard', async () => {
  const box = await slider('Busy').boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + 50);
  await page.getByText(/^At \d\d:\d\d:\d\d$/).waitFor();
  assert.equal(await page.locator('.cross').count(), 8);
  await page.mouse.move(box.x, box.y - 20);
  await page.getByText(/^Latest/).waitFor();
  const of = (time) => standIn.history.samples.find((one) => one[0] === time);
  await slider('Throughput').focus();
  await page.keyboard.press('ArrowLeft');
  await page.keyboard.press('ArrowLeft');
  const figure = (value) => value.toLocaleString('en', { maximumFractionDigits: value >= 100 ? 0 : 1 });
  assert.equal(await values('Throughput'), `answers ${figure(of(end - 20)[1])} prompts ${figure(of(end - 20)[2])}`);
  assert.match(await slider('Throughput').getAttribute('aria-valuetext'), /^\d\d:\d\d:\d\d: answers [\d.]+, prompts [\d,.]+$/);
  await page.keyboard.press('Home');
  assert.equal(await slider('Throughput').getAttribute('aria-valuenow'), '0');
  await page.keyboard.press('Escape');
  assert.equal(await page.locator('.cross').count(), 0);
});

await check('the same figures are in a table, and in files', async () => {
  await visitor.button('15 min').click();
  await page.getByText('The figures as a table').click();
  const rows = page.getByRole('group', { name: 'Table of the figures, newest first' }).getByRole('row');
  await rows.first().waitFor();
  assert.equal(await rows.count(), 1 + 90 - 12);
  const last = standIn.history.samples.at(-1);
  const cells = await rows.nth(1).locator('th, td').allInnerTexts();
  assert.equal(cells.length, 14);
  assert.equal(cells.at(-1), String(last.at(-1)));
  await page.getByText('The figures as a table').click();
  const file = async (name) => {
    const [download] = await Promise.all([page.waitForEvent('download'), visitor.button(name).click()]);
    assert.match(download.suggestedFilename(), new RegExp(`^helix-history-.*\\.${name.toLowerCase()}$`));
    return readFileSync(await download.path(), 'utf8');
  };
  assert.deepEqual(JSON.parse(await file('JSON')).samples.at(-1), last);
  assert.equal((await file('CSV')).trim().split('\n').length, 1 + standIn.history.samples.length);
});

await check('names from outside run nothing, whatever they say', async () => {
  const name = `<img src=x onerror="window.pwned=1"><script>window.pwned=2</script> "'\u202e ${'long '.repeat(60)}`;
  standIn.history.events.push({ time: end - 30, event: 'joined', worker: 7, name }, { time: end - 20, event: name, name });
  standIn.history.events.push({ time: end - 10, event: '__proto__', worker: 1, name }, { time: end - 5, event: 'lost', worker: 5 });
  await page.reload();
  await page.locator('.news li').getByText('machine 5 was lost').waitFor();
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  assert.equal(await page.locator('main :is(img, script, iframe)').count(), 0);
  assert.ok(!(await page.locator('main').innerText()).includes('\u202e'), 'text is turned round');
});

await check('a server that is away is missed, and taken up again; the page that is not looked at asks for nothing', async () => {
  standIn.history = { ...history(300, end), interval_s: 1 };
  const told = standIn.history;
  standIn.history = { samples: [], events: [] };
  await page.reload();
  await page.locator('.banner').getByText('none that a server gives').waitFor();
  standIn.history = told;
  await chart('Machines').waitFor();
  await standIn.stop();
  await page.locator('.banner').getByText('This is how it was').waitFor();
  assert.equal(await page.locator('.chart').count(), 8, 'what was known stays');
  standIn.history.samples.push(sample(end + 10, 3));
  await standIn.start();
  await page.getByText('Live', { exact: true }).waitFor();
  await page.getByRole('link', { name: 'Chat', exact: true }).click();
  await visitor.composer.waitFor();
  const asked = standIn.historyAsked.length;
  await page.waitForTimeout(1200);
  assert.equal(standIn.historyAsked.length, asked);
});

await check('six hours at three widths and in both themes, without faults of access', async () => {
  standIn.history = history(2160, end);
  await page.evaluate(() => (location.hash = '#/history'));
  await page.reload();
  await chart('Machines').waitFor();
  for (const theme of ['Light', 'Dark']) {
    await page.setViewportSize({ width: 1280, height: 900 });
    await visitor.button(theme).click();
    for (const [width, height, range] of theme === 'Light' ? [[1280, 1000, '1 h'], [768, 1000, '6 h'], [360, 800, '6 h']] : [[360, 800, '1 h']]) {
      await page.setViewportSize({ width, height });
      await visitor.button(range).click();
      await page.waitForFunction(() => document.documentElement.scrollWidth <= innerWidth);
      await page.screenshot({ path: path.join(pictures, `history-${theme.toLowerCase()}-${width}.png`) });
      if (width === 1280 || theme === 'Dark') await visitor.checkAccess(`${theme}, ${width}`);
    }
  }
  visitor.checkConsole('away', 401);
  visitor.checkOrigins();
});

await browser.close();
await standIn.stop();
finish();

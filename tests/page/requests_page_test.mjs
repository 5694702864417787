// The page of requests, before a modelled cluster (stand_in.mjs). HELIX_BASE_URL is a real server, whose page and headers
// are shown; pictures go to HELIX_PICTURES.
import assert from 'node:assert/strict';
import path from 'node:path';
import { check, finish } from './check.mjs';
import { launch, NEIGHBOUR, Visitor } from './browser.mjs';
import { fortyTwo, three } from './modelled_clusters.mjs';
import { emptyHistory, request, requests } from './modelled_requests.mjs';
import { StandIn } from './stand_in.mjs';

const pictures = process.env.HELIX_PICTURES;
const standIn = await new StandIn(process.env.HELIX_BASE_URL).start();
const browser = await launch(process.env.HELIX_CHROMIUM);
const now = () => Date.now() / 1000;
const key = (number) => `chatcmpl-${number.toString(16).padStart(16, '0')}/0`;

standIn.history = emptyHistory();
standIn.showCluster(three());
standIn.showRequests(requests(standIn.cluster, 100, now()));
const visitor = await new Visitor(browser, `http://${NEIGHBOUR}:${standIn.port}`).open('/#/requests');
const { page } = visitor;
const rows = page.locator('.requests tbody tr');
const row = (number) => rows.filter({ has: page.locator(`a[href="#/requests/${encodeURIComponent(key(number))}"]`) });
const cells = async (one) => (await one.locator('th, td').allInnerTexts()).map((text) => text.trim());
const spans = page.getByRole('group', { name: "Table of the request's time" }).getByRole('row');
const open = async (number) => {
  await page.evaluate((hash) => (location.hash = hash), `#/requests/${encodeURIComponent(key(number))}`);
  await page.locator('.request-title').waitFor();
};

await check('requests are listed, those that run first, with what is known of each', async () => {
  await page.getByText('Live', { exact: true }).waitFor();
  assert.equal(await rows.count(), 100);
  assert.deepEqual((await page.locator('.requests .phase').allInnerTexts()).slice(0, 10),
    ['waiting', 'prefill', 'prefill', 'decode', 'decode', 'decode', 'decode', 'decode', 'stop', 'stop']);
  const shown = await cells(row(63));
  assert.match(shown.pop(), /^\d\d s$/, 'its age');
  assert.deepEqual(shown, ['length', 'chatcmpl-000000000000003f', 'chat', 'attic', '551', '16', '149', '1.20 s', '19', '2']);
  assert.equal((await cells(row(90)))[3], 'atlas → den');
  assert.equal(standIn.readers.size, 1, 'one stream of events');
  assert.equal(standIn.logReaders.size, 1);
});

await check('a request is seen as it goes on, and as it goes', async () => {
  standIn.changeRequests({ [key(100)]: { state: 'running', queue_s: 0.4, pipeline: [{ worker: 3, layers: [0, 12] }] } });
  await row(100).getByText('prefill').waitFor();
  standIn.changeRequests({ [key(100)]: { ttft_s: 0.75, completion_tokens: 4 } });
  await row(100).getByText('decode').waitFor();
  assert.deepEqual((await cells(row(100))).slice(3, 8), ['attic', '120', '0', '4', '0.75 s']);
  standIn.changeRequests({ [key(101)]: request(standIn.cluster, 101, now(), { state: 'error' }), [key(100)]: { state: 'stop' }, [key(1)]: null });
  await row(101).getByText('error').waitFor();
  await row(100).getByText('stop').waitFor();
  assert.equal(await rows.count(), 100);
});

await check('those that run, those that failed, or a list that stands still', async () => {
  await page.getByRole('button', { name: /^Failed/ }).press('Enter');
  assert.deepEqual(await page.locator('.requests .phase').allInnerTexts(), ['error', 'rejected', 'error', 'rejected', 'error']);
  await page.getByRole('button', { name: /^Running/ }).click();
  assert.equal(await rows.count(), 7);
  await page.getByRole('button', { name: /^All/ }).click();
  await visitor.button('Pause').click();
  standIn.changeRequests({ [key(102)]: request(standIn.cluster, 102, now()) });
  await page.waitForTimeout(150);
  assert.equal(await row(102).count(), 0);
  await visitor.button('Go on').click();
  await row(102).waitFor();
});

await check('a request is opened by the keyboard: its path, its time, and each of its moves with the reason', async () => {
  await row(63).locator('a').focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'chatcmpl-000000000000003f' }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.className), 'request-title');
  const path = () => page.locator('.picture path.path:not(.other)').getAttribute('d');
  const last = await path();
  assert.equal(last.match(/L/g).length, 1, 'through attic');
  assert.equal(await page.locator('.picture path.path.other').count(), 2);
  assert.deepEqual(await page.locator('.machine[aria-pressed=true] .name').allInnerTexts(), ['attic']);
  assert.deepEqual(await Promise.all([1, 3, 4, 5, 6].map(async (i) => (await cells(spans.nth(i))).slice(0, 5))), [
    ['waiting', '0 s', '10 ms', 'until a pipeline had room for it', ''],
    ['decode', '1.20 s', '12.8 s', 'its answer, token by token', ''],
    ['pipeline 1', '0.10 s', '3.90 s', 'its first pipeline', 'attic (0–11)'],
    ['pipeline 2', '4 s', '5.50 s', 'went on elsewhere: a machine was lost', 'atlas (0–5) → den (6–11)'],
    ['pipeline 3', '9.50 s', '4.50 s', 'moved while it ran', 'attic (0–11)'],
  ]);
  assert.equal(await page.locator('.spans rect[class^=bar-pipeline]').count(), 3);
  await visitor.button('pipeline 2').press('Enter');
  assert.equal((await path()).match(/L/g).length, 2, 'through atlas and den');
  assert.deepEqual(await page.locator('.picture .stage text').allTextContents(), ['1', '2']);
  await page.keyboard.press('Escape');
  await rows.first().waitFor();
  await page.waitForFunction(() => document.activeElement.closest('tr')?.textContent.includes('000000000000003f'));
});

await check('a request is told of while it runs, and when its machine and itself are gone', async () => {
  await row(98).click();
  await page.getByRole('heading', { name: 'chatcmpl-0000000000000062' }).waitFor();
  assert.match((await cells(spans.nth(2)))[2], /^[\d.]+ m?s so far$/);
  standIn.changeRequests({ [key(98)]: { ttft_s: 6, state: 'error', ended_s: 8 } });
  await page.locator('.report .phase').getByText('error').waitFor();
  standIn.happens('lost', { worker: 2, name: 'den' });
  standIn.changeCluster({ workers: { 1: null, 2: null } });
  await page.getByText('No longer here').waitFor();
  assert.ok((await page.locator('.machine.lost').count()) > 0, 'it is drawn where it was');
  standIn.changeRequests({ [key(98)]: null });
  await page.getByText('the server no longer lists it').waitFor();
  await page.evaluate(() => (location.hash = '#/requests/none%2F0'));
  await page.getByText('The server lists no request none/0').waitFor();
});

await check('there is one stream of events, whichever page is looked at, and none where none needs it', async () => {
  for (const [name, readers, logReaders] of [['Cluster', 1, 0], ['Requests', 1, 1], ['History', 0, 0], ['Requests', 1, 1], ['Chat', 0, 0]]) {
    await page.getByRole('link', { name, exact: true }).click();
    for (let i = 0; i < 50 && (standIn.readers.size !== readers || standIn.logReaders.size !== logReaders); ++i) await page.waitForTimeout(50);
    assert.deepEqual([standIn.readers.size, standIn.logReaders.size], [readers, logReaders], name);
  }
  const asked = visitor.asked.filter((url) => url.includes('/helix/events'));
  assert.equal(asked.length, 4, String(asked));
});

await check('text from outside runs nothing, whatever it says', async () => {
  const text = `<img src=x onerror="window.pwned=1"><script>window.pwned=2</script> "'\u202e ${'long '.repeat(60)}`;
  const state = three();
  Object.assign(state.workers[1], { name: text, region: text });
  standIn.showCluster(state);
  const pipeline = [{ worker: 1, layers: [0, 6] }, { worker: 99, layers: [6, 12] }];
  const one = request(state, 1, now() - 9, { id: text, endpoint: text, state: 'abort', reason: text, pipeline,
    attempts: [{ at_s: 0, reason: text, pipeline }, { at_s: 1, reason: '__proto__', pipeline }], attempts_left_out: 3 });
  standIn.showRequests({ [`${text}/0`]: one, odd: request(state, 2, now(), { id: '%/..//', state: text }) });
  await page.evaluate(() => (location.hash = '#/requests'));
  await rows.nth(1).waitFor();
  await page.setViewportSize({ width: 360, height: 800 });
  const wider = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok((await wider()) <= 0, 'the list is too wide');
  await rows.nth(1).locator('a').click();
  await page.getByText('3 more pipelines came later; the first 2 are kept.').waitFor();
  assert.ok((await wider()) <= 0, 'the request is too wide');
  assert.equal(await page.locator('main :is(img, script, iframe)').count(), 0);
  assert.ok(!(await page.locator('main').innerText()).includes('\u202e'), 'text is turned round');
  await page.keyboard.press('Escape');
  await rows.nth(0).locator('a').click();
  await page.getByRole('heading', { name: '%/..//' }).waitFor();
  assert.equal(await page.evaluate(() => window.pwned), undefined);
});

await check('a feed that breaks off is missed, and taken up again', async () => {
  await page.evaluate(() => (location.hash = '#/requests'));
  await rows.first().waitFor();
  await standIn.stop();
  await page.locator('.banner').getByText('This is how it was').waitFor();
  assert.equal(await rows.count(), 2, 'what was known stays');
  await standIn.start();
  await page.getByText('Live', { exact: true }).waitFor();
  assert.equal(standIn.logReaders.size, 1);
});

await check('600 requests on 42 machines at three widths and in both themes, without faults of access', async () => {
  standIn.showCluster(fortyTwo());
  standIn.showRequests(requests(standIn.cluster, 600, now()));
  await page.evaluate(() => (location.hash = '#/requests'));
  await page.waitForFunction(() => document.querySelectorAll('.requests tbody tr').length === 200);
  // Ages change each second: not even that makes the page stand still.
  const took = await page.evaluate(async () => {
    const list = document.querySelector('.requests tbody');
    return new Promise((resolve) => {
      let longest = 0;
      new PerformanceObserver((all) => all.getEntries().forEach((one) => (longest = Math.max(longest, one.duration)))).observe({ entryTypes: ['longtask'] });
      new MutationObserver(() => setTimeout(() => resolve(longest), 100)).observe(list, { subtree: true, characterData: true, childList: true });
    });
  });
  assert.ok(took < 400, `the page stood still for ${took} ms`);
  await visitor.button('Show 200 more').click();
  assert.equal(await rows.count(), 400);
  standIn.showRequests(requests(standIn.cluster, 64, now()));
  await page.waitForFunction(() => document.querySelectorAll('.requests tbody tr').length === 64);
  for (const theme of ['Light', 'Dark']) {
    await page.setViewportSize({ width: 1280, height: 900 });
    await visitor.button(theme).click();
    for (const [width, height] of theme === 'Light' ? [[1280, 900], [768, 1000], [360, 800]] : [[360, 800]]) {
      await page.setViewportSize({ width, height });
      for (const [name, show] of [['requests', () => page.evaluate(() => (location.hash = '#/requests'))], ['request', () => open(13)]]) {
        await show();
        await page.locator(name === 'requests' ? '.requests' : '.picture .canvas').waitFor();
        await page.waitForFunction(() => document.documentElement.scrollWidth <= innerWidth);
        await page.screenshot({ path: path.join(pictures, `${name}-${theme.toLowerCase()}-${width}.png`) });
        if (width === 1280 || theme === 'Dark') await visitor.checkAccess(`${name}, ${theme}, ${width}`);
      }
    }
  }
  visitor.checkConsole('away');
  visitor.checkOrigins();
});

await browser.close();
await standIn.stop();
finish();

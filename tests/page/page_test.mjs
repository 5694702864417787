// The page as a neighbour on the network sees it, with answers as a test wants them (stand_in.mjs). HELIX_BASE_URL is a
// real server, whose page and headers are shown; pictures go to HELIX_PICTURES.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { check, finish } from './check.mjs';
import { launch, NEIGHBOUR, Visitor } from './browser.mjs';
import { fortyTwo, three, work, worker } from './modelled_clusters.mjs';
import { HOSTILE, StandIn } from './stand_in.mjs';

const pictures = process.env.HELIX_PICTURES;
mkdirSync(pictures, { recursive: true });
const standIn = await new StandIn(process.env.HELIX_BASE_URL).start();
const url = `http://${NEIGHBOUR}:${standIn.port}`;
const browser = await launch(process.env.HELIX_CHROMIUM);
const visitor = await new Visitor(browser, url).open('/?q=Send+this');
const { page } = visitor;

async function checkHarmless(who = visitor) {
  await who.page.waitForTimeout(200);
  assert.equal(await who.page.evaluate(() => window.pwned), undefined, 'a script ran');
  const found = await who.page.evaluate(() => ({
    elements: document.querySelectorAll('main :is(img, script, iframe, style, link, base, form:not(.composer), svg:not(.icon), math, video, object)').length,
    handlers: [...document.querySelectorAll('main *')].filter((one) => one.getAttributeNames().some((name) => name.startsWith('on'))).length,
    links: [...document.querySelectorAll('article a')].map((one) => [one.getAttribute('href'), one.rel, one.target]),
    told: [...document.querySelectorAll('article .goes-to')].map((one) => one.textContent),
  }));
  assert.equal(found.elements, 0);
  assert.equal(found.handlers, 0);
  assert.ok(found.links.length > 0);
  for (const [href, rel, target] of found.links) {
    assert.match(href, /^https?:\/\//);
    assert.equal(`${rel} ${target}`, 'noopener noreferrer nofollow _blank');
  }
  assert.ok(found.told.length >= 2, 'a link that names another place than it leads to is not told of');
  for (const text of found.told) assert.equal(text, ' (leads to evil.test)');
  who.checkOrigins();
}

await check('this is no secure place, and an address that says something sends nothing', async () => {
  await page.getByRole('combobox', { name: 'Model' }).waitFor();
  assert.equal(await page.evaluate(() => window.isSecureContext || navigator.clipboard !== undefined), false);
  assert.equal(standIn.requests.length, 0);
});

await check('Markdown, tables, code and a folded thought', async () => {
  await visitor.ask('Please explain everything about pipelines.');
  const answer = visitor.answer;
  assert.equal(await answer.getByRole('row').count(), 4);
  assert.equal(await answer.getByRole('listitem').count(), 5);
  await answer.locator('.hljs-keyword').first().waitFor();
  assert.equal(await answer.getByText('A table, a list and code will do.').count(), 0);
  assert.match(await answer.locator('summary').innerText(), /Thought for [\d.]+ s/);
  await answer.locator('summary').focus();
  await page.keyboard.press('Enter');
  await answer.getByText('A table, a list and code will do.').waitFor();
  await page.keyboard.press('Enter');
});

await check('code is copied where there is no navigator.clipboard', async () => {
  await visitor.button('Copy', visitor.answer).click();
  await visitor.button('Copied', visitor.answer).waitFor();
  await visitor.composer.focus();
  await page.keyboard.press('Control+V');
  const pasted = await visitor.composer.inputValue();
  assert.match(pasted, /^def max_flow\(graph: dict/);
  assert.match(pasted, /\n {8}flow \+= room\n {4}return flow/);
  await page.reload();
  await visitor.answer.waitFor();
  assert.equal(await visitor.composer.inputValue(), pasted, 'what was typed is lost');
  await visitor.composer.fill('');
});

await check('pictures at three widths and in both themes, each without faults of access', async () => {
  await visitor.ask('Is that all?');
  for (const theme of ['Light', 'Dark']) {
    await visitor.button(theme).click();
    for (const [width, height] of [[1440, 900], [820, 1100], [390, 844]]) {
      await page.setViewportSize({ width, height });
      await page.locator('.scroller').evaluate((one) => (one.scrollTop = 0));
      await page.waitForTimeout(100);
      const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wider <= 0, `${width}: the page is ${wider} pixels too wide`);
      await page.screenshot({ path: path.join(pictures, `chat-${theme.toLowerCase()}-${width}.png`) });
      await visitor.checkAccess(`${theme}, ${width}`);
    }
    await visitor.button('Settings of this chat').click();
    await page.screenshot({ path: path.join(pictures, `settings-${theme.toLowerCase()}-390.png`) });
    await visitor.checkAccess(`settings, ${theme}`);
    await page.keyboard.press('Escape');
    await visitor.button('Open the side bar').click();
    await page.waitForTimeout(50);
    await page.screenshot({ path: path.join(pictures, `side-${theme.toLowerCase()}-390.png`) });
    await visitor.checkAccess(`side bar, ${theme}`);
    await page.setViewportSize({ width: 1440, height: 900 });
  }
  await visitor.button('As the system').click();
});

await check('settings reach the server', async () => {
  await visitor.button('New chat').click();
  await page.screenshot({ path: path.join(pictures, 'new-1440.png') });
  await visitor.setting('System prompt', 'Answer like a pirate.');
  await visitor.setting('Temperature', 0.25);
  await visitor.setting('Seed', 7);
  await visitor.setting('Stop at', 'END\nSTOP');
  await visitor.setting('Tools that the model may call, as the API takes them', '[{"type": "function", "function": {"name": "get_weather"}}]');
  await visitor.ask('Hello');
  const sent = standIn.requests.at(-1);
  assert.deepEqual(sent.messages, [{ role: 'system', content: 'Answer like a pirate.' }, { role: 'user', content: 'Hello' }]);
  assert.deepEqual([sent.temperature, sent.seed, sent.stop, sent.stream], [0.25, 7, ['END', 'STOP'], true]);
  assert.equal(sent.tools[0].function.name, 'get_weather');
  assert.ok(!('top_p' in sent));
});

await check('a call of a tool is shown, and answered by hand', async () => {
  await visitor.say('call a tool');
  await page.getByLabel('What does get_weather answer?').fill('17 degrees');
  await page.screenshot({ path: path.join(pictures, 'tool-1440.png') });
  await visitor.checkAccess('a call of a tool');
  await visitor.button('Send and go on').click();
  await visitor.answer.getByText('The tool says: 17 degrees').waitFor();
  const [question, call, result] = standIn.requests.at(-1).messages.slice(-3);
  assert.equal(question.content, 'call a tool');
  assert.deepEqual(call.tool_calls, [{ id: 'call_1', type: 'function', function: { name: 'get_weather', arguments: '{"city": "Paris", "days": 3}' } }]);
  assert.deepEqual(result, { role: 'tool', tool_call_id: 'call_1', content: '17 degrees' });
  await visitor.done();
});

await check('a long answer is drawn at most some ten times a second', async () => {
  await visitor.say('a long one');
  await visitor.midway(20);
  await page.evaluate(() => {
    window.drawn = [];
    new MutationObserver(() => window.drawn.push(performance.now())).observe(
      document.querySelector('article[aria-busy=true] .markdown'), { childList: true, subtree: true, characterData: true });
  });
  await visitor.done();
  const drawn = await page.evaluate(() => window.drawn);
  const seconds = (drawn.at(-1) - drawn[0]) / 1000;
  assert.ok(drawn.length > 3 && drawn.length <= 11 * seconds + 3, `${drawn.length} times in ${seconds} s`);
});

await check('what a model writes runs nothing and loads nothing', async () => {
  await visitor.button('New chat').click();
  await visitor.ask('something hostile');
  await checkHarmless();
  await page.reload();
  await visitor.answer.waitFor();
  await checkHarmless();
  visitor.checkPolicies();
});

// Should the list of what is harmless have a hole, the browser itself refuses.
await check('the policy of the page stops what no list has stopped', async () => {
  const other = await new Visitor(browser, url).open();
  await other.page.getByRole('combobox', { name: 'Model' }).waitFor();
  const stopped = await other.page.evaluate(async () => {
    const seen = new Set();
    addEventListener('securitypolicyviolation', (event) => seen.add(event.effectiveDirective));
    const add = (name, fields) => document.body.appendChild(Object.assign(document.createElement(name), fields));
    add('script', { textContent: 'window.pwned = 1' });
    add('script', { src: 'http://evil.test/a.js' });
    add('img', { src: 'http://evil.test/leak.png' });
    add('iframe', { src: 'http://evil.test/' });
    add('style', { textContent: 'body { color: red }' });
    const one = add('b', {});
    one.setAttribute('onclick', 'window.pwned = 2');
    one.click();
    await fetch('http://evil.test/').catch(() => {});
    await new Promise((resolve) => setTimeout(resolve, 300));
    return [...seen].sort();
  });
  assert.deepEqual(stopped, ['connect-src', 'frame-src', 'img-src', 'script-src-attr', 'script-src-elem', 'style-src-elem']);
  assert.equal(await other.page.evaluate(() => window.pwned), undefined);
  const missing = await other.page.goto(`${url}/assets/none.js`);
  assert.equal(missing.status(), 404);
  other.checkPolicies();
  await other.close();
});

await check('a server that has too much to do, is not ready, or breaks off: said, and nothing is lost', async () => {
  await visitor.button('New chat').click();
  for (const [said, title, kept] of [
    ['be busy', 'The server has too much to do', 'Too many requests wait. Your message is kept.'],
    ['be starting', 'The server is not ready', 'No placement is in force yet. Your message is kept.'],
    ['break off', 'The answer broke off', 'What came so far is kept.'],
  ]) {
    await visitor.say(said);
    const note = page.locator('.problem').last();
    await note.getByText(title).waitFor();
    await note.getByText(kept).waitFor();
    if (said === 'break off') {
      await visitor.answer.getByText('This will not be wh').waitFor();
      await page.screenshot({ path: path.join(pictures, 'problem-1440.png') });
      await visitor.checkAccess('a problem');
    }
    await visitor.button('Try again', note).click(); // waits as long as the server asked for
    await visitor.answer.getByText(`You said: ${said}`).waitFor();
    await visitor.done();
  }
});

await check('a server that is away is missed, and greeted when it is back', async () => {
  await standIn.stop();
  await visitor.say('Are you there?');
  await page.locator('.banner').getByText('The server cannot be reached').waitFor();
  await page.locator('.problem').getByText('The server cannot be reached').first().waitFor();
  await standIn.start();
  await page.locator('.banner').waitFor({ state: 'detached' });
  await visitor.button('Try again', page.locator('.problem').last()).click();
  await visitor.answer.getByText('You said: Are you there?').waitFor();
  await visitor.done();
});

await check('all conversations go into a file and come back, and a hostile file does no harm', async () => {
  const titles = await page.locator('.list a').allInnerTexts();
  const [download] = await Promise.all([page.waitForEvent('download'), visitor.button('Export all').click()]);
  const file = JSON.parse(readFileSync(await download.path(), 'utf8'));
  assert.equal(file.conversations.length, titles.length);
  visitor.checkConsole(429, 503, 'away');
  visitor.checkOrigins();

  const other = await new Visitor(browser, url).open();
  const choose = async (name, content) => {
    const chosen = path.join(pictures, name);
    writeFileSync(chosen, content);
    await other.page.locator('input[type=file]').setInputFiles(chosen);
  };
  await choose('exported.json', JSON.stringify(file));
  await other.page.getByText(`${titles.length} imported`).waitFor();
  assert.deepEqual((await other.page.locator('.list a').allInnerTexts()).sort(), titles.sort());
  await choose('exported.json', JSON.stringify(file));
  await other.page.getByText(`0 imported, ${titles.length} here already`).waitFor();

  const message = { role: 'assistant', content: HOSTILE, reasoning: HOSTILE, model: HOSTILE, state: 'done', created: 1,
    toolCalls: [{ id: 'x', name: HOSTILE, arguments: HOSTILE }] };
  await choose('hostile.json', JSON.stringify({ format: 'helix-conversations', version: 1, conversations: [
    { id: 'h', title: `<img src=x onerror=window.pwned=1> ${HOSTILE}`, updated: Date.now() + 1000, leaf: 'b', __proto__: { x: 1 },
      messages: [{ ...message, id: 'a', parent: 'b' }, { ...message, id: 'b', parent: 'a' }, 'no message', null] },
  ] }));
  await other.page.getByText('1 imported').first().waitFor();
  await other.page.locator('.list a').first().click();
  await other.answer.waitFor();
  await other.answer.locator('summary').click();
  await checkHarmless(other);
  await choose('broken.json', '{');
  await other.page.getByText('This file is no JSON.').waitFor();
  other.checkOrigins();
  other.checkConsole();
  await other.close();
});

await visitor.close();

const watcher = await new Visitor(browser, url);
standIn.showCluster(three());
await watcher.open('/#/cluster');
const machines = watcher.page.locator('.picture button.machine');
const machine = (name) => machines.filter({ has: watcher.page.locator(`.name:text-is("${name}")`) });
const news = watcher.page.locator('.news li');
const tile = (name) => watcher.page.locator('.tiles div', { has: watcher.page.locator(`dt:text-is("${name}")`) }).locator('dd');
const busyFor = async (times, part) => {
  for (let i = 0; i < times; ++i) standIn.changeCluster(work(standIn.cluster, part));
  await watcher.page.waitForTimeout(50);
};

await check('the cluster: what is planned, what flows, and what limits it', async () => {
  await watcher.page.getByText('Live', { exact: true }).waitFor();
  await busyFor(4, 0.8);
  assert.equal(await machines.count(), 3);
  assert.match(await tile('Planned').innerText(), /^390 tokens/);
  assert.match(await tile('Now').innerText(), /^312 tokens/);
  assert.match(await tile('Bound').innerText(), /^421 tokens/);
  assert.match(await tile('Gap').innerText(), /^7.4 %/);
  await watcher.page.getByText('limited by the link atlas -> den and attic').waitFor();
  assert.match(await machine('attic').innerText(), /limits the flow/);
  assert.equal(await watcher.page.locator('.edge .cut').count(), 1);
  const widths = await watcher.page.locator('.edge path:not(.cut)').evaluateAll((all) => all.map((one) => Number(one.getAttribute('stroke-width'))));
  assert.equal(widths.length, 5);
  assert.ok(Math.abs(Math.max(...widths) / Math.min(...widths) - 300 / 90) < 0.01, String(widths));
  assert.equal(await watcher.page.locator('.edge .load-3').count(), 5, 'all carry 80 % of what is planned');
  const rows = watcher.page.getByRole('group', { name: 'Table of machines' }).getByRole('row');
  assert.deepEqual((await rows.nth(1).locator('th, td').allInnerTexts()).map((text) => text.trim()),
    ['atlas', 'home', 'serving', '0–5', '240', '300', '360', '55 %', '8', '26 %', '1']);
  const links = watcher.page.getByRole('group', { name: 'Table of links' }).getByRole('row');
  assert.equal(await links.count(), 6);
  await busyFor(12, 0);
  assert.match(await tile('Now').innerText(), /^0 tokens/, 'nothing flows any more');
});

await check('a machine is chosen by the keyboard', async () => {
  await machine('den').focus();
  await watcher.page.keyboard.press('Enter');
  assert.equal(await machine('den').getAttribute('aria-pressed'), 'true');
  assert.equal(await watcher.page.locator('.edge.faded').count(), 3);
  await watcher.page.keyboard.press('Enter');
  assert.equal(await watcher.page.locator('.edge.faded').count(), 0);
});

await check('a machine joins, another is lost, one drains, a request moves: all seen as it happens', async () => {
  standIn.happens('joined', { worker: 4, name: 'cellar' });
  standIn.changeCluster({ workers: { 4: worker(4, 'cellar', 'home', [0, 0]) } });
  await machine('cellar').waitFor();
  assert.match(await machine('cellar').innerText(), /idle/);
  standIn.happens('lost', { worker: 2, name: 'den' });
  standIn.changeCluster({ workers: { 2: null } });
  await watcher.page.locator('.machine.lost .name').getByText('den').waitFor();
  assert.match(await watcher.page.locator('[role=status].off-screen').innerText(), /den was lost/, 'said aloud');
  standIn.happens('draining', { worker: 3, name: 'attic' });
  standIn.changeCluster({ workers: { 3: { state: 'draining', drain_waits: 'request 7 needs it' } } });
  await machine('attic').getByText('draining').waitFor();
  await watcher.page.getByText('waits: request 7 needs it').waitFor();
  standIn.happens('moved', { request: 'chatcmpl-17', from: [3], to: [1, 4], reason: 'moved' });
  await watcher.page.locator('.moves .arc').first().waitFor();
  await news.first().getByText('Request chatcmpl-17 moved while it ran: attic, now atlas → cellar').waitFor();
  standIn.happens('placement', { epoch: 2 });
  await news.first().getByText('Placement 2 is in force').waitFor();
  assert.equal(await news.count(), 5);
});

await check('names from outside run nothing, whatever they say', async () => {
  const name = `<img src=x onerror="window.pwned=1"><script>window.pwned=2</script> "'\u202e ${'long '.repeat(60)}`;
  const state = three();
  state.model = state.plan.limited_by = name;
  Object.assign(state.workers[1], { name, region: name, type: name, drain_refused: name });
  standIn.showCluster(state);
  standIn.happens('joined', { worker: 1, name });
  standIn.happens('moved', { request: name, from: [1], to: [2], reason: name });
  standIn.changeCluster({ workers: { __proto__: null, 9: { ...worker(9, '', '', [0, 0]), name: '' } } });
  await news.first().waitFor();
  await watcher.page.waitForTimeout(200);
  assert.equal(await watcher.page.evaluate(() => window.pwned), undefined);
  assert.equal(await watcher.page.locator('main :is(img, script, iframe)').count(), 0);
  assert.ok(!(await watcher.page.locator('main').innerText()).includes('\u202e'), 'text is turned round');
  for (const width of [1280, 360]) {
    await watcher.page.setViewportSize({ width, height: 800 });
    const wider = await watcher.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wider <= 0, `${width}: ${wider} pixels too wide`);
  }
  watcher.checkOrigins();
});

await check('a feed that breaks off is missed, and taken up again', async () => {
  await standIn.stop();
  await watcher.page.locator('.banner').getByText('This is how it was').waitFor();
  assert.ok((await machines.count()) >= 3, 'what was known stays');
  await standIn.start();
  await watcher.page.getByText('Live', { exact: true }).waitFor();
  assert.equal(standIn.readers.size, 1);
});

await check('three and 42 machines at three widths and in both themes, without faults of access', async () => {
  for (const [name, state] of [['three', three()], ['42', fortyTwo()]]) {
    standIn.showCluster(state);
    for (const theme of ['Light', 'Dark']) {
      await watcher.page.setViewportSize({ width: 1280, height: 900 });
      await watcher.button(theme).click();
      for (const [width, height] of [[1280, 1000], [768, 1000], [360, 800]]) {
        await watcher.page.setViewportSize({ width, height });
        await busyFor(4, 0.8);
        const look = () => watcher.page.evaluate(() => ({
          wider: document.documentElement.scrollWidth - innerWidth,
          // Cards lie beside each other, and nothing of them is cut off.
          overlaps: [...document.querySelectorAll('.machine')].flatMap((one, i, all) => all.slice(i + 1).map((other) => [one, other]))
            .filter(([one, other]) => {
              const [a, b] = [one.getBoundingClientRect(), other.getBoundingClientRect()];
              return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
            }).length,
          cut: [...document.querySelectorAll('.machine')].filter((one) => one.scrollHeight > one.clientHeight + 1).length,
        }));
        let found = await look();
        for (let i = 0; i < 30 && found.wider + found.overlaps + found.cut > 0; ++i) {
          await watcher.page.waitForTimeout(100); // it is still being laid out
          found = await look();
        }
        assert.deepEqual(found, { wider: Math.min(0, found.wider), overlaps: 0, cut: 0 }, `${name}, ${theme}, ${width}`);
        await watcher.page.screenshot({ path: path.join(pictures, `cluster-${name}-${theme.toLowerCase()}-${width}.png`) });
        if (name === 'three' || width === 1280) await watcher.checkAccess(`${name}, ${theme}, ${width}`);
      }
    }
  }
  watcher.checkConsole('away');
});
await watcher.close();

await check('the cluster is followed with a key where one is wanted, which the page does not keep', async () => {
  standIn.keys = { 'the-key': 'chat' };
  const keyed = await new Visitor(browser, url).open('/#/cluster');
  const dialog = keyed.page.getByRole('dialog');
  await dialog.getByText('This page came by plain HTTP').waitFor();
  await dialog.getByLabel('API key').fill('the-key');
  await keyed.button('Use this key').click();
  await keyed.page.getByText('Live', { exact: true }).waitFor();
  await keyed.checkKeepsNo('the-key');
  await keyed.page.getByRole('link', { name: 'Chat', exact: true }).click();
  await keyed.ask('Who asks?');
  await keyed.checkKeepsNo('the-key');
  assert.equal(standIn.keyHeaders, 0, 'the cookie is enough');
  for (let i = 0; i < 50 && standIn.readers.size > 0; ++i) await keyed.page.waitForTimeout(100);
  assert.equal(standIn.readers.size, 0, 'the feed is read by those who look at it');
  keyed.checkConsole(401);
  await keyed.close();
});

await check('a session that the server has forgotten is asked for again', async () => {
  const keyed = await new Visitor(browser, url).open();
  const dialog = keyed.page.getByRole('dialog');
  await dialog.getByLabel('API key').fill('the-key');
  await keyed.button('Use this key').click();
  await keyed.page.getByRole('combobox', { name: 'Model' }).waitFor();
  standIn.sessions.clear();
  await keyed.page.getByRole('link', { name: 'Cluster', exact: true }).click();
  await dialog.getByText('You are logged out: the server was started anew').waitFor();
  await dialog.getByLabel('API key').fill('the-key');
  await keyed.button('Use this key').click();
  await keyed.page.getByText('Live', { exact: true }).waitFor();
  keyed.checkConsole(401);
  await keyed.close();
});

await check('a page that is left open stays logged in', async () => {
  const wall = await new Visitor(browser, url).open('/', { ownTime: true });
  await wall.page.getByRole('dialog').getByLabel('API key').fill('the-key');
  await wall.button('Use this key').click();
  await wall.page.getByRole('combobox', { name: 'Model' }).waitFor();
  const asked = () => wall.asked.filter((one) => one.endsWith('/helix/session')).length;
  const before = asked();
  await wall.page.clock.fastForward('05:00:00');
  assert.equal(asked(), before, 'too often');
  const renewed = wall.page.waitForResponse((response) => response.url().endsWith('/helix/session'));
  await wall.page.clock.fastForward('01:30:00');
  assert.equal((await (await renewed).json()).role, 'chat');
  assert.equal(asked(), before + 1);
  await wall.close();
});

await browser.close();
await standIn.stop();
finish();

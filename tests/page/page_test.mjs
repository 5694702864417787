// The page as a neighbour on the network sees it, with answers as a test wants them (stand_in.mjs). HELIX_BASE_URL is a
// real server, whose page and headers are shown; pictures go to HELIX_PICTURES.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { check, finish } from './check.mjs';
import { launch, NEIGHBOUR, Visitor } from './browser.mjs';
import { HOSTILE, StandIn } from './stand_in.mjs';

const pictures = process.env.HELIX_PICTURES;
mkdirSync(pictures, { recursive: true });
const standIn = await new StandIn(process.env.HELIX_BASE_URL).start();
const url = `http://${NEIGHBOUR}:${standIn.port}`;
const browser = await launch(process.env.HELIX_CHROMIUM);
const visitor = await new Visitor(browser, url).open('/?q=Send+this');
const { page } = visitor;

async function checkHarmless() {
  await page.waitForTimeout(200);
  assert.equal(await page.evaluate(() => window.pwned), undefined, 'a script ran');
  const found = await page.evaluate(() => ({
    elements: document.querySelectorAll('main :is(img, script, iframe, style, link, base, svg:not(.icon), math, video, object)').length,
    handlers: [...document.querySelectorAll('main *')].filter((one) => one.getAttributeNames().some((name) => name.startsWith('on'))).length,
    links: [...document.querySelectorAll('article a')].map((one) => [one.getAttribute('href'), one.rel, one.target]),
  }));
  assert.equal(found.elements, 0);
  assert.equal(found.handlers, 0);
  assert.ok(found.links.length > 0);
  for (const [href, rel, target] of found.links) {
    assert.match(href, /^https?:\/\//);
    assert.equal(`${rel} ${target}`, 'noopener noreferrer nofollow _blank');
  }
  visitor.checkOrigins();
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
  await other.page.waitForTimeout(200);
  assert.equal(await other.page.evaluate(() => window.pwned), undefined);
  await choose('broken.json', '{');
  await other.page.getByText('This file is no JSON.').waitFor();
  other.checkOrigins();
  other.checkConsole();
  await other.close();
});

await visitor.close();
await browser.close();
await standIn.stop();
finish();

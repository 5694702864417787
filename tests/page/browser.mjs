// A browser with the page in it, and what the tests do and see there.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

// A name that the browser takes for this machine, but not for a secure place: the page is there as it is for a
// neighbour on the local network, by plain http.
export const NEIGHBOUR = 'helix.test';

export function launch(executablePath) {
  return chromium.launch({
    executablePath,
    args: [
      ...(process.getuid() === 0 ? ['--no-sandbox'] : []),
      '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update',
      '--disable-sync', `--host-resolver-rules=MAP ${NEIGHBOUR} 127.0.0.1`,
    ],
  });
}

export class Visitor {
  constructor(browser, url) {
    this.browser = browser;
    this.url = url;
    this.errors = []; // of the console, and what was thrown
    this.asked = []; // addresses that the page asked for
    this.policies = []; // of all answers that the page consists of
  }

  // ownTime: the page's clock is the test's to move.
  async open(path = '/', { ownTime = false } = {}) {
    this.context = await this.browser.newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: 'reduce' });
    const page = (this.page = await this.context.newPage());
    page.setDefaultTimeout(15_000);
    if (ownTime) await page.clock.install();
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) this.errors.push(message.text());
    });
    page.on('pageerror', (error) => this.errors.push(error.stack));
    page.on('request', (request) => this.asked.push(request.url()));
    page.on('response', (response) => {
      const { pathname } = new URL(response.url());
      if (pathname === '/' || pathname.startsWith('/assets/')) this.policies.push(response.headers()['content-security-policy'] ?? `none for ${pathname}`);
    });
    await page.goto(this.url + path);
    return this;
  }

  get composer() {
    return this.page.getByLabel('Message', { exact: true });
  }
  get answers() {
    return this.page.getByRole('article', { name: 'The model answered' });
  }
  get answer() {
    return this.answers.last();
  }
  button(name, within = this.page) {
    return within.getByRole('button', { name, exact: true });
  }

  // Until the browser keeps what this changes of a conversation: every tab is told then.
  async kept(change) {
    await this.page.evaluate(() => {
      window.isKept = new Promise((resolve) => {
        const told = new BroadcastChannel('helix-conversations');
        told.onmessage = () => (told.close(), resolve());
      });
    });
    await change();
    await this.page.evaluate(() => window.isKept);
  }

  // Says it by the keyboard.
  async say(text) {
    await this.composer.fill(text);
    await this.composer.press('Enter');
  }
  // Until nothing is being answered.
  async done() {
    await this.button('Stop').waitFor({ state: 'detached', timeout: 30_000 });
  }
  // Until the last answer has come to its end; also where it has not begun.
  async answered() {
    await this.button('Regenerate the answer', this.answer).waitFor({ timeout: 30_000 });
  }
  async ask(text) {
    await this.say(text);
    await this.answer.waitFor();
    await this.done();
    return this.answerText();
  }
  async answerText(answer = this.answer) {
    return (await answer.locator('.markdown').last().innerText()).trim();
  }
  // Waits until so many characters of the last answer are there, and it goes on.
  async midway(length) {
    await this.page.waitForFunction((least) => {
      const streaming = document.querySelector('article[aria-busy=true] .markdown');
      return streaming && streaming.textContent.length >= least;
    }, length, { polling: 20 });
  }

  async setting(label, value) {
    await this.button('Settings of this chat').click();
    const field = this.page.getByLabel(label, { exact: true });
    await field.fill(String(value));
    await field.blur();
    await this.button('Close the settings').click();
  }

  // Everything that axe-core finds wrong with the page as it is shown now.
  async checkAccess(where) {
    // A theme or width that was just set is there with the next frame; what is then still on its way to its place may lie
    // over text that it will not cover.
    await this.page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
    await this.page.evaluate(() => {
      for (const one of document.getAnimations()) if (one.effect.getComputedTiming().endTime !== Infinity) one.finish();
    });
    const { violations } = await this.page.evaluate(`${axeSource}; axe.run(document, { resultTypes: ['violations'] })`);
    assert.deepEqual(violations.map((one) => [one.id, one.nodes.map((node) => node.html.slice(0, 160))]), [], where);
  }

  // Nothing was wrong, but for answers with these statuses, which browsers report as errors.
  checkConsole(...statuses) {
    const expected = (text) =>
      text.startsWith('Failed to load resource') &&
      (statuses.includes('away') && text.includes('net::ERR_') || statuses.some((one) => text.includes(`status of ${one}`)));
    assert.deepEqual(this.errors.filter((text) => !expected(text)), []);
  }
  checkOrigins() {
    const others = this.asked.filter((url) => !url.startsWith(this.url) && !url.startsWith(`blob:${this.url}`));
    assert.deepEqual(others, [], 'asked of others');
  }

  // Whatever the page consists of came with the policy that lets nothing run but its own script.
  checkPolicies() {
    assert.ok(this.policies.length >= 3, 'page, script and style');
    for (const policy of this.policies) {
      assert.match(policy, /^default-src 'none'; script-src 'self'; style-src 'self';/);
      assert.ok(!policy.includes('unsafe'), policy);
    }
  }
  // Scripts find no key and no cookie, wherever they look.
  async checkKeepsNo(key) {
    const kept = await this.page.evaluate(() => JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }]));
    assert.ok(!kept.includes(key), kept);
    assert.equal(JSON.parse(kept)[0], '', 'scripts can read a cookie');
    const cookies = await this.context.cookies();
    assert.equal(cookies.length, 1);
    assert.deepEqual([cookies[0].httpOnly, cookies[0].sameSite, cookies[0].path], [true, 'Strict', '/']);
    assert.ok(!cookies[0].value.includes(key));
  }

  async close() {
    await this.context.close();
  }
}

// A visitor of the page who does as walk.py says: each line of standard input is a name of `deeds` with its arguments, as a JSON
// list, and each is answered by a line. HELIX_CHROMIUM is the browser; pictures go to HELIX_PICTURES.
import path from 'node:path';
import { createInterface } from 'node:readline';
import { launch, Visitor } from './browser.mjs';

const browser = await launch(process.env.HELIX_CHROMIUM);
const SIZE = { width: 1180, height: 740 };
const LONG_MS = 60_000;
let visitor;

const deeds = {
  async open(url) {
    visitor = await new Visitor(browser, url).open();
    await visitor.page.setViewportSize(SIZE);
    await visitor.page.getByRole('combobox', { name: 'Model' }).waitFor();
  },
  go: (name) => visitor.page.getByRole('link', { name, exact: true }).click(),
  ask: (text) => visitor.ask(text),
  say: (text) => visitor.say(text),
  async answered() {
    await visitor.done();
    return visitor.answerText();
  },
  // What another machine is to type, and the code that it is asked for.
  async code() {
    await visitor.button('Show a pairing code').click();
    const code = await visitor.page.getByLabel('Pairing code').innerText();
    return [code, await visitor.page.getByRole('group', { name: 'Command that asks for the code' }).innerText()];
  },
  shown: (text) => visitor.page.getByText(text).first().waitFor({ timeout: LONG_MS }),
  live: () => visitor.page.getByText('Live', { exact: true }).waitFor(),
  text: () => visitor.page.locator('main').innerText(),
  async whatIf(type) {
    await visitor.page.getByLabel('Type', { exact: true }).fill(type);
    await visitor.button('Put it on the list').click();
    await visitor.button('Work it out').click();
    await visitor.page.getByRole('heading', { name: `add ${type}` }).waitFor({ timeout: LONG_MS });
    const flows = await visitor.page.getByRole('group', { name: 'Today beside what if' }).getByRole('row').filter({ hasText: 'Planned flow' }).getByRole('cell').allInnerTexts();
    return flows.slice(0, 2).map((one) => Number.parseFloat(one.replaceAll(',', '')));
  },
  // What stands there as a heading is at the top of the picture.
  async scrollTo(heading) {
    await visitor.page.getByRole('heading', { name: heading }).evaluate((one) => one.scrollIntoView({ block: 'start' }));
  },
  async picture(name) {
    await visitor.page.mouse.move(0, 0);
    await visitor.page.screenshot({ path: path.join(process.env.HELIX_PICTURES, `${name}.png`) });
  },
  async close(...statuses) {
    visitor.checkConsole(...statuses);
    visitor.checkOrigins();
    await visitor.close();
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const [name, ...rest] = JSON.parse(line);
  try {
    console.log(JSON.stringify({ result: (await deeds[name](...rest)) ?? null }));
  } catch (error) {
    console.log(JSON.stringify({ error: `${name}: ${error.stack ?? error}` }));
  }
}
await browser.close();

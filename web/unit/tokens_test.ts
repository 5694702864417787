import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Marked } from 'marked';
import { blockTokens } from '../src/lib/tokens';

const marked = new Marked({ gfm: true });

function html(text: string): string {
  const tokens = blockTokens(text, marked.defaults);
  return tokens ? marked.parser(tokens) : text;
}

test('text of people comes out as it always does', () => {
  const text = '# A *title*\n\n1. one\n2. **two**\n   - three\n\n| a | b |\n|--|--|\n| `c` | [d](http://e) |\n\n```js\nf()\n```\n[r]\n\n[r]: http://x\n';
  assert.equal(html(text), marked.parse(text));
  const long = 'Some **strong** words. '.repeat(400);
  assert.equal((html(long).match(/<strong>/g) ?? []).length, 400);
});

test('text that means harm takes no more than a moment', () => {
  const n = 20_000;
  for (const text of [
    '>'.repeat(n), '['.repeat(n), '*a '.repeat(n), '- '.repeat(n), '*'.repeat(n), '_a'.repeat(n), '[a]('.repeat(n), '`'.repeat(n) + 'a',
    '|'.repeat(n) + '\n' + '|-'.repeat(n), '<a '.repeat(n), '~a'.repeat(n), 'www.'.repeat(n), 'a@'.repeat(n), 'a\n'.repeat(n),
    '*_'.repeat(n), '![a'.repeat(n), '<!--'.repeat(n), '&a'.repeat(n), '1. '.repeat(n), '\\['.repeat(n), '[a]: '.repeat(n),
    '\n\n*a '.repeat(n), '[^a'.repeat(n), 'http://a'.repeat(n), ' '.repeat(n) + 'a', '#'.repeat(n), '```\n'.repeat(n), '~~'.repeat(n),
    '> - '.repeat(30) + 'a', '![](<'.repeat(n), '"\'('.repeat(n), '</a>'.repeat(n), '<?'.repeat(n), '<![CDATA['.repeat(n),
  ]) {
    const began = performance.now();
    html(text);
    const ms = performance.now() - began;
    console.log(`${JSON.stringify(text.slice(0, 12))}: ${ms.toFixed(0)} ms`);
    assert.ok(ms < 5000, `${JSON.stringify(text.slice(0, 12))} took ${ms} ms`);
  }
});

import DOMPurify from 'dompurify';
import hljs from 'highlight.js/lib/core';
import bash from 'highlight.js/lib/languages/bash';
import cpp from 'highlight.js/lib/languages/cpp';
import css from 'highlight.js/lib/languages/css';
import diff from 'highlight.js/lib/languages/diff';
import go from 'highlight.js/lib/languages/go';
import ini from 'highlight.js/lib/languages/ini';
import java from 'highlight.js/lib/languages/java';
import javascript from 'highlight.js/lib/languages/javascript';
import json from 'highlight.js/lib/languages/json';
import python from 'highlight.js/lib/languages/python';
import rust from 'highlight.js/lib/languages/rust';
import sql from 'highlight.js/lib/languages/sql';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';
import { Marked, type Tokens } from 'marked';
import { blockTokens } from './tokens';

// A model's text as HTML. The text is hostile: it may repeat whatever it was shown. HTML in it is
// shown as text, pictures are links (loading one would tell its owner what was said here), links
// lead only to other pages; and all of it goes through DOMPurify, in case this list has a hole.

const languages = {
  bash, cpp, css, diff, go, ini, java, javascript, json, python, rust, sql, typescript, xml, yaml,
};
for (const [name, language] of Object.entries(languages)) hljs.registerLanguage(name, language);
hljs.registerAliases(['shell', 'console'], { languageName: 'bash' });

const MAX_HIGHLIGHTED = 40_000; // characters of one block
const MAX_PARSED = 400_000; // characters of a message; a longer one is shown as it is
const HARMLESS_TAG = /^<\/?(?:br|sub|sup|kbd|b|i|em|strong|u|s)\s*\/?>$/i;
const LINK = /^(?:https?:\/\/|mailto:)/i;

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}

function highlighted(code: string, language: string): string {
  if (!hljs.getLanguage(language) || code.length > MAX_HIGHLIGHTED) return escapeHtml(code);
  return hljs.highlight(code, { language, ignoreIllegals: true }).value;
}

function link(href: string, html: string): string {
  if (!LINK.test(href)) return html;
  return `<a href="${escapeHtml(href)}" title="${escapeHtml(href)}" target="_blank" rel="noopener noreferrer nofollow">${html}</a>`;
}

// Text that looks like an address, but not like the one that its link leads to, is a trick as old as links: then the
// place is named beside it.
function destination(href: string, text: string): string {
  const named = /^\s*(?:https?:\/\/)?((?:[\w-]+\.)+[\w-]+)/i.exec(text)?.[1];
  if (!named || !URL.canParse(href)) return '';
  const { host, hostname } = new URL(href);
  const same = named.toLowerCase() === hostname || `www.${named.toLowerCase()}` === hostname;
  return same || host === '' ? '' : `<span class="goes-to"> (leads to ${escapeHtml(host)})</span>`;
}

const marked = new Marked({
  gfm: true,
  renderer: {
    html({ text }) {
      return HARMLESS_TAG.test(text.trim()) ? text.trim() : escapeHtml(text);
    },
    code({ text, lang }) {
      const language = (lang ?? '').match(/^[\w+#.-]{1,30}/)?.[0] ?? '';
      return (
        `<div class="code"><div class="code-head"><span>${escapeHtml(language || 'text')}</span>` +
        '<button type="button" class="copy-code">Copy</button></div>' +
        `<pre tabindex="0" role="region" aria-label="Code"><code>${highlighted(text, language.toLowerCase())}</code></pre></div>`
      );
    },
    link({ href, text, tokens }) {
      return link(href, this.parser.parseInline(tokens)) + (LINK.test(href) ? destination(href, text) : '');
    },
    image({ href, text }) {
      return link(href, `<span class="picture">${escapeHtml(text || 'picture')}</span>`);
    },
    checkbox({ checked }) {
      return checked ? '☑ ' : '☐ ';
    },
    table(token) {
      const cell = (one: Tokens.TableCell, tag: string): string => {
        const align = one.align ? ` align="${one.align}"` : '';
        return `<${tag}${align}>${this.parser.parseInline(one.tokens)}</${tag}>`;
      };
      const row = (cells: Tokens.TableCell[], tag: string): string =>
        `<tr>${cells.map((one) => cell(one, tag)).join('')}</tr>`;
      return (
        '<div class="table" tabindex="0" role="region" aria-label="Table"><table>' +
        `<thead>${row(token.header, 'th')}</thead><tbody>${token.rows.map((one) => row(one, 'td')).join('')}</tbody></table></div>`
      );
    },
  },
});

function sanitized(html: string): string {
  return DOMPurify.sanitize(html, {
    ALLOWED_TAGS: [
      'a', 'b', 'blockquote', 'br', 'button', 'code', 'del', 'div', 'em', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'hr',
      'i', 'kbd', 'li', 'ol', 'p', 'pre', 's', 'span', 'strong', 'sub', 'sup', 'table', 'tbody', 'td', 'th', 'thead',
      'tr', 'u', 'ul',
    ],
    ALLOWED_ATTR: ['align', 'aria-label', 'class', 'href', 'rel', 'role', 'start', 'tabindex', 'target', 'title', 'type'],
    ADD_URI_SAFE_ATTR: ['align', 'aria-label', 'rel', 'start', 'tabindex', 'target', 'type'],
    ALLOWED_URI_REGEXP: LINK,
    ALLOW_DATA_ATTR: false,
  });
}

export interface Block {
  raw: string;
  html: string;
}

function shownAsItIs(text: string): Block {
  return { raw: text, html: `<p class="raw">${escapeHtml(text)}</p>` };
}

// The blocks of a text. Those that are as they were before are taken from `before`: while an answer
// streams only its last block changes, and only that is made and drawn again.
export function toBlocks(text: string, before: Block[] = []): Block[] {
  if (text.length > MAX_PARSED) return [shownAsItIs(text)];
  const tokens = blockTokens(text, marked.defaults);
  if (!tokens) return [shownAsItIs(text)];
  const links = JSON.stringify(tokens.links);
  return tokens
    .filter((token) => token.type !== 'space' && token.type !== 'def')
    .map((token, index) => {
      const raw = token.raw + (links === '{}' ? '' : links);
      const old = before[index];
      if (old && old.raw === raw) return old;
      return { raw, html: sanitized(marked.parser([token])) };
    });
}

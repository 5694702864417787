import { Lexer, type MarkedOptions, type Token, type TokensList } from 'marked';

// Markdown's tokens in bounded time. What marks words inside a paragraph takes time that grows with the square of its
// length, and nested blocks take stack: a text that means harm would stop the page for minutes.

const MAX_PROSE = 2000; // characters that are searched for marks as one
const MAX_DENSE = 500; // where more than every eighth may be a mark
const MAX_TIME_MS = 250; // for all of them; what is left then has no marks
const TOO_DEEP = /^(?:[ \t]*(?:[>*+-]|\d{1,9}[.)])[ \t]?){40}/m;

interface Queued {
  src: string;
  tokens: Token[];
}

function plain(text: string): Token {
  const escaped = text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
  return { type: 'text', raw: text, text: escaped, escaped: true };
}

// Pieces of bounded length, cut between words where there are any.
function pieces(text: string): string[] {
  const marks = text.match(/[[\]*_~`<(!&@]/g)?.length ?? 0;
  const most = marks * 8 > text.length ? MAX_DENSE : MAX_PROSE;
  const out: string[] = [];
  let rest = text;
  while (rest.length > most) {
    const blank = rest.lastIndexOf(' ', most);
    const cut = blank > 0 ? blank : most;
    out.push(rest.slice(0, cut));
    rest = rest.slice(cut);
  }
  return [...out, rest];
}

// null when the text is to be shown as it is.
export function blockTokens(text: string, options: MarkedOptions): TokensList | null {
  if (TOO_DEEP.test(text)) return null;
  const lexer = new Lexer(options);
  try {
    lexer.blockTokens(text.replace(/\r\n|\r/g, '\n'), lexer.tokens);
    const queue = (lexer as unknown as { inlineQueue: Queued[] }).inlineQueue;
    const until = performance.now() + MAX_TIME_MS;
    for (const { src, tokens } of queue) {
      for (const piece of pieces(src)) {
        if (performance.now() > until) tokens.push(plain(piece));
        else lexer.inlineTokens(piece, tokens);
      }
    }
    return lexer.tokens;
  } catch (error) {
    if (error instanceof RangeError) return null; // nested deeper than the stack
    throw error;
  }
}

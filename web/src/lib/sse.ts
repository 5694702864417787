// Server-sent events: of a streamed answer, and of the cluster.

export interface ServerEvent {
  name: string; // '' where it has none; ':' for a comment, which only says that the server is there
  data: string;
}

// The data of each event of an answer, in order. Ends when the stream does; the caller tells by the
// last event whether that was its proper end.
export async function* eventData(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  for await (const event of serverEvents(body)) {
    if (event.name !== ':') yield event.data;
  }
}

export async function* serverEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let buffer = '';
  let data: string[] = [];
  let name = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      buffer += done ? decoder.decode() : decoder.decode(value, { stream: true });
      let end: number;
      while ((end = buffer.search(/\r\n|\n|\r(?!$)/)) >= 0) {
        const line = buffer.slice(0, end);
        buffer = buffer.slice(end + (buffer.startsWith('\r\n', end) ? 2 : 1));
        if (line === '') {
          if (data.length > 0) yield { name, data: data.join('\n') };
          data = [];
          name = '';
        } else if (line.startsWith(':')) {
          yield { name: ':', data: '' };
        } else if (line.startsWith('event:')) {
          name = line.slice(6).trim();
        } else if (line.startsWith('data:')) {
          data.push(line.slice(line.startsWith('data: ') ? 6 : 5));
        }
      }
      if (done) return;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

import { samplingNumbers } from '../lib/transfer';
import type { Conversation, Message } from '../lib/types';

// What the API is asked for: a conversation's settings and the messages of one branch.

function apiMessage(message: Message): object | null {
  if (message.role === 'user') return { role: 'user', content: message.content };
  if (message.role === 'tool') {
    return { role: 'tool', tool_call_id: message.toolCallId ?? '', content: message.content };
  }
  if (message.toolCalls.length > 0) {
    return {
      role: 'assistant',
      content: message.content || null,
      // A model that thought before it called a tool goes on from that thought.
      ...(message.reasoning ? { reasoning_content: message.reasoning } : {}),
      tool_calls: message.toolCalls.map((call) => ({
        id: call.id,
        type: 'function',
        function: { name: call.name, arguments: call.arguments },
      })),
    };
  }
  return message.content === '' ? null : { role: 'assistant', content: message.content };
}

// null when the text is empty; throws an Error with words for who wrote it.
export function parseTools(text: string): object[] | null {
  if (text.trim() === '') return null;
  let tools: unknown;
  try {
    tools = JSON.parse(text);
  } catch (error) {
    throw new Error(`The tools are no JSON: ${error instanceof Error ? error.message : ''}`);
  }
  if (!Array.isArray(tools)) throw new Error('The tools must be a JSON array.');
  return tools.length > 0 ? (tools as object[]) : null;
}

export function requestBody(conversation: Conversation, model: string, path: Message[]): object {
  const { sampling } = conversation;
  const body: Record<string, unknown> = {
    messages: [
      ...(conversation.system.trim() ? [{ role: 'system', content: conversation.system }] : []),
      ...path.map(apiMessage).filter((message) => message !== null),
    ],
    stream: true,
    stream_options: { include_usage: true },
  };
  if (model) body.model = model;
  for (const name of samplingNumbers) {
    if (sampling[name] !== undefined) body[name] = sampling[name];
  }
  const stop = (sampling.stop ?? '').split('\n').filter((line) => line !== '');
  if (stop.length > 0) body.stop = stop;
  if (sampling.reasoning_effort) body.reasoning_effort = sampling.reasoning_effort;
  const tools = parseTools(conversation.tools);
  if (tools) body.tools = tools;
  return body;
}

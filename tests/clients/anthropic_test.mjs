// The @anthropic-ai/sdk package, as anybody installs it, against HELIX_BASE_URL. Knows nothing of the model behind it
// but that it answers.
import assert from 'node:assert/strict';
import Anthropic from '@anthropic-ai/sdk';
import { check, finish, serverAddress } from './check.mjs';

const client = new Anthropic({ baseURL: serverAddress(), apiKey: process.env.HELIX_API_KEY ?? 'none', maxRetries: 0 });
const model = process.env.HELIX_MODEL ?? (await client.models.list()).data[0].id;
const ask = (more = {}) => ({
  model, max_tokens: 24, temperature: 0, messages: [{ role: 'user', content: 'Say something about machines.' }], ...more,
});

await check('messages.create', async () => {
  const message = await client.messages.create(ask({ system: 'Be brief.' }));
  assert.equal(message.type, 'message');
  assert.equal(message.role, 'assistant');
  assert.equal(message.model, model);
  assert.equal(message.content.length, 1);
  assert.equal(message.content[0].type, 'text');
  assert.ok(message.content[0].text.length > 0);
  assert.ok(['end_turn', 'max_tokens'].includes(message.stop_reason));
  assert.equal(message.stop_sequence, null);
  assert.ok(message.usage.input_tokens >= 0 && message.usage.output_tokens > 0);
  assert.ok(message._request_id);
});

await check('a raw stream says what the whole message says', async () => {
  const whole = await client.messages.create(ask());
  const types = [];
  let text = '';
  for await (const event of await client.messages.create(ask({ stream: true }))) {
    if (event.type === 'content_block_delta') text += event.delta.text;
    if (event.type !== types.at(-1)) types.push(event.type);
  }
  assert.equal(text, whole.content[0].text);
  assert.deepEqual(types, [
    'message_start', 'content_block_start', 'content_block_delta', 'content_block_stop', 'message_delta', 'message_stop',
  ]);
});

await check('the .stream() helper', async () => {
  const whole = await client.messages.create(ask());
  const stream = client.messages.stream(ask());
  let text = '';
  stream.on('text', (delta) => { text += delta; });
  const final = await stream.finalMessage();
  assert.equal(text, whole.content[0].text);
  assert.deepEqual(final.content, whole.content);
  assert.equal(final.stop_reason, whole.stop_reason);
  assert.equal(final.usage.output_tokens, whole.usage.output_tokens);
  const prompt = (usage) => usage.input_tokens + usage.cache_read_input_tokens;
  assert.equal(prompt(final.usage), prompt(whole.usage));
});

await check('an aborted .stream() helper rejects with APIUserAbortError', async () => {
  // Long, so that it is not over when it is aborted: a fetch that has all of its body may then never settle.
  const stream = client.messages.stream(ask({ max_tokens: 200, ignore_eos: true }));
  stream.on('text', () => stream.abort());
  await assert.rejects(stream.done(), Anthropic.APIUserAbortError);
});

await check('a stop sequence is named', async () => {
  const { text } = (await client.messages.create(ask())).content[0];
  const stop = text.slice(5, 8);
  const message = await client.messages.create(ask({ stop_sequences: ['@@@', stop] }));
  assert.equal(message.content[0].text, text.slice(0, text.indexOf(stop)));
  assert.equal(message.stop_reason, 'stop_sequence');
  assert.equal(message.stop_sequence, stop);
});

await check('a history with tools, thoughts and cache hints', async () => {
  const message = await client.messages.create(ask({
    max_tokens: 8,
    system: [
      { type: 'text', text: 'x-anthropic-billing-header: cc_version=2; cch=1f;' },
      { type: 'text', text: 'You have tools.', cache_control: { type: 'ephemeral' } },
    ],
    tools: [{ name: 'look', description: 'Looks.', input_schema: { type: 'object', properties: { at: { type: 'string' } } } }],
    tool_choice: { type: 'auto' },
    metadata: { user_id: 'tester' },
    messages: [
      { role: 'user', content: 'What is it?' },
      { role: 'assistant', content: [
        { type: 'thinking', thinking: 'Look first.', signature: 'x' },
        { type: 'text', text: 'I look.' },
        { type: 'tool_use', id: 'toolu_1', name: 'look', input: { at: 'sky' } },
      ] },
      { role: 'user', content: [
        { type: 'tool_result', tool_use_id: 'toolu_1', content: [{ type: 'text', text: 'blue' }] },
        { type: 'text', text: 'So?', cache_control: { type: 'ephemeral' } },
      ] },
    ],
  }));
  assert.ok(message.usage.output_tokens > 0);
});

await check('messages.countTokens counts what a message is charged', async () => {
  const { messages } = ask();
  const counted = await client.messages.countTokens({ model, system: 'Be brief.', messages });
  const { usage } = await client.messages.create(ask({ system: 'Be brief.', max_tokens: 1 }));
  assert.equal(counted.input_tokens, usage.input_tokens + usage.cache_read_input_tokens);
});

await check('errors have their classes, types and request ids', async () => {
  await assert.rejects(client.messages.create(ask({ temperature: 'hot' })), (error) => {
    assert.ok(error instanceof Anthropic.BadRequestError);
    assert.equal(error.error.error.type, 'invalid_request_error');
    assert.match(error.message, /temperature/);
    assert.equal(error.requestID, error.error.request_id);
    return true;
  });
  await assert.rejects(client.messages.create(ask({ model: 'no-such-model' })), Anthropic.NotFoundError);
  const long = [{ role: 'user', content: 'word '.repeat(100000) }];
  await assert.rejects(client.messages.create(ask({ messages: long, stream: true })), (error) => {
    assert.ok(error instanceof Anthropic.BadRequestError);
    assert.match(error.message, /prompt is too long/);
    return true;
  });
});

// Needs a model that draws tokens; the fake server says what it says.
if (process.env.HELIX_DRAWS_TOKENS) {
  await check('an answer by a JSON schema', async () => {
    const schema = { type: 'object', properties: { name: { type: 'string', maxLength: 8 } }, required: ['name'], additionalProperties: false };
    const message = await client.messages.create(ask({ max_tokens: 60, output_config: { format: { type: 'json_schema', schema } } }));
    assert.deepEqual(Object.keys(JSON.parse(message.content[0].text)), ['name']);
  });
}

finish();

// The ollama package, as anybody installs it, against HELIX_BASE_URL. Knows nothing of the model behind it but that it
// answers.
import assert from 'node:assert/strict';
import { Ollama } from 'ollama';
import { check, finish, serverAddress } from './check.mjs';

const headers = process.env.HELIX_API_KEY ? { authorization: `Bearer ${process.env.HELIX_API_KEY}` } : {};
const client = new Ollama({ host: serverAddress(), headers });
const { models } = await client.list();
const model = process.env.HELIX_MODEL ?? models[0].name;
const options = { temperature: 0, num_predict: 24 };
const ask = (more = {}) => ({ model, options, messages: [{ role: 'user', content: 'Say something about machines.' }], ...more });

await check('list, ps and show', async () => {
  assert.ok(models.some((each) => each.name === model && each.size >= 0 && each.digest.length === 64));
  assert.ok((await client.ps()).models.some((each) => each.model === model));
  const shown = await client.show({ model });
  assert.ok(shown.capabilities.includes('completion'));
  assert.equal(typeof shown.template, 'string');
  assert.ok((await client.version()).version);
});

await check('chat', async () => {
  const answer = await client.chat(ask());
  assert.equal(answer.model, model);
  assert.equal(answer.message.role, 'assistant');
  assert.ok(answer.message.content.length > 0);
  assert.ok(answer.done);
  assert.ok(['stop', 'length'].includes(answer.done_reason));
  assert.ok(answer.prompt_eval_count > 0 && answer.eval_count > 0 && answer.total_duration > 0);
  assert.ok(!Number.isNaN(Date.parse(answer.created_at)));
});

await check('a streamed chat says what the whole one says', async () => {
  const whole = await client.chat(ask());
  let text = '';
  let last;
  for await (const part of await client.chat(ask({ stream: true }))) {
    text += part.message.content;
    last = part;
  }
  assert.equal(text, whole.message.content);
  assert.ok(last.done);
  assert.equal(last.done_reason, whole.done_reason);
  assert.equal(last.eval_count, whole.eval_count);
});

await check('generate, whole, streamed and raw', async () => {
  const body = { model, prompt: 'One day', options };
  const whole = await client.generate(body);
  assert.ok(whole.response.length > 0);
  let text = '';
  for await (const part of await client.generate({ ...body, stream: true })) text += part.response;
  assert.equal(text, whole.response);
  const raw = await client.generate({ ...body, raw: true });
  assert.ok(raw.eval_count > 0);
});

await check('a stream is aborted', async () => {
  // An answer may be over before it is aborted.
  let aborted = false;
  for (let tries = 0; tries < 10 && !aborted; tries += 1) {
    const stream = await client.chat(ask({ stream: true, options: { num_predict: 200, seed: tries } }));
    try {
      for await (const part of stream) {
        assert.ok(part.message);
        stream.abort();
      }
    } catch (error) {
      assert.equal(error.name, 'AbortError');
      aborted = true;
    }
  }
  assert.ok(aborted);
  assert.ok((await client.chat(ask())).done);
});

await check('a history with tools and thoughts, and an empty one', async () => {
  const answer = await client.chat(ask({
    tools: [{ type: 'function', function: { name: 'look', description: 'Looks.', parameters: { type: 'object', properties: {} } } }],
    messages: [
      { role: 'user', content: 'What is it?' },
      { role: 'assistant', content: '', thinking: 'Look first.', tool_calls: [{ function: { name: 'look', arguments: { at: 'sky' } } }] },
      { role: 'tool', tool_name: 'look', content: 'blue' },
    ],
  }));
  assert.ok(answer.done);
  assert.equal((await client.chat({ model })).done_reason, 'load');
});

await check('embed and embeddings', async () => {
  const answer = await client.embed({ model, input: ['One machine.', 'Two machines.'] });
  assert.equal(answer.embeddings.length, 2);
  assert.ok(answer.prompt_eval_count > 0 && answer.total_duration >= 0);
  for (const one of answer.embeddings) assert.ok(Math.abs(Math.hypot(...one) - 1) < 1e-4);
  const short = await client.embed({ model, input: 'Two machines.', dimensions: 2 });
  assert.equal(short.embeddings[0].length, 2);
  const { embedding } = await client.embeddings({ model, prompt: 'Two machines.' });
  assert.deepEqual(embedding, answer.embeddings[1]);
  assert.deepEqual((await client.embed({ model, input: '' })).embeddings, []);
});

await check('errors have their status and text', async () => {
  await assert.rejects(client.chat(ask({ model: 'no-such-model' })), (error) => {
    assert.equal(error.status_code, 404);
    assert.match(error.message, /no-such-model/);
    return true;
  });
  await assert.rejects(client.chat(ask({ options: { temperature: 'hot' } })), (error) => {
    assert.equal(error.status_code, 400);
    assert.match(error.message, /options.temperature/);
    return true;
  });
});

// Needs a model that draws tokens; the fake server says what it says.
if (process.env.HELIX_DRAWS_TOKENS) {
  await check('answers by a JSON schema and as JSON', async () => {
    const format = { type: 'object', properties: { name: { type: 'string', maxLength: 8 } }, required: ['name'], additionalProperties: false };
    const answer = await client.chat(ask({ format, options: { temperature: 0, num_predict: 60 } }));
    assert.deepEqual(Object.keys(JSON.parse(answer.message.content)), ['name']);
  });
}

finish();

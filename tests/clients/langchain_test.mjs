// @langchain/openai against HELIX_BASE_URL.
import assert from 'node:assert/strict';
import { HumanMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { ChatOpenAI } from '@langchain/openai';
import { z } from 'zod';
import { check, finish } from './check.mjs';

const baseURL = process.env.HELIX_BASE_URL;
assert.ok(baseURL, 'HELIX_BASE_URL is not set');
const { data } = await (await fetch(`${baseURL}/models`)).json();
const id = process.env.HELIX_MODEL ?? data[0].id;
const options = { model: id, apiKey: 'none', configuration: { baseURL }, temperature: 0, maxRetries: 0 };
const chat = new ChatOpenAI({ ...options, maxTokens: 24 });
const question = [new HumanMessage('Say something about machines.')];

await check('invoke and stream say the same', async () => {
  const whole = await chat.invoke(question);
  assert.ok(whole.content.length > 0);
  assert.ok(whole.usage_metadata.output_tokens > 0);
  let text = '';
  for await (const chunk of await chat.stream(question)) text += chunk.content;
  assert.equal(text, whole.content);
});

if (process.env.HELIX_DRAWS_TOKENS) {
  const schema = z.object({ city: z.enum(['Oslo', 'Rome']), days: z.number() });
  const longer = new ChatOpenAI({ ...options, maxTokens: 150 });
  const weather = tool(() => 'cold', { name: 'weather', description: 'The weather', schema });

  await check('bindTools, whole and streamed', async () => {
    const bound = longer.bindTools([weather], { tool_choice: 'required' });
    const whole = await bound.invoke(question);
    assert.ok(whole.tool_calls.length >= 1);
    for (const call of whole.tool_calls) schema.parse(call.args);
    let all;
    for await (const chunk of await bound.stream(question)) all = all ? all.concat(chunk) : chunk;
    assert.deepEqual(all.tool_calls.map((c) => c.args), whole.tool_calls.map((c) => c.args));
  });

  await check('withStructuredOutput, by function calling and by schema', async () => {
    for (const method of ['functionCalling', 'jsonSchema']) {
      schema.parse(await longer.withStructuredOutput(schema, { name: 'trip', method }).invoke(question));
    }
  });
}

finish();

// Vercel's ai package with @ai-sdk/openai and @ai-sdk/openai-compatible against HELIX_BASE_URL.
import assert from 'node:assert/strict';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { embed, embedMany, generateObject, generateText, streamText, tool } from 'ai';
import { z } from 'zod';
import { check, finish } from './check.mjs';

const baseURL = process.env.HELIX_BASE_URL;
assert.ok(baseURL, 'HELIX_BASE_URL is not set');
const draws = Boolean(process.env.HELIX_DRAWS_TOKENS);
const { data } = await (await fetch(`${baseURL}/models`)).json();
const id = process.env.HELIX_MODEL ?? data[0].id;
const compatible = createOpenAICompatible({ name: 'helix', baseURL, supportsStructuredOutputs: true });
const openai = createOpenAI({ baseURL, apiKey: 'none' });
const models = {
  'openai-compatible': compatible(id),
  'openai, chat': openai.chat(id),
  'openai, responses': openai.responses(id),
};
const common = { prompt: 'Say something about machines.', temperature: 0, maxOutputTokens: 24, maxRetries: 0 };

for (const [name, model] of Object.entries(models)) {
  await check(`${name}: generateText and streamText say the same`, async () => {
    const whole = await generateText({ model, ...common });
    assert.ok(whole.text.length > 0);
    assert.ok(whole.usage.inputTokens > 0 && whole.usage.outputTokens > 0);
    const stream = streamText({ model, ...common, onError: ({ error }) => assert.fail(error) });
    let text = '';
    for await (const part of stream.textStream) text += part;
    assert.equal(text, whole.text);
    assert.equal(await stream.finishReason, whole.finishReason);
  });
  if (!draws) continue;
  await check(`${name}: tools that are required, whole and streamed`, async () => {
    const inputSchema = z.object({ city: z.string().max(20), days: z.int().min(1).max(9) });
    const tools = { weather: tool({ description: 'The weather', inputSchema }) };
    const asked = { model, ...common, maxOutputTokens: 120, tools, toolChoice: 'required' };
    const whole = await generateText(asked);
    assert.equal(whole.finishReason, 'tool-calls');
    assert.ok(whole.toolCalls.length >= 1);
    for (const call of whole.toolCalls) inputSchema.parse(call.input);
    const stream = streamText({ ...asked, onError: ({ error }) => assert.fail(error) });
    const calls = await stream.toolCalls;
    assert.deepEqual(calls.map((c) => c.input), whole.toolCalls.map((c) => c.input));
  });
  await check(`${name}: generateObject`, async () => {
    const schema = z.object({ name: z.string().max(10), size: z.number().min(0).max(10), kind: z.enum(['a', 'b']) });
    const { object } = await generateObject({ model, ...common, maxOutputTokens: 200, schema });
    schema.parse(object);
  });
}

const embedders = { 'openai-compatible': compatible.embeddingModel(id), openai: openai.embedding(id) };
for (const [name, model] of Object.entries(embedders)) {
  await check(`${name}: embed and embedMany`, async () => {
    const values = ['One machine.', 'Two machines.', 'A network.'];
    const many = await embedMany({ model, values, maxRetries: 0 });
    assert.deepEqual(many.values, values);
    assert.equal(many.embeddings.length, 3);
    assert.ok(many.usage.tokens > 0);
    const one = await embed({ model, value: values[1], maxRetries: 0 });
    assert.deepEqual(one.embedding, many.embeddings[1]);
    assert.ok(Math.abs(Math.hypot(...one.embedding) - 1) < 1e-4);
  });
}

finish();

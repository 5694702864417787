// Calls of tools that are demanded, from a model that was never taught any: whatever the schema, they come, and
// their arguments satisfy it, as ajv judges. Meanwhile a worker dies, whose process HELIX_KILL names.
import assert from 'node:assert/strict';
import Ajv2020 from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { zodFunction, zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { check, finish, serverAddress } from './check.mjs';

if (!process.env.HELIX_KILL) {
  console.log('skipped: it needs a cluster of its own');
  process.exit(0);
}
const client = new OpenAI({ baseURL: process.env.HELIX_BASE_URL, apiKey: 'none', maxRetries: 0 });
const model = (await client.models.list()).data[0].id;
const ajv = new Ajv2020({ strict: false });
addFormats(ajv);
const kSchemas = Number(process.env.HELIX_TOOL_SCHEMAS ?? 100);
const kAtOnce = 6;
const kMostBytes = 1500; // of two schemas, so that they fit into a small context

// xorshift32
function generator(seed) {
  let state = seed * 2654435761 + 1;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
}

function anyString(random) {
  const most = 1 + random(12);
  return [
    { type: 'string' },
    { type: 'string', minLength: random(most + 1), maxLength: most },
    { type: 'string', pattern: '^[A-Z]{2}-[0-9]{1,4}$' },
    { type: 'string', format: ['date', 'date-time', 'uuid', 'ipv4', 'email'][random(5)] },
    { enum: ['red', 'green', 'blu"e', 'é€'] },
  ][random(5)];
}

function anyNumber(random) {
  const low = random(2000) - 1000;
  return [
    { type: 'integer' },
    { type: 'integer', minimum: low, maximum: low + random(50) },
    { type: 'integer', minimum: -9007199254740991, maximum: 9007199254740991 },
    { type: 'number', exclusiveMinimum: low },
    { type: 'integer', multipleOf: 1 + random(7) },
  ][random(5)];
}

function anySchema(random, depth) {
  const kind = random(depth > 0 ? 9 : 6);
  if (kind < 2) return anyString(random);
  if (kind < 4) return anyNumber(random);
  if (kind === 4) return { type: ['boolean', 'null'] };
  if (kind === 5) return { const: random(2) ? { a: [1, 'x'] } : 7 };
  if (kind === 6) return { type: 'array', items: anySchema(random, depth - 1), minItems: random(2), maxItems: 3 };
  if (kind === 7) return { anyOf: [anySchema(random, depth - 1), anySchema(random, depth - 1)] };
  return anyObject(random, depth - 1);
}

function anyObject(random, depth) {
  const names = ['id', 'name', 'größe', 'a b', 'tags'].slice(0, random(5));
  const properties = Object.fromEntries(names.map((name) => [name, anySchema(random, depth)]));
  const required = names.filter(() => random(2) === 0);
  return { type: 'object', properties, required, ...(random(3) === 0 ? {} : { additionalProperties: false }) };
}

function toolOf(name, parameters) {
  return { type: 'function', function: { name, parameters } };
}

function joined(chunks) {
  const calls = [];
  for (const { choices } of chunks) {
    for (const delta of choices[0]?.delta?.tool_calls ?? []) {
      calls[delta.index] ??= { function: { name: '', arguments: '' } };
      calls[delta.index].function.name += delta.function?.name ?? '';
      calls[delta.index].function.arguments += delta.function?.arguments ?? '';
    }
  }
  return calls;
}

async function callsOf(body) {
  if (!body.stream) {
    const { choices } = await client.chat.completions.create(body);
    assert.equal(choices[0].finish_reason, 'tool_calls');
    return choices[0].message.tool_calls;
  }
  const chunks = [];
  for await (const chunk of await client.chat.completions.create(body)) chunks.push(chunk);
  assert.equal(chunks.findLast((c) => c.choices.length > 0).choices[0].finish_reason, 'tool_calls');
  return joined(chunks);
}

async function demandOne(seed) {
  const random = generator(seed);
  let schemas;
  do {
    schemas = { first: anyObject(random, 2), second: anyObject(random, 1) };
  } while (JSON.stringify(schemas).length > kMostBytes);
  const calls = await callsOf({
    model,
    messages: [{ role: 'user', content: `Do something with number ${seed}.` }],
    tools: Object.entries(schemas).map(([name, schema]) => toolOf(name, schema)),
    tool_choice: 'required',
    temperature: 1,
    seed,
    max_tokens: 100 + random(100),
    stream: seed % 2 === 0,
  });
  assert.ok(calls.length >= 1);
  for (const call of calls) {
    const validate = ajv.compile(schemas[call.function.name]);
    const value = JSON.parse(call.function.arguments);
    assert.ok(validate(value), `${JSON.stringify(schemas[call.function.name])} does not allow ${call.function.arguments}`);
  }
}

await check(`${kSchemas} random schemas: every demanded call is valid, streamed and whole`, async () => {
  let next = 1;
  const wrong = [];
  const worker = async () => {
    while (next <= kSchemas) {
      const seed = next++;
      if (seed === Math.floor(kSchemas / 2)) {
        process.kill(Number(process.env.HELIX_KILL), 'SIGKILL');
        console.log('a worker was killed');
      }
      await demandOne(seed).catch((error) => wrong.push(`seed ${seed}: ${error.message}`));
    }
  };
  await Promise.all(Array.from({ length: kAtOnce }, worker));
  assert.deepEqual(wrong, []);
});

const messages = [{ role: 'user', content: 'How warm is it in Oslo?' }];
const tools = [
  toolOf('weather', { type: 'object', properties: { city: { type: 'string', maxLength: 20 } }, required: ['city'] }),
  toolOf('add', { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] }),
];

await check('a named tool, allowed tools, one call', async () => {
  const named = await callsOf({
    model, messages, tools, max_tokens: 80, tool_choice: { type: 'function', function: { name: 'add' } },
  });
  assert.deepEqual(named.map((c) => c.function.name), ['add']);
  const allowed = { mode: 'required', tools: [{ type: 'function', function: { name: 'weather' } }] };
  const some = await callsOf({
    model, messages, tools, max_tokens: 80, tool_choice: { type: 'allowed_tools', allowed_tools: allowed },
  });
  assert.ok(some.every((c) => c.function.name === 'weather'));
  const one = await callsOf({
    model, messages, tools, max_tokens: 80, tool_choice: 'required', parallel_tool_calls: false, temperature: 2, seed: 5,
  });
  assert.equal(one.length, 1);
});

await check('a max_tokens in which no call can end is refused', async () => {
  const short = { model, messages, tools, max_tokens: 3, tool_choice: 'required' };
  await assert.rejects(client.chat.completions.create(short), (error) => {
    assert.equal(error.status, 400);
    assert.match(error.message, /max_tokens/);
    return true;
  });
});

await check('zodFunction, zodResponseFormat and runTools with z.int()', async () => {
  const Point = z.object({ x: z.int(), y: z.int().min(0), label: z.string().max(12).nullable() });
  const parsed = await client.chat.completions.parse({
    model, messages, max_tokens: 150, tools: [zodFunction({ name: 'point', parameters: Point })], tool_choice: 'required',
  });
  for (const call of parsed.choices[0].message.tool_calls) Point.parse(call.function.parsed_arguments);
  const answer = await client.chat.completions.parse({
    model, messages, max_tokens: 300, response_format: zodResponseFormat(Point, 'point'), temperature: 0,
  });
  if (answer.choices[0].finish_reason === 'stop') Point.parse(answer.choices[0].message.parsed);
  const seen = [];
  const runner = client.chat.completions.runTools({
    model, messages, max_tokens: 120, tool_choice: { type: 'function', function: { name: 'weather' } },
    tools: [{
      type: 'function',
      function: {
        name: 'weather',
        parse: JSON.parse,
        parameters: tools[0].function.parameters,
        function: ({ city }) => { seen.push(city); return 'cold'; },
      },
    }],
  });
  await runner.done();
  assert.equal(seen.length, 1);
  assert.equal(typeof seen[0], 'string');
});

await check('responses and messages demand calls, too', async () => {
  const response = await client.responses.create({
    model, input: 'Weather in Oslo?', max_output_tokens: 90, tool_choice: 'required',
    tools: [{ type: 'function', name: 'weather', parameters: tools[0].function.parameters, strict: true }],
  });
  const calls = response.output.filter((item) => item.type === 'function_call');
  assert.ok(calls.length >= 1);
  for (const call of calls) assert.equal(typeof JSON.parse(call.arguments).city, 'string');
  const anthropic = new Anthropic({ baseURL: serverAddress(), apiKey: 'none', maxRetries: 0 });
  const message = await anthropic.messages.create({
    model, messages, max_tokens: 90, tool_choice: { type: 'any' },
    tools: [{ name: 'weather', input_schema: tools[0].function.parameters }],
  });
  assert.equal(message.stop_reason, 'tool_use');
  const used = message.content.filter((block) => block.type === 'tool_use');
  assert.ok(used.length >= 1 && used.every((block) => typeof block.input.city === 'string'));
});

finish();

// Agents' whole loops with a model that was taught two tools: a question, calls, what the tools say, and an
// answer that says it, through every client that runs such loops by itself, and by hand where it does not.
import assert from 'node:assert/strict';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import Anthropic from '@anthropic-ai/sdk';
import { HumanMessage } from '@langchain/core/messages';
import { tool as langchainTool } from '@langchain/core/tools';
import { ChatOpenAI } from '@langchain/openai';
import { generateText, stepCountIs, streamText, tool } from 'ai';
import { Ollama } from 'ollama';
import OpenAI from 'openai';
import { zodFunction } from 'openai/helpers/zod';
import { z } from 'zod';
import { check, finish, serverAddress } from './check.mjs';

if (!process.env.HELIX_CALLS_TOOLS) {
  console.log('skipped: it needs a model that calls get_weather and add');
  process.exit(0);
}
const baseURL = process.env.HELIX_BASE_URL;
const client = new OpenAI({ baseURL, apiKey: 'none', maxRetries: 0 });
const model = (await client.models.list()).data[0].id;
const kRounds = 6;

const city = z.object({ city: z.string().describe('The name of a city') });
const numbers = z.object({ a: z.int(), b: z.int() });
const kDescriptions = { get_weather: 'The weather in a city', add: 'The sum of two numbers' };
const kSchemas = { get_weather: city, add: numbers };
const kWeather = {
  Oslo: { temperature: 7, sky: 'rainy' },
  Paris: { temperature: 21, sky: 'sunny' },
  Tokyo: { temperature: 16, sky: 'windy' },
};

// The tools themselves, and what was asked of them.
function newTools() {
  const calls = [];
  const run = {
    get_weather: (input) => {
      calls.push(['get_weather', city.parse(input)]);
      return kWeather[input.city] ?? { error: 'unknown city' };
    },
    add: (input) => {
      calls.push(['add', numbers.parse(input)]);
      return input.a + input.b;
    },
  };
  return { calls, run };
}

const kCases = [
  {
    question: 'What is the weather in Oslo?',
    calls: [['get_weather', { city: 'Oslo' }]],
    said: [/rainy/, /\b7 degrees/],
  },
  {
    question: 'What is the weather in Paris and what is 12 plus 30?',
    calls: [['get_weather', { city: 'Paris' }], ['add', { a: 12, b: 30 }]],
    said: [/sunny/, /\b21 degrees/, /\b42\b/],
  },
  {
    question: 'What is the temperature in Tokyo plus 5?',
    calls: [['get_weather', { city: 'Tokyo' }], ['add', { a: 16, b: 5 }]],
    said: [/\b21\b/],
  },
  { question: 'What is a cluster?', calls: [], said: [/machines/] },
];

function checkLoop(wanted, calls, text) {
  assert.deepEqual(calls, wanted.calls);
  for (const part of wanted.said) assert.match(text, part);
}

// One check a client: it answers each question of kCases with `loop(question, tools)`, which returns the answer.
async function checkLoops(name, loop) {
  await check(name, async () => {
    for (const wanted of kCases) {
      const { calls, run } = newTools();
      checkLoop(wanted, calls, await loop(wanted.question, run));
    }
  });
}

const zodTools = Object.entries(kSchemas).map(
  ([name, parameters]) => zodFunction({ name, description: kDescriptions[name], parameters }));
const runnable = (run) => zodTools.map((each) => ({
  type: 'function',
  function: { ...each.function, parse: JSON.parse, function: run[each.function.name] },
}));
const asked = (question) => ({ model, messages: [{ role: 'user', content: question }], temperature: 0 });

await checkLoops('openai: runTools', async (question, run) =>
  client.chat.completions.runTools({ ...asked(question), tools: runnable(run) }).finalContent());

await checkLoops('openai: runTools, streamed', async (question, run) => {
  const runner = client.chat.completions.runTools({ ...asked(question), stream: true, tools: runnable(run) });
  let text = '';
  runner.on('content', (delta) => { text += delta; });
  const final = await runner.finalContent();
  assert.ok(text.endsWith(final));
  return final;
});

await checkLoops('openai: responses, which remember the calls', async (question, run) => {
  const tools = Object.entries(kSchemas).map(([name, schema]) => ({
    type: 'function', name, description: kDescriptions[name], parameters: z.toJSONSchema(schema), strict: true,
  }));
  let response = await client.responses.create({ model, input: question, tools, temperature: 0 });
  for (let i = 0; i < kRounds; i += 1) {
    const calls = response.output.filter((item) => item.type === 'function_call');
    if (calls.length === 0) break;
    const input = calls.map(({ call_id, name, arguments: text }) => ({
      type: 'function_call_output', call_id, output: JSON.stringify(run[name](JSON.parse(text))),
    }));
    response = await client.responses.create({ model, input, tools, temperature: 0, previous_response_id: response.id });
  }
  return response.output_text;
});

const openai = createOpenAI({ baseURL, apiKey: 'none' });
const providers = {
  'openai-compatible': createOpenAICompatible({ name: 'helix', baseURL })(model),
  'openai, chat': openai.chat(model),
  'openai, responses': openai.responses(model),
};
const aiTools = (run) => Object.fromEntries(Object.entries(kSchemas).map(([name, inputSchema]) => [
  name, tool({ description: kDescriptions[name], inputSchema, execute: (input) => run[name](input) })]));

for (const [name, provider] of Object.entries(providers)) {
  const body = (prompt, run) => ({
    model: provider, prompt, temperature: 0, maxRetries: 0, tools: aiTools(run), stopWhen: stepCountIs(kRounds),
  });
  await checkLoops(`ai, ${name}: generateText over several steps`, async (question, run) => {
    const { text, steps, finishReason } = await generateText(body(question, run));
    assert.equal(finishReason, 'stop');
    assert.equal(steps.at(-1).text, text);
    return text;
  });
  await checkLoops(`ai, ${name}: streamText over several steps`, async (question, run) => {
    const stream = streamText({ ...body(question, run), onError: ({ error }) => assert.fail(error) });
    let text = '';
    for await (const part of stream.textStream) text += part;
    assert.equal(await stream.finishReason, 'stop');
    return text;
  });
  await check(`ai, ${name}: a first step in which a call is required`, async () => {
    const { calls, run } = newTools();
    const { text, steps } = await generateText({
      ...body('How is the weather in Oslo?', run),
      prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? 'required' : 'auto' }),
    });
    assert.equal(steps[0].finishReason, 'tool-calls');
    checkLoop(kCases[0], calls, text);
  });
}

await checkLoops('langchain: bindTools and its messages', async (question, run) => {
  const tools = Object.fromEntries(Object.entries(kSchemas).map(([name, schema]) => [
    name,
    langchainTool(async (input) => JSON.stringify(run[name](input)), { name, description: kDescriptions[name], schema }),
  ]));
  const chat = new ChatOpenAI({ model, apiKey: 'none', configuration: { baseURL }, temperature: 0, maxRetries: 0 })
    .bindTools(Object.values(tools));
  const messages = [new HumanMessage(question)];
  for (let i = 0; i < kRounds; i += 1) {
    const answer = await chat.invoke(messages);
    messages.push(answer);
    if (answer.tool_calls.length === 0) return answer.content;
    for (const call of answer.tool_calls) messages.push(await tools[call.name].invoke(call));
  }
  return assert.fail('no end');
});

await checkLoops('anthropic: messages with tool_use and tool_result', async (question, run) => {
  const anthropic = new Anthropic({ baseURL: serverAddress(), apiKey: 'none', maxRetries: 0 });
  const tools = Object.entries(kSchemas).map(([name, schema]) => ({
    name, description: kDescriptions[name], input_schema: z.toJSONSchema(schema),
  }));
  const messages = [{ role: 'user', content: question }];
  for (let i = 0; i < kRounds; i += 1) {
    const answer = await anthropic.messages.create({ model, max_tokens: 200, temperature: 0, tools, messages });
    if (answer.stop_reason !== 'tool_use') return answer.content.map((block) => block.text ?? '').join('');
    messages.push({ role: 'assistant', content: answer.content });
    messages.push({
      role: 'user',
      content: answer.content.filter((block) => block.type === 'tool_use').map((block) => ({
        type: 'tool_result', tool_use_id: block.id, content: JSON.stringify(run[block.name](block.input)),
      })),
    });
  }
  return assert.fail('no end');
});

await checkLoops('ollama: chat with tools', async (question, run) => {
  const ollama = new Ollama({ host: serverAddress() });
  const messages = [{ role: 'user', content: question }];
  const options = { temperature: 0 };
  const tools = zodTools.map(({ type, function: { name, description, parameters } }) => (
    { type, function: { name, description, parameters } }));
  for (let i = 0; i < kRounds; i += 1) {
    const { message } = await ollama.chat({ model, messages, tools, options });
    messages.push(message);
    if (!message.tool_calls?.length) return message.content;
    for (const { function: { name, arguments: input } } of message.tool_calls) {
      messages.push({ role: 'tool', tool_name: name, content: JSON.stringify(run[name](input)) });
    }
  }
  return assert.fail('no end');
});

await check('only the tool that is offered is called', async () => {
  const { calls, run } = newTools();
  const [weather] = runnable(run);
  const text = await client.chat.completions.runTools({ ...asked('What is 12 plus 30?'), tools: [weather] }).finalContent();
  assert.deepEqual(calls, []);
  assert.match(text, /no tool/);
});

finish();

// The vendors' SDKs against the relay's replay backend: sdk.mjs ADDRESS TOKEN
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { createFalClient } from '@fal-ai/client';

const [address, token] = process.argv.slice(2);
const PROMPT = 'say prompt-xyz', ANSWER = 'The answer is ans-é-1.';
let passed = 0, failed = 0;

function check(name, good, seen) {
    good ? passed++ : failed++;
    console.log(good ? `ok    ${name}` : `FAIL  ${name}: ${JSON.stringify(seen)?.slice(0, 400)}`);
}
async function refused(name, kind, pattern, call) {
    try {
        check(name, false, await call());
    } catch (error) {
        check(name, error instanceof kind && pattern.test(error.message), String(error));
    }
}

// ---- Anthropic ---------------------------------------------------------------------------------
const message = { model: 'claude-x', max_tokens: 100, messages: [{ role: 'user', content: PROMPT }] };
const anthropic = new Anthropic({ apiKey: token, baseURL: `http://${address}` });
let seen = await anthropic.messages.create(message);
check('anthropic: whole', seen.content[0].text === ANSWER && seen.stop_reason === 'end_turn', seen);
let text = '';
const stream = anthropic.messages.stream(message);
stream.on('text', (piece) => (text += piece));
seen = await stream.finalMessage();
check('anthropic: stream', text === ANSWER && seen.usage.output_tokens > 0, seen);
seen = await new Anthropic({ apiKey: null, authToken: token, baseURL: `http://${address}` }).messages.create(message);
check('anthropic: bearer token', seen.content[0].text === ANSWER, seen);
seen = await anthropic.messages.countTokens({ model: 'x', messages: message.messages });
check('anthropic: count_tokens', seen.input_tokens > 0, seen);
seen = await anthropic.models.list();
check('anthropic: models', seen.data[0].id === 'local-replay-model', seen);
await refused('anthropic: wrong key', Anthropic.AuthenticationError, /not this run's token/, () =>
    new Anthropic({ apiKey: 'own', baseURL: `http://${address}` }).messages.create(message));
await refused('anthropic: base URL one level off', Anthropic.NotFoundError, /should not end in \/v1/, () =>
    new Anthropic({ apiKey: token, baseURL: `http://${address}/v1` }).messages.create(message));

// ---- OpenAI --------------------------------------------------------------------------------------
const openai = new OpenAI({ apiKey: token, baseURL: `http://${address}/v1` });
const chat = { model: 'gpt-x', messages: message.messages };
seen = await openai.chat.completions.create(chat);
check('chat: whole', seen.choices[0].message.content === ANSWER && seen.usage.total_tokens > 0, seen);
text = '';
let usage;
for await (const chunk of await openai.chat.completions.create({ ...chat, stream: true, stream_options: { include_usage: true } })) {
    text += chunk.choices[0]?.delta?.content ?? '';
    usage = chunk.usage ?? usage;
}
check('chat: stream with usage', text === ANSWER && usage.total_tokens > 0, text);
seen = await openai.chat.completions.stream(chat).finalChatCompletion();
check('chat: stream helper', seen.choices[0].message.content === ANSWER && seen.choices[0].finish_reason === 'stop', seen);
seen = await openai.chat.completions.create({ model: 'small', messages: [{ role: 'user', content: 'title?' }] });
check('chat: side call', seen.choices[0].message.content === 'OK', seen);
seen = await openai.responses.create({ model: 'gpt-x', input: PROMPT });
check('responses: whole', seen.output_text === ANSWER && seen.status === 'completed', seen);
text = '';
for await (const event of await openai.responses.create({ model: 'gpt-x', input: [{ role: 'user', content: PROMPT }], stream: true })) {
    text += event.type === 'response.output_text.delta' ? event.delta : '';
    seen = event;
}
check('responses: stream', text === ANSWER && seen.type === 'response.completed' && seen.response.usage.total_tokens > 0, seen);
seen = await openai.responses.stream({ model: 'gpt-x', input: PROMPT }).finalResponse();
check('responses: stream helper', seen.output_text === ANSWER, seen);
seen = await openai.models.list();
check('openai: models', seen.data[0].id === 'local-replay-model', seen);
await refused('openai: wrong key', OpenAI.AuthenticationError, /not this run's token/, () =>
    new OpenAI({ apiKey: 'own', baseURL: `http://${address}/v1` }).responses.create({ model: 'gpt-x', input: PROMPT }));
await refused('openai: base URL one level off', OpenAI.NotFoundError, /should end in \/v1/, () =>
    new OpenAI({ apiKey: token, baseURL: `http://${address}` }).chat.completions.create(chat));

// ---- fal -------------------------------------------------------------------------------------------
const fal = createFalClient({
    credentials: token,
    fetch: (url, init) => fetch(String(url).replace('https://queue.fal.run', `http://${address}`), init),
});
seen = await fal.subscribe('fal-ai/flux/dev', { input: { prompt: PROMPT }, pollInterval: 50 });
check('fal: polled', seen.data.output === ANSWER, seen);
seen = await fal.subscribe('fal-ai/flux/dev', { input: { prompt: PROMPT }, mode: 'streaming' });
check('fal: status stream', seen.data.output === ANSWER, seen);

console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);

// The vendors' SDKs against the relay's replay backend: sdk.mjs ADDRESS TOKEN ROWS
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { ApiError, createFalClient } from '@fal-ai/client';

const [address, token, rowsFile] = process.argv.slice(2);
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

// The ledger's rows of a rule so far, as the relay prints them.
const rowsOf = (rule) => readFileSync(rowsFile, 'utf8').split('\n').slice(1).filter(Boolean).map((row) => JSON.parse(row)).filter((row) => row.rule === rule);

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

seen = await fal.queue.submit('fal-ai/flux/dev', { input: { prompt: PROMPT } });
const job = seen.request_id;
check('fal: submitted', seen.status === 'IN_QUEUE' && seen.status_url.startsWith(`http://${address}/fal-ai/flux/requests/`), seen);
await refused('fal: result before its time', ApiError, /./, () => fal.queue.result('fal-ai/flux/dev', { requestId: job }));
seen = await fal.queue.result('fal-ai/flux/dev', { requestId: job });
check('fal: result asked for again', seen.data.output === ANSWER, seen);
seen = await fal.queue.status('fal-ai/flux/dev', { requestId: job, logs: true });
check('fal: status', seen.status === 'COMPLETED', seen);
const slow = await fal.queue.submit('fal-ai/flux/dev', { input: { prompt: 'take your time' } });
seen = await fal.queue.cancel('fal-ai/flux/dev', { requestId: slow.request_id }).then(() => 'taken', String);
check('fal: cancelled', seen === 'taken', seen);
seen = await fal.subscribe('fal-ai/flux/dev', { input: { prompt: 'take your time' }, pollInterval: 50 });
check('fal: a job that takes its time', seen.data.output === 'slow', seen);
await refused('fal: wrong key', ApiError, /./, () =>
    createFalClient({ credentials: 'own', fetch: (url, init) => fetch(String(url).replace('https://queue.fal.run', `http://${address}`), init) })
        .queue.submit('fal-ai/flux/dev', { input: {} }));

// ---- tools, in each dialect, whole and streamed -----------------------------------------------------
const LOOK = { type: 'object', properties: { path: { type: 'string' } } };
const said = [{ role: 'user', content: 'use a tool' }];
const args = (value) => JSON.stringify(value) === '{"path":"é.txt","n":[1,2]}';
const ask = { model: 'm', max_tokens: 100, messages: said, tools: [{ name: 'look', input_schema: LOOK }] };
for (const streamed of [false, true]) {
    const how = streamed ? 'streamed' : 'whole';
    seen = streamed ? await anthropic.messages.stream(ask).finalMessage() : await anthropic.messages.create(ask);
    let calls = seen.content.filter((block) => block.type === 'tool_use');
    check(`anthropic: two tool calls, ${how}`, seen.stop_reason === 'tool_use' && calls.length === 2 && args(calls[0].input) && JSON.stringify(calls[1].input) === '{}', seen);
    check(`anthropic: thinking, ${how}`, seen.content[0].type === 'thinking' && seen.content[0].thinking === 'A tool, then.', seen);
    seen = await anthropic.messages.create({ ...ask, messages: [...said, { role: 'assistant', content: seen.content },
        { role: 'user', content: calls.map(({ id }) => ({ type: 'tool_result', tool_use_id: id, content: 'found it' })) }] });
    check(`anthropic: the results, ${how}`, seen.content[0].text === 'It was ans-é-1.', seen);

    const asked = { model: 'm', messages: said, tools: [{ type: 'function', function: { name: 'look', parameters: LOOK } }] };
    seen = streamed ? await openai.chat.completions.stream(asked).finalChatCompletion() : await openai.chat.completions.create(asked);
    calls = seen.choices[0].message.tool_calls;
    check(`chat: two tool calls, ${how}`, seen.choices[0].finish_reason === 'tool_calls' && calls.length === 2 && args(JSON.parse(calls[0].function.arguments)), seen);
    seen = await openai.chat.completions.create({ ...asked, messages: [...said, { role: 'assistant', content: null, tool_calls: calls },
        ...calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: 'found it' }))] });
    check(`chat: the results, ${how}`, seen.choices[0].message.content === 'It was ans-é-1.', seen);

    const input = { model: 'm', input: said, tools: [{ type: 'function', name: 'look', parameters: LOOK, strict: false }] };
    seen = streamed ? await openai.responses.stream(input).finalResponse() : await openai.responses.create(input);
    calls = seen.output.filter((item) => item.type === 'function_call');
    check(`responses: two tool calls, ${how}`, calls.length === 2 && args(JSON.parse(calls[0].arguments)), seen);
    check(`responses: reasoning, ${how}`, seen.output[0].type === 'reasoning' && seen.output[0].summary[0].text === 'A tool, then.', seen);
    seen = await openai.responses.create({ ...input, input: [...said, ...seen.output, ...calls.map(({ call_id }) => ({ type: 'function_call_output', call_id, output: 'found it' }))] });
    check(`responses: the results, ${how}`, seen.output_text === 'It was ans-é-1.', seen);
}

// ---- ends, limits and failures ----------------------------------------------------------------------
const user = (content) => [{ role: 'user', content }];
const message_ = (content) => ({ model: 'm', max_tokens: 9, messages: user(content) });
const drain = async (stream) => { let last; for await (const event of await stream) last = event; return last; };
seen = await anthropic.messages.stream(message_('go on for long')).finalMessage();
check('anthropic: max_tokens, usage of the script', seen.stop_reason === 'max_tokens' && seen.usage.input_tokens === 7 && seen.usage.output_tokens === 5, seen);
seen = await openai.chat.completions.create({ model: 'm', messages: user('go on for long') });
check('chat: length', seen.choices[0].finish_reason === 'length' && seen.usage.completion_tokens === 5, seen);
seen = await openai.responses.stream({ model: 'm', input: 'go on for long' }).finalResponse();
check('responses: incomplete', seen.status === 'incomplete' && seen.incomplete_details.reason === 'max_output_tokens', seen);
seen = await anthropic.messages.create(message_('are you busy'));
check('anthropic: a busy model is asked again', seen.content[0].text === 'not any more' && rowsOf('busy').length === 1, seen);
await refused('anthropic: a limit for good', Anthropic.RateLimitError, /slow down/, () => anthropic.messages.create(message_('too fast')));
await refused('chat: a limit for good', OpenAI.RateLimitError, /slow down/, () => openai.chat.completions.create({ model: 'm', messages: user('too fast') }));
await refused('responses: a limit for good', OpenAI.RateLimitError, /slow down/, () => openai.responses.create({ model: 'm', input: 'too fast' }));
check('a limit for good: nobody tried again', rowsOf('limit').length === 3, rowsOf('limit'));
await refused('anthropic: an error in the stream', Anthropic.APIError, /it broke/, () => drain(anthropic.messages.create({ ...message_('break down'), stream: true })));
await refused('chat: an error in the stream', OpenAI.APIError, /it broke/, () => drain(openai.chat.completions.create({ model: 'm', messages: user('break down'), stream: true })));
await refused('responses: an error in the stream', Error, /it broke/, async () => {
    const last = await drain(openai.responses.create({ model: 'm', input: 'break down', stream: true }));
    throw last.type === 'error' ? new Error(last.message) : last;
});
await refused('anthropic: an error instead', Anthropic.InternalServerError, /it broke/, () => anthropic.messages.create({ ...message_('break down') }, { maxRetries: 0 }));
await refused('anthropic: cut in the stream', Error, /./, () => drain(anthropic.messages.create({ ...message_('be cut'), stream: true })));
await refused('chat: cut in the stream', Error, /./, () => drain(openai.chat.completions.create({ model: 'm', messages: user('be cut'), stream: true })));
await refused('responses: cut in the stream', Error, /./, () => drain(openai.responses.create({ model: 'm', input: 'be cut', stream: true })));
check('a cut: in the rows', rowsOf('cut').every((row) => row.aborted && row.fault === 'script' && row.usage === 'partial') && rowsOf('cut').length === 3, rowsOf('cut'));
const leaving = anthropic.messages.stream(message_('take your time'));
setTimeout(() => leaving.abort(), 100);
await refused('anthropic: the client leaves', Anthropic.APIUserAbortError, /./, () => leaving.finalMessage());
const upgraded = await new Promise((resolve) => request(`http://${address}/v1/responses`, { method: 'GET', headers:
    { authorization: `Bearer ${token}`, connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': 13, 'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==' } },
    resolve).on('upgrade', resolve).end());
check('responses: a WebSocket is refused with 426', upgraded.statusCode === 426, upgraded.statusCode);

console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);

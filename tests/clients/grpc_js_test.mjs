// @grpc/grpc-js against the agent: what a gRPC client relies on besides the answer itself.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';

import { Agent, loadServices, services } from './agent.mjs';
import { after, runCases, test } from './cases.mjs';
import { need } from './deps.mjs';
import { readStatus } from './status.mjs';

const grpc = need('@grpc/grpc-js');
const MIB = 1 << 20;
const LONG_MS = 60_000; // no case lasts so long: who waits is woken

const agent = await Agent.start(['--collect', '0s', '--net-limit', 'message_len=16777216']);
after(() => agent.stop());

const record = (text) => ({ data: Buffer.from(text).toString('base64') });
const send = (stream, ...texts) => agent.call('IngestRecords', { stream, records: texts.map(record) });
const textOf = ({ data }) => Buffer.from(data, 'base64').toString();

async function failure(promise) {
    const error = await promise.then(
        () => assert.fail('it succeeded'),
        (reason) => reason,
    );
    assert(error.code !== undefined, error);
    return error;
}

// A client with a channel of its own: otherwise grpc-js shares connections.
function openClient(options = {}, to = agent) {
    return new services.AgentService(to.grpc, grpc.credentials.createInsecure(), {
        'grpc.use_local_subchannel_pool': 1,
        ...options,
    });
}

test('a unary call is answered, and its records are there', async () => {
    const taken = await send('unary', 'one', 'zwei ✓');
    assert.equal(taken.accepted, 2);
    assert.deepEqual([taken.firstSeqId, taken.lastSeqId], ['1', '2']);
    const answer = await agent.ask('QueryRecords', { stream: 'unary' });
    assert.deepEqual(answer.records.map(textOf), ['one', 'zwei ✓']);
    assert.equal(answer.sessionId, taken.sessionId);
});

test('metadata of text and bytes goes with a call, headers and trailers come back', async () => {
    const metadata = new grpc.Metadata();
    metadata.set('x-text', 'a text');
    metadata.set('x-bytes-bin', Buffer.from([0, 1, 255]));
    metadata.add('x-text', 'another');
    const { headers, status } = await new Promise((resolve) => {
        const seen = {};
        const call = agent.client.ListStreams({}, metadata, () => {});
        call.on('metadata', (headers) => (seen.headers = headers));
        call.on('status', (status) => resolve({ ...seen, status }));
    });
    assert.deepEqual(headers.get('content-type'), ['application/grpc']);
    assert.deepEqual([status.code, status.details], [grpc.status.OK, '']);
});

test('a call that is refused says why, with details', async () => {
    const error = await failure(agent.call('QueryRecords', { stream: 'telemetry' }));
    assert.equal(error.code, grpc.status.INVALID_ARGUMENT);
    const status = readStatus(error);
    assert.equal(status.code, grpc.status.INVALID_ARGUMENT);
    assert.equal(status.message, error.details);
    assert.equal(status.details['google.rpc.ErrorInfo'].domain, 'tidemark');
    assert.match(status.details['google.rpc.ErrorInfo'].reason, /^(E_)?INVALID$/);
});

test('a method that does not exist is UNIMPLEMENTED', async () => {
    const call = new Promise((resolve, reject) => {
        const pass = (bytes) => bytes;
        agent.client.makeUnaryRequest('/tidemark.agent.v1.AgentService/Guess', pass, pass, Buffer.alloc(0), (error, answer) =>
            error ? reject(error) : resolve(answer),
        );
    });
    assert.equal((await failure(call)).code, grpc.status.UNIMPLEMENTED);
});

test('a deadline ends a call that waits, and the channel goes on', async () => {
    const request = { stream: 'unary', startSeqId: '2', position: { waitMs: LONG_MS } };
    const error = await failure(agent.call('QueryRecords', request, { options: { deadline: Date.now() + 100 } }));
    assert.equal(error.code, grpc.status.DEADLINE_EXCEEDED);
    assert((await agent.call('ListStreams')).streams.length > 0);
});

test('a call that is cancelled ends on both sides', async () => {
    const cancelled = 'tidemark_rpc_calls_total{method="/tidemark.agent.v1.AgentService/QueryLogs",code="1"}';
    const count = async () => {
        const text = await (await fetch(`${agent.url}/metrics`)).text();
        return Number(text.split('\n').find((line) => line.startsWith(cancelled))?.split(' ').at(-1) ?? 0);
    };
    const call = agent.client.QueryLogs({ position: { waitMs: LONG_MS } }, () => {});
    await agent.call('ListStreams'); // sent behind it on the same connection
    call.cancel();
    const status = await new Promise((resolve) => call.on('status', resolve));
    assert.equal(status.code, grpc.status.CANCELLED);
    while ((await count()) === 0); // the case's time is the limit
});

test('a poll that waits is woken by what comes in', async () => {
    await send('news', 'old');
    const poll = agent.call('QueryRecords', { stream: 'news', startSeqId: '1', position: { waitMs: LONG_MS } });
    await agent.call('ListStreams');
    await send('news', 'new');
    const answer = await poll;
    assert.deepEqual(answer.records.map(textOf), ['new']);
    assert.equal(answer.state.scannedThroughSeqId, '2');
});

for (const [how, algorithm] of [['as they are', 0], ['with deflate', 1], ['with gzip', 2]]) {
    test(`messages of 8 MiB go both ways, ${how}`, async () => {
        const client = openClient({
            'grpc.default_compression_algorithm': algorithm,
            'grpc.max_receive_message_length': 16 * MIB,
        });
        const stream = `large-${algorithm}`;
        const data = Buffer.concat([randomBytes(64), Buffer.alloc(MIB - 128, 'tide')]).toString('base64');
        const records = Array(8).fill({ data });
        assert.equal((await agent.call('IngestRecords', { stream, records }, { client })).accepted, 8);
        const answer = await agent.call('QueryRecords', { stream, position: { maxBytes: 16 * MIB } }, { client });
        assert.deepEqual(answer.records.map((found) => found.data === data), Array(8).fill(true));
        client.close();
    });
}

test('a message above the limit is RESOURCE_EXHAUSTED on either side, and the channel goes on', async () => {
    const client = openClient({ 'grpc.max_receive_message_length': 1024 });
    const tooLarge = { stream: 'limits', records: Array(17).fill({ data: Buffer.alloc(MIB).toString('base64') }) };
    assert.equal((await failure(agent.call('IngestRecords', tooLarge, { client }))).code, grpc.status.RESOURCE_EXHAUSTED);
    await send('limits', 'x'.repeat(4096));
    const query = agent.call('QueryRecords', { stream: 'limits' }, { client });
    assert.equal((await failure(query)).code, grpc.status.RESOURCE_EXHAUSTED);
    assert.equal((await agent.call('IngestRecords', { stream: 'limits', records: [record('small')] }, { client })).accepted, 1);
    client.close();
});

test('100 calls at once on one channel are all answered, each with its own answer', async () => {
    const client = openClient();
    const taken = await Promise.all(
        Array.from({ length: 100 }, (_, i) =>
            agent.call('IngestRecords', { stream: 'many', records: [record(`r${i}`)] }, { client }),
        ),
    );
    const { records } = await agent.ask('QueryRecords', { stream: 'many' });
    assert.equal(records.length, 100);
    const texts = new Map(records.map((found) => [found.seqId, textOf(found)]));
    taken.forEach(({ firstSeqId }, i) => assert.equal(texts.get(firstSeqId), `r${i}`));
    client.close();
});

// The agent allows 128 calls of one connection at a time; what is above waits its turn in the client.
test('300 calls that wait at once are all woken', async () => {
    const client = openClient();
    await send('crowd', 'first');
    const polls = Array.from({ length: 300 }, () =>
        agent.call('QueryRecords', { stream: 'crowd', startSeqId: '1', position: { waitMs: LONG_MS } }, { client }),
    );
    await agent.call('ListStreams');
    await send('crowd', 'second');
    for (const answer of await Promise.all(polls)) assert.deepEqual(answer.records.map(textOf), ['second']);
    client.close();
});

// ---- streams of messages: health and reflection ----

const { grpc: standard } = loadServices('grpc/health/v1/health.proto', 'grpc/reflection/v1/reflection.proto');

test('health is watched as a stream', async () => {
    const client = new standard.health.v1.Health(agent.grpc, grpc.credentials.createInsecure());
    const watch = client.Watch({ service: '' });
    const first = await new Promise((resolve, reject) => watch.once('data', resolve).once('error', reject));
    assert.equal(first.status, 'SERVING');
    const ended = new Promise((resolve) => watch.once('error', resolve));
    watch.cancel();
    assert.equal((await ended).code, grpc.status.CANCELLED);
    client.close();
});

test('reflection answers question by question on one stream', async () => {
    const client = new standard.reflection.v1.ServerReflection(agent.grpc, grpc.credentials.createInsecure());
    const call = client.ServerReflectionInfo();
    const ask = (question) =>
        new Promise((resolve, reject) => {
            call.once('data', resolve).once('error', reject);
            call.write(question);
        });
    const { listServicesResponse } = await ask({ listServices: '' });
    const names = listServicesResponse.service.map(({ name }) => name);
    assert(names.includes('tidemark.agent.v1.AgentService'), names.join());
    const file = await ask({ fileContainingSymbol: 'tidemark.agent.v1.AgentService.QueryTelemetry' });
    assert(file.fileDescriptorResponse.fileDescriptorProto.length > 0);
    const none = await ask({ fileContainingSymbol: 'tidemark.Nothing' });
    assert.equal(none.errorResponse.errorCode, grpc.status.NOT_FOUND);
    const ended = new Promise((resolve) => call.once('status', resolve));
    call.end();
    assert.equal((await ended).code, grpc.status.OK);
    client.close();
});

// ---- connections ----

// How many keepalive pings the channel has sent, by grpc-js' own account of itself.
async function countPings(client) {
    const handlers = grpc.getChannelzHandlers();
    const look = (method, request) =>
        new Promise((resolve, reject) => {
            handlers[method]({ request }, (error, value) => (error ? reject(error) : resolve(value)));
        });
    const { channel } = await look('GetChannel', { channel_id: client.getChannel().getChannelzRef().id });
    let pings = 0;
    for (const { subchannel_id } of channel.subchannel_ref) {
        const { subchannel } = await look('GetSubchannel', { subchannel_id });
        for (const { socket_id } of subchannel.socket_ref) {
            const { socket } = await look('GetSocket', { socket_id });
            pings += Number(socket.data.keep_alives_sent);
        }
    }
    return pings;
}

test('keepalive pings keep a call that waits, and are answered', async () => {
    const client = openClient({ 'grpc.keepalive_time_ms': 20, 'grpc.keepalive_timeout_ms': 5000 });
    await send('pinged', 'old');
    let isWoken = false;
    const poll = agent.call('QueryRecords', { stream: 'pinged', startSeqId: '1', position: { waitMs: LONG_MS } }, { client });
    poll.finally(() => (isWoken = true)).catch(() => {});
    while (!isWoken && (await countPings(client)) < 5) await new Promise((resolve) => setImmediate(resolve));
    await send('pinged', 'new');
    assert.deepEqual((await poll).records.map(textOf), ['new']);
    client.close();
});

test('told to stop, the agent ends what waits in good order; a client meets no broken connection', async () => {
    const leaving = await Agent.start(['--collect', '0s']);
    const client = openClient({}, leaving);
    const polls = Array.from({ length: 10 }, () =>
        leaving.call('QueryTelemetry', { position: { waitMs: LONG_MS } }, { client }),
    );
    await leaving.call('ListStreams', {}, { client }); // the polls were sent before it
    const ends = Promise.allSettled(polls);
    await leaving.stop();
    for (const { status, value, reason } of await ends) {
        if (status === 'fulfilled') assert.equal(value.totalSpans, 0);
        // It came too late to be waited for; the agent itself says so, and that it may be sent again.
        else assert.equal(readStatus(reason).code, grpc.status.UNAVAILABLE, reason.details);
    }
    const error = await failure(leaving.call('ListStreams', {}, { client }));
    assert.equal(error.code, grpc.status.UNAVAILABLE, error.details);
    client.close();
});

await runCases();

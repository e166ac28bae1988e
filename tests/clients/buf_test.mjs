// `buf curl` against the agent: no .proto file at hand, everything is learnt by reflection.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import path from 'node:path';

import { Agent } from './agent.mjs';
import { after, runCases, test } from './cases.mjs';
import { buf, source } from './deps.mjs';

const agent = await Agent.start(['--collect', '0s']);
after(() => agent.stop());

const SERVICE = 'tidemark.agent.v1.AgentService';

// { code, stdout, stderr } of buf curl. Nothing of the user's is read or written.
function curl(...options) {
    const child = spawn(buf, ['curl', ...options], {
        env: { PATH: process.env.PATH, HOME: agent.directory, BUF_CACHE_DIR: path.join(agent.directory, 'buf') },
        stdio: ['ignore', 'pipe', 'pipe'],
    });
    return new Promise((resolve, reject) => {
        const said = { stdout: '', stderr: '' };
        child.stdout.on('data', (text) => (said.stdout += text));
        child.stderr.on('data', (text) => (said.stderr += text));
        child.once('error', reject);
        child.once('close', (code) => resolve({ code, ...said }));
    });
}

const byGrpc = ['--http2-prior-knowledge', '--protocol', 'grpc'];

async function call(method, request, options = byGrpc, url = `http://${agent.grpc}`) {
    const said = await curl(...options, '--data', JSON.stringify(request), `${url}/${method}`);
    assert.equal(said.code, 0, said.stderr);
    return JSON.parse(said.stdout);
}

for (const version of ['grpc-v1', 'grpc-v1alpha']) {
    const options = [...byGrpc, '--reflect', '--reflect-protocol', version];

    test(`services and methods are listed by ${version}`, async () => {
        const listed = await curl(...options, '--list-services', `http://${agent.grpc}`);
        assert.equal(listed.code, 0, listed.stderr);
        const names = listed.stdout.trim().split('\n');
        const wanted = [SERVICE, 'tidemark.agent.v1.AgentDebugService', 'grpc.health.v1.Health'];
        for (const name of wanted)
            assert(names.includes(name), `${name} is not among ${names.join()}`);
        const methods = await curl(...options, '--list-methods', `http://${agent.grpc}`);
        assert.equal(methods.code, 0, methods.stderr);
        for (const method of ['QueryTelemetry', 'QueryEbpfMetrics', 'QuerySystemMetrics', 'IngestRecords', 'ListStreams'])
            assert(methods.stdout.split('\n').includes(`${SERVICE}/${method}`), `${method} is not listed`);
    });

    test(`records go in and come back by ${version}`, async () => {
        const stream = `buf-${version}`;
        const data = Buffer.from('grüße').toString('base64');
        const records = [{ data, attributes: { k: 'ü' } }, {}];
        const taken = await call(`${SERVICE}/IngestRecords`, { stream, records }, options);
        assert.deepEqual([taken.firstSeqId, taken.lastSeqId, taken.accepted], ['1', '2', 2]);
        const answer = await call(`${SERVICE}/QueryRecords`, { stream }, options);
        assert.equal(answer.records[0].data, data);
        assert.deepEqual(answer.records[0].attributes, { k: 'ü' });
        assert.equal(answer.records[1].data, undefined);
        const { streams } = await call(`${SERVICE}/ListStreams`, {}, options);
        assert.equal(streams.find((state) => state.stream === stream).headSeqId, '2');
    });

    test(`spans are asked for by ${version}`, async () => {
        const spanId = version === 'grpc-v1' ? 'eee19b7ec3c1b171' : 'eee19b7ec3c1b172';
        const sent = await agent.post('/v1/traces', {
            resourceSpans: [
                {
                    resource: { attributes: [{ key: 'service.name', value: { stringValue: version } }] },
                    scopeSpans: [{ spans: [{ traceId: '5b8efff798038103d269b633813fc60c', spanId, name: 'by hand', kind: 2 }] }],
                },
            ],
        });
        assert.equal(sent.status, 200, sent.body);
        const answer = await call(`${SERVICE}/QueryTelemetry`, { service_names: [version], max_records: 5 }, options);
        assert.equal(answer.totalSpans, 1);
        assert.equal(answer.spans[0].spanId, spanId);
        assert.equal(answer.spans[0].spanKind, 'server');
    });
}

test('both ports speak gRPC', async () => {
    const { streams } = await call(`${SERVICE}/ListStreams`, {}, byGrpc, agent.url);
    assert(streams.length > 0);
});

test('health is asked for by reflection', async () => {
    assert.deepEqual(await call('grpc.health.v1.Health/Check', {}), { status: 'SERVING' });
    assert.deepEqual(await call('grpc.health.v1.Health/Check', { service: SERVICE }), { status: 'SERVING' });
});

// buf's exit status is the gRPC code times 8.
test('an error has its code, message and details', async () => {
    const said = await curl(...byGrpc, '--data', '{"stream":"telemetry"}', `http://${agent.grpc}/${SERVICE}/QueryRecords`);
    assert.equal(said.code, 3 * 8, said.stderr);
    const error = JSON.parse(said.stderr);
    assert.equal(error.code, 'invalid_argument');
    assert.match(error.message, /telemetry/);
    assert.equal(error.details[0].type, 'google.rpc.ErrorInfo');
});

// Connect's unary calls are a POST of the message, which is what we take. It needs the schema, because reflection is a stream there,
// and does not understand our errors, which are google.rpc.Status.
test('unary calls in the Connect protocol are answered over HTTP/1.1 and HTTP/2', async () => {
    const schema = ['--protocol', 'connect', '--schema', path.join(source, 'proto')];
    const taken = await call(`${SERVICE}/IngestRecords`, { stream: 'connect', records: [{ data: 'AAH/' }] }, schema, agent.url);
    assert.equal(taken.accepted, 1);
    const options = ['--http2-prior-knowledge', ...schema];
    const answer = await call(`${SERVICE}/QueryRecords`, { stream: 'connect' }, options, agent.url);
    assert.equal(answer.records[0].data, 'AAH/');
});

await runCases();

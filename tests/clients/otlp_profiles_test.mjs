// Profiles by OTLP, encoded by protobufjs and sent by grpc-js and by HTTP: what is acknowledged is there, with the names of its frames.
import assert from 'node:assert/strict';
import path from 'node:path';
import { gzipSync } from 'node:zlib';

import { Agent, loadServices } from './agent.mjs';
import { after, runCases, test } from './cases.mjs';
import { need, source } from './deps.mjs';

const grpc = need('@grpc/grpc-js');
const { loadSync } = need('protobufjs');
const proto = path.join(source, 'tests/clients/otlp_profiles.proto');
const { ProfilesService } = loadServices(proto).opentelemetry.proto.collector.profiles.v1development;
const Request = loadSync(proto).lookupType('opentelemetry.proto.collector.profiles.v1development.ExportProfilesServiceRequest');

const agent = await Agent.start(['--collect', '0s']);
after(() => agent.stop());

const TEXTS = ['', 'main', 'handle', 'samples', 'count', 'alloc_space', 'bytes', 'alloc_objects', 'process.executable.build_id.gnu', '/opt/shop', 'thread.name'];
const dictionary = {
    mappingTable: [{}, { memoryStart: 4096, filenameStrindex: 9, attributeIndices: [1] }],
    locationTable: [{}, { mappingIndex: 1, address: 16, lines: [{ functionIndex: 1, line: 3 }] }, { mappingIndex: 1, address: 32, lines: [{ functionIndex: 2 }] }, { mappingIndex: 1, address: 0xbeef }],
    functionTable: [{}, { nameStrindex: 1 }, { nameStrindex: 2, startLine: 7 }],
    linkTable: [{ traceId: Buffer.alloc(16), spanId: Buffer.alloc(8) }],
    stringTable: TEXTS,
    attributeTable: [{}, { keyStrindex: 8, value: { stringValue: 'f00d' } }, { keyStrindex: 10, value: { stringValue: 'w' } }],
    stackTable: [{}, { locationIndices: [2, 1] }, { locationIndices: [3, 1] }],
};

function profile(type, unit, samples) {
    return { sampleType: { typeStrindex: TEXTS.indexOf(type), unitStrindex: TEXTS.indexOf(unit) }, samples, timeUnixNano: '1700000000000000000', durationNano: 5e9, profileId: Buffer.alloc(16, 7) };
}

function request(service, ...profiles) {
    const attributes = [{ key: 'service.name', value: { stringValue: service } }, { key: 'process.pid', value: { intValue: 77 } }];
    return { resourceProfiles: [{ resource: { attributes }, scopeProfiles: [{ scope: { name: 'profiler' }, profiles }] }], dictionary };
}

async function post(body, type, headers = {}) {
    return fetch(`${agent.url}/v1development/profiles`, { method: 'POST', headers: { 'content-type': type, ...headers }, body });
}

// Samples of a service with the names of their frames.
async function samplesOf(service, kind = 'CPU') {
    const told = await agent.post(`/tidemark.agent.v1.AgentDebugService/Query${kind}ProfileSamples`, {});
    assert.equal(told.status, 200, told.body);
    const answer = JSON.parse(told.body);
    const names = new Map(answer.frames.map((frame) => [frame.frameId, frame.frameName]));
    return answer.samples.filter((one) => one.serviceId === service).map((one) => ({ ...one, stack: one.stackFrameIds.map((id) => names.get(id)) }));
}

test('by gRPC', async () => {
    const client = new ProfilesService(agent.grpc, grpc.credentials.createInsecure());
    const answer = await new Promise((resolve, reject) =>
        client.Export(request('by-grpc', profile('samples', 'count', [{ stackIndex: 1, attributeIndices: [2], values: [4] }, { stackIndex: 2, values: [2] }])), (error, told) => (error ? reject(error) : resolve(told))));
    client.close();
    assert.equal(answer.partialSuccess, null);
    const samples = await samplesOf('by-grpc');
    assert.deepEqual(samples.map((one) => [one.stack, one.sampleCount, one.tgid, one.buildId, one.timestamp]), [
        [['handle', 'main'], '4', 77, 'f00d', '1700000000000'],
        [['shop+0xbeef', 'main'], '2', 77, 'f00d', '1700000000000'],
    ]);
});

test('by HTTP, compressed, of memory', async () => {
    const bytes = Request.encode(Request.fromObject(request('by-http', profile('alloc_space', 'bytes', [{ stackIndex: 1, values: [4096] }]), profile('alloc_objects', 'count', [{ stackIndex: 1, values: [3] }])))).finish();
    const answer = await post(gzipSync(bytes), 'application/x-protobuf', { 'content-encoding': 'gzip' });
    assert.equal(answer.status, 200);
    assert.equal((await answer.arrayBuffer()).byteLength, 0);
    const samples = await samplesOf('by-http', 'Memory');
    assert.deepEqual(samples.map((one) => [one.stack, one.allocBytes, one.allocObjects]), [
        [['handle', 'main'], '4096', '0'],
        [['handle', 'main'], '0', '3'],
    ]);
    assert.equal(samples[0].stackHash, samples[1].stackHash);
});

test('by JSON, as protobufjs writes it', async () => {
    const message = Request.toObject(Request.fromObject(request('by-json', profile('samples', 'count', [{ stackIndex: 1, values: [9] }]))), { longs: String, bytes: String });
    const answer = await post(JSON.stringify(message), 'application/json');
    assert.equal(answer.status, 200);
    assert.deepEqual(await answer.json(), {});
    assert.deepEqual((await samplesOf('by-json')).map((one) => [one.stack, one.sampleCount]), [[['handle', 'main'], '9']]);
});

test('what cannot be taken is told, and the rest is stored', async () => {
    const bytes = Request.encode(Request.fromObject(request('in-part', profile('samples', 'count', [{ stackIndex: 1, values: [1] }]), profile('samples', 'count', [{ stackIndex: 99, values: [1] }])))).finish();
    const answer = await post(bytes, 'application/x-protobuf');
    assert.equal(answer.status, 200);
    assert.match(Buffer.from(await answer.arrayBuffer()).toString('latin1'), /1 profiles rejected: 1 that refer to what the dictionary does not have/);
    assert.equal((await samplesOf('in-part')).length, 1);
});

test('what is no request is refused, and the agent goes on', async () => {
    for (const body of [Buffer.from([0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f]), Buffer.alloc(64, 0xff), gzipSync(Buffer.alloc(1 << 20, 0xff))]) {
        const answer = await post(body, 'application/x-protobuf', body[0] === 0x1f ? { 'content-encoding': 'gzip' } : {});
        assert.equal(answer.status, 400);
    }
    assert.equal((await post('{"resourceProfiles":[{]}', 'application/json')).status, 400);
    assert.equal((await post('x', 'text/plain')).status, 415);
    assert.equal((await post('', 'application/x-protobuf')).status, 200);
});

await runCases();

// What OpenTelemetry's exporters do when the agent does not take everything: a bad record, a disk that does not answer, a
// wrong token.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import readline from 'node:readline';

import { Agent } from './agent.mjs';
import { after, runCases, test } from './cases.mjs';
import { makeCertificates } from './certificates.mjs';
import { need } from './deps.mjs';
import { exportOnce, makeExporter, protocols } from './exporters.mjs';
import { afterFairTime } from './fair_clock.mjs';
import { readStatus } from './status.mjs';
import { resourceOf } from './telemetry.mjs';

const api = need('@opentelemetry/api');
const grpc = need('@grpc/grpc-js');
const { BasicTracerProvider } = need('@opentelemetry/sdk-trace-base');
const { resourceFromAttributes } = need('@opentelemetry/resources');

const SUCCESS = 0;
const agent = await Agent.start(['--collect', '0s', '--queue', '1MiB']);
after(() => agent.stop());

// What the exporters say of themselves, line by line; watchers are told.
const said = [];
let watchers = [];
const hear = (...words) => {
    said.push(words.map(String).join(' '));
    watchers = watchers.filter((watcher) => !watcher());
};
api.diag.setLogger({ error: hear, warn: hear, info: hear, debug() {}, verbose: hear }, api.DiagLogLevel.ALL);

// Fails long before its case does, so that the case can clean up.
async function untilSaid(count, pattern) {
    const heard = () => said.filter((line) => pattern.test(line)).length >= count;
    let callOff;
    await new Promise((resolve, reject) => {
        callOff = afterFairTime(20_000, () => reject(new Error(`nobody said ${pattern}, but:\n${said.join('\n')}`)));
        const look = () => heard() && (resolve(), true);
        if (!look()) watchers.push(look);
    });
    callOff();
}

// An ended span of the SDK.
function makeSpan(service, name, attributes = {}) {
    let ended;
    const provider = new BasicTracerProvider({
        resource: resourceFromAttributes(resourceOf(service)),
        spanProcessors: [{ onStart() {}, onEnd: (span) => (ended = span), forceFlush() {}, shutdown() {} }],
    });
    const span = provider.getTracer('tests/clients').startSpan(name);
    Object.assign(span.attributes, attributes);
    span.end();
    return ended;
}

async function askNames(service) {
    const spans = await agent.askAll('QueryTelemetry', { serviceNames: [service] }, 'spans');
    return spans.map((span) => span.spanName).sort();
}

// ---- bad records ----

for (const protocol of protocols) {
    test(`a span without a valid id is told by partial success, and the others are kept (${protocol})`, async () => {
        const service = `partial-${protocol}`;
        const good = makeSpan(service, 'good');
        const bad = makeSpan(service, 'bad');
        const context = { ...bad.spanContext(), spanId: 'abcd' };
        Object.defineProperty(bad, 'spanContext', { value: () => context });
        const exporter = makeExporter(agent, 'trace', protocol, 'none');
        said.length = 0;
        assert.equal((await exportOnce(exporter, [bad, good])).code, SUCCESS);
        await exporter.shutdown();
        const [told] = said.filter((line) => line.startsWith('Received Partial Success response:'));
        const partial = JSON.parse(told.slice(told.indexOf('{')));
        assert.equal(Number(partial.rejectedSpans), 1);
        assert.equal(partial.errorMessage, '1 spans rejected: 1 without a valid trace_id and span_id');
        assert.deepEqual(await askNames(service), ['good']);
    });

    // JavaScript knows no integers: 1e21 has no fraction, and so its JSON exporter calls it one.
    test(`a number that no 64 bits hold does not cost the request (${protocol})`, async () => {
        const service = `large-${protocol}`;
        const exporter = makeExporter(agent, 'trace', protocol, 'none');
        const result = await exportOnce(exporter, [makeSpan(service, 'large', { up: 2 ** 63, down: -(2 ** 70), far: 1e300 })]);
        await exporter.shutdown();
        assert.equal(result.code, SUCCESS, String(result.error));
        const [{ attributes }] = (await agent.ask('QueryTelemetry', { serviceNames: [service] })).spans;
        const found = [attributes.up, attributes.down, attributes.far].map(Number);
        assert.deepEqual(found, [2 ** 63, -(2 ** 70), 1e300]);
    });
}

test('hand-made JSON with a bad id gets partialSuccess in JSON', async () => {
    const ids = { traceId: '5b8efff798038103d269b633813fc60c', name: 'x', startTimeUnixNano: '1', endTimeUnixNano: '2' };
    const answer = await agent.post('/v1/traces', {
        resourceSpans: [{ scopeSpans: [{ spans: [{ ...ids, spanId: 'eee19b7e' }, { ...ids, spanId: 'eee19b7ec3c1b174' }] }] }],
    });
    assert.equal(answer.status, 200);
    assert.equal(answer.headers.get('content-type'), 'application/json');
    assert.deepEqual(JSON.parse(answer.body), {
        partialSuccess: { rejectedSpans: '1', errorMessage: '1 spans rejected: 1 without a valid trace_id and span_id' },
    });
});

// ---- a disk that does not answer: somebody else holds the store's write lock ----

async function whileLocked(use) {
    const shell = spawn('sqlite3', ['-bail', agent.store], { stdio: ['pipe', 'pipe', 'inherit'] });
    const ended = new Promise((resolve) => shell.once('exit', resolve));
    const lines = readline.createInterface({ input: shell.stdout });
    const isLocked = new Promise((resolve) => lines.once('line', resolve));
    shell.stdin.write("PRAGMA busy_timeout = 10000; BEGIN IMMEDIATE; SELECT 'locked';\n");
    await isLocked;
    try {
        await use();
    } finally {
        shell.stdin.end('ROLLBACK;\n');
        assert.equal(await ended, 0);
    }
}

// One commit waits for the lock, and the queue (--queue 1MiB) has room for one export: of four at least two are refused.
function exportFour(service, protocol) {
    const filler = { filler: 'x'.repeat(400_000) };
    return ['a', 'b', 'c', 'd'].map(async (name) => {
        const exporter = makeExporter(agent, 'trace', protocol, 'none');
        const spans = [makeSpan(service, name, filler), makeSpan(service, name, filler)];
        const result = await exportOnce(exporter, spans);
        await exporter.shutdown();
        return { name, ...result };
    });
}

function untilEnded(count, results) {
    return new Promise((resolve) => {
        for (const result of results) result.then(() => --count === 0 && resolve());
    });
}

for (const protocol of ['http', 'proto']) {
    test(`an exporter that is told to come again does, and its spans are there once (${protocol})`, async () => {
        const service = `again-${protocol}`;
        said.length = 0;
        let results;
        await whileLocked(async () => {
            results = exportFour(service, protocol);
            await untilSaid(2, /^Scheduling export retry in 1000ms/); // Retry-After: 1
        });
        assert.deepEqual((await Promise.all(results)).map(({ code }) => code), Array(4).fill(SUCCESS));
        assert.deepEqual(await askNames(service), ['a', 'a', 'b', 'b', 'c', 'c', 'd', 'd']);
    });
}

test('an exporter by gRPC is told UNAVAILABLE and when to come again, and nothing of it is stored', async () => {
    const service = 'again-grpc';
    let results;
    await whileLocked(async () => {
        results = exportFour(service, 'grpc');
        await untilEnded(2, results);
    });
    const ended = await Promise.all(results);
    const refused = ended.filter(({ code }) => code !== SUCCESS);
    assert(refused.length >= 2 && refused.length < 4, `${refused.length} were refused`);
    for (const { error } of refused) {
        assert.equal(error.code, grpc.status.UNAVAILABLE);
        const status = readStatus(error);
        assert.equal(status.code, grpc.status.UNAVAILABLE);
        assert.deepEqual(status.details['google.rpc.RetryInfo'].retryDelay, { seconds: 1, nanos: 0 });
    }
    const stored = ended.filter(({ code }) => code === SUCCESS).map(({ name }) => name);
    assert.deepEqual(await askNames(service), stored.flatMap((name) => [name, name]).sort());
});

// ---- tokens and TLS ----

const directory = mkdtempSync(path.join(tmpdir(), 'tidemark-test-'));
after(() => rmSync(directory, { recursive: true }));
const writer = 'w'.repeat(40);
const reader = 'r'.repeat(40);
writeFileSync(path.join(directory, 'tokens'), `exporter write ${writer}\ndashboard read ${reader}\n`, { mode: 0o600 });
const { ca, options } = makeCertificates(directory);
const secured = await Agent.start(
    ['--collect', '0s', '--require-token', '--token-file', path.join(directory, 'tokens'), ...options],
    { credentials: grpc.credentials.createSsl(ca), scheme: 'https' },
);
after(() => secured.stop());

for (const protocol of protocols) {
    const denied = (result, grpcCode, httpCode) => {
        assert.notEqual(result.code, SUCCESS);
        assert.equal(result.error.code, protocol === 'grpc' ? grpcCode : httpCode, String(result.error));
    };
    const tryToken = async (service, token) => {
        const exporter = makeExporter(secured, 'trace', protocol, 'gzip', { ca, token });
        const result = await exportOnce(exporter, [makeSpan(service, 'secured')]);
        await exporter.shutdown();
        return result;
    };

    test(`an exporter with TLS and a token is let in, others are told why not (${protocol})`, async () => {
        const service = `secured-${protocol}`;
        assert.equal((await tryToken(service, writer)).code, SUCCESS);
        denied(await tryToken(service, 'x'.repeat(40)), grpc.status.UNAUTHENTICATED, 401);
        denied(await tryToken(service, undefined), grpc.status.UNAUTHENTICATED, 401);
        denied(await tryToken(service, reader), grpc.status.PERMISSION_DENIED, 403);

        const metadata = new grpc.Metadata();
        metadata.set('authorization', `Bearer ${reader}`);
        const answer = await secured.call('QueryTelemetry', { serviceNames: [service] }, { metadata });
        assert.equal(answer.totalSpans, 1);
    });
}

test('an exporter that does not know the authority sends nothing', async () => {
    const exporter = makeExporter(secured, 'trace', 'grpc', 'none', { ca: makeStranger(), token: writer, timeoutMillis: 1000 });
    const result = await exportOnce(exporter, [makeSpan('stranger', 'secured')]);
    await exporter.shutdown();
    assert.notEqual(result.code, SUCCESS);
});

function makeStranger() {
    const other = mkdtempSync(path.join(directory, 'stranger-'));
    return makeCertificates(other).ca;
}

await runCases();

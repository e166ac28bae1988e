// OpenTelemetry's exporters for JavaScript against the agent: what they send is there, whichever way it came, and asked for in
// either form.
import assert from 'node:assert/strict';

import { Agent } from './agent.mjs';
import { after, runCases, test } from './cases.mjs';
import { need } from './deps.mjs';
import { compressions, makeExporter, makeProvider, protocols } from './exporters.mjs';
import {
    checkEbpfMetrics,
    checkLogs,
    checkSpans,
    checkSystemMetrics,
    recordLogs,
    recordMetrics,
    recordSpans,
    resourceOf,
    systemMetricNames,
} from './telemetry.mjs';

const { SpanKind } = need('@opentelemetry/api');
const { AggregationTemporality, AggregationType } = need('@opentelemetry/sdk-metrics');

const agent = await Agent.start(['--collect', '0s']);
after(() => agent.stop());

const names = { grpc: 'gRPC', http: 'HTTP and JSON', proto: 'HTTP and protobuf' };

// The SDK's forceFlush fails when an export fails.
async function withProvider(signal, protocol, compression, service, use) {
    const provider = makeProvider(signal, makeExporter(agent, signal, protocol, compression), resourceOf(service));
    try {
        await use(provider);
    } finally {
        await provider.shutdown();
    }
}

for (const protocol of protocols) {
    for (const compression of compressions) {
        const how = `by ${names[protocol]}${compression === 'gzip' ? ', with gzip,' : ''}`;
        const service = `js-${protocol}-${compression}`;

        test(`spans that come ${how} are there with every field`, () =>
            withProvider('trace', protocol, compression, service, async (provider) => {
                const sent = recordSpans(provider);
                await provider.forceFlush();
                checkSpans(await agent.ask('QueryTelemetry', { serviceNames: [service] }), service, sent);
            }));

        test(`measurements that come ${how} are there with every field, and counted once`, () =>
            withProvider('metrics', protocol, compression, service, async (provider) => {
                const prefix = service.replaceAll('-', '.');
                const fromMs = Date.now() - 1;
                const measure = recordMetrics(provider, prefix);
                await provider.forceFlush();
                const system = await agent.ask('QuerySystemMetrics', { metricNames: systemMetricNames(prefix) });
                checkSystemMetrics(system, service, prefix, fromMs, Date.now() + 1);
                const first = await agent.ask('QueryEbpfMetrics', { serviceNames: [service] });
                checkEbpfMetrics(first, service);

                measure(); // cumulative: the exporter sends the sums once more
                await provider.forceFlush();
                const second = await agent.ask('QueryEbpfMetrics', {
                    serviceNames: [service],
                    httpStartSeqId: first.httpMaxSeqId,
                    grpcStartSeqId: first.grpcMaxSeqId,
                    sqlStartSeqId: first.sqlMaxSeqId,
                });
                checkEbpfMetrics(second, service);
            }));

        test(`log records that come ${how} are there with every field`, () =>
            withProvider('logs', protocol, compression, service, async (provider) => {
                recordLogs(provider);
                await provider.forceFlush();
                checkLogs(await agent.ask('QueryLogs', { serviceNames: [service] }), service);
            }));
    }
}

// Buckets of an exponential histogram have no bounds of their own: each is told by the agent.
for (const protocol of protocols) {
    test(`exponential histograms with delta temporality that come by ${names[protocol]} are counted by bucket`, async () => {
        const service = `exponential-${protocol}`;
        const exporter = makeExporter(agent, 'metrics', protocol, 'gzip', {
            temporalityPreference: AggregationTemporality.DELTA,
        });
        const views = [{ instrumentName: '*', aggregation: { type: AggregationType.EXPONENTIAL_HISTOGRAM } }];
        const provider = makeProvider('metrics', exporter, resourceOf(service), { views });
        const histogram = provider.getMeter('tests/clients').createHistogram('http.server.request.duration', { unit: 's' });
        let start = '0';
        for (const seconds of [[0.001, 0.5, 0.5, 8], [0.25]]) {
            for (const value of seconds) histogram.record(value, { 'http.request.method': 'GET' });
            await provider.forceFlush();
            const answer = await agent.ask('QueryEbpfMetrics', { serviceNames: [service], httpStartSeqId: start });
            start = answer.httpMaxSeqId;
            const counted = answer.httpMetrics.flatMap((bucket) => Array(Number(bucket.count)).fill(bucket.latencyBucketMs));
            assert.equal(counted.length, seconds.length);
            counted.sort((a, b) => a - b).forEach((bound, i) => {
                const ms = seconds[i] * 1000;
                assert(bound >= ms && bound < ms * 2 ** (1 / 4), `${ms} ms are in the bucket up to ${bound}`);
            });
        }
        await provider.shutdown();
    });
}

test('spans of eBPF instrumentation are eBPF traces, and only that', async () => {
    const service = 'ebpf';
    const exporter = makeExporter(agent, 'trace', 'proto', 'gzip');
    const resource = { ...resourceOf(service), 'telemetry.sdk.name': 'beyla', 'process.pid': 4711 };
    const provider = makeProvider('trace', exporter, resource);
    const span = provider.getTracer('reporter').startSpan('GET /cart', {
        kind: SpanKind.SERVER,
        startTime: [1700000000, 5e6],
        attributes: { 'http.response.status_code': 404 },
    });
    span.end([1700000000, 6_234_567]);
    await provider.forceFlush();
    await provider.shutdown();
    const { traceSpans } = await agent.ask('QueryEbpfMetrics', { serviceNames: [service], includeTraces: true });
    assert.equal(traceSpans.length, 1);
    const { attributes, seqId, ...columns } = traceSpans[0];
    assert.deepEqual(columns, {
        ...{ traceId: span.spanContext().traceId, spanId: span.spanContext().spanId, parentSpanId: '' },
        ...{ serviceName: service, spanName: 'GET /cart', spanKind: 'server', startTime: '1700000000005' },
        ...{ durationUs: '1234', statusCode: 404, processPid: 4711 },
    });
    assert.equal((await agent.ask('QueryTelemetry', { serviceNames: [service] })).totalSpans, 0);
});

test('spans are found by their time, too', async () => {
    const answer = await agent.ask('QueryTelemetry', {
        startTime: '1700000000',
        endTime: '1700000001',
        serviceNames: ['js-grpc-none', 'js-http-gzip'],
    });
    assert.equal(answer.totalSpans, 10);
    const later = { startTime: '1700000002', endTime: '1700000003' };
    assert.equal((await agent.ask('QueryTelemetry', later)).totalSpans, 0);
});

await runCases();

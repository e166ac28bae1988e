// telemetry.mjs - spans, measurements and log records with everything that they may have, and what the agent must make of
// them (docs/otlp.md). Each signal: a function that records into a provider, and one that holds an answer against it.
import assert from 'node:assert/strict';

import { need } from './deps.mjs';

const api = need('@opentelemetry/api');
const { SeverityNumber } = need('@opentelemetry/api-logs');

// An attribute of every kind, and its text. 2^53 + 2 has no digit that JSON would lose.
const bytes = new Uint8Array([0, 1, 254, 255]);
const everyKind = {
    text: 'grüße "x"\n\u{1F30A}',
    empty: '',
    int: 9007199254740994,
    negative: -42,
    double: 0.1,
    bool: true,
    texts: ['a', 'ß'],
    ints: [1, 2, 3],
    mixed: [1, 'x', true, 0.5, [bytes]],
    map: { inner: { deep: [1, { leaf: 'ü' }] }, none: null },
    bytes,
};
const everyText = {
    text: 'grüße "x"\n\u{1F30A}',
    empty: '',
    int: '9007199254740994',
    negative: '-42',
    double: '0.1',
    bool: 'true',
    texts: '["a","ß"]',
    ints: '[1,2,3]',
    mixed: '[1,"x",true,0.5,["AAH+/w=="]]',
    map: '{"inner":{"deep":[1,{"leaf":"ü"}]},"none":null}',
    bytes: 'AAH+/w==',
};

export const resourceOf = (service) => ({ 'service.name': service, 'host.cpus': 8, 'host.zones': ['a', 'b'] });
const scope = ['tests/clients', '1.2.3'];
const inherited = (service) => ({
    'service.name': service,
    'host.cpus': '8',
    'host.zones': '["a","b"]',
    'otel.scope.name': scope[0],
    'otel.scope.version': scope[1],
});

// ---- spans ----

const linked = { traceId: '5b8efff798038103d269b633813fc60c', spanId: 'eee19b7ec3c1b174', traceFlags: 1 };

export function recordSpans(provider) {
    const tracer = provider.getTracer(...scope);
    const start = (name, ms, options, parent) => {
        const context = parent ? api.trace.setSpan(api.ROOT_CONTEXT, parent) : api.ROOT_CONTEXT;
        return tracer.startSpan(name, { startTime: [1700000000, ms * 1e6 + 456789], ...options }, context);
    };
    const server = start('GET /users/:id ✓', 100, {
        kind: api.SpanKind.SERVER,
        attributes: { 'http.request.method': 'GET', 'http.response.status_code': 200, 'http.route': '/users/:id' },
        links: [{ context: linked, attributes: { why: 'retry' } }],
    });
    Object.assign(server.attributes, everyKind); // setAttribute would leave out maps and bytes
    server.addEvent('cache.miss', { key: 'ü', tries: 2 }, [1700000000, 150e6]);
    const client = start('POST', 110, {
        kind: api.SpanKind.CLIENT,
        attributes: { 'http.method': 'POST', 'http.status_code': 503, 'http.target': '/pay?card=1' },
    }, server);
    client.recordException({ name: 'Timeout', message: 'no answer' }, [1700000000, 120e6]);
    client.setStatus({ code: api.SpanStatusCode.ERROR, message: 'no answer' });
    client.end([1700000000, 310456789]);
    const internal = start('compute', 120, {}, server);
    internal.setStatus({ code: api.SpanStatusCode.OK });
    internal.end([1700000000, 120456789]);
    start('send', 130, { kind: api.SpanKind.PRODUCER }, server).end([1700000001, 130456788]);
    start('take', 140, { kind: api.SpanKind.CONSUMER, attributes: { 'url.path': '/queue?x' } }).end([1700000000, 141706789]);
    server.end([1700000000, 976999999]);
    return { server: server.spanContext(), client: client.spanContext() };
}

export function checkSpans(answer, service, sent) {
    assert.equal(answer.totalSpans, 5);
    const spans = Object.fromEntries(answer.spans.map((span) => [span.spanName, span]));
    const { attributes, ...columns } = spans['GET /users/:id ✓'];
    assert.deepEqual(columns, {
        timestamp: '1700000000100',
        traceId: sent.server.traceId,
        spanId: sent.server.spanId,
        serviceName: service,
        spanKind: 'server',
        durationMs: 876.54321,
        isError: false,
        httpStatus: 200,
        httpMethod: 'GET',
        httpRoute: '/users/:id',
        seqId: columns.seqId,
        parentSpanId: '',
        spanName: 'GET /users/:id ✓',
    });
    const { 'otel.events': events, 'otel.links': links, ...others } = attributes;
    assert.deepEqual(others, {
        ...inherited(service),
        ...everyText,
        'http.request.method': 'GET',
        'http.response.status_code': '200',
        'http.route': '/users/:id',
    });
    assert.deepEqual(JSON.parse(events), [
        { time_unix_nano: '1700000000150000000', name: 'cache.miss', attributes: { key: 'ü', tries: 2 } },
    ]);
    assert.deepEqual(JSON.parse(links), [
        { trace_id: linked.traceId, span_id: linked.spanId, attributes: { why: 'retry' } },
    ]);
    checkOtherSpans(spans, service, sent);
}

function checkOtherSpans(spans, service, sent) {
    const { attributes, seqId, ...client } = spans.POST;
    assert.deepEqual(client, {
        timestamp: '1700000000110',
        traceId: sent.server.traceId,
        spanId: sent.client.spanId,
        serviceName: service,
        spanKind: 'client',
        durationMs: 200,
        isError: true,
        httpStatus: 503,
        httpMethod: 'POST',
        httpRoute: '/pay',
        parentSpanId: sent.server.spanId,
        spanName: 'POST',
    });
    assert.equal(attributes['otel.status_description'], 'no answer');
    const [event] = JSON.parse(attributes['otel.events']);
    assert.equal(event.name, 'exception');
    assert.deepEqual(event.attributes, { 'exception.type': 'Timeout', 'exception.message': 'no answer' });

    const told = ({ spanKind, durationMs, isError, httpRoute, parentSpanId }) => ({
        spanKind,
        durationMs,
        isError,
        httpRoute,
        parentSpanId,
    });
    const parentSpanId = sent.server.spanId;
    assert.deepEqual(told(spans.compute), { spanKind: 'internal', durationMs: 0, isError: false, httpRoute: '', parentSpanId });
    assert.deepEqual(told(spans.send), {
        spanKind: 'producer',
        durationMs: 999.999999,
        isError: false,
        httpRoute: '',
        parentSpanId,
    });
    assert.deepEqual(told(spans.take), {
        spanKind: 'consumer',
        durationMs: 1.25,
        isError: false,
        httpRoute: '/queue',
        parentSpanId: '',
    });
}

// ---- measurements ----

const boundaries = { advice: { explicitBucketBoundaries: [0.005, 0.1, 1] } };
const httpAttributes = { 'http.request.method': 'PUT', 'http.route': '/a/:b', 'http.response.status_code': 201 };

// Of one prefix, because system metrics are asked for by name. Returns a function that measures once more.
export function recordMetrics(provider, prefix) {
    const meter = provider.getMeter(...scope);
    meter.createCounter(`${prefix}.counter`, { unit: '{thing}' }).add(9007199254740994, everyKind);
    meter.createUpDownCounter(`${prefix}.updown`).add(-7.5, { zone: 'ä' });
    meter.createGauge(`${prefix}.gauge`, { unit: 'Cel' }).record(0.1);
    const sizes = { unit: 'By', advice: { explicitBucketBoundaries: [10, 100] } };
    const histogram = meter.createHistogram(`${prefix}.histogram`, sizes);
    for (const size of [5, 50, 60, 500]) histogram.record(size, { kind: 'file' });
    const http = meter.createHistogram('http.server.request.duration', { unit: 's', ...boundaries });
    const rpc = meter.createHistogram('rpc.server.duration', { unit: 'ms', advice: { explicitBucketBoundaries: [5, 100] } });
    const db = meter.createHistogram('db.client.operation.duration', { unit: 's', ...boundaries });
    const old = meter.createHistogram('http.client.duration', { unit: 'ms', advice: { explicitBucketBoundaries: [5, 100] } });
    const measure = () => {
        for (const seconds of [0.001, 0.05, 0.06, 3]) http.record(seconds, httpAttributes);
        rpc.record(7, { 'rpc.system': 'grpc', 'rpc.service': 'shop.Cart', 'rpc.method': 'Add', 'rpc.grpc.status_code': 5 });
        db.record(0.5, { 'db.operation.name': 'SELECT', 'db.collection.name': 'users' });
        old.record(3, { 'http.method': 'GET', 'http.status_code': 404, 'http.route': '/old' });
    };
    measure();
    return measure;
}

export const systemMetricNames = (prefix) =>
    ['counter', 'updown', 'gauge', ...['count', 'sum', 'bucket', 'min', 'max'].map((part) => `histogram.${part}`)].map(
        (name) => `${prefix}.${name}`,
    );

export function checkSystemMetrics(answer, service, prefix, fromMs, toMs) {
    const found = answer.metrics.map(({ timestamp, seqId, attributes, ...metric }) => {
        assert(timestamp >= fromMs && timestamp <= toMs, `${timestamp} is not between ${fromMs} and ${toMs}`);
        const own = Object.fromEntries(Object.entries(attributes).filter(([name]) => !(name in inherited(service))));
        assert.deepEqual(attributes, { ...inherited(service), ...own });
        return { ...metric, attributes: own };
    });
    const histogram = (part, value, metricType, attributes = {}) => ({
        metricName: `${prefix}.histogram.${part}`,
        value,
        unit: part === 'count' || part === 'bucket' ? '' : 'By',
        metricType,
        attributes: { kind: 'file', ...attributes },
    });
    const nameOf = (metric) => metric.metricName + (metric.attributes.upper_bound ?? '');
    const byName = (a, b) => (nameOf(a) < nameOf(b) ? -1 : 1);
    assert.deepEqual(
        found.sort(byName),
        [
            {
                metricName: `${prefix}.counter`,
                value: 9007199254740994,
                unit: '{thing}',
                metricType: 'counter',
                attributes: everyText,
            },
            { metricName: `${prefix}.updown`, value: -7.5, unit: '', metricType: 'gauge', attributes: { zone: 'ä' } },
            { metricName: `${prefix}.gauge`, value: 0.1, unit: 'Cel', metricType: 'gauge', attributes: {} },
            histogram('count', 4, 'counter'),
            histogram('sum', 615, 'counter'),
            histogram('min', 5, 'gauge'),
            histogram('max', 500, 'gauge'),
            histogram('bucket', 1, 'counter', { upper_bound: '10' }),
            histogram('bucket', 2, 'counter', { upper_bound: '100' }),
            histogram('bucket', 1, 'counter', { upper_bound: 'Infinity' }),
        ].sort(byName),
    );
}

// What one round of measure() adds.
export function checkEbpfMetrics(answer, service) {
    const told = (records) =>
        records.map(({ timestamp, seqId, attributes, ...columns }) => {
            assert.equal(columns.serviceName, service);
            return { name: attributes['otel.metric.name'], ...columns };
        });
    const http = { serviceName: service, httpMethod: 'PUT', httpRoute: '/a/:b', httpStatusCode: 201 };
    const name = 'http.server.request.duration';
    assert.deepEqual(told(answer.httpMetrics), [
        { name, ...http, latencyBucketMs: 5, count: '1' },
        { name, ...http, latencyBucketMs: 100, count: '2' },
        { name, ...http, latencyBucketMs: Infinity, count: '1' },
        {
            name: 'http.client.duration',
            serviceName: service,
            httpMethod: 'GET',
            httpRoute: '/old',
            httpStatusCode: 404,
            latencyBucketMs: 5,
            count: '1',
        },
    ]);
    assert.deepEqual(told(answer.grpcMetrics), [
        {
            name: 'rpc.server.duration',
            serviceName: service,
            grpcMethod: 'shop.Cart/Add',
            grpcStatusCode: 5,
            latencyBucketMs: 100,
            count: '1',
        },
    ]);
    assert.deepEqual(told(answer.sqlMetrics), [
        {
            name: 'db.client.operation.duration',
            serviceName: service,
            sqlOperation: 'SELECT',
            tableName: 'users',
            latencyBucketMs: 1000,
            count: '1',
        },
    ]);
}

// ---- log records ----

export function recordLogs(provider) {
    const logger = provider.getLogger(...scope);
    const context = api.trace.setSpanContext(api.ROOT_CONTEXT, linked);
    logger.emit({
        timestamp: [1700000000, 250999999],
        observedTimestamp: [1700000000, 300e6],
        severityNumber: SeverityNumber.WARN,
        severityText: 'WARN',
        body: 'disk „/var“ is full \u{1F4BE}',
        eventName: 'disk.full',
        attributes: everyKind,
        context,
    });
    logger.emit({
        observedTimestamp: [1700000000, 400e6],
        timestamp: [1700000000, 390e6],
        severityNumber: SeverityNumber.INFO,
        body: { user: 7, tags: ['x', null], raw: bytes },
    });
    logger.emit({ timestamp: [1700000000, 500e6], severityNumber: SeverityNumber.FATAL, severityText: 'crit', body: bytes });
}

export function checkLogs(answer, service) {
    assert.equal(answer.totalLogs, 3);
    const found = answer.logs.map(({ seqId, attributes, ...log }) => ({ ...log, attributes: { ...attributes } }));
    assert.deepEqual(found, [
        {
            timestamp: '1700000000250',
            serviceName: service,
            severityNumber: 13,
            severityText: 'WARN',
            body: 'disk „/var“ is full \u{1F4BE}',
            traceId: linked.traceId,
            spanId: linked.spanId,
            attributes: { ...inherited(service), ...everyText, 'event.name': 'disk.full' },
        },
        {
            timestamp: '1700000000390',
            serviceName: service,
            severityNumber: 9,
            severityText: '',
            body: '{"user":7,"tags":["x",null],"raw":"AAH+/w=="}',
            traceId: '',
            spanId: '',
            attributes: inherited(service),
        },
        {
            timestamp: '1700000000500',
            serviceName: service,
            severityNumber: 21,
            severityText: 'crit',
            body: 'AAH+/w==',
            traceId: '',
            spanId: '',
            attributes: inherited(service),
        },
    ]);
}

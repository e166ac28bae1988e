// export-requests.mjs DIR - writes the requests of tests/otlp/exported once more, with OpenTelemetry's own serializers.
//
// Not part of the build: what it wrote is in the tree. It needs, in a folder of its own:
//   npm install @opentelemetry/{api,api-logs,resources,sdk-trace-base,sdk-metrics,sdk-logs,otlp-transformer}
// and is run from there. Times and ids are fixed, so that a second run writes the same bytes.
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const require = createRequire(join(process.cwd(), 'package.json'));
const transformer = require('@opentelemetry/otlp-transformer');
const { SpanKind, SpanStatusCode } = require('@opentelemetry/api');
const { resourceFromAttributes } = require('@opentelemetry/resources');
const { AggregationTemporality, DataPointType, InstrumentType } = require('@opentelemetry/sdk-metrics');

const dir = process.argv[2];
const at = (ms) => [Math.floor(1700000000 + ms / 1000), (ms % 1000) * 1e6];
const resource = resourceFromAttributes({
  'service.name': 'checkout',
  'service.instance.id': 'b3f5',
  'process.pid': 4711,
  'telemetry.sdk.name': 'opentelemetry',
});
const scope = { name: '@opentelemetry/instrumentation-http', version: '0.52.0' };

const context = (n) => ({
  traceId: '5b8efff798038103d269b633813fc60' + n,
  spanId: 'eee19b7ec3c1b17' + n,
  traceFlags: 1,
});

const span = (n, more) => ({
  name: 'GET /users/:id',
  kind: SpanKind.SERVER,
  spanContext: () => context(n),
  startTime: at(100 * n),
  endTime: at(100 * n + 25),
  duration: [0, 25e6],
  ended: true,
  status: { code: SpanStatusCode.UNSET },
  attributes: {},
  links: [],
  events: [],
  resource,
  instrumentationScope: scope,
  droppedAttributesCount: 0,
  droppedEventsCount: 0,
  droppedLinksCount: 0,
  ...more,
});

const spans = [
  span(1, {
    attributes: {
      'http.request.method': 'GET',
      'http.route': '/users/:id',
      'http.response.status_code': 200,
      ratio: 0.25,
      cached: true,
      hosts: ['a', 'b'],
      sizes: [1, 2, 3],
      greeting: 'grüße "x"\n\u{1F30A}',
    },
  }),
  span(2, {
    kind: SpanKind.CLIENT,
    parentSpanContext: context(1),
    attributes: { 'http.method': 'POST', 'http.status_code': 503, 'http.target': '/pay?card=1' },
    status: { code: SpanStatusCode.ERROR, message: 'no answer' },
    events: [{ name: 'exception', time: at(210), attributes: { 'exception.type': 'Timeout' }, droppedAttributesCount: 0 }],
    links: [{ context: context(3), attributes: { why: 'retry' }, droppedAttributesCount: 0 }],
  }),
];

const metric = (name, unit, data) => ({
  descriptor: { name, unit, description: '', valueType: 1, type: InstrumentType.HISTOGRAM, advice: {} },
  ...data,
});
const point = (attributes, value) => ({ startTime: at(0), endTime: at(5000), attributes, value });

const metrics = {
  resource,
  scopeMetrics: [
    {
      scope,
      metrics: [
        metric('process.memory.usage', 'By', {
          aggregationTemporality: AggregationTemporality.CUMULATIVE,
          dataPointType: DataPointType.GAUGE,
          dataPoints: [point({ state: 'rss' }, 52428800)],
        }),
        metric('jobs.done', '{job}', {
          aggregationTemporality: AggregationTemporality.DELTA,
          dataPointType: DataPointType.SUM,
          isMonotonic: true,
          dataPoints: [point({ queue: 'mail' }, 17)],
        }),
        metric('http.server.request.duration', 's', {
          aggregationTemporality: AggregationTemporality.DELTA,
          dataPointType: DataPointType.HISTOGRAM,
          dataPoints: [
            point(
              { 'http.request.method': 'GET', 'http.route': '/users/:id', 'http.response.status_code': 200 },
              { buckets: { boundaries: [0.005, 0.01, 0.025], counts: [1, 0, 4, 2] }, sum: 0.2, count: 7, min: 0.001, max: 0.09 },
            ),
          ],
        }),
        metric('rpc.client.duration', 'ms', {
          aggregationTemporality: AggregationTemporality.DELTA,
          dataPointType: DataPointType.EXPONENTIAL_HISTOGRAM,
          dataPoints: [
            point(
              { 'rpc.system': 'grpc', 'rpc.service': 'pay.v1.Pay', 'rpc.method': 'Charge', 'rpc.grpc.status_code': 0 },
              {
                count: 6, sum: 40, scale: 1, zeroCount: 1, min: 0, max: 12,
                positive: { offset: -2, bucketCounts: [2, 0, 3] },
                negative: { offset: 0, bucketCounts: [] },
              },
            ),
          ],
        }),
      ],
    },
  ],
};

const logs = [
  {
    hrTime: at(1),
    hrTimeObserved: at(2),
    spanContext: context(1),
    severityNumber: 17,
    severityText: 'ERROR',
    body: { reason: 'card refused', tries: 3 },
    attributes: { user: 'u1', bytes: new Uint8Array([0, 255, 16]) },
    eventName: 'payment.failed',
    resource,
    instrumentationScope: scope,
    droppedAttributesCount: 0,
  },
  {
    hrTime: at(3),
    hrTimeObserved: at(4),
    severityNumber: 9,
    body: 'plain text',
    attributes: {},
    resource,
    instrumentationScope: scope,
    droppedAttributesCount: 0,
  },
];

const requests = {
  traces: ['Trace', spans],
  metrics: ['Metrics', metrics],
  logs: ['Logs', logs],
};
for (const [name, [kind, what]] of Object.entries(requests)) {
  writeFileSync(join(dir, name + '.binpb'), transformer[`Protobuf${kind}Serializer`].serializeRequest(what));
  writeFileSync(join(dir, name + '.json'), transformer[`Json${kind}Serializer`].serializeRequest(what));
}

// exporters.mjs - OpenTelemetry's own exporters for JavaScript: every protocol, with and without gzip.
import { need } from './deps.mjs';

const grpc = need('@grpc/grpc-js');
const resources = need('@opentelemetry/resources');
const trace = need('@opentelemetry/sdk-trace-base');
const metrics = need('@opentelemetry/sdk-metrics');
const logs = need('@opentelemetry/sdk-logs');

export const protocols = ['grpc', 'http', 'proto']; // as the packages are called; http is JSON
export const compressions = ['none', 'gzip'];

const paths = { trace: '/v1/traces', metrics: '/v1/metrics', logs: '/v1/logs' };
const classes = { trace: 'OTLPTraceExporter', metrics: 'OTLPMetricExporter', logs: 'OTLPLogExporter' };

// more: token (bearer), ca (PEM: TLS), timeoutMillis, temporalityPreference.
export function makeExporter(agent, signal, protocol, compression, more = {}) {
    const { [classes[signal]]: Exporter } = need(`@opentelemetry/exporter-${signal}-otlp-${protocol}`);
    const { timeoutMillis = 30_000, temporalityPreference } = more;
    const common = { compression, timeoutMillis, temporalityPreference };
    if (protocol === 'grpc') {
        const metadata = new grpc.Metadata();
        if (more.token) metadata.set('authorization', `Bearer ${more.token}`);
        return new Exporter({
            ...common,
            url: `${more.ca ? 'https' : 'http'}://${agent.grpc}`,
            metadata,
            ...(more.ca ? { credentials: grpc.credentials.createSsl(more.ca) } : {}),
        });
    }
    return new Exporter({
        ...common,
        url: agent.url + paths[signal],
        headers: more.token ? { authorization: `Bearer ${more.token}` } : {},
        ...(more.ca ? { httpAgentOptions: { ca: more.ca } } : {}),
    });
}

// Its SDK, which hands everything to the exporter at forceFlush and not before. more: views of a MeterProvider.
export function makeProvider(signal, exporter, attributes, more = {}) {
    const resource = resources.resourceFromAttributes(attributes);
    switch (signal) {
        case 'trace': {
            const processor = new trace.BatchSpanProcessor(exporter, { scheduledDelayMillis: 3_600_000 });
            return new trace.BasicTracerProvider({ resource, spanProcessors: [processor] });
        }
        case 'metrics': {
            const reader = new metrics.PeriodicExportingMetricReader({
                exporter,
                exportIntervalMillis: 3_600_000,
                exportTimeoutMillis: 30_000,
            });
            return new metrics.MeterProvider({ resource, readers: [reader], ...more });
        }
        case 'logs': {
            const processor = new logs.BatchLogRecordProcessor({ exporter, scheduledDelayMillis: 3_600_000 });
            return new logs.LoggerProvider({ resource, processors: [processor] });
        }
    }
    throw new Error(`no signal ${signal}`);
}

// The exporter's own word for one batch: { code, error }.
export function exportOnce(exporter, items) {
    return new Promise((resolve) => exporter.export(items, resolve));
}

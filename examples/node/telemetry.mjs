// telemetry.mjs AGENT_URL POSITION_FILE - sends three spans to an agent by OpenTelemetry's SDK, then reads what is new there.
//
//     tidemark agent --store agent.db &           # ready grpc=127.0.0.1:4317 http=127.0.0.1:4318
//     node telemetry.mjs http://127.0.0.1:4318 position.json
//
// Run it again: it goes on behind the last span that it has read.
import { ROOT_CONTEXT, SpanKind } from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { BasicTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-base';

import { loadPosition, savePosition, service } from './client.mjs';

// Nothing of ours is needed to send: the exporter that an application has already will do. When forceFlush returns, the spans are on the
// agent's disk. The exporter repeats after a lost answer; spans may then be there twice, with the same span id.
async function send(url, names) {
    const provider = new BasicTracerProvider({
        resource: resourceFromAttributes({ 'service.name': 'checkout' }),
        spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter({ url: `${url}/v1/traces` }))],
    });
    const tracer = provider.getTracer('examples');
    const now = Date.now();
    for (const name of names) tracer.startSpan(name, { kind: SpanKind.SERVER, startTime: now }, ROOT_CONTEXT).end(now + 12);
    await provider.forceFlush();
    await provider.shutdown();
}

const START = { session: '', epoch: '0', epochId: '', seq: '0' };

// Spans behind the stored position. One that was handed out is not handed out again, also after a restart.
async function* readNew(url, path) {
    const agent = service(url, 'tidemark.agent.v1.AgentService');
    let position = await loadPosition(path, START);
    for (;;) {
        const page = await agent.QueryTelemetry({
            startSeqId: position.seq,
            // A reader with a name keeps what it has not read from being dropped. Epoch and session say whose numbers ours are.
            position: { reader: 'example-node', epoch: position.epoch, epochId: position.epochId },
        });
        const { state, sessionId } = page;
        if (!['', sessionId].includes(position.session) || state.standing === 'STANDING_DIVERGED') {
            console.error('another history: reading from its beginning');
            position = START;
            continue;
        }
        // Numbers that will never come, and why: a fact, not a guess.
        for (const { firstSeqId, lastSeqId, reason } of state.holes) console.error(`lost ${firstSeqId}..${lastSeqId}: ${reason}`);
        yield* page.spans;
        // scannedThrough and not the last span's number: it is right also when the page is empty.
        position = { session: sessionId, epoch: state.epoch, epochId: state.epochId, seq: state.scannedThroughSeqId };
        await savePosition(path, position); // behind the work: a crash repeats a page and skips nothing
        if (!state.more) return;
    }
}

const [url, path] = process.argv.slice(2);
await send(url, ['GET /cart', 'POST /order', 'GET /receipt']);
for await (const span of readNew(url, path)) console.log(`span ${span.seqId} ${span.serviceName} ${span.spanName} ${span.durationMs} ms`);

// agent.mjs - a real agent process with a store of its own, and questions to it in both forms: gRPC and JSON over HTTP.
//
//     const agent = await Agent.start(['--collect', '0s']);
//     const answer = await agent.ask('QueryLogs', { serviceNames: ['checkout'] });
//     await agent.stop();
//
// ask() asks twice, by @grpc/grpc-js and by JSON, holds the answers against each other and returns them in one form: names in
// lowerCamelCase, 64-bit numbers as decimal texts, bytes in base64, enums by name, every field there. An answer that can be longer than
// a page is read by askAll().
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import readline from 'node:readline';

import { need, source, tidemark } from './deps.mjs';

const grpc = need('@grpc/grpc-js');
const loader = need('@grpc/proto-loader');

// The services of some .proto files, in the form that ask() tells.
export function loadServices(...files) {
    const definition = loader.loadSync(files, {
        includeDirs: [path.join(source, 'proto'), '/usr/include'],
        longs: String,
        enums: String,
        bytes: String,
        defaults: true,
        arrays: true,
        objects: true,
    });
    return grpc.loadPackageDefinition(definition);
}

export const services = loadServices('tidemark/agent/v1/agent.proto').tidemark.agent.v1;

// An agent does not outlive its test.
const running = new Set();
process.on('exit', () => running.forEach((child) => child.kill('SIGKILL')));
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1));

export class Agent {
    // extra: further arguments of `tidemark agent`. ready.credentials: of its grpc-js channel.
    static async start(extra = [], { credentials = grpc.credentials.createInsecure(), scheme = 'http' } = {}) {
        const agent = new Agent();
        agent.directory = mkdtempSync(path.join(tmpdir(), 'tidemark-test-'));
        agent.store = path.join(agent.directory, 'agent.db');
        agent.process = spawn(
            tidemark,
            ['agent', '--store', agent.store, '--grpc', '127.0.0.1:0', '--http', '127.0.0.1:0', '--log-level', 'error', ...extra],
            { stdio: ['ignore', 'pipe', 'inherit'] },
        );
        running.add(agent.process);
        agent.ended = new Promise((resolve, reject) => {
            agent.process.once('error', reject);
            agent.process.once('exit', (code, signal) => resolve({ code, signal }));
        });
        const line = await new Promise((resolve, reject) => {
            const lines = readline.createInterface({ input: agent.process.stdout });
            lines.once('line', resolve);
            lines.once('close', () => reject(new Error('the agent ended before it was ready')));
        });
        const ready = /^ready grpc=(\S+) http=(\S+)$/.exec(line);
        assert(ready, `it says '${line}'`);
        [, agent.grpc, agent.http] = ready;
        agent.url = `${scheme}://${agent.http}`;
        agent.client = new services.AgentService(agent.grpc, credentials);
        return agent;
    }

    // One call by grpc-js; an error of the call is thrown.
    call(method, request = {}, { metadata = new grpc.Metadata(), options = {}, client = this.client } = {}) {
        return new Promise((resolve, reject) => {
            client[method](request, metadata, options, (error, answer) => (error ? reject(error) : resolve(answer)));
        });
    }

    // One call as JSON: the whole answer of fetch, and its body.
    async post(where, body, headers = {}) {
        const answer = await fetch(this.url + where, {
            method: 'POST',
            headers: { 'content-type': 'application/json', ...headers },
            body: typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body),
        });
        return { status: answer.status, headers: answer.headers, body: await answer.text() };
    }

    // One call as JSON, in the form of grpc-js: read by protobufjs and written out again.
    async postCall(method, request = {}) {
        const answer = await this.post(`/tidemark.agent.v1.AgentService/${method}`, request);
        assert.equal(answer.status, 200, answer.body);
        const definition = services.AgentService.service[method];
        return definition.responseDeserialize(definition.responseSerialize(JSON.parse(answer.body)));
    }

    async ask(method, request = {}) {
        const [byGrpc, byHttp] = await Promise.all([this.call(method, request), this.postCall(method, request)]);
        assert.deepEqual(withoutClock(byHttp), withoutClock(byGrpc));
        return byGrpc;
    }

    // All records of a stream that can be more than a page. While other answers wait for their readers a page is shorter
    // (src/net/call.h, tide_call_reserve), so the two forms are compared when each has been read to its end.
    async askAll(method, request, field) {
        const readPages = async (call) => {
            const records = [];
            for (let startSeqId = '0'; ; ) {
                const page = await call.call(this, method, { ...request, startSeqId });
                records.push(...page[field]);
                if (!page.state.more) return records;
                startSeqId = page.state.scannedThroughSeqId;
            }
        };
        const [byGrpc, byHttp] = await Promise.all([readPages(this.call), readPages(this.postCall)]);
        assert.deepEqual(byHttp, byGrpc);
        return byGrpc;
    }

    async readMetric(name) {
        const text = await (await fetch(`${this.url}/metrics`)).text();
        let sum = 0;
        for (const line of text.split('\n'))
            if (line.startsWith(name + ' ') || line.startsWith(name + '{')) sum += Number(line.split(' ').at(-1));
        return sum;
    }

    // SIGTERM, and it must end with 0.
    async stop() {
        this.client.close();
        this.process.kill('SIGTERM');
        const end = await this.ended;
        running.delete(this.process);
        rmSync(this.directory, { recursive: true });
        assert.deepEqual(end, { code: 0, signal: null });
    }
}

// Two calls are not made in the same millisecond.
function withoutClock(value) {
    if (Array.isArray(value)) return value.map(withoutClock);
    if (value === null || typeof value !== 'object') return value;
    return Object.fromEntries(
        Object.entries(value)
            .filter(([name]) => name !== 'nowMs')
            .map(([name, inner]) => [name, withoutClock(inner)]),
    );
}

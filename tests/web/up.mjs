// up.mjs - `tidemark up` as a process over a directory of its own.
//
//     const up = await Up.start();
//     const fleet = await up.call('tidemark.colony.v1.ColonyService/Fleet');
//     await up.stop();          SIGTERM; how it ended
//     await up.again();         over the same directory
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import readline from 'node:readline';

import { tidemark } from '../clients/deps.mjs';

const running = new Set();
process.on('exit', () => running.forEach((child) => child.kill('SIGKILL')));
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1));

export class Up {
    static async start(extra = []) {
        const up = new Up();
        up.prepare();
        await up.again(extra);
        return up;
    }

    // A directory, and nothing that runs in it yet.
    prepare() {
        this.directory = mkdtempSync(path.join(tmpdir(), 'tidemark-test-'));
        this.data = path.join(this.directory, 'data');
    }

    async again(extra = []) {
        this.process = this.spawn(['--http', '127.0.0.1:0', '--collect', '1s', ...extra]);
        this.ended = new Promise((resolve) => this.process.once('exit', (code, signal) => resolve({ code, signal })));
        const line = await new Promise((resolve, reject) => {
            const lines = readline.createInterface({ input: this.process.stdout });
            lines.once('line', resolve);
            lines.once('close', () => reject(new Error('it ended before it was ready')));
        });
        const ready = /^ready http=(\S+)$/.exec(line);
        assert(ready, `it says '${line}'`);
        this.url = `http://${ready[1]}`;
    }

    spawn(extra, stderr = 'inherit') {
        const child = spawn(tidemark, ['up', '--data', this.data, '--log-level', 'error', ...extra], {
            stdio: ['ignore', 'pipe', stderr],
            env: { ...process.env, TIDEMARK_STATE_DIR: path.join(this.directory, 'state') },
        });
        running.add(child);
        return child;
    }

    async call(method, request = {}, headers = {}) {
        const answer = await fetch(`${this.url}/${method}`, {
            method: 'POST',
            headers: { 'content-type': 'application/json', ...headers },
            body: JSON.stringify(request),
        });
        const text = await answer.text();
        assert.equal(answer.status, 200, text);
        return JSON.parse(text);
    }

    // Spans as an exporter would send them.
    async sendSpans(spans) {
        const answer = await fetch(`${this.url}/v1/traces`, {
            method: 'POST',
            headers: { 'content-type': 'application/json' },
            body: JSON.stringify({
                resourceSpans: [{
                    resource: { attributes: [{ key: 'service.name', value: { stringValue: spans[0].service } }] },
                    scopeSpans: [{ spans: spans.map(({ service, ...span }) => span) }],
                }],
            }),
        });
        assert.equal(answer.status, 200, await answer.text());
    }

    async stop(signal = 'SIGTERM') {
        this.process.kill(signal);
        const ended = await this.ended;
        running.delete(this.process);
        return ended;
    }

    remove() {
        rmSync(this.directory, { recursive: true, force: true });
    }
}

// Ask until the answer pleases: the harness's own limit (cases.mjs) ends it otherwise.
export async function until(ask, isGood) {
    for (;;) {
        const answer = await ask();
        if (isGood(answer)) return answer;
        await new Promise((resolve) => setTimeout(resolve, 50));
    }
}

let made = 0;
export function span(service, name, parent = '', trace = (made + 1).toString(16).padStart(32, '0')) {
    const now = BigInt(Date.now()) * 1000000n;
    made++;
    return {
        service,
        traceId: trace,
        spanId: made.toString(16).padStart(16, '0'),
        parentSpanId: parent,
        name,
        kind: 2,
        startTimeUnixNano: String(now - 5000000n),
        endTimeUnixNano: String(now),
    };
}

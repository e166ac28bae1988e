// daemons.mjs - real daemons for the examples, each on a free port with files in one directory, and ways to run a program beside them.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import readline from 'node:readline';

import { source, tidemark } from '../clients/deps.mjs';
import { afterFairTime } from '../clients/fair_clock.mjs';

export const directory = mkdtempSync(path.join(tmpdir(), 'tidemark-examples-'));
export const inside = (name) => path.join(directory, name);

// Nothing outlives its test.
const running = new Set();
process.on('exit', () => {
    running.forEach((child) => child.kill('SIGKILL'));
    rmSync(directory, { recursive: true, force: true });
});
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1));

const environment = {
    ...process.env,
    TIDEMARK: tidemark,
    TIDEMARK_PROTO: path.join(source, 'proto'),
    TIDEMARK_STATE_DIR: inside('state'),
    TIDEMARK_LOG_LEVEL: 'error',
    NO_COLOR: '1',
};

// A program that goes on: its lines as they come, signals to it, its end.
export class Running {
    constructor([program, ...args], more = {}) {
        this.lines = [];
        this.waiting = [];
        this.child = spawn(program, args, {
            cwd: directory,
            env: { ...environment, ...more },
            stdio: ['ignore', 'pipe', 'inherit'],
        });
        running.add(this.child);
        this.ended = new Promise((resolve, reject) => {
            this.child.once('error', reject);
            this.child.once('close', (code, signal) => {
                running.delete(this.child);
                resolve(code ?? signal);
                this.waiting.splice(0).forEach(({ wanted, fail }) => fail(new Error(`it ended before it said ${wanted}; it said\n${this.lines.join('\n')}`)));
            });
        });
        readline.createInterface({ input: this.child.stdout }).on('line', (line) => {
            this.lines.push(line);
            this.waiting = this.waiting.filter(({ wanted, take }) => !wanted.test(line) || take(line));
        });
    }

    // The first line, said or still to come, that looks so.
    line(wanted) {
        const said = this.lines.find((line) => wanted.test(line));
        if (said !== undefined) return Promise.resolve(said);
        return new Promise((resolve, fail) => this.waiting.push({ wanted, fail, take: (line) => (resolve(line), false) }));
    }

    signal(name) {
        this.child.kill(name);
    }

    async stop() {
        this.signal('SIGTERM');
        assert.equal(await this.ended, 0);
    }
}

const daemons = [];

// A daemon, when it is ready: the parts of its line `ready NAME=ADDRESS ...`.
export async function start(...args) {
    const daemon = new Running([tidemark, ...args]);
    daemons.push(daemon);
    const ready = await daemon.line(/^ready /);
    return { daemon, ...Object.fromEntries(ready.split(' ').slice(1).map((part) => part.split('='))) };
}

export async function stopAll() {
    await Promise.all(daemons.splice(0).map((daemon) => daemon.stop()));
}

// A program to its end; ends with 0, and its stdout is the answer.
export function run([program, ...args], more = {}) {
    return new Promise((resolve, reject) => {
        const options = { cwd: directory, env: { ...environment, ...more } };
        const child = execFile(program, args, options, (error, stdout, stderr) => {
            callOff();
            if (error) reject(new Error(`${program} ${args.join(' ')}: ${error.code ?? error.signal}\n${stdout}${stderr}`));
            else resolve(stdout);
        });
        const callOff = afterFairTime(50_000, () => child.kill());
    });
}

export const cli = (...args) => run([tidemark, ...args]);
export const json = async (...args) =>
    (await cli(...args, '--json'))
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line));

// A way to a service on which the answer to the first call of each of these methods is lost: the service has done it, the client does not know.
export async function lossyWay(address, ...methods) {
    const lost = new Set(methods);
    const server = http.createServer((request, answer) => {
        const method = request.url.split('/').at(-1);
        const onward = http.request(`http://${address}${request.url}`, { method: request.method, headers: request.headers }, (got) => {
            if (lost.delete(method)) {
                got.resume().once('end', () => request.socket.destroy());
                return;
            }
            answer.writeHead(got.statusCode, got.headers);
            got.pipe(answer);
        });
        onward.once('error', () => request.socket.destroy());
        request.pipe(onward);
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    return {
        url: `http://127.0.0.1:${server.address().port}`,
        // Every one of them was lost, once.
        close() {
            server.close();
            server.closeAllConnections();
            assert.deepEqual([...lost], [], 'these were never called');
        },
    };
}

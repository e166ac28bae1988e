// What a person reads when `tidemark up` starts, or cannot.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { chownSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import readline from 'node:readline';
import { promisify } from 'node:util';

import { tidemark } from '../clients/deps.mjs';
import { after, runCases, test } from '../clients/cases.mjs';
import { until } from '../web/up.mjs';

const directory = mkdtempSync(path.join(tmpdir(), 'tidemark-test-'));
const running = new Set();
after(() => {
    running.forEach((child) => child.kill('SIGKILL'));
    rmSync(directory, { recursive: true, force: true });
});
const environment = (more) => ({ ...process.env, TIDEMARK_STATE_DIR: path.join(directory, 'state'), ...more });

// A command that fails: its exit code, and what it prints on stderr.
async function fail(words, env = {}, user = {}) {
    try {
        await promisify(execFile)(tidemark, words, { env: environment(env), ...user });
    } catch (failure) {
        return failure;
    }
    throw new Error(`${words.join(' ')} has not failed`);
}

test('a port in use is named with its holder, and the advice is about ports', async () => {
    const holder = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => holder.once('listening', resolve));
    const { port } = holder.address();
    const { code, stderr } = await fail(['up', '--data', path.join(directory, 'held'), '--http', `127.0.0.1:${port}`]);
    holder.close();
    assert.equal(code, 4);
    assert.match(stderr, new RegExp(`cannot listen on 127.0.0.1:${port}: .*\\b${process.pid}\\b.* holds the port; stop it or choose another port\\n$`));
});

test('a port without a host is answered with the form of an address, not with its reach', async () => {
    const { code, stderr } = await fail(['up', '--data', path.join(directory, 'bare')], { TIDEMARK_HTTP: '9000' });
    assert.equal(code, 2);
    assert.match(stderr, /address '9000': want HOST:PORT, .* for example 127\.0\.0\.1:9000\n$/);
    assert.doesNotMatch(stderr, /other machines|TLS/);
});

test('a port that needs a right is answered with ports that need none', async () => {
    const firstFree = Number(readFileSync('/proc/sys/net/ipv4/ip_unprivileged_port_start', 'utf8'));
    assert.ok(firstFree > 80, `every user may bind port 80 here: net.ipv4.ip_unprivileged_port_start is ${firstFree}`);
    const place = mkdtempSync(path.join(tmpdir(), 'tidemark-test-'));
    const user = process.getuid() === 0 ? { uid: 65534, gid: 65534 } : {};
    if (user.uid) chownSync(place, user.uid, user.gid);
    const { code, stderr } = await fail(['up', '--data', path.join(place, 'data'), '--http', '127.0.0.1:80'], { TIDEMARK_STATE_DIR: place }, user);
    rmSync(place, { recursive: true, force: true });
    assert.equal(code, 5);
    assert.match(stderr, /cannot listen on 127\.0\.0\.1:80: .*; choose a port from 1024 on, or grant CAP_NET_BIND_SERVICE\n$/);
});

test('a data directory that cannot be created is answered with --data', async () => {
    const { code, stderr } = await fail(['up'], { TIDEMARK_DATA: '/dev/null/x' });
    assert.equal(code, 1);
    assert.match(stderr, /cannot create directory \/dev\/null\/x: Not a directory; correct that, or choose another directory with --data or TIDEMARK_DATA\n$/);
});

test('a library that is missing is answered with what to install, and not with patience', async () => {
    const libpq = await fail(['task', 'ls', '--store', 'postgres://127.0.0.1/none'], { TIDEMARK_LIBPQ: '/nonexistent' });
    assert.match(libpq.stderr, /cannot open the PostgreSQL client library: .*install libpq/);
    assert.doesNotMatch(libpq.stderr, /try again/);
});

test('the address is the last line, also where DuckDB is missing, and commands can be copied', async () => {
    const place = path.join(directory, "it's here");
    const program = path.join(place, 'tidemark');
    mkdirSync(place);
    copyFileSync(tidemark, program);
    const child = spawn(program, ['up', '--demo', '--demo-agents', '2', '--data', path.join(place, 'data'), '--http', '127.0.0.1:0'], {
        cwd: directory,
        stdio: ['ignore', 'pipe', 'pipe'],
        env: environment({ TIDEMARK_DUCKDB: '/nonexistent', TIDEMARK_LOG_LEVEL: 'warn' }),
    });
    running.add(child);
    const ended = new Promise((resolve) => child.once('exit', resolve));
    let words = '';
    child.stderr.on('data', (bytes) => (words += bytes));
    const ready = await new Promise((resolve, reject) => {
        const lines = readline.createInterface({ input: child.stdout });
        lines.once('line', resolve);
        lines.once('close', () => reject(new Error(words)));
    });
    const [, address] = /^ready http=(\S+)$/.exec(ready);
    // Its lake has been asked for rows and has refused them: everything has been said.
    const metrics = async () => (await fetch(`http://${address}/metrics`)).text();
    await until(metrics, (text) => /LakeService.*CreateTable/.test(text));
    child.kill('SIGTERM');
    await ended;
    running.delete(child);
    const lines = words.trimEnd().split('\n');
    assert.equal(lines.at(-1), `  Dashboard   http://${address}/`, words);
    assert.equal(lines.filter((line) => line.includes('level=warn')).length, 1, words);
    const shown = lines.find((line) => line.startsWith('  Try ')).slice('  Try '.length).trim();
    const { stdout } = await promisify(execFile)('/bin/sh', ['-c', `printf '%s\\n' ${shown}`], { cwd: directory });
    assert.equal(stdout.split('\n')[0], "it's here/tidemark");
});

// A daemon that is ready: its address, and a function that ends it.
async function start(words) {
    const child = spawn(tidemark, words, { stdio: ['ignore', 'pipe', 'pipe'], env: environment() });
    running.add(child);
    const ended = new Promise((resolve) => child.once('exit', resolve));
    let errors = '';
    child.stderr.on('data', (bytes) => (errors += bytes));
    const ready = await new Promise((resolve, reject) => {
        const lines = readline.createInterface({ input: child.stdout });
        lines.once('line', resolve);
        lines.once('close', () => reject(new Error(errors)));
    });
    const [, address] = /^ready \w+=(\S+)$/.exec(ready);
    const end = async () => {
        child.kill('SIGTERM');
        await ended;
        running.delete(child);
    };
    return { address, end };
}

test('up keeps rows, tasks and checkpoints in the store that --store names', async () => {
    const place = path.join(directory, 'elsewhere');
    const store = path.join(directory, 'named.db');
    const { address, end } = await start(['up', '--data', place, '--store', store, '--http', '127.0.0.1:0']);
    const answer = await fetch(`http://${address}/tidemark.work.v1.WorkService/CreateTask`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: '{"task_id":"mine","title":"t"}',
    });
    assert.equal(answer.status, 200);
    assert.equal((await (await fetch(`http://${address}/place`)).json()).store, store);
    await end();
    const { stdout } = await promisify(execFile)(tidemark, ['task', 'ls', '--store', store, '--json'], { env: environment() });
    assert.equal(JSON.parse(stdout).task_id, 'mine');
    assert.equal(existsSync(path.join(place, 'colony.db')), false);
});

test('serve has the dashboard, with the views of what it serves', async () => {
    const { address, end } = await start(['serve', '--store', path.join(directory, 'served.db'), '--listen', '127.0.0.1:0']);
    assert.deepEqual((await (await fetch(`http://${address}/about`)).json()).views, ['work', 'checkpoints']);
    const page = await fetch(`http://${address}/`);
    assert.match(page.headers.get('content-type'), /text\/html/);
    assert.match(await page.text(), /dashboard\.js/);
    await end();
});

await runCases();

// `tidemark up`: one process, one directory, one port.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, realpathSync, statSync } from 'node:fs';
import { request } from 'node:http';
import path from 'node:path';

import { after, runCases, test } from '../clients/cases.mjs';
import { makeCertificates } from '../clients/certificates.mjs';
import { tidemark } from '../clients/deps.mjs';
import { Up, span, until } from './up.mjs';

const up = await Up.start();
after(async () => {
    assert.deepEqual(await up.stop(), { code: 0, signal: null });
    up.remove();
});

const spanCount = async () =>
    Number((await up.call('tidemark.colony.v1.ColonyService/Query', { sql: 'SELECT count(*) FROM spans' })).rows[0][0]);

test('a page comes with a policy that allows this origin alone', async () => {
    for (const [path, type] of [['/', 'text/html'], ['/dashboard.js', 'text/javascript'], ['/dashboard.css', 'text/css'], ['/dashboard.svg', 'image/svg+xml']]) {
        const answer = await fetch(up.url + path);
        assert.equal(answer.status, 200);
        assert(answer.headers.get('content-type').startsWith(type));
        assert.match(answer.headers.get('content-security-policy'), /default-src 'none'; script-src 'self'/);
        assert.equal(answer.headers.get('x-content-type-options'), 'nosniff');
        const body = await answer.text();
        assert(body.length > 100);
        const known = await fetch(up.url + path, { headers: { 'if-none-match': answer.headers.get('etag') } });
        assert.equal(known.status, 304);
    }
});

test('the page asks nobody else', async () => {
    const page = (await (await fetch(`${up.url}/`)).text()) + (await (await fetch(`${up.url}/dashboard.css`)).text());
    assert(!/(src|href)="(https?:)?\/\//.test(page) && !/url\(["']?https?:/.test(page));
});

test('what is sent by OTLP is in the colony', async () => {
    await up.sendSpans([span('checkout', 'GET /cart'), span('checkout', 'GET /pay')]);
    await until(spanCount, (count) => count === 2);
    const fleet = await up.call('tidemark.colony.v1.ColonyService/Fleet');
    assert.equal(fleet.agents[0].agent_id, 'local');
    assert.equal(fleet.unexplained, 0);
});

test('the fleet counts what is behind, and a second question gets the same answer', async () => {
    const [one, two] = await Promise.all([up.call('tidemark.colony.v1.ColonyService/Fleet'), up.call('tidemark.colony.v1.ColonyService/Fleet')]);
    assert.deepEqual(one, two);
    assert.equal(one.data_types.length, one.agents[0].lag_records.length);
});

// Compressed it is made once for everybody (the first asker, those behind it); who takes no gzip, and who speaks protobuf, gets the same.
test('the fleet is the same however it is asked for', async () => {
    const ask = (headers) => fetch(`${up.url}/tidemark.colony.v1.ColonyService/Fleet`, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: '{}' });
    const answers = await Promise.all([ask({}), ask({}), ask({ 'accept-encoding': 'identity' })]);
    assert.deepEqual(answers.map((one) => one.headers.get('content-encoding')), ['gzip', 'gzip', null]);
    assert.deepEqual(answers.map((one) => one.headers.get('content-type')), Array(3).fill('application/json'));
    const texts = await Promise.all(answers.map((one) => one.text()));
    assert.deepEqual(JSON.parse(texts[0]).data_types, JSON.parse(texts[2]).data_types);
    assert.equal(texts[0], texts[1]);
});

test('work and checkpoints are served on the same port', async () => {
    const work = 'tidemark.work.v1.WorkService';
    const { task_id } = await up.call(`${work}/CreateTask`, { title: 'hello' });
    await up.call(`${work}/AddItems`, { items: [{ task_id, work_type: 'test.hello' }] });
    const { items } = await up.call(`${work}/Stats`);
    assert.deepEqual(items.map((row) => [row.work_type, row.status, row.count]), [['test.hello', 'pending', 1]]);
    assert.deepEqual((await up.call('tidemark.journal.v1.JournalService/List', { task_id })).checkpoints ?? [], []);
});

test('the lake is served on the same port, and its news are told', async () => {
    const lake = 'tidemark.lake.v1.LakeService';
    const abort = new AbortController();
    const reader = (await fetch(`${up.url}/events`, { signal: abort.signal })).body.pipeThrough(new TextDecoderStream()).getReader();
    await up.call(`${lake}/CreateCatalog`, { name: 'ledger' });
    await up.call(`${lake}/CreateTable`, { catalog: 'ledger', operation: { schema: 'main', table: 't', columns: 'a BIGINT' } });
    await up.call(`${lake}/Append`, { catalog: 'ledger', operation: { schema: 'main', table: 't', text: 'a\n1\n2\n' } });
    const sum = await up.call(`${lake}/Query`, { sql: 'SELECT sum(a) FROM ledger.main.t' });
    assert.equal(sum.rows[0][0], 3);
    let text = '';
    await until(async () => (text += (await reader.read()).value), (heard) => heard.includes('data: lake\n'));
    abort.abort();
});

test('a page is told when something is new', async () => {
    const abort = new AbortController();
    const answer = await fetch(`${up.url}/events`, { signal: abort.signal });
    assert.equal(answer.headers.get('content-type'), 'text/event-stream');
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    assert.match((await reader.read()).value, /^data: all\n\n/);
    await up.sendSpans([span('checkout', 'GET /news')]);
    let text = '';
    await until(async () => (text += (await reader.read()).value), (heard) => heard.includes('data: colony\n'));
    abort.abort();
});

test('a page of somebody else gets nothing', async () => {
    const answer = await fetch(`${up.url}/tidemark.colony.v1.ColonyService/Fleet`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', origin: 'http://evil.example' },
        body: '{}',
    });
    assert.equal(answer.status, 403);
});

test('a second one over the same directory is refused, says why, and has touched nothing', async () => {
    const second = up.spawn(['--http', '127.0.0.1:0', '--demo'], 'pipe');
    let words = '';
    second.stderr.on('data', (bytes) => (words += bytes));
    const code = await new Promise((resolve) => second.once('exit', resolve));
    assert.equal(code, 6);
    assert.match(words, /is held by another process/);
    assert(!existsSync(path.join(up.data, 'demo')));
});

// ---- who may ask ----

const FLEET = 'tidemark.colony.v1.ColonyService/Fleet';
// As a browser or a program would: by hand, for fetch sets some headers itself.
function post(headers, body = '{}') {
    return new Promise((resolve, reject) => {
        const asked = request(`${up.url}/${FLEET}`, { method: 'POST', headers: { 'content-type': 'application/json', ...headers } }, (answer) => {
            answer.resume();
            answer.once('end', () => resolve(answer.statusCode));
        });
        asked.once('error', reject);
        asked.end(body);
    });
}

test('a name that was made to point here gets nothing', async () => {
    const port = new URL(up.url).port;
    assert.equal(await post({ host: `127.0.0.1:${port}` }), 200);
    assert.equal(await post({ host: `localhost:${port}` }), 200);
    for (const host of [`evil.example:${port}`, 'evil.example', `127.0.0.1.evil.example:${port}`, `localhost.evil.example:${port}`])
        assert.equal(await post({ host }), 403, host);
});

test('a page of somebody else changes nothing, in whichever form it posts', async () => {
    for (const headers of [{ origin: 'http://evil.example' }, { origin: 'null' }, { origin: 'http://evil.example', 'content-type': 'text/plain' }, { origin: 'http://127.0.0.1:1' }, { origin: 'http://localhost' }])
        assert.equal(await post(headers), 403, JSON.stringify(headers));
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x'])
        assert.equal(await post({ 'content-type': type }), 415, type);
    assert.equal(await post({ origin: up.url }), 200);
});

test('where the store is, is told', async () => {
    const { store } = await (await fetch(`${up.url}/place`)).json();
    assert.equal(store, realpathSync(path.join(up.data, 'colony.db')));
});

test('kill -9, and a second start goes on where it stopped', async () => {
    const before = await spanCount();
    await up.sendSpans([span('checkout', 'GET /last')]);
    await up.stop('SIGKILL');
    await up.again();
    await until(spanCount, (count) => count === before + 1);
    const fleet = await up.call('tidemark.colony.v1.ColonyService/Fleet');
    assert.equal(fleet.unexplained, 0);
});

test('where tokens are demanded of others, its own parts still reach each other', async () => {
    const token = execFileSync(tidemark, ['token', 'create', 'page', '--store', path.join(up.data, 'colony.db')]).toString().trim();
    const shown = { authorization: `Bearer ${token}` };
    await up.stop();
    await up.again(['--require-token']);
    assert.equal(await post({}), 401);
    const count = async () =>
        Number((await up.call('tidemark.colony.v1.ColonyService/Query', { sql: 'SELECT count(*) FROM system_metrics' }, shown)).rows[0][0]);
    const before = await count();
    await until(count, (now) => now > before); // the agent's own collector goes on, and the colony reads it
    assert.equal(statSync(path.join(up.data, 'inside.sock')).mode & 0o777, 0o600);
    await up.stop('SIGKILL'); // which leaves the socket behind
    await up.again(['--require-token']);
    const then = await count();
    await until(count, (now) => now > then);
});

test('with TLS the greeting names an address and commands that work', async () => {
    const own = new Up();
    own.prepare();
    after(() => own.remove());
    const { options } = makeCertificates(own.directory);
    const child = own.spawn(['--http', '127.0.0.1:0', '--demo', '--demo-agents', '1', ...options], 'pipe');
    let told = '';
    child.stderr.on('data', (bytes) => (told += bytes));
    const ended = new Promise((resolve) => child.once('exit', (code) => resolve(code)));
    const [, address] = /^ready http=(\S+)/.exec(String(await new Promise((resolve) => child.stdout.once('data', resolve))));
    await until(() => told, (text) => text.includes('Ctrl-C'));
    assert(told.includes(`  Dashboard   https://${address}/\n`), told);
    assert(told.includes(`demo late --address ${address} --service-ca ${path.join(own.directory, 'server.pem')} `), told);
    child.kill('SIGTERM');
    assert.equal(await ended, 0);
});

await runCases();

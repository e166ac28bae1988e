// `tidemark up --replica`: databases of applications, several on one port, for real use.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';

import { tidemark } from '../clients/deps.mjs';
import { after, runCases, test } from '../clients/cases.mjs';
import { Up, until } from '../web/up.mjs';

const run = promisify(execFile);
const up = new Up();
up.prepare();
const file = (name) => path.join(up.directory, `${name}.db`);
process.env.TIDEMARK_STATE_DIR = path.join(up.directory, 'state');

// As the application does: a SQLite that knows nothing of us.
const write = (name, sql) => run('python3', ['-c', 'import sqlite3, sys; c = sqlite3.connect(sys.argv[1], timeout=10); c.executescript(sys.argv[2]); c.commit()', file(name), sql]);
const track = (name) => run(tidemark, ['replica', 'track', file(name), 'notes']);
const rows = async (name) => {
    const { tables } = await up.call(`replica/${name}/tidemark.replica.v1.ReplicaService/Digests`);
    return tables.map((table) => `${table.table} ${table.rows} ${table.digest}`).join();
};

await write('till', "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT); INSERT INTO notes VALUES (1, 'hello')");
await track('till');
const databases = ['--replica', `till=${file('till')}`, '--replica', `office=${file('office')}`, '--replica-peer', 'office=till'];
await up.again(databases);
after(async () => {
    await up.stop();
    up.remove();
});

test('the databases are listed, each with its path', async () => {
    const { replicas } = await up.call('tidemark.up.v1.UpService/ListReplicas');
    assert.deepEqual(replicas.map(({ name, path: at }) => [name, at]), [['till', '/replica/till'], ['office', '/replica/office']]);
    assert.deepEqual(replicas[1].peers, [`${up.url}/replica/till`]);
});

test('one that was empty has the other\'s table, and what is written comes', async () => {
    await until(() => rows('office'), (seen) => seen.startsWith('notes 1 '));
    await write('till', "INSERT INTO notes VALUES (2, 'again')");
    await until(() => rows('office'), (seen) => seen.startsWith('notes 2 '));
    assert.equal(await rows('office'), await rows('till'));
});

test('what is written there comes back', async () => {
    await write('office', "UPDATE notes SET text = 'changed' WHERE id = 1");
    await until(async () => [await rows('till'), await rows('office')], ([till, office]) => till === office);
});

test('the first is served at the root as well', async () => {
    const { node } = await up.call('tidemark.replica.v1.ReplicaService/GetMarks');
    assert.equal(node, (await up.call('replica/till/tidemark.replica.v1.ReplicaService/GetMarks')).node);
});

test('a peer of elsewhere syncs with one by its path', async () => {
    const { stdout } = await run(tidemark, ['replica', 'sync', file('laptop'), `${up.url}/replica/office`, '--json']);
    assert.equal(JSON.parse(stdout).proven, true);
    const nowhere = await run(tidemark, ['replica', 'sync', file('laptop'), `${up.url}/replica/nobody`]).then(() => null, (error) => error);
    assert(nowhere, 'a database that is not there was synced with');
});

test('pages are told of news, and that there is the view', async () => {
    const { views } = await (await fetch(`${up.url}/about`)).json();
    assert(views.includes('replication') && !views.includes('demo'));
    const abort = new AbortController();
    const reader = (await fetch(`${up.url}/events`, { signal: abort.signal })).body.pipeThrough(new TextDecoderStream()).getReader();
    await write('till', "INSERT INTO notes VALUES (3, 'news')");
    let text = '';
    await until(async () => (text += (await reader.read()).value), (heard) => heard.includes('data: replica\n'));
    abort.abort();
});

test('a peer that is away does not make it unready', async () => {
    await up.stop();
    await up.again([...databases, '--replica-peer', 'till=127.0.0.1:1']);
    assert.equal((await fetch(`${up.url}/readyz`)).status, 200);
    await until(() => rows('office'), (seen) => seen.startsWith('notes 3 '));
});

test('options that cannot be are refused, in words', async () => {
    for (const [words, told] of [
        [['--replica', 'till'], /want NAME=FILE/],
        [['--replica', `a/b=${file('x')}`], /no name of a database/],
        [['--replica-peer', 'till=127.0.0.1:1'], /no --replica 'till=FILE'/],
        [['--replica', `x=${file('x')}`, '--replica', `x=${file('y')}`], /two databases/],
    ]) {
        const refused = await run(tidemark, ['up', '--data', path.join(up.directory, 'other'), '--http', '127.0.0.1:0', ...words]).then(() => null, (error) => error);
        assert(refused, words.join(' '));
        assert.match(refused.stderr, told);
    }
});

await runCases();

// The examples in JavaScript, as after `npm install` in their folder: the packages are those that make setup has obtained.
import assert from 'node:assert/strict';
import { cpSync, symlinkSync } from 'node:fs';
import path from 'node:path';

import { runCases, test } from '../clients/cases.mjs';
import { modules, source } from '../clients/deps.mjs';
import { declareCases } from './capabilities.mjs';
import { cli, inside, run, start } from './daemons.mjs';

const folder = inside('node');
cpSync(path.join(source, 'examples/node'), folder, { recursive: true });
symlinkSync(modules, path.join(folder, 'node_modules'));

const example = (name) => [process.execPath, path.join(folder, name)];

declareCases({
    telemetry: (url, file) => [...example('telemetry.mjs'), url, file],
    colony: (url) => [...example('colony.mjs'), url],
    workAdd: ({ url }, item, pages) => [...example('work.mjs'), url, 'add', item, String(pages)],
    workRun: ({ url }, effects, { name, leaseMs, items }) =>
        [...example('work.mjs'), url, 'run', effects, `--name=${name}`, `--lease-ms=${leaseMs}`, `--items=${items}`],
    journal: ({ address }, file, task, ...steps) => [...example('journal.mjs'), address, file, task, ...steps],
    replica: (db, peer, who) => [...example('replica.mjs'), db, peer, who],
    lake: ({ url }, catalog, day) => [...example('lake.mjs'), url, catalog, day],
    isOverHttp: true,
    isLakeOverHttp: true,
});

test('changes: each change of a replicated table is told once', async () => {
    const db = inside('changing.db');
    await run(['sqlite3', db, 'CREATE TABLE todos (id TEXT NOT NULL PRIMARY KEY, done INTEGER)']);
    await cli('replica', 'track', db, 'todos');
    await run(['sqlite3', db, "INSERT INTO todos VALUES ('tea', 0), ('cake', 0)"]);
    const { grpc } = await start('replica', 'serve', db, '--listen', '127.0.0.1:0');
    const changes = () => run([...example('changes.mjs'), `http://${grpc}`, 'todos', inside('changes')]);
    assert.match(await changes(), /^create tea \{.*\}\ncreate cake \{.*\}\n$/);
    assert.equal(await changes(), '');
    await run(['sqlite3', db, "UPDATE todos SET done = 1 WHERE id = 'tea'; DELETE FROM todos WHERE id = 'cake'"]);
    assert.match(await changes(), /^update tea \{.*\}\ndelete cake .*\n$/);
});
await runCases();

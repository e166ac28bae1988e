// The examples for the shell: tidemark's own commands, curl, jq and sqlite3.
import assert from 'node:assert/strict';
import path from 'node:path';

import { runCases, test } from '../clients/cases.mjs';
import { source } from '../clients/deps.mjs';
import { declareCases } from './capabilities.mjs';
import { inside, run } from './daemons.mjs';

const example = (name) => path.join(source, 'examples/shell', name);

declareCases({
    telemetry: (url, file) => [example('telemetry.sh'), url, file],
    colony: (url) => [example('colony.sh'), url],
    workAdd: ({ store }, item, pages) => [example('work.sh'), store, 'add', item, String(pages)],
    // What an item's program says is on stderr: its stdout is the item's output.
    workRun: ({ store }, effects, { name, leaseMs, items }) =>
        ['sh', '-c', 'exec "$@" 2>&1', 'sh', example('work.sh'), store, 'run', effects, '--worker', name, '--lease', `${leaseMs}ms`, ...(items > 0 ? ['--limit', String(items)] : [])],
    journal: ({ store }, file, task, ...steps) => [example('journal.sh'), store, file, task, ...steps],
    replica: (db, peer, who) => [example('replica.sh'), db, peer, who],
    lake: ({ store }, catalog, day) => [example('lake.sh'), store, catalog, day],
    needsSweep: true,
    ownLines: (said) => said.replace(/^(claimed|finished|\d+ finished,) .*\n/gm, ''), // what work run itself says
});

test('sequence: numbers are given once and in order', async () => {
    const take = (...more) => run([example('sequence.sh'), inside('numbers.db'), 'invoice', ...more]);
    assert.equal(await take(), '1\n');
    assert.equal(await take('10'), '2..11\n');
    const at_once = await Promise.all([1, 2, 3, 4].map(() => take()));
    assert.deepEqual(at_once.map(Number).sort((a, b) => a - b), [12, 13, 14, 15]);
});
await runCases();

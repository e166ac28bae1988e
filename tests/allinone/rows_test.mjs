// rows_test.mjs - a row of a command's --json has the members of the service's row, for every row type there is.
//
// Row types are read from the .proto files: each message that a response of a plain service repeats. A type is compared (ROWS), part
// of one that is (PARTS), or has no command (ALONE): one that is in no table fails the test. RESULTS are responses that a command
// prints as a whole.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import path from 'node:path';
import { promisify } from 'node:util';

import { runCases, test } from '../clients/cases.mjs';
import { tidemark } from '../clients/deps.mjs';
import { Up, until } from '../web/up.mjs';

const run = promisify(execFile);
const root = process.env.TIDEMARK_SOURCE_DIR ?? fileURLToPath(new URL('../..', import.meta.url));
const up = new Up();
up.prepare();
const app = path.join(up.directory, 'app.db');
await run('python3', ['-c', 'import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute("CREATE TABLE notes (id TEXT NOT NULL PRIMARY KEY, text TEXT)")', app]);
await run(tidemark, ['replica', 'track', app, 'notes']);
await up.again(['--replica', `app=${app}`]);
const store = path.join(up.data, 'colony.db');

const lines = async (...words) => (await run(tidemark, [...words, '--store', store, '--json'])).stdout.split('\n').filter(Boolean).map((line) => JSON.parse(line));

const WORK = 'tidemark.work.v1.WorkService';
const KEYS = 'tidemark.work.v1.IdempotencyService';
const JOURNAL = 'tidemark.journal.v1.JournalService';
const COLONY = 'tidemark.colony.v1.ColonyService';
const LAKE = 'tidemark.lake.v1.LakeService';

// type: the command, the method, its request, where the rows are in its response (null: it is the row).
const ROWS = {
    'work.v1.Task': ['task ls', `${WORK}/ListTasks`, {}, 'tasks'],
    'work.v1.WorkItem': ['work ls', `${WORK}/ListItems`, {}, 'items'],
    'work.v1.Attempt': ['work show i1', `${WORK}/GetItem`, { work_item_id: 'i1' }, null],
    'work.v1.Reason': ['work explain i2', `${WORK}/Explain`, { work_item_id: 'i2' }, null],
    'work.v1.TypeState': ['work types', `${WORK}/ListTypes`, {}, 'types'],
    'work.v1.ItemStat': ['work stats', `${WORK}/Stats`, {}, null],
    'work.v1.Schedule': ['schedule ls', `${WORK}/ListSchedules`, {}, 'schedules'],
    'work.v1.IdempotencyKey': ['idempotency ls', `${KEYS}/List`, {}, 'keys'],
    'journal.v1.Checkpoint': ['checkpoint range 1 9', `${JOURNAL}/List`, { with_snapshot: true }, 'checkpoints'],
    'journal.v1.Annotation': ['checkpoint show 1', `${JOURNAL}/Get`, { id: '1', with_snapshot: true }, null],
    'journal.v1.Difference': ['checkpoint diff 1 2', `${JOURNAL}/Diff`, { a: '1', b: '2' }, 'differences'],
    'colony.v1.Agent': ['colony agent ls', `${COLONY}/ListAgents`, {}, 'agents'],
    'colony.v1.Checkpoint': ['colony checkpoint ls', `${COLONY}/ListCheckpoints`, {}, 'checkpoints'],
    'colony.v1.Gap': ['gaps ls', `${COLONY}/ListGaps`, {}, 'gaps'],
    'colony.v1.Incident': ['gaps incidents', `${COLONY}/ListIncidents`, {}, 'incidents'],
    'colony.v1.AuditLine': ['colony audit --offline', `${COLONY}/Audit`, { without_agents: true }, 'lines'],
    'lake.v1.Catalog': ['lake catalog ls', `${LAKE}/ListCatalogs`, {}, 'catalogs'],
    'lake.v1.Schema': ['lake schema ls c', `${LAKE}/ListSchemas`, { catalog: 'c' }, 'schemas'],
    'lake.v1.Table': ['lake table ls c', `${LAKE}/ListTables`, { catalog: 'c' }, 'tables'],
    'lake.v1.Snapshot': ['lake snapshots c', `${LAKE}/ListSnapshots`, { catalog: 'c', after: -1 }, 'snapshots'],
    'lake.v1.Difference': ['lake diff c 1 3', `${LAKE}/Diff`, { catalog: 'c', from: '1', to: '3' }, 'differences'],
};

// The same of a response as a whole; last, members that the command prints as lines of their own.
const RESULTS = {
    'journal.v1.VerifyResponse': ['checkpoint verify', `${JOURNAL}/Verify`, {}],
    'lake.v1.VerifyResponse': ['lake verify', `${LAKE}/Verify`, {}, ['found']],
    'colony.v1.FleetResponse': ['status', `${COLONY}/Fleet`, {}],
};

// Parts of rows and results that are compared above, or that a command prints as it does something.
const PARTS = {
    'work.v1.TaskStat': 'work stats',
    'work.v1.AddedItem': 'work add',
    'work.v1.ClaimedItem': 'work claim',
    'work.v1.Lease': 'work renew prints each lease with its result',
    'journal.v1.Numbers': 'checkpoint add',
    'colony.v1.Hole': 'colony checkpoint ls',
    'colony.v1.ExportedFile': 'export',
    'colony.v1.TraceRow': 'trace show ID',
    'lake.v1.Column': 'lake table ls',
    'lake.v1.Finding': 'lake verify',
    'colony.v1.FleetLine': 'status',
    'replica.v1.LogStatus': 'replica status',
    'replica.v1.PeerStatus': 'replica status',
    'replica.v1.PeerMark': 'replica status',
    'replica.v1.SnapshotStatus': 'replica status',
    'replica.v1.CursorStatus': 'replica status',
    'replica.v1.CursorHole': 'replica status',
    'replica.v1.WaitingStatus': 'replica status',
    'replica.v1.DivergenceStatus': 'replica status',
    'replica.v1.Conflict': 'replica conflicts, below',
};

// Types without a command that prints them row by row.
const ALONE = {
    'colony.v1.CheckpointCourse': 'the dashboard\'s chart',
    'colony.v1.Cell': 'query prints an object per row, by the names of the columns',
    'colony.v1.Row': 'as Cell',
    'lake.v1.Cell': 'as colony.v1.Cell',
    'lake.v1.Row': 'as Cell',
    'work.v1.RetriedItem': 'the call changes what it lists: asked twice, the second finds nothing',
    'work.v1.ChangedItem': 'as RetriedItem',
    'colony.v1.RepairLine': 'as RetriedItem',
    'lake.v1.File': 'no command',
    'lake.v1.Conflict': 'no command: they are the daemon\'s memory',
    'up.v1.Replica': 'no command',
    'replica.v1.Quarantined': 'no command',
    'replica.v1.Snapshot': 'replica snapshot ls prints files, the service what it offers to peers',
    'replica.v1.TableDigest': 'between nodes; replica digest prints hexadecimal',
    'replica.v1.OriginCheckpoint': 'between nodes',
    'replica.v1.OriginMark': 'between nodes',
    'replica.v1.RangeDigest': 'between nodes',
    'replica.v1.RowState': 'between nodes',
    'replica.v1.Schema': 'between nodes',
    'replica.v1.Table': 'between nodes',
    'replica.v1.TableEvent': 'between nodes',
    'up.v1.DemoAgent': 'demo ls prints agents and workers as one list',
    'up.v1.DemoFault': 'as DemoAgent',
    'up.v1.DemoWorker': 'as DemoAgent',
};

// Messages that responses of plain services repeat, whole or inside of others.
function rowTypes() {
    const messages = new Map();
    const responses = new Set();
    const folder = path.join(root, 'proto/tidemark');
    for (const name of readdirSync(folder).filter((one) => !one.includes('.'))) {
        const text = readFileSync(path.join(folder, name, 'v1', `${name}.proto`), 'utf8');
        if (!text.includes('option (plain_json) = true;')) continue;
        const full = (type) => (type.startsWith('tidemark.') ? type.slice('tidemark.'.length) : `${name}.v1.${type}`);
        for (const [, message, body] of text.matchAll(/^message (\w+) \{\n([\s\S]*?)^\}/gm))
            messages.set(full(message), [...body.matchAll(/^\s+(repeated )?([\w.]+) (\w+) = \d+/gm)].map(([, repeated, type]) => ({ isRow: !!repeated, type: full(type) })));
        for (const [, type] of text.matchAll(/returns \((?:stream )?([\w.]+)\)/g)) responses.add(full(type));
    }
    const rows = new Set();
    const visit = (type, seen = new Set()) => {
        for (const field of seen.has(type) ? [] : messages.get(type) ?? []) {
            if (!messages.has(field.type)) continue;
            if (field.isRow) rows.add(field.type);
            visit(field.type, new Set([...seen, type]));
        }
    };
    responses.forEach((type) => visit(type));
    return rows;
}

const MOVING = ['work.v1.Reason', 'work.v1.ItemStat']; // ages and what is left of a lease; the colony's rows move all the time

const kind = (value) => (value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value);
// Names and types of all members, in order; times and counters may have moved between two looks.
const shape = (value) => (kind(value) === 'array' ? value.map(shape) : kind(value) === 'object' ? Object.entries(value).map(([name, one]) => [name, shape(one)]) : kind(value));

test('every row type is compared, or the tables say why not', () => {
    const known = new Set([...Object.keys(ROWS), ...Object.keys(PARTS), ...Object.keys(ALONE)]);
    const found = rowTypes();
    assert.deepEqual([...found].filter((type) => !known.has(type)), [], 'row types in no table');
    assert.deepEqual([...known].filter((type) => !found.has(type)), [], 'no longer row types');
});

test('there is something of most types', async () => {
    await up.call(`${WORK}/CreateTask`, { task_id: 't1', title: 'rows', metadata: { a: [1, null] } });
    const items = ['i1', 'i2'].map((id) => ({ work_item_id: id, task_id: 't1', work_type: 'rows', input_data: { a: 1 }, priority: id === 'i1' ? -1 : 0 }));
    await up.call(`${WORK}/AddItems`, { items: [...items, { work_item_id: 'i3', task_id: 't1', work_type: 'rows', run_after: '2099-01-01T00:00:00Z' }] });
    await up.call(`${WORK}/Claim`, { worker: 'w1', lease_ms: 600000, limit: 1 });
    await up.call(`${WORK}/Pause`, { work_type: 'rows', reason: 'a test' });
    await up.call(`${WORK}/AddSchedule`, { name: 's1', task_id: 't1', work_type: 'rows', every_ms: 3600000, input_data: [true] });
    await up.call(`${KEYS}/Begin`, { scope: 's', key: 'k', request: { a: 1 }, holder: 'h', lock_ms: 600000 });
    for (const page of [1, 2]) await up.call(`${JOURNAL}/Append`, { checkpoints: [{ task_id: 't1', type: 'manual_checkpoint', snapshot: { page }, tags: ['x'], metadata: { m: 1 } }] });
    await up.call(`${JOURNAL}/Annotate`, { id: '1', note: 'n' });
    await up.call(`${LAKE}/CreateCatalog`, { name: 'c' });
    await up.call(`${LAKE}/CreateTable`, { catalog: 'c', operation: { schema: 's', table: 't', columns: 'a BIGINT', create_schema: true } });
    await up.call(`${LAKE}/CreateView`, { catalog: 'c', operation: { schema: 's', view: 'v', sql: 'SELECT 1' } });
    await up.sendSpans([{ service: 'rows', traceId: '5b8efff798038103d269b633813fc60c', spanId: 'eee19b7ec3c1b174', name: 'x', kind: 2, startTimeUnixNano: '1700000000000000000', endTimeUnixNano: '1700000000000000001' }]);
    await until(() => up.call(`${COLONY}/ListCheckpoints`), ({ checkpoints }) => checkpoints.length > 0);
});

for (const [type, [words, method, request, member]] of Object.entries(ROWS))
    test(`${type}: ${words}`, async () => {
        const printed = await lines(...words.split(' '));
        const answer = await up.call(method, request);
        assert.deepEqual(shape(printed), shape(member ? answer[member] : [answer]));
        if (!type.startsWith('colony.') && !MOVING.includes(type)) assert.deepEqual(printed, member ? answer[member] : [answer]);
    });

for (const [type, [words, method, request, apart = []]] of Object.entries(RESULTS))
    test(`${type}: ${words}`, async () => {
        const [printed] = await lines(...words.split(' '));
        const answer = await up.call(method, request);
        for (const member of apart) delete answer[member];
        assert.deepEqual(shape(printed), shape(answer));
    });

test('replica.v1.GetStatusResponse: replica status', async () => {
    const { replicas } = await up.call('tidemark.up.v1.UpService/ListReplicas');
    const [printed] = (await run(tidemark, ['replica', 'status', app, '--json'])).stdout.split('\n').filter(Boolean).map((line) => JSON.parse(line));
    const answer = await up.call(`${replicas[0].path.replace(/^\/+/, '')}/tidemark.replica.v1.ReplicaService/GetStatus`);
    assert.deepEqual({ ...printed, now: null }, { ...answer, now: null });
    assert.ok(printed.logs.length > 0 && printed.tables.length > 0);
});

test('replica.v1.Conflict: replica conflicts', async () => {
    const copy = path.join(up.directory, 'copy.db');
    const write = (file, sql) => run('python3', ['-c', 'import sqlite3, sys; c = sqlite3.connect(sys.argv[1], timeout=60); c.execute(sys.argv[2]); c.commit()', file, sql]);
    const { replicas } = await up.call('tidemark.up.v1.UpService/ListReplicas');
    const own = replicas[0].path.replace(/^\/+/, '');
    const sync = () => run(tidemark, ['replica', 'sync', copy, `${up.url}/${own}`]);
    await write(app, "INSERT INTO notes VALUES ('n', 'first')");
    await sync();
    await write(app, "UPDATE notes SET text = 'here'");
    await write(copy, "UPDATE notes SET text = 'there'");
    await sync();
    const printed = (await run(tidemark, ['replica', 'conflicts', app, '--json'])).stdout.split('\n').filter(Boolean).map((line) => JSON.parse(line));
    const { conflicts } = await up.call(`${own}/tidemark.replica.v1.ReplicaService/ListConflicts`);
    assert.deepEqual(printed, conflicts);
    assert.equal(printed.length, 1);
    assert.deepEqual([printed[0].ours, printed[0].theirs], ['there', 'here']);
});

// A number of store info is a number.
test('store info has no number as text', async () => {
    const [info] = await lines('store', 'info');
    const texts = (value) => (value && typeof value === 'object' ? Object.entries(value).flatMap(([name, one]) => (name.includes('version') ? [] : texts(one))) : [value]);
    assert.deepEqual(texts(info).filter((one) => typeof one === 'string' && /^\d+$/.test(one)), []);
});

test('it ends in good order', async () => {
    assert.deepEqual(await up.stop(), { code: 0, signal: null });
    up.remove();
});
await runCases();

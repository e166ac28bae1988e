// `tidemark up --demo`: data on every service, faults by `tidemark demo`, and what becomes of them; Ctrl-C, kill -9, and going on.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';

import { tidemark } from '../clients/deps.mjs';
import { after, runCases, test } from '../clients/cases.mjs';
import { Up, until } from '../web/up.mjs';

const DEMO = ['--demo', '--demo-agents', '20'];
const colony = 'tidemark.colony.v1.ColonyService';
const run = promisify(execFile);

const begun = Date.now();
const up = await Up.start(DEMO);
after(async () => {
    await up.stop('SIGKILL');
    up.remove();
});

// A command against the running service; its lines as objects. Whoever waits for something asks the service itself: that costs no process each time.
async function ask(...words) {
    const { stdout } = await run(tidemark, [...words, '--address', up.url.slice('http://'.length), '--json']);
    return stdout.split('\n').filter(Boolean).map((line) => JSON.parse(line));
}

async function count(sql) {
    return Number((await up.call(`${colony}/Query`, { sql })).rows[0][0]);
}

const gapsOf = async (agent_id) => (await up.call(`${colony}/ListGaps`, { agent_id })).gaps;
const lake = (sql) => up.call('tidemark.lake.v1.LakeService/Query', { sql });
const replica = (name, method) => up.call(`replica/${name}/tidemark.replica.v1.ReplicaService/${method}`);
const digests = async (name) => (await replica(name, 'Digests')).tables;
const members = async () => {
    const demo = await up.call('tidemark.up.v1.DemoService/GetDemo');
    return new Map([...demo.members, ...demo.workers.map((row) => ({ ...row, kind: 'worker', pid: Number(row.pid) }))].map((row) => [row.name, row]));
};

// ---- data on every service ----

test('real agents and simulated ones are read, all data types', async () => {
    const kinds = (await ask('demo', 'ls')).map((row) => row.kind);
    assert.equal(kinds.filter((kind) => kind === 'process').length, 4);
    assert.equal(kinds.filter((kind) => kind === 'simulated').length, 16);
    assert.equal(kinds.filter((kind) => kind === 'worker').length, 2);
    await until(() => count('SELECT count(DISTINCT agent_id) FROM spans'), (seen) => seen >= 20);
    for (const table of ['system_metrics', 'ebpf_http_metrics', 'ebpf_grpc_metrics', 'ebpf_sql_metrics', 'ebpf_traces', 'cpu_profile_samples', 'memory_profile_samples'])
        await until(() => count(`SELECT count(DISTINCT agent_id) FROM ${table}`), (seen) => seen >= 20);
    // What the services of real agents say goes by OTLP alone.
    await until(() => count("SELECT count(*) FROM cpu_profile_samples WHERE agent_id = 'shop-berlin-1' AND service_id = 'storefront' AND build_id = 'demo' AND tgid = 1"), (seen) => seen > 0);
});

test('how checkpoints and heads have gone is remembered', async () => {
    const history = await until(() => up.call(`${colony}/CheckpointHistory`, { agent_id: 'shop-berlin-1' }), ({ courses }) => courses?.some((one) => one.data_type === 'telemetry' && one.times.length > 1));
    for (const { times, last_seq_id, head_seq_id } of history.courses) {
        assert.equal(last_seq_id.length, times.length);
        assert.equal(head_seq_id.length, times.length);
        times.forEach((time, at) => {
            assert(Math.abs(Date.now() - Date.parse(time)) < 900000);
            assert(BigInt(last_seq_id[at]) <= BigInt(head_seq_id[at]));
        });
    }
    await assert.rejects(up.call(`${colony}/CheckpointHistory`, {}), /agent_id/);
});

// Faults that take their time begin here, and are looked at below.
const broken = {};
test('each fault is asked for by the command, and told in words', async () => {
    for (const [fault, agent] of [['late', 'shop-turin-1'], ['wipe', 'shop-berlin-2'], ['pause', 'shop-lyon-2'], ['drop', 'shop-berlin-1'], ['kill', '']]) {
        if (fault === 'kill') broken.workers = await until(members, (all) => all.get('worker-1').pid && all.get('worker-2').pid);
        const [told] = await ask('demo', fault, ...(agent ? [agent] : []));
        assert.equal(told.fault, fault);
        assert.equal(told.agent_id ?? '', agent);
        assert(told.words.length > 20);
    }
});

test('who is disturbed is shown, and a pause is ended', async () => {
    const now = await members();
    assert.equal(now.get('shop-lyon-2').state, 'paused');
    assert.equal(now.get('shop-berlin-1').state, 'dropped');
    // Its head is told, its records are not given: a lag that grows.
    const lagOf = async () => {
        const fleet = await up.call(`${colony}/Fleet`, { brief: true });
        const at = fleet.data_types.indexOf('telemetry');
        const line = fleet.agents.find((one) => one.agent_id === 'shop-lyon-2');
        return { records: Number(line.lag_records?.[at] ?? 0), ms: Number(line.lag_ms?.[at] ?? 0) };
    };
    const first = await until(lagOf, (lag) => lag.records > 0 && lag.ms > 0);
    await until(lagOf, (lag) => lag.ms > first.ms);
    await ask('demo', 'resume', 'shop-lyon-2');
    assert.equal((await members()).get('shop-lyon-2').state, 'well');
});

test('the gap of records that are late is detected', async () => {
    const gaps = await until(() => gapsOf('shop-turin-1'), (found) => found.length > 0);
    assert.equal(gaps[0].status === 'detected' || gaps[0].status === 'recovering', true, gaps[0].status);
    assert.equal(gaps[0].reason, 'missing');
});

test('an agent that lost its store has permanent gaps with their reason', async () => {
    const gaps = await until(() => gapsOf('shop-berlin-2'), (found) => found.length > 0);
    for (const gap of gaps) {
        assert.equal(gap.status, 'permanent');
        assert.equal(gap.reason, 'session changed');
    }
});

test('tasks are worked on, with checkpoints', async () => {
    await until(() => up.call('tidemark.work.v1.WorkService/Stats'), (stats) => JSON.stringify(stats).includes('demo.report'));
    await until(() => count('SELECT count(*) FROM checkpoints'), (found) => found > 0);
});

test('a worker that was killed is gone, and comes back', async () => {
    const killed = broken.workers;
    await until(members, (all) => ['worker-1', 'worker-2'].some((name) => all.get(name).pid !== killed.get(name).pid));
});

test('two databases are written to, and equal', async () => {
    const { replicas } = await up.call('tidemark.up.v1.UpService/ListReplicas');
    assert.deepEqual(replicas.map((row) => [row.name, row.path]), [['north', '/replica/north'], ['south', '/replica/south']]);
    await until(async () => [await digests('north'), await digests('south')], ([north, south]) =>
        north.length === 2 && Number(north[0].rows) > 0 && JSON.stringify(north) === JSON.stringify(south));
    await until(() => replica('south', 'GetStatus'), (status) => Number(status.conflicts) > 0);
});

test('any program may sync with a database by its path', async () => {
    const copy = path.join(up.directory, 'copy.db');
    const { stdout } = await run(tidemark, ['replica', 'sync', copy, `${up.url}/replica/north`, '--json']);
    assert.equal(JSON.parse(stdout).proven, true);
});

test('a lake has rows, snapshots and a fork', async () => {
    await until(() => up.call('tidemark.lake.v1.LakeService/ListCatalogs'), ({ catalogs }) =>
        catalogs.some((row) => row.name === 'demo') && catalogs.some((row) => row.parent === 'demo'));
    const rows = (await lake('SELECT count(*) FROM demo.shop.orders')).rows[0][0];
    assert(Number(rows) >= 20);
});

test('the dashboard is told which views there are', async () => {
    const { views } = await (await fetch(`${up.url}/about`)).json();
    for (const view of ['fleet', 'replication', 'lake', 'demo']) assert(views.includes(view));
});

test('what was late is recovered, nothing is unexplained', async () => {
    const [gap] = await until(() => gapsOf('shop-turin-1'), ([found]) => found.status === 'recovered');
    assert.notEqual(gap.recovered_at, null);
    const numbers = Number(gap.end_seq_id) - Number(gap.start_seq_id) + 1;
    const stored = await count(`SELECT count(*) FROM spans WHERE agent_id = 'shop-turin-1' AND seq_id BETWEEN ${gap.start_seq_id} AND ${gap.end_seq_id}`);
    const [row] = await ask('gaps', 'ls', '--agent', 'shop-turin-1');
    assert.equal(row.status, 'recovered');
    assert.equal(stored, numbers);
    assert.equal((await up.call(`${colony}/Fleet`)).unexplained, 0);
});

// ---- refusals ----

const failing = (...words) => run(tidemark, words).then(() => assert.fail('it succeeded'), (error) => error);

test('a fault that cannot be is refused, with what to do', async () => {
    const address = ['--address', up.url.slice('http://'.length)];
    const unknown = await failing('demo', 'pause', 'nobody', ...address);
    assert.match(unknown.stderr, /no agent 'nobody'.*demo ls/s);
    const real = await failing('demo', 'late', 'shop-berlin-1', ...address);
    assert.match(real.stderr, /real agent/);
    const nowhere = await failing('demo', 'ls', '--address', '127.0.0.1:1');
    assert.match(nowhere.stderr, /tidemark up --demo/);
});

// ---- Ctrl-C, kill -9, again ----

// Positions that are open, by agent and type: the session that they are of, and how far they are.
async function positions() {
    const { checkpoints } = await up.call(`${colony}/ListCheckpoints`);
    return new Map(checkpoints.map((row) => [`${row.agent_id} ${row.data_type}`, { session: row.session_id, last: Number(row.last_seq_id) }]));
}

async function goesOn(before, lostBefore) {
    const later = await until(positions, (now) => [...before.keys()].every((key) => now.has(key)));
    for (const [key, row] of before) {
        assert.equal(later.get(key).session, row.session, key);
        assert(later.get(key).last >= row.last, key);
    }
    const moving = ['shop-berlin-1 telemetry', 'shop-turin-1 telemetry'];
    await until(positions, (now) => moving.every((key) => now.get(key).last > before.get(key).last));
    const fleet = await up.call(`${colony}/Fleet`);
    assert.equal(fleet.unexplained, 0);
    assert.equal(await lost(), lostBefore);
    assert.equal(fleet.agents.length, 21);
}

const sessionsOf = (rows, agent) => new Set([...rows].filter(([key]) => key.startsWith(`${agent} `)).map(([, row]) => row.session));

const lost = async () => (await up.call(`${colony}/ListGaps`, { statuses: ['permanent'], limit: 1000 })).gaps.length;

for (const [signal, words] of [['SIGINT', 'Ctrl-C stops it cleanly, and a second start goes on where it stopped'], ['SIGKILL', 'kill -9, and the next start goes on']]) {
    test(words, async () => {
        // Each stream of the agent that lost its store meets the new session by itself, and counts its loss then.
        const before = await until(positions, (now) => sessionsOf(now, 'shop-berlin-2').size === 1);
        const permanent = await lost();
        const ended = await up.stop(signal);
        if (signal === 'SIGINT') assert.deepEqual(ended, { code: 0, signal: null });
        await up.again(DEMO);
        await goesOn(before, permanent);
    });
}

test('nothing of it is left when it has stopped', async () => {
    const pids = [...(await until(members, (all) => all.get('worker-1').pid)).values()].map((row) => row.pid).filter(Boolean);
    const children = readFileSync(`/proc/${up.process.pid}/task/${up.process.pid}/children`, 'utf8').split(' ').filter(Boolean);
    await up.stop('SIGINT');
    for (const pid of [...pids, ...children]) assert(!existsSync(`/proc/${pid}`), `process ${pid}`);
    console.log(`# all of it took ${Date.now() - begun} ms`);
});

await runCases();

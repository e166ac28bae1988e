// capabilities.mjs - what the examples of every language must do: the same programs in other words, with the same arguments and the same lines.
//
//     declareCases({ telemetry: (url, file) => ['python3', 'telemetry.py', url, file], ... })
//
// Each case holds the program's own words against what the store then has.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

import { after, test } from '../clients/cases.mjs';
import { Running, cli, inside, json, lossyWay, run, start, stopAll } from './daemons.mjs';

const three = (first) =>
    ['GET /cart', 'POST /order', 'GET /receipt'].map((name, index) => `span ${first + index} checkout ${name} 12 ms\n`).join('');

// ---- agent and colony ----

function declareTelemetry({ telemetry, colony }) {
    let agent;

    test('telemetry: what was sent is read once, by number, also by the next run', async () => {
        agent = await start('agent', '--store', inside('agent.db'), '--grpc', '127.0.0.1:0', '--http', '127.0.0.1:0', '--collect', '0s');
        assert.equal(await run(telemetry(`http://${agent.http}`, inside('position'))), three(1));
        assert.equal(await run(telemetry(`http://${agent.http}`, inside('position'))), three(4));
    });

    test('telemetry: after a lost answer it is sent again: twice, and never missing', async () => {
        const way = await lossyWay(agent.http, 'traces');
        assert.equal(await run(telemetry(way.url, inside('position'))), three(7) + three(10));
        way.close();
        const spans = await json('sql', 'SELECT span_id FROM otel_spans_local WHERE seq_id > 6', '--store', inside('agent.db'));
        assert.equal(new Set(spans.map(({ span_id: id }) => id)).size, 3);
    });

    test('colony: rows, gaps with their reasons, and a ledger that balances', async () => {
        const store = ['--store', inside('colony.db')];
        await cli('colony', 'agent', 'add', 'web-1', agent.grpc, ...store);
        await cli('colony', 'poll', '--once', ...store);
        await run(telemetry(`http://${agent.http}`, inside('position'))); // 13, 14 and 15
        await cli('colony', 'checkpoint', 'set', 'web-1', 'telemetry', '14', ...store); // 13 and 14 are given up
        const served = await start('colony', ...store, '--http', '127.0.0.1:0');
        assert.equal(
            await run(colony(`http://${served.http}`)),
            '1 of 1 agents caught up\ncheckout: 13 spans\ngap web-1 telemetry 13..14 permanent (operator)\n' +
                'ledger web-1 telemetry: head 15 stored 13 lost 2\nthe ledger balances\n',
        );
    });
}

// ---- work and journal ----

function declareWork({ workAdd, workRun, journal, isOverHttp, needsSweep, ownLines = (said) => said }) {
    const store = inside('work.db');
    const effects = inside('effects');
    const readEffects = () => readFileSync(effects, 'utf8');
    let served;
    const place = (way) => ({ url: way?.url ?? `http://${served.listen}`, address: served.listen, store });
    const pagesOf = async (item) =>
        (await json('checkpoint', 'ls', '--work-item', item, '--type', 'manual_checkpoint', '--store', store)).length;
    const attemptsOf = async (item) => (await json('work', 'show', item, '--store', store))[0].attempts.map(({ outcome }) => outcome);

    // Not in the middle of a write: nobody else could write to the file until it goes on.
    async function freeze(worker) {
        for (;;) {
            worker.signal('SIGSTOP');
            try {
                return await run(['sqlite3', '-bail', '-cmd', '.timeout 300', store, 'BEGIN IMMEDIATE; ROLLBACK']);
            } catch {
                worker.signal('SIGCONT');
            }
        }
    }

    test('work: an item is added once, worked on, and has its effect once', async () => {
        served = await start('serve', '--store', store, '--listen', '127.0.0.1:0');
        assert.equal(await run(workAdd(place(), 'one', 3)), 'added\n');
        assert.equal(await run(workAdd(place(), 'one', 3)), 'was there\n');
        assert.equal(
            ownLines(await run(workRun(place(), effects, { name: 'w1', leaseMs: 30000, items: 1 }))),
            'one attempt 1 behind page 0\npage 1\npage 2\npage 3\none finished\n',
        );
        assert.equal(readEffects(), 'one 3 pages\n');
        assert.equal(await pagesOf('one'), 3);
        assert.deepEqual(await attemptsOf('one'), ['completed']);
    });

    test('work: who lost its lease stops; another goes on behind its last page, and the effect happens once', async () => {
        await run(workAdd(place(), 'long', 20));
        const stalled = new Running(workRun(place(), effects, { name: 'stalled', leaseMs: 1000, items: -1 }));
        await stalled.line(/^page 3$/);
        await freeze(stalled);
        const others = run(workRun(place(), effects, { name: 'other', leaseMs: 30000, items: 1 }));
        while (needsSweep && (await attemptsOf('long'))[0] !== 'expired') await cli('work', 'sweep', '--store', store);
        const other = ownLines(await others);
        stalled.signal('SIGCONT');
        await stalled.line(/^long lease lost$/);
        await stalled.stop();

        const [, behind] = /^long attempt \d behind page (\d+)\n/.exec(other);
        assert(behind >= 3, other);
        assert.match(other, /page 20\nlong finished\n$/);
        assert.equal(readEffects(), 'one 3 pages\nlong 20 pages\n');
        assert.equal(await pagesOf('long'), 20);
        const attempts = await attemptsOf('long');
        assert.deepEqual([...new Set(attempts)], ['expired', 'completed'], attempts);
    });

    test('work: who is told to stop gives its item back without spending an attempt', async () => {
        await run(workAdd(place(), 'given-back', 20));
        const worker = new Running(workRun(place(), effects, { name: 'w1', leaseMs: 30000, items: -1 }));
        await worker.line(/^page 2$/);
        await worker.stop();
        const [item] = await json('work', 'show', 'given-back', '--store', store);
        assert.equal(item.status, 'pending');
        assert.deepEqual(await attemptsOf('given-back'), ['released']);
        await cli('work', 'cancel', 'given-back', '--store', store);
    });

    if (isOverHttp)
        test('work: an answer that is lost changes nothing: page, key and item are there once', async () => {
            const way = await lossyWay(served.listen, 'AddItems', 'Checkpoint', 'Begin', 'Finish');
            assert.match(await run(workAdd(place(way), 'lossy', 2)), /^was there$/m);
            const said = await run(workRun(place(way), effects, { name: 'w1', leaseMs: 2000, items: 1 }));
            way.close();
            assert.match(said, /^lossy finished$/m);
            assert.equal(readEffects(), 'one 3 pages\nlong 20 pages\nlossy 2 pages\n');
            assert.equal(await pagesOf('lossy'), 2);
            assert.deepEqual((await attemptsOf('lossy')).at(-1), 'completed');
        });

    test('journal: steps are appended once, compared, and followed from where the reader stood', async () => {
        const head = (await json('checkpoint', 'head', '--store', store))[0].global_sequence;
        const before = await run(journal(place(), inside('followed'), 'draft', 'outline', 'text'));
        assert.match(before, /^outline: 1 of draft\ntext: 2 of draft\nadded \/done\/1 "text"\n/);
        assert(before.endsWith(`${head + 1} draft outline\n${head + 2} draft text\n`), before);
        assert.equal(
            await run(journal(place(), inside('followed'), 'draft', 'outline', 'text', 'review')),
            'outline: 1 of draft (was there)\ntext: 2 of draft (was there)\nreview: 3 of draft\n' +
                `added /done/1 "text"\nadded /done/2 "review"\n${head + 3} draft review\n`,
        );
        assert.equal((await json('checkpoint', 'ls', '--task', 'draft', '--store', store)).length, 3);
    });
}

// ---- replica and lake ----

function declareReplica({ replica }) {
    test('replica: plain SQL on two nodes meets in both', async () => {
        const [mine, other] = [inside('notes.db'), inside('other.db')];
        await run(['sqlite3', other, 'CREATE TABLE notes (id TEXT NOT NULL PRIMARY KEY, author TEXT, text TEXT)']);
        await cli('replica', 'track', other, 'notes');
        await run(['sqlite3', other, "INSERT INTO notes VALUES ('bob-1', 'bob', 'hello')"]);
        const { grpc } = await start('replica', 'serve', other, '--listen', '127.0.0.1:0');
        assert.equal(await run(replica(mine, grpc, 'ann')), 'pulled 1 pushed 3\nann: 3 notes\nbob: 1 notes\n');
        assert.equal(await run(['sqlite3', other, 'SELECT count(*) FROM notes']), '4\n');
        assert.deepEqual(await json('replica', 'digest', mine), await json('replica', 'digest', other));
    });
}

function declareLake({ lake, isLakeOverHttp }) {
    let served;
    const place = (way) => ({ url: way?.url ?? `http://${served.listen}`, store: inside('lake.db') });
    const table = '5 orders, 17.50\ncorrected: 5 orders, 114.00\n';
    const snapshots = async () => (await json('lake', 'snapshots', 'shop', '--store', inside('lake.db'))).map(({ message }) => message);

    test('lake: a day is loaded once and corrected; the snapshot before stays as it was', async () => {
        served = await start('lake', 'serve', '--store', inside('lake.db'), '--data', inside('lake'), '--listen', '127.0.0.1:0');
        const first = await run(lake(place(), 'shop', '2026-01-29'));
        const [, snapshot] = /^snapshot (\d+): 5 rows\n/.exec(first);
        assert(first.endsWith(`loaded: ${table}`), first);
        assert.equal(await run(lake(place(), 'shop', '2026-01-29')), `snapshot ${snapshot} (was there)\nloaded: ${table}`);
        assert.equal((await snapshots()).filter((message) => message === 'orders of 2026-01-29').length, 1);
        await cli('lake', 'verify', '--store', inside('lake.db'));
    });

    if (isLakeOverHttp)
        test('lake: an answer that is lost is found by its key, and there is no second snapshot', async () => {
            const way = await lossyWay(served.listen, 'CreateTable', 'Append', 'Commit');
            const said = await run(lake(place(way), 'lossy', '2026-01-30'));
            way.close();
            assert.match(said, /^snapshot \d+ \(was there\)\nloaded: 5 orders, 17\.50\ncorrected: 5 orders, 114\.00\n$/);
            const made = await json('lake', 'snapshots', 'lossy', '--store', inside('lake.db'));
            assert.equal(made.filter(({ message }) => message === 'orders of 2026-01-30').length, 1);
            assert.equal(made.filter(({ message }) => message === 'order 3').length, 1);
        });
}

export function declareCases(language) {
    declareTelemetry(language);
    declareWork(language);
    declareReplica(language);
    declareLake(language);
    after(stopAll);
}

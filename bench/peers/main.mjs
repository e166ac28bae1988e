// main.mjs - claimed and finished jobs per second of the queues people would pick instead; see scripts/bench/bench-peers.
//
// Jobs do nothing; every claim and every finish is on disk before it is answered. Contestants take turns in every round
// (contestants.mjs); medians are reported. Everything made here (servers, databases, processes, files) is undone at the
// end, after a failure and on Ctrl-C.
import { chmodSync, mkdtempSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';

import { Command, Contestant, MODES } from './contestants.mjs';
import { checkDurability, makeDatabase } from './database.mjs';
import { peers } from './peers.mjs';
import { startBeanstalkd, startPostgres, startRedis } from './servers.mjs';
import { defer, isUndoing, undo } from './undo.mjs';

const USAGE = `usage: scripts/bench/bench-peers [OPTION...]
  --install         obtain what the benchmark needs, and end
  --seconds N       measured per contestant and round (5, or TIDEMARK_BENCH_SECONDS)
  --rounds N        every contestant in turn, so many times; the median is shown (1)
  --quick           half a second each
  --workers N       workers of every contestant (16)
  --processes N     share the workers among so many processes (1)
  --jobs N          jobs waiting at the start of a stretch, at least (20000); fewer for beanstalkd, which syncs each
  --only A,B        these contestants: ${peers.map(peer => peer.name).join(', ')}
  --pg URL          a PostgreSQL server that runs already, postgres://USER@HOST:PORT/DATABASE; databases are made in it
                    and dropped
  --also COMMAND    one more contestant, run in every round: prints lines like those of --json; is given
                    TIDEMARK_BENCH_PG (the server's URL), TIDEMARK_BENCH_SECONDS, TIDEMARK_BENCH_WORKERS
  --json            a line of JSON per contestant instead of a table`;

const DEFAULT_S = 5;
const QUICK_S = 0.5;
const TMPFS_MAGIC = 0x01021994;

class Usage extends Error {}

function readNumber(options, key, { least, whole }) {
    const value = Number(options[key]);
    if (!(value >= least) || !Number.isFinite(value) || (whole && !Number.isInteger(value)))
        throw new Usage(`--${key} ${options[key]}: want a ${whole ? 'whole ' : ''}number of ${least} or more`);
    return value;
}

function choosePeers(only) {
    if (only === undefined)
        return peers;
    return only.split(',').map(wanted => {
        const peer = peers.find(one => one.name.toLowerCase() === wanted.trim().toLowerCase());
        if (!peer)
            throw new Usage(`--only ${wanted}: no such contestant`);
        return peer;
    });
}

function parseOptions(argv) {
    const text = { type: 'string' };
    const flag = { type: 'boolean', default: false };
    const seconds = process.env.TIDEMARK_BENCH_SECONDS || String(DEFAULT_S);
    let values;
    try {
        ({ values } = parseArgs({ args: argv, options: {
            seconds: { ...text, default: seconds }, rounds: { ...text, default: '1' }, quick: flag,
            workers: { ...text, default: '16' }, processes: { ...text, default: '1' },
            jobs: { ...text, default: '20000' }, only: text, pg: text, also: { ...text, multiple: true, default: [] },
            json: flag, help: flag,
        } }));
    } catch (error) {
        throw new Usage(error.message);
    }
    const workers = readNumber(values, 'workers', { least: 1, whole: true });
    const processes = readNumber(values, 'processes', { least: 1, whole: true });
    if (workers % processes !== 0)
        throw new Usage(`--processes ${processes}: ${workers} workers cannot be shared evenly`);
    return {
        ...values, workers, processes,
        seconds: values.quick ? QUICK_S : readNumber(values, 'seconds', { least: 0.1 }),
        rounds: readNumber(values, 'rounds', { least: 1, whole: true }),
        jobs: readNumber(values, 'jobs', { least: 1, whole: true }),
        peers: choosePeers(values.only),
    };
}

async function startServers(options, place) {
    const wanted = new Set(options.peers.map(peer => peer.server));
    const addresses = {};
    if (wanted.has('postgres') || options.also.length > 0) {
        addresses.postgres = options.pg ?? await startPostgres(place, defer);
        addresses.postgresVersion = await checkDurability(addresses.postgres);
    }
    if (wanted.has('redis'))
        addresses.redis = await startRedis(place, defer);
    if (wanted.has('beanstalkd'))
        addresses.beanstalkd = await startBeanstalkd(place, defer);
    return addresses;
}

async function openContestants(options, addresses) {
    const all = [];
    for (const peer of options.peers) {
        for (const mode of peer.modes) {
            const contestant = new Contestant(peer, mode, options);
            const address = peer.server === 'postgres'
                ? await makeDatabase(addresses.postgres, `${peer.name}_${mode}`, defer)
                : addresses[peer.server];
            await contestant.open(address);
            all.push(contestant);
        }
    }
    return all;
}

// ---- what is shown ----

function summarise({ peer, mode, version, rates, bytes }) {
    const sorted = [...rates].sort((a, b) => a - b);
    const middle = sorted.length >> 1;
    const median = sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
    return { peer, mode, jobs_per_s: Math.round(median), version, lowest: Math.round(sorted[0]),
        highest: Math.round(sorted.at(-1)), rounds: rates.map(Math.round), bytes_per_job: bytes };
}

function printRow(name, figures) {
    console.log(`  ${name.padEnd(58)} ${figures.map(figure => String(figure).padStart(10)).join(' ')}`);
}

function printTable(lines, options, addresses) {
    console.log(`\nwork of other queues: claimed and finished, ${options.workers} workers, synced` +
        (addresses.postgresVersion ? `; PostgreSQL ${addresses.postgresVersion}` : ''));
    for (const mode of Object.keys(MODES)) {
        const shown = lines.filter(line => line.mode === mode);
        if (shown.length === 0)
            continue;
        printRow(`jobs/s, ${MODES[mode]}`, ['median', 'lowest', 'highest']);
        for (const { peer, version, jobs_per_s: median, lowest, highest } of shown)
            printRow(`${peer} ${version}`.trim(), [median, lowest, highest]);
    }
}

function showProgress(text) {
    if (process.stderr.isTTY)
        process.stderr.write(`\r\x1b[K${text}`);
}

async function run(options) {
    const place = mkdtempSync(path.join(tmpdir(), 'tidemark-bench-'));
    defer(() => rmSync(place, { recursive: true, force: true }));
    chmodSync(place, 0o711); // the way to the directory of PostgreSQL's own user
    if (statfsSync(place).type === TMPFS_MAGIC)
        console.error(`bench-peers: ${tmpdir()} is in memory, where a sync costs nothing: set TMPDIR to a disk`);
    const addresses = await startServers(options, place);
    const contestants = await openContestants(options, addresses);
    const commands = options.also.map(command => new Command(command, { TIDEMARK_BENCH_PG: addresses.postgres,
        TIDEMARK_BENCH_SECONDS: String(options.seconds), TIDEMARK_BENCH_WORKERS: String(options.workers) }));
    const all = [...contestants, ...commands];
    for (const one of all) {
        showProgress(`warming up: ${one.peer?.name ?? one.command}`);
        await one.prepare();
    }
    for (let round = 1; round <= options.rounds; round++) {
        for (const one of all) {
            showProgress(`round ${round} of ${options.rounds}: ${one.peer?.name ?? one.command}`);
            await one.takeTurn();
        }
    }
    showProgress('');
    const results = [...contestants.map(one => one.result), ...commands.flatMap(one => [...one.results.values()])];
    const lines = results.map(summarise);
    if (options.json)
        lines.forEach(line => console.log(JSON.stringify(line)));
    else
        printTable(lines, options, addresses);
}

function report(error) {
    showProgress('');
    console.error(`bench-peers: ${error.message}`);
    if (error instanceof Usage)
        console.error(USAGE);
}

// Once undoing has begun, what fails is what it ended.
async function end(code, error) {
    if (isUndoing())
        return;
    if (error)
        report(error);
    await undo();
    process.exit(code);
}

for (const [signal, number] of [['SIGINT', 2], ['SIGTERM', 15], ['SIGHUP', 1]])
    process.on(signal, () => end(128 + number));
process.on('uncaughtException', error => end(1, error));

try {
    const options = parseOptions(process.argv.slice(2));
    if (options.help)
        console.log(USAGE);
    else
        await run(options);
    await end(0);
} catch (error) {
    await end(error instanceof Usage ? 2 : 1, error);
}

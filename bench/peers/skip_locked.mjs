// skip_locked.mjs - what PostgreSQL alone gives: pgbench with 16 clients, a claim and a finish as two transactions, by
// one or by a hundred (claim_one.sql, claim_hundred.sql).
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

import { connectTo } from './database.mjs';
import { ask, findPostgres } from './deps.mjs';

export const name = 'SKIP LOCKED by pgbench';
export const server = 'postgres';
export const modes = ['single', 'batch'];
export const findVersion = () => /[\d.]+/.exec(ask(findPostgres('pgbench'), '--version'))[0];

const RUN_S = 3600; // until it is stopped
const THREADS_MAX = 2;
const SCRIPTS = { single: 'claim_one.sql', batch: 'claim_hundred.sql' };

export async function openQueue(url) {
    const client = await connectTo(url);
    await client.query(`CREATE TABLE jobs (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        state text NOT NULL DEFAULT 'ready',
        payload jsonb NOT NULL DEFAULT '{}',
        claimed_by integer,
        claimed_at timestamptz,
        done_at timestamptz)`);
    await client.query(`CREATE INDEX jobs_ready ON jobs (id) WHERE state = 'ready'`);
    return {
        async fill(count) {
            await client.query('TRUNCATE jobs');
            await client.query('INSERT INTO jobs (state) SELECT $1 FROM generate_series(1, $2)', ['ready', count]);
            await client.query('VACUUM ANALYZE');
        },
        async countLeft() {
            return Number((await client.query(`SELECT count(*) FROM jobs WHERE state <> 'done'`)).rows[0].count);
        },
        close: () => client.end(),
    };
}

// pgbench goes on with the clients that are left when one fails, and says so: that is a failure here.
export async function startWorkers(url, mode, workers) {
    const script = fileURLToPath(new URL(SCRIPTS[mode], import.meta.url));
    const options = ['--no-vacuum', '--protocol=prepared', `--client=${workers}`,
        `--jobs=${Math.min(workers, THREADS_MAX)}`, `--time=${RUN_S}`, `--file=${script}`, url];
    const bench = spawn('setpriv', ['--pdeathsig', 'TERM', '--', findPostgres('pgbench'), ...options],
        { detached: true, stdio: ['ignore', 'ignore', 'pipe'] });
    let said = '';
    bench.stderr.setEncoding('utf8').on('data', text => { said += text; });
    let isStopping = false;
    const ended = new Promise(resolve => { bench.once('close', resolve); });
    ended.then(() => {
        if (!isStopping)
            throw new Error(`pgbench ended: ${said}`);
    });
    return {
        async stop() {
            isStopping = true;
            bench.kill('SIGTERM');
            await ended;
            if (said !== '')
                throw new Error(`pgbench: ${said}`);
        },
    };
}

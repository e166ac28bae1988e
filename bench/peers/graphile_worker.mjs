// graphile_worker.mjs - one runner with 16 concurrent jobs.
//
// Its workers do not wait for a finished job to be stored: they hand it on and ask for the next. So its own events
// tell of jobs that are not finished yet, and only the table's rows are counted. "batch" is its local queue, with
// completions gathered.
import { connectTo } from './database.mjs';
import { need, readVersion } from './deps.mjs';

export const name = 'graphile-worker';
export const server = 'postgres';
export const modes = ['single', 'batch'];
export const findVersion = () => readVersion('graphile-worker');

// In hand as many as 16 workers that take a hundred each. Of delays of 0, 5 and 50 ms the last was the fastest.
const makeBatches = workers => ({
    localQueue: { size: 100 * workers },
    completeJobBatchDelay: 50,
    failJobBatchDelay: 50,
});

const makeSilentLogger = () => new (need('graphile-worker').Logger)(() => () => {});

export async function openQueue(url) {
    const { makeWorkerUtils } = need('graphile-worker');
    const utils = await makeWorkerUtils({ connectionString: url, logger: makeSilentLogger() });
    await utils.migrate();
    await utils.release();
    const client = await connectTo(url);
    return {
        async fill(count) {
            await client.query('TRUNCATE graphile_worker._private_jobs');
            await client.query(`SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(
                SELECT ('nothing', '{}', NULL, NULL, NULL, NULL, NULL, NULL)::graphile_worker.job_spec
                FROM generate_series(1, $1)))`, [count]);
            await client.query('VACUUM ANALYZE');
        },
        async countLeft() {
            return Number((await client.query('SELECT count(*) FROM graphile_worker._private_jobs')).rows[0].count);
        },
        close: () => client.end(),
    };
}

export async function startWorkers(url, mode, workers) {
    const { run } = need('graphile-worker');
    const runner = await run({
        connectionString: url,
        concurrency: workers,
        // Claims and completions are under way at once: room for both.
        maxPoolSize: 2 * workers + 2,
        noHandleSignals: true,
        logger: makeSilentLogger(),
        taskList: { nothing: () => {} },
        crontab: '',
        preset: mode === 'batch' ? { worker: makeBatches(workers) } : undefined,
    });
    return { stop: () => runner.stop() };
}

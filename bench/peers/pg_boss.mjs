// pg_boss.mjs - 16 loops of fetch and complete, by one or by a hundred.
import { connectTo } from './database.mjs';
import { need, readVersion } from './deps.mjs';

export const name = 'pg-boss';
export const server = 'postgres';
export const modes = ['single', 'batch'];
export const findVersion = () => readVersion('pg-boss');

const QUEUE = 'nothing';
const INSERT_MAX = 5000;

async function startBoss(url, connections) {
    const { PgBoss } = need('pg-boss');
    const boss = new PgBoss({ connectionString: url, max: connections, supervise: false, schedule: false });
    boss.on('error', error => { throw error; });
    await boss.start();
    return boss;
}

export async function openQueue(url) {
    const boss = await startBoss(url, 2);
    await boss.createQueue(QUEUE);
    const client = await connectTo(url);
    return {
        async fill(count) {
            await boss.deleteAllJobs(QUEUE);
            for (let left = count; left > 0; left -= INSERT_MAX)
                await boss.insert(QUEUE, Array.from({ length: Math.min(left, INSERT_MAX) }, () => ({ data: {} })));
            await client.query('VACUUM ANALYZE');
        },
        async countLeft() {
            return Number((await client.query(`SELECT count(*) FROM pgboss.job
                WHERE name = $1 AND state < 'completed'`, [QUEUE])).rows[0].count);
        },
        async close() {
            await client.end();
            await boss.stop({ graceful: false });
        },
    };
}

export async function startWorkers(url, mode, workers) {
    const boss = await startBoss(url, workers);
    const options = { batchSize: mode === 'batch' ? 100 : 1 };
    let isRunning = true;
    const loop = async () => {
        while (isRunning) {
            const jobs = await boss.fetch(QUEUE, options);
            if (jobs.length > 0)
                await boss.complete(QUEUE, jobs.map(job => job.id));
        }
    };
    const loops = Promise.all(Array.from({ length: workers }, loop));
    return {
        async stop() {
            isRunning = false;
            await loops;
            await boss.stop({ graceful: false });
        },
    };
}

// bullmq.mjs - one Worker with 16 concurrent jobs, on Redis with appendfsync always. Finishing a job brings the next in
// the same answer. It has no batches.
import { ask, need, readVersion } from './deps.mjs';

export const name = 'BullMQ';
export const server = 'redis';
export const modes = ['single'];
export const findVersion = () =>
    `${readVersion('bullmq')}, redis ${/v=([\d.]+)/.exec(ask('redis-server', '--version'))[1]}`;

const QUEUE = 'nothing';
const ADD_MAX = 1000;

export async function openQueue(socket) {
    const { Queue } = need('bullmq');
    const Redis = need('ioredis');
    const redis = new Redis({ path: socket, maxRetriesPerRequest: null });
    const settings = (await redis.config('GET', 'append*')).join(' ');
    if (!/\bappendonly yes\b/.test(settings) || !/\bappendfsync always\b/.test(settings))
        throw new Error(`redis does not sync: ${settings}`);
    const queue = new Queue(QUEUE, { connection: redis });
    return {
        async fill(count) {
            await redis.flushall();
            for (let left = count; left > 0; left -= ADD_MAX)
                await queue.addBulk(Array.from({ length: Math.min(left, ADD_MAX) },
                    () => ({ name: QUEUE, data: {}, opts: { removeOnComplete: true } })));
        },
        async countLeft() {
            return queue.getJobCountByTypes('wait', 'active');
        },
        async close() {
            await queue.close();
            redis.disconnect();
        },
    };
}

export async function startWorkers(socket, _mode, workers) {
    const { Worker } = need('bullmq');
    const worker = new Worker(QUEUE, async () => {}, {
        connection: { path: socket, maxRetriesPerRequest: null },
        concurrency: workers,
    });
    worker.on('error', error => { throw error; });
    await worker.waitUntilReady();
    return { stop: () => worker.close() };
}

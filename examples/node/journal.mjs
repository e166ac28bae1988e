// journal.mjs HOST:PORT POSITION_FILE TASK [STEP...] - appends a checkpoint per step, then follows the journal from where it last stood.
//
//     tidemark serve --store work.db &            # ready listen=127.0.0.1:4319
//     node journal.mjs 127.0.0.1:4319 position.json draft outline text review
//
// By gRPC, because Tail is a stream.
import { fileURLToPath } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';

import grpc from '@grpc/grpc-js';
import loader from '@grpc/proto-loader';

import { loadPosition, savePosition } from './client.mjs';

const { ALREADY_EXISTS, UNAVAILABLE, UNKNOWN, DEADLINE_EXCEEDED } = grpc.status;
const files = ['tidemark/journal/v1/journal.proto', 'tidemark/work/v1/work.proto'];
const includeDirs = [process.env.TIDEMARK_PROTO ?? fileURLToPath(new URL('../../proto', import.meta.url))];
// Longs as texts: a number above 2^53 is not rounded.
const { tidemark } = grpc.loadPackageDefinition(loader.loadSync(files, { includeDirs, longs: String, defaults: true }));

const [address, path, task, ...steps] = process.argv.slice(2);
const journal = new tidemark.journal.v1.JournalService(address, grpc.credentials.createInsecure());
const work = new tidemark.work.v1.WorkService(address, grpc.credentials.createInsecure());

// A unary call, repeated after passing trouble. UNKNOWN and a cut connection: it may have been done; those below may be asked again.
async function call(client, method, request) {
    for (let attempt = 1; ; attempt++) {
        try {
            const deadline = Date.now() + 30_000;
            return await new Promise((resolve, reject) =>
                client[method](request, { deadline }, (error, answer) => (error ? reject(error) : resolve(answer))),
            );
        } catch (error) {
            if (![UNAVAILABLE, UNKNOWN, DEADLINE_EXCEEDED].includes(error.code) || attempt === 8) throw error;
            await sleep(50 * 2 ** attempt);
        }
    }
}

async function append() {
    await call(work, 'CreateTask', { taskId: task, title: task }).catch((error) => {
        if (error.code !== ALREADY_EXISTS) throw error;
    });
    for (const [index, step] of steps.entries()) {
        const checkpoint = {
            checkpointId: `${task}-${step}`, // once, however often it is sent
            taskId: task,
            type: 'manual_checkpoint',
            snapshot: JSON.stringify({ done: steps.slice(0, index + 1) }),
            message: step,
        };
        const [numbers] = (await call(journal, 'Append', { checkpoints: [checkpoint] })).checkpoints;
        console.log(`${step}: ${numbers.sequenceNumber} of ${task}${numbers.isExisting ? ' (was there)' : ''}`);
    }
}

async function compare(a, b) {
    const { differences } = await call(journal, 'Diff', { a: `${task}-${a}`, b: `${task}-${b}` });
    for (const { kind, path: where, after } of differences) console.log(`${kind} ${where} ${after}`);
}

// Tells what happened since the stored position. Tail never ends by itself: here it does at the head of this moment.
async function follow() {
    const position = await loadPosition(path, { global: '0', event: '0' });
    const head = BigInt((await call(journal, 'Head', {})).globalSequence);
    if (BigInt(position.global) >= head) return;
    // A reader that has seen n has seen everything below n: this one number is the whole position (with that of other events).
    const stream = journal.Tail({ globalSequence: position.global, eventId: position.event });
    stream.on('error', (error) => error.code !== grpc.status.CANCELLED && console.error(error.message));
    for await (const event of stream) {
        if (event.event === 'created') {
            const { globalSequence, taskId, message } = event.checkpoint;
            console.log(`${globalSequence} ${taskId} ${message}`);
            position.global = globalSequence;
        } else {
            console.log(`${event.event} ${event.firstGlobal}..${event.lastGlobal}`);
            position.event = event.eventId;
        }
        await savePosition(path, position); // behind the work: after a crash the last event comes again, and none is missed
        if (BigInt(position.global) >= head) break;
    }
    stream.cancel();
}

await append();
if (steps.length > 1) await compare(steps[0], steps.at(-1));
await follow();
journal.close();
work.close();

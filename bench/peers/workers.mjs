// workers.mjs - workers of one peer, in a process of their own: theirs is the load, ours the clock.
//
// As a program: PEER MODE WORKERS ADDRESS; obeys 'start' and 'stop' from its parent, and ends when the parent does.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

import { peers } from './peers.mjs';

const file = fileURLToPath(import.meta.url);
const ANSWER_MS = 120_000;

// The parent's side.
export class Workers {
    constructor(peer, mode, workers, address) {
        this.name = `${peer.name}, ${mode}`;
        this.process = fork(file, [peer.name, mode, String(workers), address],
            { stdio: ['ignore', 'ignore', 'inherit', 'ipc'], env: { ...process.env, NO_LOG_SUCCESS: '1' } });
        this.ended = once(this.process, 'exit');
    }

    async tell(word) {
        if (this.process.connected)
            this.process.send(word);
        const [answer] = await Promise.race([
            once(this.process, 'message'),
            this.ended.then(() => ['they ended']),
            sleep(ANSWER_MS, [`they do not ${word}`], { ref: false }),
        ]);
        if (answer !== word)
            throw new Error(`the workers of ${this.name} failed: ${answer}`);
    }

    async close() {
        this.process.kill('SIGKILL');
        await this.ended;
    }
}

// The child's side.
function serve([name, mode, workers, address]) {
    const peer = peers.find(one => one.name === name);
    let running;
    const fail = error => {
        process.send(String(error?.stack ?? error), () => process.exit(1));
    };
    const obey = async word => {
        if (word === 'start') {
            running = await peer.startWorkers(address, mode, Number(workers));
        } else {
            await running.stop();
            running = undefined;
        }
        process.send(word);
    };
    process.on('message', word => obey(word).catch(fail));
    process.on('uncaughtException', fail);
    process.on('disconnect', () => process.exit(0));
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
        process.on(signal, () => {}); // the parent's to answer
}

if (process.argv[1] === file)
    serve(process.argv.slice(2));

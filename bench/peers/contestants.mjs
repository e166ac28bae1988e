// contestants.mjs - those who take turns: a peer in one of its modes, or a command that measures itself.
//
// Per stretch: fill the queue, let the workers drain it, look at what is left when they are warm and again some seconds
// later. A queue that ran dry in between tells nothing: it is filled deeper and measured again. A first, short stretch
// that is not reported finds the depth and warms the programs.
import { spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';

import { defer, forget } from './undo.mjs';
import { Workers } from './workers.mjs';

export const MODES = { single: 'one at a time', batch: 'in batches', add: 'added, batches of 1,000' };

const TRIAL_S = 0.5;
const WARM_S = 0.5;
const DEPTH_MAX = 2_000_000;
const DEPTH_TRIES = 6;
const SLOW_DEPTH = 2000; // to begin with, where every job put in is a sync
const IN_HAND = { single: 1, batch: 100 }; // what a worker may have claimed and not finished

export class Contestant {
    constructor(peer, mode, options) {
        this.peer = peer;
        this.mode = mode;
        this.options = options;
        this.depth = peer.isSlowToFill ? Math.min(SLOW_DEPTH, options.jobs) : options.jobs;
        this.reserve = options.workers * IN_HAND[mode];
        this.rates = [];
    }

    get result() {
        return { peer: this.peer.name, mode: this.mode, version: this.peer.findVersion(), rates: this.rates };
    }

    async open(address) {
        this.queue = await this.peer.openQueue(address);
        defer(() => this.queue.close());
        const { workers, processes } = this.options;
        this.processes = Array.from({ length: processes },
            () => new Workers(this.peer, this.mode, workers / processes, address));
        for (const one of this.processes)
            defer(() => one.close());
    }

    tellAll(word) {
        return Promise.all(this.processes.map(one => one.tell(word)));
    }

    async look() {
        const before = performance.now();
        const left = await this.queue.countLeft();
        return { left, at_ms: (before + performance.now()) / 2 };
    }

    // Jobs per second, or undefined if the queue ran dry.
    async drain(seconds) {
        await this.queue.fill(this.depth);
        await this.tellAll('start');
        await sleep(WARM_S * 1000);
        const first = await this.look();
        await sleep(seconds * 1000);
        const last = await this.look();
        await this.tellAll('stop');
        if (last.left <= this.reserve)
            return undefined;
        return (first.left - last.left) / (last.at_ms - first.at_ms) * 1000;
    }

    async measure(seconds) {
        for (let i = 0; i < DEPTH_TRIES; i++) {
            const rate = await this.drain(seconds);
            if (rate !== undefined)
                return rate;
            this.deepen(4 * this.depth);
        }
        throw new Error(`${this.peer.name}: ${this.depth} jobs are gone within ${seconds} seconds`);
    }

    deepen(depth) {
        this.depth = Math.min(DEPTH_MAX, Math.max(this.depth, Math.ceil(depth)));
    }

    async prepare() {
        const rate = await this.measure(TRIAL_S);
        if (!(rate > 0))
            throw new Error(`${this.peer.name}, ${this.mode}: no job was finished`);
        this.deepen(1.5 * rate * (WARM_S + this.options.seconds) + this.reserve);
    }

    async takeTurn() {
        this.rates.push(await this.measure(this.options.seconds));
    }
}

// A command that measures itself; every turn of it tells of one or more contestants.
export class Command {
    constructor(command, environment) {
        this.command = command;
        this.environment = environment;
        this.results = new Map();
    }

    async prepare() {}

    async takeTurn() {
        const child = spawn('/bin/sh', ['-c', this.command],
            { stdio: ['ignore', 'pipe', 'inherit'], detached: true, env: { ...process.env, ...this.environment } });
        const stop = () => { if (child.exitCode === null) process.kill(-child.pid, 'SIGTERM'); };
        defer(stop);
        let output = '';
        child.stdout.setEncoding('utf8').on('data', text => { output += text; });
        const code = await new Promise((resolve, reject) => {
            child.once('close', resolve);
            child.once('error', reject);
        });
        forget(stop);
        if (code !== 0)
            throw new Error(`'${this.command}' ended with ${code}`);
        for (const line of output.split('\n').filter(one => one.trim() !== ''))
            this.take(JSON.parse(line));
    }

    take({ peer, mode, jobs_per_s: rate, version = '', bytes_per_job: bytes }) {
        if (typeof peer !== 'string' || !(mode in MODES) || typeof rate !== 'number')
            throw new Error(`'${this.command}': want {"peer":...,"mode":"single|batch|add","jobs_per_s":...} per line`);
        const key = `${peer}\n${mode}`;
        if (!this.results.has(key))
            this.results.set(key, { peer, mode, version, rates: [], bytes });
        this.results.get(key).rates.push(rate);
    }
}

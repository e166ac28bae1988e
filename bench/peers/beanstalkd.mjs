// beanstalkd.mjs - 16 connections that reserve a job and delete it; the log is synced before every answer (-f0). The
// protocol has no batches.
import { connect } from 'node:net';

import { ask } from './deps.mjs';

export const name = 'beanstalkd';
export const server = 'beanstalkd';
export const modes = ['single'];
export const isSlowToFill = true;
export const findVersion = () => ask('beanstalkd', '-v').replace(/^beanstalkd\s*/, '');

const FILL_CONNECTIONS = 16;
const TIME_TO_RUN_S = 3600;

// Commands are answered in order, by a line; those named here by a line that ends in a size, and a body.
const WITH_BODY = /^(?:RESERVED \d+|OK) (\d+)$/;

class Connection {
    constructor(socketPath) {
        this.input = '';
        this.waiting = [];
        this.socket = connect(socketPath);
        this.socket.setEncoding('latin1');
        this.socket.on('data', chunk => this.take(chunk));
        this.socket.on('error', error => this.end(error));
        this.socket.on('close', () => this.end(new Error('beanstalkd hung up')));
    }

    take(chunk) {
        this.input += chunk;
        for (;;) {
            const lineEnd = this.input.indexOf('\r\n');
            if (lineEnd < 0)
                return;
            const line = this.input.slice(0, lineEnd);
            const body = WITH_BODY.exec(line);
            const end = lineEnd + 2 + (body ? Number(body[1]) + 2 : 0);
            if (this.input.length < end)
                return;
            const text = body ? this.input.slice(lineEnd + 2, end - 2) : '';
            this.input = this.input.slice(end);
            this.waiting.shift().resolve({ words: line.split(' '), text });
        }
    }

    end(error) {
        for (const { reject } of this.waiting.splice(0))
            reject(error);
    }

    ask(command) {
        return new Promise((resolve, reject) => {
            this.waiting.push({ resolve, reject });
            this.socket.write(`${command}\r\n`, 'latin1');
        });
    }

    async must(answer, command) {
        const { words, text } = await this.ask(command);
        if (words[0] !== answer)
            throw new Error(`beanstalkd said '${words.join(' ')}' to '${command.split('\r\n')[0]}'`);
        return { words, text };
    }

    close() {
        this.socket.destroy();
    }
}

async function putMany(socketPath, count) {
    const connection = new Connection(socketPath);
    try {
        for (let i = 0; i < count; i++)
            await connection.must('INSERTED', `put 0 0 ${TIME_TO_RUN_S} 2\r\n{}`);
    } finally {
        connection.close();
    }
}

export async function openQueue(socketPath) {
    const connection = new Connection(socketPath);
    const countLeft = async () => {
        const { text } = await connection.must('OK', 'stats');
        const figure = key => Number(new RegExp(`^${key}: (\\d+)$`, 'm').exec(text)[1]);
        return figure('current-jobs-ready') + figure('current-jobs-reserved');
    };
    return {
        // There is no way to empty it but by working: fill up what is missing.
        async fill(count) {
            const share = Math.max(0, Math.ceil((count - await countLeft()) / FILL_CONNECTIONS));
            await Promise.all(Array.from({ length: FILL_CONNECTIONS }, () => putMany(socketPath, share)));
        },
        countLeft,
        async close() {
            connection.close();
        },
    };
}

// A connection that closes gives its job back.
export async function startWorkers(socketPath, _mode, workers) {
    let isRunning = true;
    const loop = async () => {
        const connection = new Connection(socketPath);
        while (isRunning) {
            const { words } = await connection.ask('reserve-with-timeout 1');
            if (words[0] === 'RESERVED')
                await connection.must('DELETED', `delete ${words[1]}`);
            else if (words[0] !== 'TIMED_OUT')
                throw new Error(`beanstalkd said '${words.join(' ')}' to reserve`);
        }
        connection.close();
    };
    const loops = Promise.all(Array.from({ length: workers }, loop));
    return {
        async stop() {
            isRunning = false;
            await loops;
        },
    };
}

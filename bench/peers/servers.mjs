// servers.mjs - servers of our own, each in a directory of its own and on a Unix socket: no port is taken, nobody
// outside reaches them. All are told to have a write on disk before they answer it.
//
// A server leads its own session, so that Ctrl-C reaches us alone and we end it in order; should we be killed, the
// kernel ends it.
import { spawn, spawnSync } from 'node:child_process';
import { chownSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { ask, findPostgres, need } from './deps.mjs';

const READY_MS = 60_000;
const STOP_MS = 20_000;
const OWNER = 'postgres'; // PostgreSQL refuses to run as root

function makeDirectory(place, name, owner) {
    const directory = path.join(place, name);
    mkdirSync(directory, { mode: 0o700 });
    if (owner)
        chownSync(directory, owner.uid, owner.gid);
    return directory;
}

class Server {
    constructor(name, directory, { argv, stopSignal, user }) {
        this.name = name;
        this.stopSignal = stopSignal;
        this.log = path.join(directory, 'log');
        const log = openSync(this.log, 'a');
        const as = user ? ['--reuid', user, '--regid', user, '--init-groups'] : [];
        this.process = spawn('setpriv', [...as, '--pdeathsig', stopSignal, '--', ...argv],
            { cwd: directory, detached: true, stdio: ['ignore', log, log] });
        this.ended = new Promise(resolve => {
            this.process.once('exit', resolve);
            this.process.once('error', resolve);
        });
        this.hasEnded = false;
        this.ended.then(() => { this.hasEnded = true; });
    }

    // isReady is asked until it says true.
    async wait(isReady) {
        const deadline = Date.now() + READY_MS;
        while (!await isReady()) {
            if (this.hasEnded || Date.now() > deadline)
                throw new Error(`${this.name} does not start: ${readFileSync(this.log, 'utf8').slice(-600)}`);
            await sleep(20);
        }
    }

    async stop() {
        this.process.kill(`SIG${this.stopSignal}`);
        await Promise.race([this.ended, sleep(STOP_MS, undefined, { ref: false })]);
        this.process.kill('SIGKILL');
        await this.ended;
    }
}

function canConnect(socketPath) {
    return new Promise(resolve => {
        const socket = connect(socketPath);
        socket.once('connect', () => { socket.destroy(); resolve(true); });
        socket.once('error', () => resolve(false));
    });
}

// Whom the server runs as: ourselves, unless we are root.
function findOwner() {
    if (process.getuid() !== 0)
        return undefined;
    return { uid: Number(ask('id', '-u', OWNER)), gid: Number(ask('id', '-g', OWNER)) };
}

function initCluster(directory, user) {
    // --no-sync is about the making of the empty cluster only; the server itself runs with fsync.
    const options = ['-D', `${directory}/data`, '-U', OWNER, '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync'];
    const as = user ? ['--reuid', user, '--regid', user, '--init-groups', '--'] : ['--'];
    const made = spawnSync('setpriv', [...as, findPostgres('initdb'), ...options],
        { cwd: directory, encoding: 'utf8' });
    if (made.status !== 0)
        throw new Error(`initdb: ${made.stderr || made.error}`);
}

// The settings of the clusters that tests and the other benchmarks start. Memory is shared through files of the data
// directory, and no checkpoint falls into somebody's stretch.
export async function startPostgres(place, defer) {
    const owner = findOwner();
    const user = owner && OWNER;
    const directory = makeDirectory(place, 'postgres', owner);
    initCluster(directory, user);
    const settings = ['listen_addresses=', 'fsync=on', 'synchronous_commit=on', 'full_page_writes=on',
        'shared_buffers=64MB', 'max_connections=100', 'max_wal_size=4GB', 'checkpoint_timeout=1h',
        'dynamic_shared_memory_type=mmap'];
    const argv = [findPostgres('postgres'), '-D', `${directory}/data`, '-k', directory,
        ...settings.flatMap(setting => ['-c', setting])];
    // INT is PostgreSQL's fast shutdown.
    const server = new Server('postgres', directory, { argv, stopSignal: 'INT', user });
    defer(() => server.stop());
    const url = `postgres://${OWNER}@${encodeURIComponent(directory)}:5432/postgres`;
    const { Client } = need('pg');
    await server.wait(async () => {
        const client = new Client({ connectionString: url });
        client.on('error', () => {});
        return client.connect().then(() => client.end()).then(() => true, () => false);
    });
    return url;
}

// A rewrite of the log amid a stretch would be an accident of its size: off.
export async function startRedis(place, defer) {
    const directory = makeDirectory(place, 'redis');
    const socket = path.join(directory, 'socket');
    const argv = ['redis-server', '--port', '0', '--unixsocket', socket, '--dir', directory, '--save', '',
        '--appendonly', 'yes', '--appendfsync', 'always', '--no-appendfsync-on-rewrite', 'no',
        '--auto-aof-rewrite-percentage', '0', '--daemonize', 'no'];
    const server = new Server('redis-server', directory, { argv, stopSignal: 'TERM' });
    defer(() => server.stop());
    await server.wait(() => canConnect(socket));
    return socket;
}

export async function startBeanstalkd(place, defer) {
    const directory = makeDirectory(place, 'beanstalkd');
    const socket = path.join(directory, 'socket');
    const argv = ['beanstalkd', '-b', directory, '-f0', '-l', `unix:${socket}`];
    const server = new Server('beanstalkd', directory, { argv, stopSignal: 'TERM' });
    defer(() => server.stop());
    await server.wait(() => canConnect(socket));
    return socket;
}

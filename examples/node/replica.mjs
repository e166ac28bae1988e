// replica.mjs DB PEER WHO - an application with a SQLite file of its own, which shares its table with others.
//
//     tidemark replica serve other.db --listen 127.0.0.1:4321 &       # any node; ready grpc=127.0.0.1:4321
//     node replica.mjs notes.db 127.0.0.1:4321 ann
//
// The application writes plain SQL and knows nothing of replication: triggers log its changes in its own transactions. So any SQLite will
// do: node:sqlite, better-sqlite3, or as here, where Node need not be new nor have packages, the sqlite3 program.
import { execFile } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';

const [db, peer, who] = process.argv.slice(2);
const execute = promisify(execFile);
const tidemark = (...args) => execute(process.env.TIDEMARK ?? 'tidemark', args);
const UNAVAILABLE = 6; // exit codes: docs/reference/errors.md

const quote = (text) => `'${text.replaceAll("'", "''")}'`;

async function query(sql) {
    const { stdout } = await execute('sqlite3', ['-bail', '-json', '-cmd', '.timeout 10000', db, sql]);
    return stdout === '' ? [] : JSON.parse(stdout);
}

async function write() {
    // Keys that no two nodes make: an INTEGER PRIMARY KEY counted up on each of them would name different notes alike.
    await query('CREATE TABLE IF NOT EXISTS notes (id TEXT NOT NULL PRIMARY KEY, author TEXT, text TEXT)');
    await tidemark('replica', 'track', db, 'notes'); // again: nothing, or triggers are put right
    const rows = [1, 2, 3].map((number) => `(${[`${who}-${number}`, who, `note ${number} of ${who}`].map(quote).join(', ')})`);
    // One transaction here is one transaction at the peers.
    await query(`INSERT INTO notes VALUES ${rows.join(', ')} ON CONFLICT (id) DO UPDATE SET text = excluded.text`);
}

// 0 means proven: everything that either side had when it began is at both. Otherwise nothing is lost: it goes on next time.
async function sync() {
    for (let attempt = 1; ; attempt++) {
        try {
            const { stdout } = await tidemark('replica', 'sync', db, peer, '--json');
            return JSON.parse(stdout.trim().split('\n').at(-1));
        } catch (failure) {
            if (failure.code !== UNAVAILABLE || attempt === 5) throw failure; // changes stay in the log until it is back
            await sleep(100 * 2 ** attempt);
        }
    }
}

await write();
const { pulled, pushed } = await sync();
console.log(`pulled ${pulled} pushed ${pushed}`);
for (const { author, count } of await query('SELECT author, count(*) AS count FROM notes GROUP BY author ORDER BY author'))
    console.log(`${author}: ${count} notes`);
// Each column goes to its last writer; what lost is kept for people.
const { stdout: conflicts } = await tidemark('replica', 'conflicts', db, '--json');
for (const line of conflicts.split('\n').filter(Boolean)) console.log(`conflict ${line}`);

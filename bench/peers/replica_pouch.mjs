// replica_pouch.mjs DIR ROWS CHANGES - PouchDB with LevelDB beneath, two databases of one process: seconds of a first replication of ROWS documents, and of one of CHANGES
// changed documents. No network lies between: what is measured is reading, comparing revisions and writing. Prints one line of JSON.
import { mkdirSync } from 'node:fs';
import path from 'node:path';

import { need, readVersion } from './deps.mjs';

const PouchDB = need('pouchdb');
const [dir, rows, changes] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
mkdirSync(dir, { recursive: true });
const source = new PouchDB(path.join(dir, 'source'));
const target = new PouchDB(path.join(dir, 'target'));

const idOf = (i) => String(i).padStart(12, '0');

async function timed(run) {
    const begin = process.hrtime.bigint();
    await run();
    return Number(process.hrtime.bigint() - begin) / 1e9;
}

for (let first = 0; first < rows; first += 1000)
    await source.bulkDocs(
        Array.from({ length: Math.min(1000, rows - first) }, (_, i) => ({
            _id: idOf(first + i),
            title: `title ${first + i}`,
            body: `a body of some words, and a number: ${((first + i) * 7919) % 100003}`,
            n: first + i,
            price: (first + i) * 0.5,
        })),
    );
const first = await timed(() => PouchDB.replicate(source, target, { batch_size: 1000 }));
const found = await source.allDocs({ keys: Array.from({ length: changes }, (_, i) => idOf(i * Math.floor(rows / changes))), include_docs: true });
await source.bulkDocs(found.rows.map(({ doc }) => ({ ...doc, n: doc.n + 1, title: `changed ${doc.n}` })));
const diff = await timed(() => PouchDB.replicate(source, target, { batch_size: 1000 }));
const { doc_count: count } = await target.info();
if (count !== rows) throw new Error(`${count} documents, not ${rows}`);
console.log(JSON.stringify({ version: readVersion('pouchdb'), first, diff }));
await source.destroy();
await target.destroy();

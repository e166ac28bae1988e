// lake.mjs URL CATALOG DAY - loads the orders of a day into a table, corrects one, and asks before and after.
//
//     tidemark lake serve --store lake.db --data lake-data &          # ready listen=127.0.0.1:4322
//     node lake.mjs http://127.0.0.1:4322 shop 2026-01-29
//
// Run it again for the same day: nothing is loaded twice.
import { service } from './client.mjs';

const [url, catalog, day] = process.argv.slice(2);
const lake = service(url, 'tidemark.lake.v1.LakeService');
const table = { schema: 'sales', table: 'orders' };

async function prepare() {
    await lake.CreateCatalog({ name: catalog, may_exist: true });
    const columns = 'id BIGINT, day DATE, amount DECIMAL(18,2)';
    await lake.CreateTable({ catalog, operation: { ...table, columns, create_schema: true } }).catch((refusal) => {
        if (!['EXISTS', 'CONFLICT'].includes(refusal.reason)) throw refusal; // CONFLICT: somebody makes it at this moment
    });
}

// The key makes a day's load one snapshot, whatever happens: after a lost answer the second one is the first's.
async function load() {
    const rows = [1, 2, 3, 4, 5].map((id) => ({ id, day, amount: id + 0.5 }));
    const done = await lake.Append({
        catalog,
        operation: { ...table, format: 'json', text: JSON.stringify(rows) },
        commit: { request_key: `orders-${day}`, author: 'lake.mjs', message: `orders of ${day}` },
    });
    console.log(`snapshot ${done.snapshot_id}${done.replayed ? ' (was there)' : `: ${done.rows} rows`}`);
    return done.snapshot_id;
}

// Delete and append as one snapshot, made from what we have seen. Who changed these rows since then makes it a conflict.
async function correct() {
    for (let attempt = 1; ; attempt++) {
        const { snapshot_id: seen } = await lake.ListTables({ catalog, schema: 'sales', without_columns: true });
        try {
            const done = await lake.Commit({
                catalog,
                operations: [
                    { delete: { ...table, where: `id = 3 AND day = '${day}'` } },
                    { append: { ...table, format: 'json', text: JSON.stringify([{ id: 3, day, amount: 100 }]) } },
                ],
                commit: { request_key: `correct-${day}-${seen}`, base_snapshot_id: seen, message: 'order 3' },
            });
            return done.snapshot_id;
        } catch (refusal) {
            if (refusal.reason !== 'CONFLICT' || attempt === 5) throw refusal;
            console.error(`again: ${refusal.message}`); // nothing was changed: look at what is there now, and decide anew
        }
    }
}

async function total(at) {
    const sql = 'SELECT count(*), CAST(sum(amount) AS VARCHAR) FROM sales.orders';
    const { rows } = await lake.Query({ sql, catalog, at: String(at) });
    const [count, amount] = rows[0];
    return `${count} orders, ${amount}`;
}

await prepare();
const loaded = await load();
const corrected = await correct();
console.log(`loaded: ${await total(loaded)}`); // a snapshot never changes
console.log(`corrected: ${await total(corrected)}`);

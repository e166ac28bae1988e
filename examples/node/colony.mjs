// colony.mjs COLONY_URL - what a colony has collected, what is missing, and whether its ledger balances.
//
//     tidemark colony --store colony.db --agent web-1=127.0.0.1:4317 &      # ready http=127.0.0.1:4320
//     node colony.mjs http://127.0.0.1:4320
//
// Ends with 1 when a number is unexplained: that must not happen, and somebody should look.
import { service } from './client.mjs';

const colony = service(process.argv[2], 'tidemark.colony.v1.ColonyService');

async function* rows(sql, max_rows = 1000) {
    const answer = await colony.Query({ sql, max_rows });
    if (answer.cut) console.error(`only the first ${max_rows} rows`);
    yield* answer.rows; // each an array of values
}

// All of them, page by page: behind the last id, so that none is missed or told twice while others come.
async function* gaps() {
    for (let page = { more: true }, after_id = 0; page.more; after_id = page.gaps.at(-1)?.id ?? after_id) {
        page = await colony.ListGaps({ after_id, limit: 100 });
        yield* page.gaps;
    }
}

const polled = await colony.Poll({ wait_ms: 10_000 }); // what agents have now is here when this is answered
console.log(`${polled.caught_up} of ${polled.agents} agents caught up`);
if (polled.failed !== 0) console.error(`not all: ${polled.failure}`);

for await (const [name, count] of rows('SELECT service_name, count(*) FROM spans GROUP BY service_name ORDER BY 1'))
    console.log(`${name}: ${count} spans`);

for await (const gap of gaps())
    console.log(`gap ${gap.agent_id} ${gap.data_type} ${gap.start_seq_id}..${gap.end_seq_id} ${gap.status} (${gap.reason})`);

const audit = await colony.Audit();
for (const { agent_id, data_type, ledger } of audit.lines)
    if (ledger.head !== 0) console.log(`ledger ${agent_id} ${data_type}: head ${ledger.head} stored ${ledger.stored} lost ${ledger.lost}`);
console.log(audit.balanced ? 'the ledger balances' : 'THE LEDGER DOES NOT BALANCE');
process.exitCode = audit.balanced ? 0 : 1;

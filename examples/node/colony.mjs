// colony.mjs COLONY_URL - what a colony has collected, what is missing, and whether its books close.
//
//     tidemark colony --store colony.db --agent web-1=127.0.0.1:4317 &      # ready http=127.0.0.1:4320
//     node colony.mjs http://127.0.0.1:4320
//
// Ends with 1 when a number is unexplained: that must not happen, and somebody should look.
import { service } from './client.mjs';

const colony = service(process.argv[2], 'tidemark.colony.v1.ColonyService');

async function* rows(sql, maxRows = 1000) {
    const answer = await colony.Query({ sql, maxRows });
    if (answer.cut) console.error(`only the first ${maxRows} rows`);
    // A cell has the one field that its value needs: whole, number, text, ...
    for (const { cells } of answer.rows) yield cells.map((cell) => ('isNull' in cell ? null : Object.values(cell)[0]));
}

// All of them, page by page: behind the last id, so that none is missed or told twice while others come.
async function* gaps() {
    for (let page = { more: true }, afterId = '0'; page.more; afterId = page.gaps.at(-1)?.id ?? afterId) {
        page = await colony.ListGaps({ afterId, limit: 100 });
        yield* page.gaps;
    }
}

const polled = await colony.Poll({ waitMs: 10_000 }); // what agents have now is here when this is answered
console.log(`${polled.caughtUp} of ${polled.agents} agents caught up`);
if (polled.failed !== '0') console.error(`not all: ${polled.failure}`);

for await (const [name, count] of rows('SELECT service_name, count(*) FROM spans GROUP BY service_name ORDER BY 1'))
    console.log(`${name}: ${count} spans`);

for await (const gap of gaps())
    console.log(`gap ${gap.agentId} ${gap.dataType} ${gap.startSeqId}..${gap.endSeqId} ${gap.status} (${gap.reason})`);

const audit = await colony.Audit();
for (const { agentId, dataType, books } of audit.lines)
    if (books.head !== '0') console.log(`books ${agentId} ${dataType}: head ${books.head} stored ${books.stored} lost ${books.lost}`);
console.log(audit.balanced ? 'the books close' : 'THE BOOKS DO NOT CLOSE');
process.exitCode = audit.balanced ? 0 : 1;

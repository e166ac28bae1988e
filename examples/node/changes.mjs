// changes.mjs URL TABLE POSITION_FILE - what changed in a replicated table since the last run, without a SQLite of its own.
//
//     tidemark replica serve notes.db --listen 127.0.0.1:4321 &
//     node changes.mjs http://127.0.0.1:4321 notes position.json
//
// A position is one number per origin and epoch: every node's writes are numbered by that node, and stay so wherever they are read.
import { loadPosition, savePosition, service } from './client.mjs';

const [url, table, path] = process.argv.slice(2);
const replica = service(url, 'tidemark.replica.v1.ReplicaService');
const position = await loadPosition(path, {});

// The same question for all pages; a token leads from one to the next, and is not shifted by what comes meanwhile.
const fromByOrigin = Object.entries(position).map(([origin, originSeq]) => {
    const [originNodeId, epoch] = origin.split('/');
    return { originNodeId, epoch, originSeq };
});
for (let pageToken = ''; ; ) {
    const page = await replica.TableEvents({ table, fromByOrigin, pageToken });
    for (const event of page.events) {
        // Events may come twice (a page that was read before a crash): origin, epoch and number tell that it is the same one.
        console.log(`${event.operationType} ${event.recordId} ${event.data}`);
        const origin = `${event.originNodeId}/${event.epoch}`;
        if (BigInt(event.originSeq) > BigInt(position[origin] ?? 0)) position[origin] = event.originSeq;
    }
    pageToken = page.nextPageToken;
    if (!page.hasMore) break;
}
await savePosition(path, position);

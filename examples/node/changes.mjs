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
const from_by_origin = Object.entries(position).map(([origin, origin_seq]) => {
    const [origin_node_id, epoch] = origin.split('/');
    return { origin_node_id, epoch, origin_seq };
});
for (let page_token = ''; ; ) {
    const page = await replica.TableEvents({ table, from_by_origin, page_token });
    for (const event of page.events) {
        // Events may come twice (a page that was read before a crash): origin, epoch and number tell that it is the same one.
        console.log(`${event.operation_type} ${event.record_id} ${JSON.stringify(event.data)}`);
        const origin = `${event.origin_node_id}/${event.epoch}`;
        if (event.origin_seq > (position[origin] ?? 0)) position[origin] = event.origin_seq;
    }
    page_token = page.next_page_token;
    if (!page.has_more) break;
}
await savePosition(path, position);

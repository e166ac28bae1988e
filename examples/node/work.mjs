// work.mjs URL add ITEM PAGES - adds an item of so many pages.
// work.mjs URL run EFFECTS_FILE [--name NAME] [--lease-ms N] [--items N] - works on items until it is told to stop, or has done N.
//
//     tidemark serve --store work.db &            # ready listen=127.0.0.1:4319
//     node work.mjs http://127.0.0.1:4319 add invoice-7 20
//     node work.mjs http://127.0.0.1:4319 run effects.txt
//
// Stop it, kill it or pull its cable at any point and start another: it goes on behind the last page.
import { appendFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { Refused, service } from './client.mjs';

const TASK = 'invoices';
const PAGE_MS = 50;

const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
        name: { type: 'string', default: hostname() },
        'lease-ms': { type: 'string', default: '30000' },
        items: { type: 'string', default: '-1' },
    },
});
const [url, verb, subject, pages] = positionals;
const lease_ms = Number(values['lease-ms']);
const work = service(url, 'tidemark.work.v1.WorkService');
const keys = service(url, 'tidemark.work.v1.IdempotencyService');
const journal = service(url, 'tidemark.journal.v1.JournalService');
const stopping = new AbortController();

async function add(work_item_id, count) {
    await work.CreateTask({ task_id: TASK, title: 'invoices of the month' }).catch((refusal) => {
        if (refusal.reason !== 'EXISTS') throw refusal; // somebody was first: fine
    });
    // Ids of our own make this repeatable: an item that is there already is not added twice.
    const item = { work_item_id, task_id: TASK, work_type: 'invoice', input_data: { pages: count } };
    const { items } = await work.AddItems({ items: [item] });
    console.log(items[0].is_existing ? 'was there' : 'added');
}

async function run() {
    for (let done = 0; !stopping.signal.aborted && done !== Number(values.items); ) {
        await work.Sweep(); // puts back what lost its worker; any number of workers may do so
        // A claim whose answer is lost costs one lease's time: the item comes back when it has run out.
        const { items } = await work.Claim({ worker: values.name, work_types: ['invoice'], lease_ms, wait_ms: 200 });
        for (const item of items) done += await workOn(item);
    }
}

// Renews after a third of the lease's time, and aborts the returned signal when the lease is gone.
function keepLease(lease, ended) {
    const lost = new AbortController();
    (async () => {
        for (;;) {
            await sleep(lease_ms / 3, undefined, { signal: ended });
            if ((await work.Renew({ leases: [lease], lease_ms })).lost.length > 0) throw new Refused('LEASE_LOST', 'not renewed');
        }
    })().catch(() => ended.aborted || lost.abort()); // what could not be renewed in time is as good as lost
    return lost.signal;
}

// 1: it was finished here.
async function workOn(item) {
    const lease = { work_item_id: item.work_item_id, lease_token: item.lease_token };
    const ended = new AbortController();
    const lost = keepLease(lease, ended.signal);
    try {
        let page = await lastPage(item.work_item_id);
        console.log(`${item.work_item_id} attempt ${item.attempt} behind page ${page}`);
        while (page < item.input_data.pages) {
            if (stopping.signal.aborted) {
                await work.Release({ lease }); // another goes on, and no attempt is spent
                console.log('released');
                return 0;
            }
            if (lost.aborted) throw new Refused('LEASE_LOST', 'noticed by ourselves');
            page += 1;
            await sleep(PAGE_MS); // the work itself
            await checkpoint(lease, page);
        }
        return await finish(lease, page);
    } catch (failure) {
        if (failure.reason !== 'LEASE_LOST') {
            await work.Fail({ lease, error: String(failure) }); // tried again, with a back-off
            throw failure;
        }
        // Another may be at it by now. Nothing is to be put right: the store has refused what we said too late.
        console.log(`${item.work_item_id} lease lost`);
        return 0;
    } finally {
        ended.abort();
    }
}

async function lastPage(work_item_id) {
    const newest = { work_item_id, type: 'manual_checkpoint', newest_first: true, limit: 1, with_snapshot: true };
    const { checkpoints } = await journal.List(newest);
    return checkpoints.length > 0 ? checkpoints[0].snapshot_data.page : 0;
}

async function checkpoint(lease, page) {
    // Under an id of our own: sent again after a lost answer, it is there once.
    const checkpoint_id = `${lease.work_item_id}-page-${page}`;
    await work.Checkpoint({ lease, checkpoint: { checkpoint_id, type: 'manual_checkpoint', snapshot: { page } } });
    console.log(`page ${page}`);
}

// Does what the outside world sees (a mail, a payment) under an idempotency key; key and item end in one commit. 1: it did.
async function finish(lease, count) {
    const key = lease.work_item_id;
    const response = { sent: key };
    const begun = await keys.Begin({ scope: 'invoice', key, request: count, holder: values.name, lock_ms: lease_ms });
    let answered = {};
    switch (begun.outcome) {
        case 'NEW':
        case 'TAKEOVER': // somebody began and did not end: pass the key on to those who do the deed, that they may recognise it
            await appendFile(subject, `${key} ${count} pages\n`);
            answered = { idempotency_key: `invoice/${key}`, idempotency_token: begun.token, response };
            break;
        case 'REPLAY':
            break;
        case 'IN_PROGRESS':
            // Another is at it; or we are, and the answer to our Begin was lost. It is over when the lock is: look again then.
            await work.Release({ lease, delay_ms: lease_ms });
            console.log(`${key} later`);
            return 0;
        default: // MISMATCH: the same key for another request, a mistake that repeating does not mend
            throw new Refused(begun.outcome, `the key of ${key}`);
    }
    // The same token with the same output is answered with success again: a lost answer does no harm.
    await work.Finish({ lease, output_data: response, ...answered });
    console.log(`${key} finished`);
    return 1;
}

for (const name of ['SIGTERM', 'SIGINT']) process.on(name, () => stopping.abort());
await (verb === 'add' ? add(subject, Number(pages)) : run());

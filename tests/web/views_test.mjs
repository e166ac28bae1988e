// Every view of the dashboard against the running demonstration, in both themes: what is broken is seen, explained and healed, and each view's command works.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';

import { after, runCases, test } from '../clients/cases.mjs';
import { tidemark } from '../clients/deps.mjs';
import { Browser, findings, keep, says, show } from './browser.mjs';
import { Up, until } from './up.mjs';

const run = promisify(execFile);
const colony = 'tidemark.colony.v1.ColonyService';
const work = 'tidemark.work.v1.WorkService';
const lake = 'tidemark.lake.v1.LakeService';

const up = await Up.start(['--demo', '--demo-agents', '6']);
const browser = await Browser.start(up.url);
after(async () => {
    await browser.close();
    assert.equal((await up.stop()).code, 0);
    up.remove();
});

const rowsOf = async (sql) => (await up.call(`${colony}/Query`, { sql })).rows ?? [];
const textOf = (row) => row.cells[0].text;

// ---- something that heals: it takes its time, so it begins here and is looked at last ----

const LATE = 'shop-lyon-1';
const gaps = await browser.open();
test('a fault is asked for on the page, and told in words', async () => {
    await until(() => rowsOf(`SELECT agent_id FROM spans WHERE agent_id = '${LATE}' LIMIT 1`), (rows) => rows.length > 0);
    await show(gaps, `gaps?agent=${LATE}`);
    // Which states were seen, whoever looks when.
    await gaps.evaluate(() => {
        window.states = new Set();
        new MutationObserver(() => document.querySelectorAll('td .state').forEach((one) => window.states.add(one.textContent))).observe(document.body, { childList: true, subtree: true, characterData: true });
    });
    await gaps.fill('.demo input', LATE);
    await gaps.click('.demo button:has-text("late")');
    await says(gaps, `${LATE} cannot read some of its spans`);
});

// ---- every view ----

async function views() {
    const item = await until(async () => (await up.call(`${work}/ListItems`, { status: 'completed', limit: 1 })).items?.[0]?.workItemId, Boolean);
    const [checkpoint] = (await up.call('tidemark.journal.v1.JournalService/List', { limit: 1 })).checkpoints;
    const trace = textOf((await until(() => rowsOf('SELECT trace_id FROM spans LIMIT 1'), (rows) => rows.length > 0))[0]);
    const [newest] = (await until(() => up.call(`${lake}/ListSnapshots`, { catalog: 'demo', newestFirst: true, limit: 1 }), (answer) => answer.snapshots?.length > 0)).snapshots;
    for (const table of ['cpu_profile_samples', 'memory_profile_samples', 'system_metrics']) await until(() => rowsOf(`SELECT agent_id FROM ${table} LIMIT 1`), (rows) => rows.length > 0);
    return {
        fleet: 'fleet', agent: `agent/${LATE}`, gaps: 'gaps', work: 'work', item: `work/${item}`, checkpoints: 'checkpoints', checkpoint: `checkpoints/${checkpoint.globalSequence}`,
        replication: 'replication', 'replication-south': 'replication/south', lake: 'lake', 'lake-table': `lake/demo?table=shop.orders&at=${newest.snapshotId}`,
        spans: 'telemetry', trace: `telemetry/trace/${trace}`, metrics: 'telemetry/metrics', cpu: 'telemetry/cpu', memory: 'telemetry/memory', query: 'query',
    };
}

const commands = new Set();
test('every view, dark and light: no error, nothing that axe finds', async () => {
    const page = await browser.open({ colorScheme: 'dark', bypassCSP: true });
    for (const [name, view] of Object.entries(await views())) {
        await show(page, view);
        if (name === 'query') await page.click('button[type=submit]');
        for (const theme of ['dark', 'light']) {
            await page.emulateMedia({ colorScheme: theme });
            await keep(page, `${theme}-${name}`);
            assert.deepEqual(await findings(page, `${theme} ${name}`), []);
        }
        for (const text of await page.locator('.command code').allInnerTexts()) commands.add(text);
    }
    assert.deepEqual(page.troubles, []);
    await page.context().close();
});

test('the command that a view names does what it says', async () => {
    assert(commands.size > 12);
    for (const command of commands) {
        if (command.startsWith('tidemark task resume')) continue; // would take the task over
        await run('bash', ['-c', command], { env: { ...process.env, PATH: `${path.dirname(tidemark)}:${process.env.PATH}`, TIDEMARK_STORE: path.join(up.data, 'colony.db'), TIDEMARK_STATE_DIR: path.join(up.directory, 'state') } })
            .catch((error) => assert.fail(`${command}: ${error.stderr}`));
    }
});

// ---- things that one does ----

test('a failed item is retried', async () => {
    const { taskId } = await up.call('tidemark.work.v1.TaskService/CreateTask', { title: 'to be retried' });
    const { items: [added] } = await up.call(`${work}/AddItems`, { items: [{ taskId, workType: 'test.retry' }] });
    const { items: [claimed] } = await up.call(`${work}/Claim`, { worker: 'a test', workTypes: ['test.retry'] });
    await up.call(`${work}/Fail`, { lease: { workItemId: added.workItemId, leaseToken: claimed.leaseToken }, error: 'it did not work', final: true });
    const page = await browser.open();
    await show(page, 'work?status=failed&type=test.retry');
    await page.check(`input[aria-label="choose ${added.workItemId}"]`);
    await page.click('button:has-text("retry 1")');
    await until(() => up.call(`${work}/GetItem`, { workItemId: added.workItemId }), (item) => item.status === 'pending');
    await show(page, `work/${added.workItemId}`);
    await says(page, 'it did not work');
    await page.context().close();
});

test('two checkpoints are compared', async () => {
    const page = await browser.open();
    const { checkpoints } = await up.call('tidemark.journal.v1.JournalService/List', { limit: 2 });
    await show(page, `checkpoints?task=${checkpoints[0].taskId}`);
    await page.click('button:has-text("compare") >> nth=0');
    await page.waitForSelector('button[aria-pressed=true]');
    await page.click('button[aria-pressed=false] >> nth=1');
    await page.waitForSelector('section[aria-label=difference] tbody tr');
    await says(page, 'tidemark checkpoint diff');
    await page.context().close();
});

test('a gap was seen, and heals while one looks', async () => {
    await gaps.waitForFunction(() => window.states.has('recovered'));
    const states = await gaps.evaluate(() => [...window.states]);
    assert(states.includes('detected') || states.includes('recovering'), states.join());
    assert.deepEqual(gaps.troubles, []);
});

await runCases();

// Every view of the dashboard against the running demonstration, in both themes: what is broken is seen, explained and healed, and each view's command works.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdirSync, readdirSync } from 'node:fs';
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
const textOf = (row) => row[0];

// ---- something that heals: it takes its time, so it begins here and is looked at last ----

const LATE = 'shop-turin-1'; // of six agents the first three are processes, whose records are not late
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

// Nothing stands beside a window of this width; a chart takes a moment to follow it.
async function fits(page, width) {
    await page.setViewportSize({ width, height: 850 });
    await page.waitForFunction(() => document.documentElement.scrollWidth <= innerWidth);
}

// Addresses, asked for when they are needed: the demonstration makes what they name.
const first = async (ask) => (await until(ask, (rows) => rows?.length > 0))[0];
const hasRows = (table) => first(() => rowsOf(`SELECT agent_id FROM ${table} LIMIT 1`));
const itemOf = async () => (await first(async () => (await up.call(`${work}/ListItems`, { status: 'completed', work_type: 'demo.report', limit: 1 })).items)).work_item_id;
const checkpointOf = async () => (await first(async () => (await up.call('tidemark.journal.v1.JournalService/List', { limit: 1 })).checkpoints)).global_sequence;
const traceOf = async () => textOf(await first(() => rowsOf('SELECT trace_id FROM spans LIMIT 1')));
const snapshotOf = async () => (await first(async () => (await up.call(`${lake}/ListSnapshots`, { catalog: 'demo', newest_first: true, limit: 1 })).snapshots)).snapshot_id;
const views = {
    fleet: () => 'fleet',
    agent: () => `agent/${LATE}`,
    gaps: () => 'gaps',
    work: async () => (await itemOf()) && 'work',
    item: async () => `work/${await itemOf()}`,
    checkpoints: async () => (await checkpointOf()) && 'checkpoints',
    checkpoint: async () => `checkpoints/${await checkpointOf()}`,
    replication: () => 'replication',
    'replication-south': () => 'replication/south',
    lake: async () => (await snapshotOf()) && 'lake',
    'lake-table': async () => `lake/demo?table=shop.orders&at=${await snapshotOf()}`,
    spans: async () => (await hasRows('spans')) && 'telemetry',
    trace: async () => `telemetry/trace/${await traceOf()}`,
    metrics: async () => (await hasRows('system_metrics')) && 'telemetry/metrics',
    cpu: async () => (await hasRows('cpu_profile_samples')) && 'telemetry/cpu',
    memory: async () => (await hasRows('memory_profile_samples')) && 'telemetry/memory',
    query: () => 'query',
};

const commands = new Set();
const looker = await browser.open({ bypassCSP: true });
for (const [name, addressOf] of Object.entries(views))
    test(`${name}, dark and light: no error, nothing that axe finds, nothing beside the page`, async () => {
        await show(looker, await addressOf());
        for (const theme of ['dark', 'light']) {
            await looker.emulateMedia({ colorScheme: theme, reducedMotion: 'reduce' }); // no colour between two themes
            await keep(looker, `${theme}-${name}`);
            assert.deepEqual(await findings(looker, `${theme} ${name}`), []);
        }
        await fits(looker, 800);
        await keep(looker, `narrow-${name}`);
        await fits(looker, 1280);
        for (const text of await looker.locator('.command code').allInnerTexts()) commands.add(text);
        assert.deepEqual(looker.troubles, []);
    });

// The colony remembers: the first picture has a past.
test('the course of an agent is there at once', async () => {
    const points = async () => Math.min(...((await up.call('tidemark.colony.v1.ColonyService/CheckpointHistory', { agent_id: LATE })).courses || []).map((one) => one.times.length));
    await until(points, (count) => count >= 3 && Number.isFinite(count));
    const page = await browser.open();
    await show(page, `agent/${LATE}`);
    const chart = page.locator('[role=img][aria-label^="Checkpoint against head"]');
    await until(async () => Number(/, (\d+) points/.exec((await chart.count()) ? await chart.getAttribute('aria-label') : '')?.[1] ?? 0), (count) => count >= 4);
    assert.deepEqual(page.troubles, []);
});

test('the command that a view names does what it says, typed anywhere', async () => {
    const elsewhere = path.join(up.directory, 'elsewhere');
    const env = { ...process.env, PATH: `${path.dirname(tidemark)}:${process.env.PATH}`, TIDEMARK_STATE_DIR: path.join(up.directory, 'state'), XDG_CONFIG_HOME: elsewhere };
    delete env.TIDEMARK_STORE;
    mkdirSync(elsewhere);
    assert(commands.size > 12);
    for (const command of commands) {
        if (command.startsWith('tidemark task resume')) continue; // would take the task over
        const { stdout } = await run('bash', ['-c', command], { cwd: elsewhere, env }).catch((error) => assert.fail(`${command}: ${error.stderr}`));
        if (command.startsWith('tidemark status')) assert.match(stdout, /7 agents/);
        if (command.startsWith('tidemark work ls')) assert.match(stdout, /demo\.report/);
    }
    assert.deepEqual(readdirSync(elsewhere), []);
});

// ---- things that one does ----

test('a failed item is retried', async () => {
    const { task_id } = await up.call(`${work}/CreateTask`, { title: 'to be retried' });
    const { items: [added] } = await up.call(`${work}/AddItems`, { items: [{ task_id, work_type: 'test.retry' }] });
    const { items: [claimed] } = await up.call(`${work}/Claim`, { worker: 'a test', work_types: ['test.retry'] });
    await up.call(`${work}/Fail`, { lease: { work_item_id: added.work_item_id, lease_token: claimed.lease_token }, error: 'it did not work', final: true });
    const page = await browser.open();
    await show(page, 'work?status=failed&type=test.retry');
    await page.check(`input[aria-label="choose ${added.work_item_id}"]`);
    await page.click('button:has-text("retry 1")');
    await says(page, 'Tried again as');
    await page.click('a.made');
    await says(page, 'retry of');
    const again = await up.call(`${work}/GetItem`, { work_item_id: decodeURIComponent(page.url().split('/').at(-1)) });
    assert.deepEqual([again.status, again.retried_from], ['pending', added.work_item_id]);
    await page.click(`a:has-text("${added.work_item_id}")`);
    await says(page, 'it did not work');
    await page.click('button:has-text("retry")');
    await says(page, 'retry of');
    await page.context().close();
});

test('two checkpoints are compared', async () => {
    const page = await browser.open();
    const { checkpoints } = await up.call('tidemark.journal.v1.JournalService/List', { limit: 2 });
    await show(page, `checkpoints?task=${checkpoints[0].task_id}`);
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

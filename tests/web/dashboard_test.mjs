// The dashboard in a real browser: hostile texts shown as texts, news that come by themselves, keys, and what it weighs.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { gzipSync } from 'node:zlib';

import { after, runCases, test } from '../clients/cases.mjs';
import { tidemark } from '../clients/deps.mjs';
import { Browser, keep, says, show } from './browser.mjs';
import { Up, span, until } from './up.mjs';

const HOSTILE = `<img src=x onerror="window.broken=1">\u202Eevil${'x'.repeat(10000)}`;
const lake = 'tidemark.lake.v1.LakeService';

// ---- two databases of an application that knows nothing of us ----

const files = mkdtempSync(path.join(tmpdir(), 'tidemark-test-'));
const file = (name) => path.join(files, `${name}.db`);
function sql(name, ...statements) {
    execFileSync('python3', ['-c', 'import sqlite3, sys, json\nc = sqlite3.connect(sys.argv[1], timeout=20)\nfor text, values in json.loads(sys.argv[2]): c.execute(text, values)\nc.commit()', file(name), JSON.stringify(statements)]);
}

const up = await Up.start(['--replica', `east=${file('east')}`, '--replica', `west=${file('west')}`, '--replica-peer', 'west=east']);
const browser = await Browser.start(up.url);
after(async () => {
    await browser.close();
    assert.equal((await up.stop()).code, 0);
    up.remove();
    rmSync(files, { recursive: true, force: true });
});

async function isHarmless(page) {
    await says(page, '<img src=x');
    assert.equal(await page.evaluate(() => window.broken), undefined);
    assert.equal(await page.evaluate(() => document.querySelectorAll('img').length), 0);
    assert(await page.evaluate(() => !document.body.innerText.includes('\u202E')));
    assert.deepEqual(page.troubles, []);
    await page.context().close();
}

await up.sendSpans([span('checkout', 'GET /cart'), span(HOSTILE, HOSTILE)]);

test('hostile spans are shown as texts', async () => {
    const page = await browser.open();
    await show(page, 'telemetry');
    await isHarmless(page);
});

test('hostile commits and names of a lake are shown as texts, and a refused commit is listed', async () => {
    const commit = { author: 'ann <img src=x onerror="window.broken=1">', message: HOSTILE };
    await up.call(`${lake}/CreateCatalog`, { name: 'books' });
    await up.call(`${lake}/CreateTable`, { catalog: 'books', operation: { schema: 'main', table: '<img src=x onerror="window.broken=1">', columns: 'a BIGINT' }, commit });
    const base = await up.call(`${lake}/CreateTable`, { catalog: 'books', operation: { schema: 'main', table: 't', columns: 'a BIGINT' } });
    await up.call(`${lake}/ForkCatalog`, { parent: 'books', name: 'books_what_if' });
    await up.call(`${lake}/DropTable`, { catalog: 'books', operation: { schema: 'main', table: 't' }, commit });
    await assert.rejects(up.call(`${lake}/AlterTable`, { catalog: 'books', operation: { schema: 'main', table: 't', add_column: 'b BIGINT' }, commit: { author: 'bob', base_snapshot_id: base.snapshot_id } }));
    const page = await browser.open();
    await show(page, 'lake');
    await says(page, 'books_what_if');
    await page.waitForFunction(() => /bob/.test([...document.querySelectorAll('table')].at(-1).innerText));
    await keep(page, 'lake-refused');
    await isHarmless(page);
});

test('what a fork shares and what it has for itself', async () => {
    const page = await browser.open();
    await show(page, 'lake/books_what_if?table=main.t');
    await says(page, 'No files: the table is empty.');
    await page.click('a:has-text("books") >> nth=0');
    await page.waitForSelector('section[aria-label="catalog books"]');
    await page.context().close();
});

test('databases, their marks, and a hostile write that was lost are shown', async () => {
    sql('east', ['CREATE TABLE notes (id TEXT NOT NULL PRIMARY KEY, t TEXT)', []], ['INSERT INTO notes VALUES (?, ?)', ['1', 'one']]);
    const status = (name) => up.call(`replica/${name}/tidemark.replica.v1.ReplicaService/GetStatus`);
    execFileSync(tidemark, ['replica', 'track', file('east'), 'notes']);
    await until(() => status('west'), (now) => now.logs?.some((log) => log.prefix === 1));
    // Two writes that do not know of each other: whichever comes later wins, on both.
    for (let turn = 0; ; turn++) {
        sql('east', ['UPDATE notes SET t = ?', [`${HOSTILE} of east ${turn}`]]);
        sql('west', ['UPDATE notes SET t = ?', [`${HOSTILE} of west ${turn}`]]);
        const heads = await until(async () => [await status('east'), await status('west')], ([a, b]) => JSON.stringify(a.logs.map((log) => log.prefix)) === JSON.stringify(b.logs.map((log) => log.prefix)) && a.logs.length === 2);
        if (Number(heads[0].conflicts) > 0) break;
    }
    const page = await browser.open();
    await show(page, 'replication/west');
    await says(page, 'here');
    await keep(page, 'replication-conflict');
    await isHarmless(page);
});

test('what comes while one looks appears by itself', async () => {
    const page = await browser.open();
    await show(page, 'telemetry');
    await up.sendSpans([span('checkout', 'a-span-that-is-new')]);
    await says(page, 'a-span-that-is-new');
    await page.context().close();
});

test('a page that nobody sees asks nothing, and catches up when it is seen', async () => {
    const hidden = await browser.open();
    const seen = await browser.open();
    await show(hidden, 'telemetry');
    await show(seen, 'telemetry');
    await hidden.waitForSelector('.is-live');
    const setHidden = (value) => hidden.evaluate((is) => {
        Object.defineProperty(document, 'hidden', { configurable: true, get: () => is });
        document.dispatchEvent(new Event('visibilitychange'));
    }, value);
    await setHidden(true);
    await hidden.waitForFunction(() => !document.querySelector('.is-live'));
    let asked = 0;
    hidden.on('request', () => asked++);
    await up.sendSpans([span('checkout', 'told-to-who-looks')]);
    await says(seen, 'told-to-who-looks');
    assert.equal(asked, 0);
    await setHidden(false);
    await says(hidden, 'told-to-who-looks');
    await hidden.context().close();
    await seen.context().close();
});

test('a query is answered, and its address can be sent to others, who run it by a click', async () => {
    const page = await browser.open();
    await show(page, 'query');
    await page.fill('#sql', "SELECT service_name, count(*) AS spans FROM spans WHERE service_name = 'checkout' GROUP BY service_name");
    await page.click('button[type=submit]');
    await page.waitForFunction(() => document.querySelector('tbody')?.innerText.includes('checkout'));
    assert.match(page.url(), /sql=SELECT/);
    const shared = await browser.open();
    await show(shared, new URL(page.url()).hash.slice(2));
    await shared.waitForFunction(() => /from the address/.test(document.querySelector('[role=status].note')?.innerText ?? ''));
    assert.match(await shared.inputValue('#sql'), /checkout/);
    assert.equal(await shared.evaluate(() => document.querySelectorAll('tbody').length), 0, 'it ran without a click');
    await shared.click('button[type=submit]');
    await shared.waitForFunction(() => document.querySelector('tbody')?.innerText.includes('checkout'));
    await shared.context().close();
    await page.fill('#sql', 'DELETE FROM spans_rows');
    await page.click('button[type=submit]');
    await page.waitForSelector('.failure');
    await page.context().close();
});

test('an address that is none is a view without an answer, not a page that is broken', async () => {
    const page = await browser.open();
    for (const view of ['agent/%E0%A4', 'nowhere', 'lake/%', 'checkpoints/not-a-number', 'work/nobody', 'telemetry/trace/none', 'replication/nobody', 'checkpoints?a=1&b=x']) {
        await show(page, view);
        assert(await page.evaluate(() => document.querySelectorAll('nav a').length > 5), view);
    }
    await page.context().close();
});

test('names in the command that a view tells are words for a shell, whatever they say', async () => {
    const page = await browser.open();
    const evil = '$(touch broken)`touch broken`\';touch broken;\'\u202Eend';
    for (const view of ['telemetry/trace/', 'agent/']) {
        await show(page, `${view}${encodeURIComponent(evil)}`);
        const command = await page.locator('.command code').first().innerText();
        assert(!command.includes('\u202E'));
        const words = execFileSync('bash', ['-c', `tidemark() { printf '%s\\n' "$@"; }; ${command}`], { cwd: files }).toString();
        assert(words.includes('$(touch broken)`touch broken`'), words);
    }
    assert(!existsSync(path.join(files, 'broken')));
    await page.context().close();
});

test('a chart has the colours of the theme that is shown', async () => {
    const page = await browser.open({ colorScheme: 'dark' });
    await show(page, 'telemetry/metrics');
    const canvas = () => page.evaluate(() => document.querySelector('.u-wrap canvas')?.toDataURL().length);
    await until(canvas, Boolean);
    await page.evaluate(() => (window.plot = document.querySelector('.u-wrap')));
    await page.selectOption('header select', 'light');
    await page.waitForFunction(() => document.querySelector('.u-wrap') && document.querySelector('.u-wrap') !== window.plot);
    await page.context().close();
});

test('keys choose views', async () => {
    const page = await browser.open();
    await show(page, 'fleet');
    for (const [key, view] of [['2', 'gaps'], ['5', 'replication'], ['6', 'lake'], ['1', 'fleet']]) {
        await page.keyboard.press(key);
        await until(async () => page.url(), (url) => url.endsWith(`#/${view}`));
    }
    const took = await page.evaluate(() => performance.getEntriesByType('navigation')[0].duration);
    console.log(`# first load ${Math.round(took)} ms`);
    await page.context().close();
});

test('all of it is less than 150 kB', async () => {
    let total = 0;
    for (const name of ['', 'dashboard.js', 'dashboard.css', 'dashboard.svg']) total += gzipSync(await (await fetch(`${up.url}/${name}`)).text()).length;
    console.log(`# ${total} bytes, gzip`);
    assert(total < 150_000);
});

await runCases();

// The dashboard in a real browser: every view, in both themes, without a finding of axe and without an error; hostile texts shown as texts.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

import { after, runCases, test } from '../clients/cases.mjs';
import { need } from '../clients/deps.mjs';
import { Up, span, until } from './up.mjs';

const { chromium } = need('playwright-core');
const axe = readFileSync(need.resolve('axe-core/axe.min.js'), 'utf8');
const shots = path.join(process.env.TIDEMARK_BUILD_DIR ?? 'build', 'screenshots');
mkdirSync(shots, { recursive: true });

const HOSTILE = `<img src=x onerror="window.broken=1">\u202Eevil${'x'.repeat(10000)}`;
const VIEWS = ['fleet', 'agent/local', 'gaps', 'work', 'checkpoints', 'telemetry', 'telemetry/metrics', 'telemetry/cpu', 'telemetry/memory', 'query'];

const up = await Up.start();
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
after(async () => {
    await browser.close();
    await up.stop();
    up.remove();
});

async function open(options = {}) {
    const context = await browser.newContext({ viewport: { width: 1300, height: 850 }, ...options });
    const page = await context.newPage();
    page.troubles = [];
    page.on('pageerror', (error) => page.troubles.push(error.message));
    page.on('console', (message) => message.type() === 'error' && page.troubles.push(message.text()));
    page.on('request', (request) => request.url().startsWith(up.url) || page.troubles.push(`asks ${request.url()}`));
    return page;
}

async function show(page, view) {
    await page.goto(`${up.url}/#/${view}`);
    await page.waitForSelector('h1');
    await page.waitForFunction(() => !document.body.innerText.includes('Loading'));
}

await up.sendSpans([span('checkout', 'GET /cart'), span(HOSTILE, HOSTILE)]);

for (const theme of ['dark', 'light'])
    test(`every view in ${theme}: no error, nothing that axe finds`, async () => {
        const page = await open({ colorScheme: theme, bypassCSP: true }); // axe is put into the page
        for (const view of VIEWS) {
            await show(page, view);
            await page.evaluate(axe);
            const found = await page.evaluate(() => window.axe.run());
            assert.deepEqual(found.violations.map((one) => `${view}: ${one.id}: ${one.nodes[0].html}`), []);
            await page.screenshot({ path: path.join(shots, `${theme}-${view.replace('/', '-')}.png`) });
        }
        assert.deepEqual(page.troubles, []);
        await page.context().close();
    });

test('hostile texts are shown as texts', async () => {
    const page = await open();
    await show(page, 'telemetry');
    await page.waitForFunction(() => document.body.innerText.includes('<img src=x'));
    assert.equal(await page.evaluate(() => window.broken), undefined);
    assert.equal(await page.evaluate(() => document.querySelectorAll('img').length), 0);
    assert(await page.evaluate(() => document.body.innerText.includes('\\u202e') || !document.body.innerText.includes('\u202E')));
    assert.deepEqual(page.troubles, []);
    await page.context().close();
});

test('what comes while one looks appears by itself', async () => {
    const page = await open();
    await show(page, 'telemetry');
    await up.sendSpans([span('checkout', 'a-span-that-is-new')]);
    await page.waitForFunction(() => document.body.innerText.includes('a-span-that-is-new'));
    await page.context().close();
});

test('a query is answered, and its address can be sent to somebody', async () => {
    const page = await open();
    await show(page, 'query');
    await page.fill('#sql', "SELECT service_name, count(*) AS spans FROM spans WHERE service_name = 'checkout' GROUP BY service_name");
    await page.click('button[type=submit]');
    await page.waitForFunction(() => document.querySelector('tbody')?.innerText.includes('checkout'));
    assert.match(page.url(), /sql=SELECT/);
    await page.fill('#sql', 'DELETE FROM spans_rows');
    await page.click('button[type=submit]');
    await page.waitForSelector('.failure');
    await page.context().close();
});

test('keys choose views, and the first load takes less than a second', async () => {
    const page = await open();
    await show(page, 'fleet');
    await page.keyboard.press('2');
    await until(async () => page.url(), (url) => url.endsWith('#/gaps'));
    const took = await page.evaluate(() => performance.getEntriesByType('navigation')[0].duration);
    console.log(`# first load ${Math.round(took)} ms`);
    await page.context().close();
});

await runCases();

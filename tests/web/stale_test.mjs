// The dashboard cannot look healthy when it is not: a server that hangs or is gone makes every view stale, with its age, in grey; lost
// records are red, named and linked.
import assert from 'node:assert/strict';

import { after, runCases, test } from '../clients/cases.mjs';
import { Browser, keep, says, show } from './browser.mjs';
import { Up, span } from './up.mjs';

const LIMIT_MS = 7000;
const VIEWS = ['fleet', 'gaps', 'work', 'checkpoints', 'replication', 'lake', 'telemetry', 'query'];

const up = await Up.start();
const browser = await Browser.start(up.url);
after(async () => {
    await browser.close();
    up.process.kill('SIGCONT');
    await up.stop('SIGKILL');
    up.remove();
});

await up.sendSpans([span('checkout', 'GET /cart')]);

const isStale = (page, wanted) => page.waitForFunction((text) => document.documentElement.dataset.stale === text, String(wanted));

// Background and text colours of all elements that are shown, as [red, green, blue].
const greens = (page) => page.evaluate(() => {
    const found = [];
    if (getComputedStyle(document.querySelector('main')).filter.includes('grayscale(1)')) {
        for (const element of document.querySelectorAll('body > :not(#app), #app > :not(main, header, .demo)')) check(element);
        return found;
    }
    for (const element of document.querySelectorAll('body *')) check(element);
    return found;
    function check(element) {
        const style = getComputedStyle(element);
        for (const colour of [style.color, style.backgroundColor]) {
            const [r, g, b, a = 1] = (colour.match(/[\d.]+/g) || []).map(Number);
            if (a > 0 && g > r + 40 && g > b + 20) found.push(`${element.className}: ${colour}`);
        }
    }
});

// How long a page took to know it, on the page's own clock: the browser is on a busy machine, too.
async function becomesStale(page, begin) {
    await page.evaluate(() => {
        window.staleAfter = null;
        const from = performance.now();
        const look = () => (document.documentElement.dataset.stale === 'true' ? (window.staleAfter = performance.now() - from) : setTimeout(look, 50));
        look();
    });
    begin();
    await page.waitForFunction(() => window.staleAfter !== null);
    return page.evaluate(() => window.staleAfter);
}

async function looksStale(page) {
    await page.waitForSelector('main[data-stale="true"]');
    await page.waitForFunction(() => /^\d/.test(document.querySelector('.stale-bar .stale-age')?.innerText || ''));
    assert.deepEqual(await greens(page), []);
    assert.equal(await page.evaluate(() => /\bhealthy\b|caught up\b/.test(document.querySelector('#main [role="rowgroup"].heat-body')?.innerText || '')), false);
    assert.equal(await page.evaluate(() => document.querySelector('.live').innerText), 'not live');
}

// The page needs no server to show another view: each of them is stale, whatever it had loaded.
async function everyViewIsStale(page) {
    for (const view of VIEWS) {
        await page.evaluate((name) => (location.hash = `#/${name}`), view);
        await page.waitForFunction((name) => document.title.startsWith(name), view);
        await isStale(page, true);
        await looksStale(page);
    }
}

test('a server that hangs makes every view stale, and a server that returns makes it fresh', async () => {
    const page = await browser.open();
    await show(page, 'fleet');
    await page.waitForSelector('.is-live');
    await says(page, 'healthy');
    await isStale(page, false);
    const took = await becomesStale(page, () => up.process.kill('SIGSTOP'));
    await everyViewIsStale(page);
    up.process.kill('SIGCONT');
    await isStale(page, false);
    await page.waitForFunction(() => !document.querySelector('.stale-bar'));
    await page.context().close();
    assert(took <= LIMIT_MS, `it took ${took} ms`);
});

// News or a heartbeat, every 2 s at the latest; a machine that is busy makes them late.
test('the event stream beats', async () => {
    const answer = await fetch(`${up.url}/events`);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    const begin = Date.now();
    for (let beats = 0, text = ''; beats < 5; beats = text.split('\n\n').length - 1) text += (await reader.read()).value;
    await reader.cancel();
    assert(Date.now() - begin < 30000, `${Date.now() - begin} ms`);
});

test('lost records are red, named and linked', async () => {
    const page = await browser.open();
    await page.route('**/tidemark.colony.v1.ColonyService/Fleet', async (route) => {
        const answer = await route.fetch();
        const fleet = await answer.json();
        fleet.lost = 51;
        fleet.lost_unaccepted = 51;
        fleet.agents[0].lost = fleet.data_types.map((type) => (type === 'telemetry' ? 51 : 0));
        await route.fulfill({ response: answer, json: fleet });
    });
    await show(page, 'fleet');
    await says(page, 'lost records, not accepted');
    const found = await page.evaluate(() => {
        const figure = [...document.querySelectorAll('.figure.bad')].find((one) => one.innerText.includes('lost records'));
        const link = document.querySelector('.lost a');
        return { figure: figure?.innerText, colour: getComputedStyle(figure.querySelector('strong')).color, link: link.innerText, href: link.getAttribute('href') };
    });
    const [red, green] = found.colour.match(/\d+/g).map(Number);
    assert(red > green + 60, found.colour);
    assert.match(found.figure, /51/);
    assert.match(found.link, /telemetry: 51/);
    assert.match(found.href, /^#\/gaps\?status=permanent&agent=.+&type=telemetry$/);
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await page.context().close();
});

test('a store that is down makes the page stale with the reason', async () => {
    const page = await browser.open();
    await page.route('**/tidemark.colony.v1.ColonyService/Fleet', async (route) => {
        const answer = await route.fetch();
        await route.fulfill({ response: answer, json: { ...(await answer.json()), store_up: false, store_reason: 'connection refused', age_ms: 65000 } });
    });
    await show(page, 'fleet');
    await isStale(page, true);
    await says(page, 'the store is down: connection refused');
    await looksStale(page);
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await page.context().close();
});

// The last one: the server does not return.
test('a server that is killed makes every view stale', async () => {
    const page = await browser.open();
    await show(page, 'fleet');
    await page.waitForSelector('.is-live');
    const took = await becomesStale(page, () => up.process.kill('SIGKILL'));
    await everyViewIsStale(page);
    assert(took <= LIMIT_MS, `it took ${took} ms`);
});

await runCases();

#!/usr/bin/env node
// dashboard.mjs - what the dashboard costs: bytes, the first load, a fleet view that stays fluid, and the server beside ten open pages.
//
//     node bench/dashboard.mjs [--agents 1000] [--seconds 10] [--pages 10] [--url http://127.0.0.1:8340]
//
// It starts `tidemark up --demo` over a directory of its own (or measures one that runs: --url and --pid), opens Debian's chromium, and prints one line per figure
// with what is expected of it. The view is measured while it scrolls and news arrive, in CPU time of the page's main thread; the server's CPU is read from /proc, as
// percent of one core, with and without pages.
import { readFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import { gzipSync } from 'node:zlib';

import { need } from '../tests/clients/deps.mjs';
import { Up, until } from '../tests/web/up.mjs';

const { chromium } = need('playwright-core');
const option = (name, standard) => {
    const at = process.argv.indexOf(`--${name}`);
    return at < 0 ? standard : process.argv[at + 1];
};
const agents = Number(option('agents', 1000));
const seconds = Number(option('seconds', 10));
const ROUNDS = 4;
const pages = Number(option('pages', 10));
const TRACED = { categories: ['devtools.timeline', 'disabled-by-default-devtools.timeline', '__metadata'] };
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function say(name, value, unit, expected, isMet) {
    const verdict = expected === undefined ? '' : `  (expected ${expected}: ${isMet ? 'met' : 'not met'})`;
    console.log(`${name.padEnd(48)} ${String(value).padStart(9)} ${unit}${verdict}`);
}

function cpuSeconds(pid) {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
    return (Number(fields[11]) + Number(fields[12])) / 100; // USER_HZ
}

async function cpuPercent(pid, forSeconds) {
    const before = cpuSeconds(pid);
    await sleep(forSeconds * 1000);
    return ((cpuSeconds(pid) - before) / forSeconds) * 100;
}

// ---- bytes ----

async function measureBytes(url) {
    let total = 0;
    for (const path of ['/', '/dashboard.js', '/dashboard.css', '/dashboard.svg'])
        total += gzipSync(Buffer.from(await (await fetch(url + path)).arrayBuffer())).length;
    say('all files, gzip', (total / 1000).toFixed(1), 'kB', '< 150 kB', total < 150000);
}

// ---- the first load ----

// In the page: the frame behind the first row is drawn. Who asks from outside, as waitForSelector does, learns of it some 300 ms later.
function noteFirstRow() {
    new MutationObserver((_, observer) => {
        if (!document.querySelector('.heat-row')) return;
        observer.disconnect();
        requestAnimationFrame(() => setTimeout(() => { window.drawnAt = performance.now(); })); // since the navigation began
    }).observe(document, { childList: true, subtree: true });
}

async function measureLoad(browser, url) {
    const times = [];
    for (let i = 0; i < 5; i++) {
        const page = await (await browser.newContext()).newPage();
        await page.addInitScript(noteFirstRow);
        await page.goto(`${url}/#/fleet`);
        times.push(await (await page.waitForFunction(() => window.drawnAt)).jsonValue());
        await page.context().close();
    }
    const median = times.sort((a, b) => a - b)[2];
    say('first load until agents are drawn, median of 5', Math.round(median), 'ms', '< 1000 ms', median < 1000);
    const traced = await (await browser.newContext()).newPage();
    await browser.startTracing(traced, TRACED);
    await traced.goto(`${url}/#/fleet`);
    await traced.waitForSelector('.heat-row');
    const tasks = mainThread(JSON.parse((await browser.stopTracing()).toString()));
    say('of it work of the main thread, which a busy machine does not add to', tasks.reduce((sum, one) => sum + one, 0).toFixed(0), 'ms of CPU');
    say('load of the machine meanwhile', loadavg()[0].toFixed(1), `on ${cpus().length} cores`);
    await traced.context().close();
}

// ---- frames ----

// In the page: scroll for a while, a row and a third per frame.
async function scroll(forMs) {
    const box = document.querySelector('.heat-box');
    const begun = performance.now();
    let frames = 0;
    await new Promise((resolve) => {
        const step = (now) => {
            frames++;
            box.scrollTop = box.scrollTop + box.clientHeight >= box.scrollHeight - 1 ? 0 : box.scrollTop + 40;
            if (now - begun < forMs) requestAnimationFrame(step);
            else resolve();
        };
        requestAnimationFrame(step);
    });
    return { frames, answers: performance.getEntriesByType('resource').filter((entry) => entry.startTime > begun).length };
}

// What the page's main thread did, in its own CPU time: a busy machine draws fewer frames, but a frame costs what it costs.
function mainThread(trace) {
    const threads = new Map(trace.traceEvents.filter((one) => one.name === 'thread_name').map((one) => [`${one.pid} ${one.tid}`, one.args.name]));
    return trace.traceEvents.filter((one) => one.ph === 'X' && one.name === 'RunTask' && threads.get(`${one.pid} ${one.tid}`) === 'CrRendererMain').map((one) => (one.tdur ?? 0) / 1000);
}

async function measureFrames(browser, url) {
    const page = await (await browser.newContext({ viewport: { width: 1300, height: 850 } })).newPage();
    await page.goto(`${url}/#/fleet`);
    await page.waitForSelector('.heat-row');
    await sleep(1500);
    await browser.startTracing(page, TRACED);
    const { frames, answers } = await page.evaluate(scroll, seconds * 1000);
    const tasks = mainThread(JSON.parse((await browser.stopTracing()).toString()));
    const perFrame = tasks.reduce((sum, one) => sum + one, 0) / frames;
    const longest = Math.max(0, ...tasks);
    const rows = await page.evaluate(() => document.querySelectorAll('.heat-row').length);
    say('rows in the page, of all agents', `${rows}/${agents}`, '');
    say('frames drawn / answers that came meanwhile', `${frames}/${answers}`, `in ${seconds} s`);
    say('main thread per frame, news included', perFrame.toFixed(1), 'ms of CPU', '< 16.7 ms: 60 frames per second', perFrame < 16.7);
    say('longest task', longest.toFixed(0), 'ms of CPU', '< 50 ms: no long tasks', longest < 50);
    await page.context().close();
}

// ---- the server ----

async function openPages(browser, url) {
    const opened = [];
    for (let i = 0; i < pages; i++) {
        const page = await (await browser.newContext()).newPage();
        await page.goto(`${url}/#/fleet`);
        await page.waitForSelector('.heat-row');
        opened.push(page);
    }
    await sleep(1000);
    return opened;
}

// Without and with pages in turn: what the server does besides varies more from one ten seconds to the next than the pages cost.
async function measureServer(browser, url, pid) {
    const alone = [await cpuPercent(pid, seconds)];
    const together = [];
    for (let i = 0; i < ROUNDS; i++) {
        const opened = await openPages(browser, url);
        together.push(await cpuPercent(pid, seconds));
        await Promise.all(opened.map((page) => page.context().close()));
        alone.push(await cpuPercent(pid, seconds));
    }
    const middle = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
    const list = (values) => values.map((one) => one.toFixed(1)).join(' ');
    const extra = middle(together) - middle(alone);
    say('server without pages', list(alone), '% of a core');
    say(`server with ${pages} pages`, list(together), '% of a core');
    say(`what ${pages} pages cost the server, of medians`, extra.toFixed(1), '% of a core', '< 5 %', extra < 5);
}

// ---- all of it ----

const up = option('url') ? null : await Up.start(['--demo', '--demo-agents', String(agents)]);
const url = option('url') ?? up.url;
const pid = option('pid') ?? up.process.pid;
const fleet = 'tidemark.colony.v1.ColonyService/Fleet';
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
try {
    if (up) await until(() => up.call(fleet), (answer) => (answer.agents || []).filter((one) => one.health === 'healthy').length >= agents);
    await sleep(3000);
    await measureBytes(url);
    await measureLoad(browser, url);
    await measureFrames(browser, url);
    await measureServer(browser, url, pid);
} finally {
    await browser.close();
    if (up) {
        await up.stop();
        up.remove();
    }
}

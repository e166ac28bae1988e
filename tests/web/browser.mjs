// browser.mjs - Debian's chromium on a dashboard, and what every test of it looks at.
//
//     const browser = await Browser.start(up.url);
//     const page = await browser.open();
//     await show(page, 'fleet');
import { mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

import { need } from '../clients/deps.mjs';

const { chromium } = need('playwright-core');
const axe = readFileSync(need.resolve('axe-core/axe.min.js'), 'utf8');
const shots = path.join(process.env.TIDEMARK_BUILD_DIR ?? 'build', 'screenshots');
mkdirSync(shots, { recursive: true });

export class Browser {
    static async start(url) {
        const browser = new Browser();
        browser.url = url;
        browser.chromium = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
        return browser;
    }

    // page.troubles: errors of the page, and requests to anybody else.
    async open(options = {}) {
        const context = await this.chromium.newContext({ viewport: { width: 1300, height: 850 }, ...options });
        const page = await context.newPage();
        page.home = this.url;
        page.troubles = [];
        page.on('pageerror', (error) => page.troubles.push(error.message));
        page.on('console', (message) => message.type() === 'error' && page.troubles.push(message.text()));
        page.on('request', (request) => request.url().startsWith(this.url) || page.troubles.push(`asks ${request.url()}`));
        page.setDefaultTimeout(0); // the limit of a case (cases.mjs) ends a wait
        page.setDefaultNavigationTimeout(0);
        return page;
    }

    async close() {
        await this.chromium.close();
    }
}

export async function show(page, view) {
    await page.goto(`${page.home}/#/${view}`);
    await page.waitForSelector('h1');
    await page.waitForFunction(() => !/Loading|Comparing/.test(document.body.innerText));
}

// What axe finds, as lines; the page has to be opened with bypassCSP, for axe is put into it.
export async function findings(page, name) {
    if (!(await page.evaluate(() => !!window.axe))) await page.evaluate(axe);
    const found = await page.evaluate(() => window.axe.run());
    return found.violations.map((one) => `${name}: ${one.id}: ${one.nodes[0].html}`);
}

export const keep = (page, name) => page.screenshot({ path: path.join(shots, `${name.replace(/[^\w-]+/g, '-')}.png`) });
export const says = (page, text) => page.waitForFunction((words) => document.body.innerText.includes(words), text);

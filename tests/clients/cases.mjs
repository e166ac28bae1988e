// cases.mjs - runs test cases one after the other and says what became of them in TAP, which scripts/check/test-report counts.
//
//     test('a rule, as a sentence', async () => { ... });
//     after(() => agent.stop());
//     await runCases();
//
// A case that has not ended after CASE_MS of fair_clock.mjs (or what it says itself) has failed; it does not keep the others from running.
import { format } from 'node:util';

import { afterFairTime } from './fair_clock.mjs';

const CASE_MS = 60_000;
const cases = [];
const endings = [];

export function test(name, run, limit = CASE_MS) {
    cases.push({ name, run, limit });
}

// What is done when all cases have ended, the last first. It is a case of its own.
export function after(run) {
    endings.unshift(run);
}

async function end() {
    for (const run of endings) await run();
}

async function withinTime(run, limit) {
    let callOff;
    const late = new Promise((_, reject) => {
        callOff = afterFairTime(limit, () => reject(new Error(`not done after ${limit} ms of this machine`)));
    });
    try {
        await Promise.race([run(), late]);
    } finally {
        callOff();
    }
}

export async function runCases() {
    const all = [...cases, { name: 'everything ends in good order', run: end, limit: CASE_MS }];
    console.log(`1..${all.length}`);
    let failed = 0;
    for (const [index, { name, run, limit }] of all.entries()) {
        try {
            await withinTime(run, limit);
            console.log(`ok ${index + 1} - ${name}`);
        } catch (error) {
            failed++;
            console.log(`not ok ${index + 1} - ${name}`);
            console.log(format(error).replace(/^/gm, '# '));
        }
    }
    process.exit(failed ? 1 : 0);
}

// docs/reference is what the headers, the services and a new store's tables say now. (What the program's tables say: tests/cli/help/reference_test.c.)
import { spawnSync } from 'node:child_process';
import path from 'node:path';

import { runCases, test } from '../clients/cases.mjs';
import { source, tidemark } from '../clients/deps.mjs';

const pages = [
    ['the C interface', 'make-c-api'],
    ['the services', 'make-services'],
    ['the tables', 'make-schema', tidemark],
    ['the proof', 'make-proof'],
];
for (const [what, script, ...words] of pages)
    test(`the page of ${what} is up to date`, async () => {
        const { status, stderr } = spawnSync('python3', [path.join(source, 'scripts', 'docs', script), '--check', ...words], { encoding: 'utf8' });
        if (status !== 0) throw stderr;
    });
await runCases();

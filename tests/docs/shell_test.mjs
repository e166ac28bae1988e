// Every shell block of README.md, docs/*.md and docs/how-to/*.md is executed, and prints what the document shows.
//
//     node tests/docs/shell_test.mjs [DOCUMENT...]        those documents; TIDEMARK_DOCS_SHOW=1 tells what everything printed
//     node tests/docs/shell_test.mjs --part 2 --of 3      every third, from the second on
//
// The blocks of a document run one after the other: see blocks.mjs for their forms, shell.mjs for how they run.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import readline from 'node:readline';

import { after, runCases, test } from '../clients/cases.mjs';
import { source } from '../clients/deps.mjs';
import { blocksOf, difference, hiddenCommand, isShell, unitsOf } from './blocks.mjs';
import { DOCUMENT_MS, runUnits } from './shell.mjs';

const helpers = process.env.TIDEMARK_HELPER_DIR ?? path.join(source, 'build/tests');

const SHOWN_LEN = 2000; // of what a command printed that failed

function allDocuments() {
    const pages = ['docs', 'docs/how-to'].flatMap((folder) => readdirSync(path.join(source, folder))
        .filter((name) => name.endsWith('.md')).map((name) => `${folder}/${name}`));
    return ['README.md', 'CONTRIBUTING.md', ...pages.sort()];
}

function chosenDocuments(words) {
    if (words[0] !== '--part') return words.length > 0 ? words : allDocuments();
    const [part, of] = [Number(words[1]), Number(words[3])];
    return allDocuments().filter((_, index) => index % of === part - 1);
}

// A PostgreSQL server, and how clients find it. It ends when its stdin does.
async function startDatabase() {
    const child = spawn(path.join(helpers, 'docs-pg'), [], { stdio: ['pipe', 'pipe', 'inherit'] });
    const url = await new Promise((resolve, reject) => {
        readline.createInterface({ input: child.stdout }).once('line', resolve).once('close', () => reject(new Error('no PostgreSQL')));
    });
    const [, user, host, port] = /^postgres:\/\/([^@]+)@([^:/]+)(?::(\d+))?\//.exec(url);
    return {
        environment: { PGUSER: user, PGHOST: decodeURIComponent(host), ...(port && { PGPORT: port }) },
        stop: () => child.stdin.end(),
    };
}

function troubleOf(name, units, result) {
    for (const [index, unit] of units.entries()) {
        const where = `${name}:${unit.line}: `;
        if (index >= result.done) return `${where}${result.failure}\n${(result.printed[index] ?? '').slice(-SHOWN_LEN)}`;
        const wrong = unit.expected && difference(unit.expected, result.printed[index]);
        if (wrong) return `${where}${unit.command}\n${wrong}`;
    }
    return result.failure;
}

async function runDocument(name, units) {
    const directory = mkdtempSync(path.join(tmpdir(), 'tidemark-docs-'));
    const isWanted = units.some(({ command }) => /postgres:\/\/|createdb|psql/.test(command));
    const database = isWanted ? await startDatabase() : undefined;
    try {
        const result = await runUnits(units, { directory, database: database?.environment });
        if (process.env.TIDEMARK_DOCS_SHOW)
            for (const [index, { command }] of units.entries()) console.log(`$ ${command}\n${result.printed[index]}`);
        const trouble = troubleOf(name, units, result);
        if (trouble) throw trouble;
    } finally {
        database?.stop();
        rmSync(directory, { recursive: true, force: true });
    }
}

const counts = { run: 0, left: [] };
for (const name of chosenDocuments(process.argv.slice(2))) {
    const blocks = blocksOf(readFileSync(path.resolve(source, name), 'utf8'));
    const shell = blocks.filter(isShell);
    const runnable = shell.filter((block) => !block.reason);
    counts.run += runnable.length;
    for (const block of shell.filter(({ reason }) => reason)) counts.left.push(`${name}:${block.line}: ${block.reason}`);
    test(`${name}: commands stand in blocks that are run`, async () => {
        for (const block of blocks.filter((candidate) => !candidate.reason)) {
            const line = hiddenCommand(block);
            if (line) throw `${name}:${block.line}: "${line}" belongs into a block of sh or console`;
        }
    });
    if (runnable.length > 0)
        test(`${name}: ${runnable.length} blocks do what they say`, () => runDocument(name, runnable.flatMap(unitsOf)), 2 * DOCUMENT_MS);
}
after(() => {
    console.log(`# ${counts.run} blocks run, ${counts.left.length} left out`);
    for (const line of counts.left) console.log(`# left out: ${line}`);
});
await runCases();

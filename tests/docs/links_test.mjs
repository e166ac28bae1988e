// Links of the documents lead somewhere, and files that they name are there.
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';

import { runCases, test } from '../clients/cases.mjs';
import { source } from '../clients/deps.mjs';

const LINK = /\[[^\]]*\]\(([^)\s]+)\)|\b(?:src|srcset|href)="([^"]+)"/g;
const NAMED = /`((?:bench|docs|examples|fuzz|include|models|packaging|proto|scripts|sql|src|tests|tools|web)\/[\w./*{},-]+)`/g;
const BENCH = /`build\/bench\/([a-z]\w+)/g;

function pagesBelow(folder) {
    const entries = readdirSync(path.join(source, folder), { withFileTypes: true });
    return entries.filter((entry) => entry.name.endsWith('.md')).map((entry) => path.join(folder, entry.name));
}
const pages = [
    'README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'SECURITY.md', 'CODE_OF_CONDUCT.md', 'examples/README.md',
    ...pagesBelow('docs'), ...pagesBelow('docs/how-to'), ...pagesBelow('docs/decisions'), ...pagesBelow('docs/internals'), ...pagesBelow('docs/reference'),
];
const textOf = (page) => readFileSync(path.join(source, page), 'utf8');
const proseOf = (page) => textOf(page).replace(/^```[\s\S]*?^```$/gm, '');

// As GitHub makes them of headings.
const anchorOf = (heading) => heading.toLowerCase().replace(/[`*]/g, '').replace(/[^\p{L}\p{N} _-]/gu, '').trim().replace(/ /g, '-');
function anchorsOf(page) {
    const seen = new Map();
    return new Set([...proseOf(page).matchAll(/^#+ (.*)$/gm)].map(([, heading]) => {
        const anchor = anchorOf(heading);
        const times = seen.get(anchor) ?? 0;
        seen.set(anchor, times + 1);
        return times ? `${anchor}-${times}` : anchor;
    }));
}

function brokenLink(page, target) {
    if (/^(https?|mailto):/.test(target)) return undefined;
    const [file, anchor] = target.split('#');
    const place = file === '' ? page : path.join(path.dirname(page), file);
    if (!existsSync(path.join(source, place))) return `${target}: there is no ${place}`;
    if (anchor && !anchorsOf(place).has(anchor)) return `${target}: ${place} has no such heading`;
    return undefined;
}

// `src/net/http/h2.c`, `tests/net`, `packaging/prometheus`; a name with * or {} stands for several.
function isThere(name) {
    const plain = name.replace(/[.,]+$/, '');
    const begin = plain.split(/[*{]/)[0];
    if (begin === plain) return ['', '.c', '.h', '.mjs'].some((end) => existsSync(path.join(source, plain + end)));
    const folder = path.dirname(`${begin}x`);
    const start = path.basename(`${begin}x`).slice(0, -1);
    return existsSync(path.join(source, folder)) && readdirSync(path.join(source, folder)).some((entry) => entry.startsWith(start));
}

// Names of test cases: four words and more, alone or behind their program (`lake/fork: a_fork_equals_its_parent_at_its_point`).
const CASE = /`(?:[a-z_/]+: )?([a-z][a-z0-9]*(?:_[a-z0-9]+){3,})`/g;
const tests = readdirSync(path.join(source, 'tests'), { recursive: true })
    .filter((name) => /\.[ch]$/.test(name))
    .map((name) => readFileSync(path.join(source, 'tests', name), 'utf8'))
    .join('\n');

// Pages, and behind which heading of theirs cases are named.
const NAMING = [
    ['docs/internals/proof.md', ''], ['docs/lake.md', '## How it is tested'], ['docs/decisions/document-telemetry.md', '## Its tests'],
    ['docs/decisions/document-replication.md', '## Its tests'], ['docs/decisions/document-lake.md', '## Its tests'],
];
for (const [page, heading] of NAMING)
    test(`${page}: the cases that it names exist`, async () => {
        const text = textOf(page);
        const cases = [...text.slice(text.indexOf(heading)).matchAll(CASE)].map(([, name]) => name);
        const missing = cases.filter((name) => !new RegExp(`\\bvoid ${name}\\(void \\*\\*`).test(tests));
        if (cases.length === 0 || missing.length > 0) throw `not cases of tests/: ${missing.join(', ')}`;
    });
for (const page of pages)
    test(`${page}: what it points at is there`, async () => {
        const wrong = [...proseOf(page).matchAll(LINK)].map(([, target, attribute]) => brokenLink(page, target ?? attribute)).filter(Boolean);
        for (const [, name] of proseOf(page).matchAll(NAMED)) if (!isThere(name)) wrong.push(`${name} is not there`);
        for (const [, name] of textOf(page).matchAll(BENCH))
            if (!existsSync(path.join(source, 'bench', `${name}.c`))) wrong.push(`bench/${name}.c is not there`);
        if (wrong.length > 0) throw wrong.join('\n');
    });

for (const folder of ['docs/decisions', 'docs/internals'])
    test(`${folder}: its index has every page`, async () => {
        const index = textOf(path.join(folder, 'README.md'));
        const missing = pagesBelow(folder).map((page) => path.basename(page)).filter((name) => name !== 'README.md' && !index.includes(`(${name})`));
        if (missing.length > 0) throw missing.join(', ');
    });
const NARROW = ['ARCHITECTURE.md', 'CONTRIBUTING.md', 'docs/glossary.md', ...pagesBelow('docs/decisions'), ...pagesBelow('docs/internals')];
test('lines of pages for contributors fit into 100 columns', async () => {
    const wide = NARROW.flatMap((page) => textOf(page).split('\n').flatMap((line, i) => ([...line].length > 100 ? [`${page}:${i + 1}`] : [])));
    if (wide.length > 0) throw wide.join('\n');
});

// The design notes of the beginning are not part of the tree: comments say the fact, or name a page of docs/decisions.
const OUTSIDE = /\b(?:FAULTS|DECISIONS),? (?:rules? )?[A-Z]?\d|\b(?:DESIGN|TYPES|DUCKLAKE|FAULTS|DECISIONS|PEERS)\.md\b|\bseeds? 00[0-4]\b|\/work\/shared/;
const FOLDERS = ['bench', 'demo', 'docs', 'examples', 'fuzz', 'include', 'models', 'packaging', 'proto', 'scripts', 'sql', 'src', 'tests', 'tools', 'web/src'];
test('nothing refers to a document outside of the tree', async () => {
    const wrong = [];
    for (const folder of FOLDERS)
        for (const name of readdirSync(path.join(source, folder), { recursive: true })) {
            const file = path.join(folder, name);
            if (file === 'tests/docs/links_test.mjs' || !/\.(c|h|sql|py|mjs|md|proto|toml|build|sh|jsx)$/.test(name)) continue;
            const lines = textOf(file).split('\n');
            lines.forEach((line, i) => OUTSIDE.test(line) && wrong.push(`${file}:${i + 1}: ${line.trim()}`));
        }
    if (wrong.length > 0) throw wrong.join('\n');
});
await runCases();

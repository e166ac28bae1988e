// The examples in C, built as anybody would: against the installed library, by pkg-config. Arguments: the compiler that made the library, and
// flags that go with it (a sanitizer's).
import assert from 'node:assert/strict';
import path from 'node:path';

import { runCases, test } from '../clients/cases.mjs';
import { source } from '../clients/deps.mjs';
import { declareCases } from './capabilities.mjs';
import { inside, run } from './daemons.mjs';

const compiler = process.argv.length > 2 ? process.argv.slice(2) : ['cc'];
const warnings = ['-std=gnu17', '-Wall', '-Wextra', '-Wpedantic', '-Wconversion', '-Wshadow', '-Wstrict-prototypes', '-Werror'];
const example = (name) => inside(`bin-${name}`);
const build = process.env.TIDEMARK_BUILD_DIR ?? path.join(source, 'build');

// Each program, and what its head names: further files, packages.
const programs = {
    sequence: { files: ['position'], packages: ['tidemark'] },
    work: { files: [], packages: ['tidemark', 'jansson'] },
    journal: { files: ['position'], packages: ['tidemark'] },
    feed: { files: ['position'], packages: ['tidemark'] },
    telemetry: { files: ['http'], packages: ['libcurl', 'jansson'] },
    colony: { files: ['http'], packages: ['libcurl', 'jansson'] },
    replica: { files: [], packages: ['sqlite3', 'jansson'] },
    lake: { files: ['http'], packages: ['libcurl', 'jansson'] },
};

async function compile(name, { files, packages }, prefix, places) {
    const flags = await run(['pkg-config', `--define-variable=prefix=${prefix}`, '--cflags', '--libs', ...packages], places);
    await run([
        ...compiler,
        ...warnings,
        ...[name, ...files].map((file) => path.join(source, `examples/c/${file}.c`)),
        ...flags.trim().split(/\s+/),
        `-Wl,-rpath,${places.PKG_CONFIG_PATH.replace(/\/pkgconfig$/, '')}`,
        '-o',
        example(name),
    ]);
}

test('every program is built against the installed library', async () => {
    const destination = inside('installed');
    await run(['meson', 'install', '-C', build, '--no-rebuild', '--quiet', '--tags', 'devel,runtime', '--destdir', destination]);
    const found = (await run(['find', destination, '-name', 'tidemark.pc'])).trim();
    const [, prefix] = /^(.*?)\/lib\//.exec(found);
    const places = { PKG_CONFIG_PATH: path.dirname(found) };
    await Promise.all(Object.entries(programs).map(([name, parts]) => compile(name, parts, prefix, places)));
});

declareCases({
    telemetry: (url, file) => [example('telemetry'), url, file],
    colony: (url) => [example('colony'), url],
    workAdd: ({ store }, item, pages) => [example('work'), store, 'add', item, String(pages)],
    workRun: ({ store }, effects, { name, leaseMs, items }) =>
        [example('work'), store, 'run', effects, `--name=${name}`, `--lease-ms=${leaseMs}`, `--items=${items}`],
    journal: ({ store }, file, task, ...steps) => [example('journal'), store, file, task, ...steps],
    replica: (db, peer, who) => [example('replica'), db, peer, who],
    lake: ({ url }, catalog, day) => [example('lake'), url, catalog, day],
    isLakeOverHttp: true,
});

test('feed: what an agent has stored is read from its file, each record once', async () => {
    const read = async (stream) => (await run([example('feed'), inside('agent.db'), stream, inside('fed')])).split('\n').filter(Boolean).map((line) => JSON.parse(line));
    const spans = await read('telemetry');
    assert.deepEqual(spans.map(({ seq_id: number, span_name: name }) => `${number} ${name}`).slice(0, 2), ['1 GET /cart', '2 POST /order']);
    assert.equal(spans.length, 15);
    assert.deepEqual(await read('telemetry'), []);
});

test('sequence: orders placed at once have numbers without a gap; a request that comes twice is one order', async () => {
    const sequence = (...args) => run([example('sequence'), inside('shop.db'), ...args]);
    assert.equal(await sequence('place', 'r-0', 'ann'), 'order 1 for ann\n');
    assert.equal(await sequence('place', 'r-0', 'ann'), 'order 1 for ann (was there)\n');
    assert.equal(await sequence('follow', inside('seen')), '1 ann\n');
    const requests = ['r-1', 'r-2', 'r-3', 'r-4', 'r-1', 'r-2'];
    await Promise.all(requests.map((request) => sequence('place', request, 'bob')));
    assert.equal(await sequence('follow', inside('seen')), '2 bob\n3 bob\n4 bob\n5 bob\n');
    assert.equal(await sequence('follow', inside('seen')), '');
    await assert.rejects(sequence('place', 'r-1', 'eve'), /another customer's/);
});
await runCases();

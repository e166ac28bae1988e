// A broken block is found: the runner of the documents' blocks (shell_test.mjs) can fail.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { after, runCases, test } from '../clients/cases.mjs';
import { blocksOf, difference, hiddenCommand, unitsOf } from './blocks.mjs';

const directory = mkdtempSync(path.join(tmpdir(), 'tidemark-docs-'));
after(() => rmSync(directory, { recursive: true }));

const fenced = (language, ...lines) => ['```' + language, ...lines, '```', ''].join('\n');

// What the runner says of a document, and how it ends.
function run(text) {
    const page = path.join(directory, 'page.md');
    writeFileSync(page, text);
    const { status, stdout } = spawnSync('node', [fileURLToPath(new URL('shell_test.mjs', import.meta.url)), page], { encoding: 'utf8' });
    return { status, stdout };
}

test('a document that holds what it says passes', async () => {
    const { status, stdout } = run(fenced('console', '$ echo one; echo two', 'one', 'two') + fenced('sh', 'true'));
    assert.equal(status, 0, stdout);
    assert.match(stdout, /# 2 blocks run, 0 left out/);
});

test('a command that fails is named with its line', async () => {
    const { status, stdout } = run('# Title\n\n' + fenced('sh', 'true') + fenced('sh', 'echo before', 'false', 'echo behind'));
    assert.equal(status, 1);
    assert.match(stdout, /page\.md:\d+: false ended with 1/);
    assert.match(stdout, /# before/);
});

test('an output that differs is shown beside the expected one', async () => {
    const { status, stdout } = run(fenced('console', '$ echo three', 'four'));
    assert.equal(status, 1);
    assert.match(stdout, /expected:\n# four\n# printed:\n# three/);
});

test('a block that is left out is counted, with its reason', async () => {
    const { status, stdout } = run('<!-- not run: it takes a day -->\n' + fenced('sh', 'exit 1'));
    assert.equal(status, 0, stdout);
    assert.match(stdout, /# 0 blocks run, 1 left out\n# left out: .*it takes a day/);
});

test('a daemon that does not come up is a failure', async () => {
    const { status, stdout } = run(fenced('sh', 'tidemark agent --store /nowhere/agent.db &', 'true'));
    assert.equal(status, 1, stdout);
});

test('commands in blocks that are not run are found', async () => {
    const [plain, text, c, bash] = blocksOf(fenced('', 'tidemark store verify') + fenced('text', '$ ls') + fenced('c', 'int x;') + fenced('bash', 'for i in 1 2; do :; done'));
    assert.equal(hiddenCommand(plain), 'tidemark store verify');
    assert.equal(hiddenCommand(text), '$ ls');
    assert.equal(hiddenCommand(c), undefined);
    assert.equal(hiddenCommand(bash), 'for i in 1 2; do :; done');
});

test('three dots stand for text in a line, and for lines', async () => {
    assert.equal(difference(['id ... of 3', '...', 'end'], 'id 17 of 3\na\nb\nend\n'), undefined);
    assert.equal(difference(['...'], ''), undefined);
    assert.notEqual(difference(['id ...'], 'id 1\nid 2\n'), undefined);
    assert.notEqual(difference([], 'something\n'), undefined);
});

test('a command goes on in lines that begin with "> "', async () => {
    const [block] = blocksOf(fenced('console', "$ cat <<'END'", '> one', '> END', 'one', '$ true'));
    assert.deepEqual(unitsOf(block).map(({ command, expected }) => [command, expected]), [
        ["cat <<'END'\none\nEND", ['one']],
        ['true', []],
    ]);
});

test('a block without an end, and one that begins without a command, are refused', async () => {
    assert.throws(() => blocksOf('```sh\ntrue\n'), /does not end/);
    assert.throws(() => unitsOf(blocksOf(fenced('console', 'ok'))[0]), /begins with/);
});

await runCases();

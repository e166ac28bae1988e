// What people meet first: README's first screen, workflows, templates and policies.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

import { runCases, test } from '../clients/cases.mjs';
import { blocksOf } from '../docs/blocks.mjs';

const source = process.env.TIDEMARK_SOURCE_DIR;
const inTree = (...names) => path.join(source, ...names);
const read = (...names) => readFileSync(inTree(...names), 'utf8');

const FIRST_SCREEN = 40; // lines
const firstScreen = read('README.md').split('\n').slice(0, FIRST_SCREEN).join('\n');

// As JSON, by a parser that is not ours. YAML 1.1 reads the key `on` as true.
const PARSE = `
import json, sys, yaml
class Loader(yaml.SafeLoader): pass
def no_doubles(loader, node):
    keys = [loader.construct_object(key) for key, _ in node.value]
    if len(keys) != len(set(keys)): raise ValueError(f"a key appears twice: {keys}")
    return loader.construct_mapping(node, deep=True)
Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, no_doubles)
print(json.dumps(yaml.load(sys.stdin, Loader)))
`;
const parseYaml = (text) => JSON.parse(execFileSync('/usr/bin/python3', ['-c', PARSE], { input: text, encoding: 'utf8' }));
const yamlBelow = (folder) => readdirSync(inTree(folder)).filter((name) => /\.ya?ml$/.test(name));

// ---- README ----

test("README's first screen shows how to install, run and look", () => {
    for (const form of ['package', 'tarball', 'image', 'source']) assert.match(firstScreen, new RegExp(`^\\| ${form} \\| .*\`.+\``, 'm'), form);
    assert.match(firstScreen, /^make run\b/m);
    assert.match(firstScreen, /\b[\d,]+ packages\b/);
    assert.match(firstScreen, /\b[\d,]+ MB\b/);
    assert.match(firstScreen, /\bminutes?\b/);
    assert.match(firstScreen, /ready http=/);
    assert.match(firstScreen, /^\*\*For\*\* /m);
    assert.match(firstScreen, /\*\*Not for\*\*/);
});

test('tidemark is on the path before the first example calls it', () => {
    const lines = blocksOf(read('README.md')).flatMap((block) => block.lines);
    const onPath = lines.findIndex((line) => /^export PATH="\$PWD\/build:\$PATH"/.test(line));
    const called = lines.findIndex((line) => /^(\$ )?tidemark /.test(line));
    assert(onPath >= 0 && onPath < called, `on the path in line ${onPath} of the blocks, called in ${called}`);
});

test('fresh-machine runs the commands of that screen', () => {
    const run = spawnSync(inTree('scripts/release/fresh-machine'), ['--list'], { encoding: 'utf8' });
    assert.equal(run.status, 0, run.stderr);
    const commands = run.stdout.trim().split('\n');
    assert.match(commands[0], /^make run\b/);
    const blocks = blocksOf(read('README.md')).filter(({ language, line }) => language === 'sh' && line < FIRST_SCREEN);
    assert.deepEqual(commands, blocks.flatMap(({ lines }) => lines));
    const last = blocks.at(-1);
    assert(last.line + last.lines.length + 1 <= FIRST_SCREEN, `the block of line ${last.line} ends below the first screen`);
});

test('fresh-machine refuses what it does not know with exit status 2', () => {
    for (const words of [[], ['--release', 'potato'], ['--release', 'trixie', '--commands', 'everything']]) {
        const run = spawnSync(inTree('scripts/release/fresh-machine'), words, { encoding: 'utf8' });
        assert.equal(run.status, 2, words.join(' '));
        assert.equal(run.stdout, '');
    }
});

// ---- release ----

// A tree with this script alone, two releases of two files each, and what a comparison of them says.
const compareReleases = (change) => {
    const root = mkdtempSync(path.join(tmpdir(), 'tidemark-again-'));
    try {
        mkdirSync(path.join(root, 'scripts/release'), { recursive: true });
        copyFileSync(inTree('scripts/release/dist-again'), path.join(root, 'scripts/release/dist-again'));
        const releases = [path.join(root, 'build/dist'), path.join(root, 'other')];
        for (const place of releases) {
            mkdirSync(path.join(place, 'tree/lib'), { recursive: true });
            writeFileSync(path.join(place, 'tree/lib/same.so'), 'same');
            writeFileSync(path.join(place, 'tree/lib/changed.so'), 'as it was');
            if (place === releases[1]) change(place);
            const pack = 'tar --sort=name --mtime=@0 -cf - tree | gzip -n >one.tar.gz && rm -r tree && echo notes >notes.md && sha256sum * >SHA256SUMS';
            execFileSync('sh', ['-c', pack], { cwd: place });
        }
        const words = ['scripts/release/dist-again', '--release', '--against', 'other'];
        return spawnSync('bash', words, { cwd: root, encoding: 'utf8' });
    } finally {
        rmSync(root, { recursive: true });
    }
};

test('dist-again accepts a release that is the same', () => {
    const run = compareReleases(() => {});
    assert.equal(run.status, 0, run.stderr);
    assert.match(run.stdout, /^dist-again: 3 files are the same/);
});

test('dist-again names every file that differs, and what differs in it', () => {
    const run = compareReleases((place) => {
        writeFileSync(path.join(place, 'tree/lib/changed.so'), 'with another path');
        writeFileSync(path.join(place, 'extra.md'), 'only here');
    });
    assert.equal(run.status, 1, run.stdout);
    const lines = run.stderr.trim().split('\n');
    assert.deepEqual(lines, [
        'dist-again: SHA256SUMS differs',
        'dist-again: extra.md is in one of the two builds only',
        'dist-again: one.tar.gz differs',
        '    tree/lib/changed.so',
        'dist-again: 3 of 4 files differ',
    ]);
});

// ---- workflows ----

test('the workflows run every test and every check on Debian 12', () => {
    const commands = [];
    for (const name of yamlBelow('.github/workflows')) {
        const workflow = parseYaml(read('.github/workflows', name));
        const triggers = workflow.on ?? workflow.true;
        assert('push' in triggers && 'pull_request' in triggers, name);
        assert.deepEqual(workflow.permissions, { contents: 'read' }, name);
        for (const [job, { container, steps, 'timeout-minutes': limit }] of Object.entries(workflow.jobs)) {
            assert.equal(container.image, 'debian:bookworm', job);
            assert(limit > 0, job);
            assert(steps.some(({ uses }) => uses?.startsWith('actions/checkout@')), job);
            for (const step of steps) assert(Boolean(step.uses) !== Boolean(step.run), `${job}: a step either uses or runs`);
            commands.push(...steps.map(({ run }) => run).filter(Boolean));
        }
    }
    for (const command of ['.ci/run', 'make check']) assert(commands.includes(command), command);
    assert(statSync(inTree('.ci/run')).mode & 0o111);
});

// ---- templates and policies ----

test('the templates of issues are forms that the platform accepts', () => {
    const kinds = new Set(['markdown', 'textarea', 'input', 'dropdown', 'checkboxes']);
    const forms = yamlBelow('.github/ISSUE_TEMPLATE').filter((name) => name !== 'config.yml');
    assert(forms.length > 0);
    for (const name of forms) {
        const form = parseYaml(read('.github/ISSUE_TEMPLATE', name));
        assert(form.name && form.description, name);
        const ids = form.body.map(({ id }) => id).filter(Boolean);
        assert.equal(new Set(ids).size, ids.length, name);
        for (const { type, attributes } of form.body) {
            assert(kinds.has(type), `${name}: ${type}`);
            assert(type === 'markdown' ? attributes.value : attributes.label, `${name}: ${type}`);
            if (type === 'dropdown') assert(attributes.options.length > 1, name);
        }
    }
    assert.equal(typeof parseYaml(read('.github/ISSUE_TEMPLATE/config.yml')).blank_issues_enabled, 'boolean');
});

test('the verbs that templates and policies name exist', () => {
    const verbs = new Set([...read('Makefile').matchAll(/^([a-z-]+):/gm)].map(([, verb]) => verb));
    for (const page of ['.github/pull_request_template.md', 'SECURITY.md', 'CODE_OF_CONDUCT.md'])
        for (const [, verb] of read(page).matchAll(/`make ([a-z-]+)/g)) assert(verbs.has(verb), `${page}: make ${verb}`);
});

test('policies name no person and no address of one', () => {
    for (const page of ['SECURITY.md', 'CODE_OF_CONDUCT.md']) {
        assert(existsSync(inTree(page)));
        assert.doesNotMatch(read(page), /\S@\S|https?:\/\//, page);
    }
});

await runCases();

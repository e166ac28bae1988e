// What the packages are made of: units, settings, the list of parts. The packages themselves: make deb-test.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import readline from 'node:readline';
import { promisify } from 'node:util';

import { after, runCases, test } from '../clients/cases.mjs';

const run = promisify(execFile);
const source = process.env.TIDEMARK_SOURCE_DIR;
const build = process.env.TIDEMARK_BUILD_DIR;
const deps = process.env.TIDEMARK_DEPS_DIR;
const tidemark = path.join(build, 'tidemark');
const inTree = (...names) => path.join(source, ...names);
const read = (...names) => readFileSync(inTree(...names), 'utf8');

const EXPOSURE_MAX = 20; // tenths
const units = readdirSync(inTree('packaging/systemd'));
const settings = readdirSync(inTree('packaging/config'));
const directory = mkdtempSync(path.join(tmpdir(), 'tidemark-test-'));
const running = new Set();
process.on('exit', () => running.forEach((child) => child.kill('SIGKILL')));
after(() => rmSync(directory, { recursive: true, force: true }));

// The values of a key in a unit, without the empty ones that reset it.
const valuesOf = (unit, key) =>
    [...read('packaging/systemd', unit).matchAll(new RegExp(`^${key}=(.*)$`, 'gm'))].map((match) => match[1]).filter(Boolean);

// name = value of a file of settings.
const set = (text) => new Map([...text.matchAll(/^([a-z0-9-]+) = (.*)$/gm)].map((match) => [match[1], match[2]]));

// ---- units ----

test('no unit is exposed more than 2.0 of 10', async () => {
    for (const unit of units)
        await run('systemd-analyze', ['security', '--offline=true', `--threshold=${EXPOSURE_MAX}`, '--no-pager', inTree('packaging/systemd', unit)]);
});

test('systemd understands every line of the units', async () => {
    const copies = units.map((unit) => {
        const copy = path.join(directory, unit);
        writeFileSync(copy, read('packaging/systemd', unit).replaceAll('/usr/bin/tidemark', tidemark));
        return copy;
    });
    const { stdout, stderr } = await run('systemd-analyze', ['verify', '--man=no', '--recursive-errors=no', ...copies]);
    assert.equal(stdout + stderr, '');
});

test('all units are locked up in the same way', () => {
    const block = (unit) => read('packaging/systemd', unit).split('# The daemon has')[1].replace(/^ProtectHome=.*$/m, '');
    for (const unit of units) assert.equal(block(unit), block(units[0]), unit);
});

test('a unit reads settings that the package has, and writes only where these say', () => {
    const installed = read('packaging/debian/tidemark.install') + read('packaging/debian/rules');
    for (const unit of units) {
        const [, file] = /--config (\S+)/.exec(valuesOf(unit, 'ExecStart')[0]);
        assert.equal(valuesOf(unit, 'AssertPathExists')[0], file);
        const name = file.includes('%i') ? 'replica.conf' : path.basename(file);
        assert(installed.includes(`packaging/config/${name}`), name);
        const state = `/var/lib/${valuesOf(unit, 'StateDirectory')[0].split(' ')[1]}`;
        const given = set(read('packaging/config', name));
        for (const key of ['store', 'data']) if (given.has(key)) assert(given.get(key).startsWith(state), `${name}: ${key}`);
    }
});

// ---- settings ----

test('the examples of settings are what the tables say', async () => {
    await run('python3', [inTree('scripts/docs/make-config'), '--check', tidemark]);
});

// Every default written out; what has none needs a file or a name that is not here.
function writtenOut(text) {
    return text.replace(/^#([a-z0-9-]+) = (.*)$/gm, (line, name, value) => (/^[A-Z]+(=[A-Z:]+|:[A-Z]+)?$/.test(value) ? line : `${name} = ${value}`));
}

const starts = {
    'tidemark.conf': ['up', '--data', path.join(directory, 'up'), '--http', '127.0.0.1:0'],
    'agent.conf': ['agent', '--store', path.join(directory, 'agent.db'), '--grpc', '127.0.0.1:0', '--http', '127.0.0.1:0'],
    'colony.conf': ['colony', '--store', path.join(directory, 'colony.db'), '--http', '127.0.0.1:0'],
    'serve.conf': ['serve', '--store', path.join(directory, 'work.db'), '--listen', '127.0.0.1:0'],
    'lake.conf': ['lake', 'serve', '--store', path.join(directory, 'lake.db'), '--data', path.join(directory, 'lake'), '--listen', '127.0.0.1:0'],
    'replica.conf': ['replica', 'run', path.join(directory, 'notes.db'), '--listen', '127.0.0.1:0'],
};

async function startAndStop(words, env = {}, whileReady = async () => {}) {
    const child = spawn(tidemark, [...words, '--log-level', 'error'], {
        stdio: ['ignore', 'pipe', 'pipe'],
        env: { ...process.env, TIDEMARK_STATE_DIR: path.join(directory, 'state'), ...env },
    });
    running.add(child);
    let complaint = '';
    child.stderr.on('data', (text) => (complaint += text));
    const ended = new Promise((resolve) => child.once('exit', resolve));
    const lines = readline.createInterface({ input: child.stdout });
    const line = await new Promise((resolve) => {
        lines.once('line', resolve);
        lines.once('close', () => resolve(''));
    });
    if (/^ready /.test(line)) await whileReady(line);
    child.kill('SIGTERM');
    const code = await ended;
    running.delete(child);
    assert.match(line, /^ready /, complaint);
    assert.equal(code, 0, complaint);
}

test('a daemon starts with its example, every default written out, and stops when told', async () => {
    assert.deepEqual(Object.keys(starts).sort(), settings.sort());
    await Promise.all(settings.map((name) => {
        const file = path.join(directory, name);
        writeFileSync(file, writtenOut(read('packaging/config', name)));
        return startAndStop([...starts[name], '--config', file]);
    }));
});

// ---- containers: as far as their program goes; scripts/release/image-test starts the image itself ----

const parseYaml = async (...names) => {
    const script = 'import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))';
    const { stdout } = await run('/usr/bin/python3', ['-c', script, inTree('packaging', ...names)]);
    return JSON.parse(stdout);
};

// The container's words and environment; its addresses with a free port, its files below a directory.
async function startContainer(name, words, env, scheme) {
    const place = path.join(directory, name);
    mkdirSync(place, { recursive: true });
    const moved = Object.fromEntries(Object.entries({ ...env, TIDEMARK_DATA: '/data' }).map(([key, value]) =>
        [key, value.startsWith('/') ? path.join(place, value) : value.replace(/:8340$/, ':0')]));
    await startAndStop(words, moved, async (line) => {
        const [, port] = /http=\S+:(\d+)/.exec(line);
        const { stdout } = await run(tidemark, ['check', 'ready', `${scheme}://127.0.0.1:${port}`]);
        assert.match(stdout, /READY OK/);
    });
}

test('the example for Compose starts, and its health check asks the port that it serves', async () => {
    const [{ services, volumes }] = await parseYaml('compose.yaml');
    const [service] = Object.values(services);
    assert.deepEqual(service.healthcheck.test.slice(0, 4), ['CMD', '/usr/bin/tidemark', 'check', 'ready']);
    assert.equal(service.healthcheck.test[4].split(':')[1], service.environment.TIDEMARK_HTTP.split(':')[1]);
    assert.equal(service.network_mode, 'host'); // whose loopback is all that it serves
    assert(service.environment.TIDEMARK_HTTP.startsWith('127.0.0.1:'));
    assert(service.volumes.every((volume) => volume.split(':')[0] in volumes));
    await startContainer('compose', service.command, service.environment, 'http');
});

test('the example for Kubernetes starts with the secrets that it names', async () => {
    const documents = await parseYaml('kubernetes', 'tidemark.yaml');
    const { spec } = documents.find(({ kind }) => kind === 'StatefulSet').spec.template;
    const [container] = spec.containers;
    for (const { name } of container.volumeMounts)
        assert([...spec.volumes.map((volume) => volume.name), 'data'].includes(name), name);
    const tls = path.join(directory, 'kubernetes', 'etc/tidemark/tls');
    const tokens = path.join(directory, 'kubernetes', 'etc/tidemark/tokens');
    for (const folder of [tls, tokens]) mkdirSync(folder, { recursive: true });
    await run('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2', '-subj', '/CN=tidemark',
        '-keyout', path.join(tls, 'tls.key'), '-out', path.join(tls, 'tls.crt')]);
    writeFileSync(path.join(tokens, 'tokens'), 'tester read 0123456789abcdef0123456789abcdef\n', { mode: 0o600 });
    const env = Object.fromEntries(container.env.map(({ name, value }) => [name, value]));
    await startContainer('kubernetes', container.args, env, 'https');
});

// ---- the list of parts ----

let parts; // CycloneDX

test('the list of parts is well-formed', async () => {
    const { stdout } = await run('python3', [inTree('scripts/release/make-sbom'), '--build', build, '--deps', deps], { maxBuffer: 1 << 24 });
    parts = JSON.parse(stdout);
    assert.equal(parts.bomFormat, 'CycloneDX');
    assert.equal(parts.specVersion, '1.5');
    assert.equal(parts.version, 1);
    assert.match(parts.serialNumber, /^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    const all = [parts.metadata.component, ...parts.components];
    for (const part of all) {
        assert(['application', 'library'].includes(part.type));
        assert(part.name && part.version && part['bom-ref']);
        for (const { alg, content } of part.hashes ?? []) assert(alg === 'SHA-256' && /^[0-9a-f]{64}$/.test(content));
        for (const { license } of part.licenses ?? []) assert.equal(Object.keys(license).length, 1);
        if (part.purl) assert.match(part.purl, /^pkg:(deb\/debian|generic|npm(\/%40[a-z]+)?)\/[a-z0-9.%A-Z-]+@[^@?]+(\?arch=\w+&distro=[\w.-]+)?$/);
    }
});

test('every part has one name, and depends on parts that are there', () => {
    const refs = [parts.metadata.component, ...parts.components].map((part) => part['bom-ref']);
    assert.equal(new Set(refs).size, refs.length);
    assert.deepEqual(parts.dependencies.map(({ ref }) => ref).sort(), refs.sort());
    for (const { dependsOn } of parts.dependencies) for (const ref of dependsOn) assert(refs.includes(ref), ref);
});

test('what the program is linked with, has inside and opens is in the list', async () => {
    const named = new Map(parts.components.map((part) => [part.group ? `${part.group}/${part.name}` : part.name, part]));
    const { stdout: version } = await run(tidemark, ['version', '--json']);
    assert.equal(named.get('sqlite').version, JSON.parse(version).sqlite);
    for (const name of ['duckdb', 'preact', '@preact/signals', 'uplot', 'libtidemark', 'tidemark_sqlite']) assert(named.has(name), name);
    const libraries = ['libpq5', 'libssl3', 'libcurl4', 'zlib1g', 'libc6', 'libzstd1', 'libnghttp2-14', 'libprotobuf-c1'];
    const { stdout: versions } = await run('dpkg-query', ['-W', '-f', '${Package} ${Version}\\n', ...libraries]);
    for (const [name, installed] of versions.trim().split('\n').map((line) => line.split(' '))) assert.equal(named.get(name).version, installed);
});

test('the program does not link the libraries that it opens at run time', async () => {
    const { stdout } = await run('readelf', ['-d', tidemark]);
    assert.match(stdout, /\(NEEDED\).*libc\.so/);
    assert.doesNotMatch(stdout, /\(NEEDED\).*lib(pq|duckdb)\./);
    const libpq = parts.components.find(({ name }) => name === 'libpq5');
    assert(libpq.properties.some(({ value }) => value === 'opened at run time'));
});

// ---- Debian 12's own Node ----

const NODE_MAJOR = 18;

// A machine that has nothing yet gets Node from Debian (scripts/setup/build.txt); here there may be a later one.
test('the packages that tests and the dashboard are made of run on the Node that Debian 12 has', () => {
    const late = [];
    for (const folder of ['test-npm', 'build-npm'])
        for (const [name, { engines }] of Object.entries(JSON.parse(read('deps', folder, 'package-lock.json')).packages)) {
            const lowest = [...(engines?.node ?? '').matchAll(/[>^~]=? *v?(\d+)/g)].map((match) => Number(match[1]));
            if (lowest.length > 0 && Math.min(...lowest) > NODE_MAJOR) late.push(`${folder}: ${name} wants ${engines.node}`);
        }
    assert.deepEqual(late, []);
});

test('tests use nothing that came after it', () => {
    const scripts = readdirSync(inTree('tests'), { recursive: true }).filter((name) => name.endsWith('.mjs'));
    const LATER = /import\.meta\.(dirname|filename)\b|\bPromise\.withResolvers\b|\b(Object|Map)\.groupBy\b|\.to(Sorted|Reversed|Spliced)\(|from 'node:sqlite'/;
    assert.deepEqual(scripts.filter((name) => LATER.test(read('tests', name).replace(/^ *const LATER = .*$/m, ''))), []);
});

// ---- versions ----

test('the changelog of the packages is at the version of the program', async () => {
    const { stdout } = await run(tidemark, ['version', '--json']);
    const { version } = JSON.parse(stdout);
    assert.match(read('packaging/debian/changelog'), new RegExp(`^tidemark \\(${version.replaceAll('.', '\\.')}(-\\d+)?\\) `));
    assert(read('meson.build').includes(`version: '${version}'`));
});

await runCases();

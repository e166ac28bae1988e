// deps.mjs - where the peers come from: npm packages in build/deps/bench, PostgreSQL's programs on this machine.
import { execFileSync } from 'node:child_process';
import { accessSync, constants, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

const directory = process.env.TIDEMARK_BENCH_DEPS;
if (!directory)
    throw new Error('start this with scripts/bench/bench-peers');

export const need = createRequire(path.join(directory, 'package.json'));

export function readVersion(name) {
    return need(path.join(directory, 'node_modules', name, 'package.json')).version;
}

// What a program says to an option, one line.
export function ask(program, ...options) {
    return execFileSync(program, options, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
}

function hasProgram(bin, name) {
    try {
        accessSync(path.join(bin, name), constants.X_OK);
        return true;
    } catch {
        return false;
    }
}

function askPgConfig() {
    try {
        return [ask('pg_config', '--bindir')];
    } catch {
        return [];
    }
}

// The newest of Debian's versions when pg_config does not say.
function listInstalled() {
    try {
        return readdirSync('/usr/lib/postgresql')
            .sort((a, b) => Number(b) - Number(a))
            .map(version => `/usr/lib/postgresql/${version}/bin`);
    } catch {
        return [];
    }
}

// The directory of PostgreSQL's programs; TIDEMARK_TEST_PG_BIN decides, as for the tests.
export function findPostgres(name) {
    const given = process.env.TIDEMARK_TEST_PG_BIN;
    const places = given ? [given] : [...askPgConfig(), ...listInstalled()];
    const bin = places.find(place => hasProgram(place, name));
    if (!bin)
        throw new Error(`no ${name} in ${places.join(', ') || '/usr/lib/postgresql'}: apt-get install postgresql`);
    return path.join(bin, name);
}

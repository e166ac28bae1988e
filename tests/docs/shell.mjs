// shell.mjs - runs the commands of one document, in one bash and in a directory, a home and a network of its own.
//
//     const result = await runUnits(units, { directory, database });
//     result.done      how many units ended well
//     result.printed   what each of them printed, stderr included
//     result.failure   undefined, or what went wrong with unit number result.done
//
// `tidemark ... &` is waited for until it says "ready", as its reader would do. Whatever runs at the end is ended: the processes
// have a name space of their own where the system allows it, so that the documents' ports are free and nothing is left behind.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';

import { source } from '../clients/deps.mjs';
import { afterFairTime } from '../clients/fair_clock.mjs';

export const DOCUMENT_MS = 140_000; // a sanitizer makes it many times slower
const READY_S = 20;

const build = process.env.TIDEMARK_BUILD_DIR ?? path.join(source, 'build');

const PRELUDE = `
set -Eeo pipefail
__unit() { printf '%s' "$1" >"$__OUT/at"; exec >"$__OUT/$1" 2>&1; }
__trouble() { local code=$?; printf '%s ended with %s' "$BASH_COMMAND" "$code" >"$__OUT/trouble"; }
trap __trouble ERR
__ready() {
    for ((i = 0; i < ${READY_S} * 20; i++)); do
        if grep -qs '^ready ' "$2"; then cat "$2"; return 0; fi
        if ! kill -0 "$1" 2>/dev/null; then cat "$2" "$2.err"; return 1; fi
        read -rt 0.05 <> <(:) || :
    done
    cat "$2" "$2.err"; echo 'not ready after ${READY_S} s'; return 1
}
`;

// A line that starts a daemon waits for it and shows its stdout; its log goes elsewhere.
function withReadiness(command, unit) {
    let job = 0;
    return command.replace(/^(tidemark [^\n]*[^&\n]) &$/gm, (line, words) => {
        if (/>/.test(words)) return line;
        const log = `"$__OUT/job.${unit}.${job++}"`;
        return `${words} >${log} 2>${log}.err &\n__ready $! ${log}`;
    });
}

function scriptOf(units) {
    const parts = units.map(({ command }, index) => `__unit ${index}\n${withReadiness(command, index)}`);
    return `${PRELUDE}${parts.join('\n')}\n__unit ${units.length}\n`;
}

// How to begin a name space, or nothing where it cannot be had.
function isolation() {
    const words = ['unshare', '--net', '--pid', '--fork', '--kill-child', '--mount-proc'];
    const attempts = process.getuid() === 0 ? [words] : [[...words, '--user', '--map-root-user']];
    for (const attempt of attempts)
        if (spawnSync(attempt[0], [...attempt.slice(1), 'ip', 'link', 'set', 'lo', 'up']).status === 0)
            return [...attempt, 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh'];
    return [];
}
const isolated = isolation();

function environmentOf(directory, database) {
    const kept = ['LANG', 'TMPDIR', 'TZ', 'TIDEMARK_DUCKDB', 'TIDEMARK_SOURCE_DIR'];
    const environment = Object.fromEntries(kept.filter((name) => process.env[name]).map((name) => [name, process.env[name]]));
    return {
        ...environment,
        PATH: `${directory}/bin:${process.env.PATH}`,
        HOME: path.join(directory, 'home'),
        TIDEMARK_STATE_DIR: path.join(directory, 'state'),
        LD_LIBRARY_PATH: build,
        PKG_CONFIG_PATH: path.join(build, 'meson-uninstalled'),
        NO_COLOR: '1',
        __OUT: path.join(directory, 'out'),
        ...database,
    };
}

function wait(child) {
    return new Promise((resolve) => {
        const callOff = afterFairTime(DOCUMENT_MS, () => child.kill('SIGKILL'));
        child.once('exit', (code, signal) => {
            callOff();
            resolve(signal ? `not done after ${DOCUMENT_MS / 1000} s` : code);
        });
    });
}

export async function runUnits(units, { directory, database }) {
    for (const name of ['bin', 'home', 'out', 'state', 'work']) mkdirSync(path.join(directory, name));
    symlinkSync(path.join(build, 'tidemark'), path.join(directory, 'bin/tidemark'));
    symlinkSync(build, path.join(directory, 'work/build')); // documents call it so
    const script = path.join(directory, 'script.sh');
    writeFileSync(script, scriptOf(units));
    const words = [...isolated, 'bash', script];
    const child = spawn(words[0], words.slice(1), {
        cwd: path.join(directory, 'work'),
        env: environmentOf(directory, database),
        stdio: ['ignore', 'ignore', 'inherit'],
        detached: true,
    });
    const ended = await wait(child);
    try {
        process.kill(-child.pid, 'SIGKILL'); // what the script left behind, where there are no name spaces
    } catch {
        // nothing
    }
    return resultOf(units, path.join(directory, 'out'), ended);
}

function resultOf(units, out, ended) {
    const read = (name) => (existsSync(path.join(out, name)) ? readFileSync(path.join(out, name), 'utf8') : '');
    const done = Number(read('at') || 0);
    const printed = units.map((_, index) => read(String(index)));
    const trouble = typeof ended === 'string' ? ended : read('trouble') || `the shell ended with ${ended}`;
    return { done, printed, failure: done === units.length && ended === 0 ? undefined : trouble };
}

// deps.mjs - where the clients of others come from: npm packages (deps/test-npm) that make setup puts into build/deps/test.
//
// They are there or the test fails: a client that is missing would be a rule that nobody checks.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const source = process.env.TIDEMARK_SOURCE_DIR ?? fileURLToPath(new URL('../..', import.meta.url));
const directory = path.join(process.env.TIDEMARK_DEPS_DIR ?? path.join(source, 'build/deps'), 'test');
if (!existsSync(path.join(directory, '.recipe')))
    throw new Error(`no clients in ${directory}: run make setup`);

export const modules = path.join(directory, 'node_modules');
export const need = createRequire(path.join(directory, 'package.json'));
export const buf = path.join(directory, 'node_modules/@bufbuild/buf-linux-x64/bin/buf');
export const tidemark =
    process.env.TIDEMARK_BIN ?? path.join(process.env.TIDEMARK_BUILD_DIR ?? path.join(source, 'build'), 'tidemark');

// The examples in Python, by Debian's interpreter, which has Debian's python3-grpcio.
import path from 'node:path';

import { runCases } from '../clients/cases.mjs';
import { source } from '../clients/deps.mjs';
import { declareCases } from './capabilities.mjs';

const example = (name) => ['/usr/bin/python3', '-B', path.join(source, 'examples/python', name)];

declareCases({
    telemetry: (url, file) => [...example('telemetry.py'), url, file],
    colony: (url) => [...example('colony.py'), url],
    workAdd: ({ url }, item, pages) => [...example('work.py'), url, 'add', item, String(pages)],
    workRun: ({ url }, effects, { name, leaseMs, items }) =>
        [...example('work.py'), url, 'run', effects, `--name=${name}`, `--lease-ms=${leaseMs}`, `--items=${items}`],
    journal: ({ address }, file, task, ...steps) => [...example('journal.py'), address, file, task, ...steps],
    replica: (db, peer, who) => [...example('replica.py'), db, peer, who],
    lake: ({ url }, catalog, day) => [...example('lake.py'), url, catalog, day],
    isOverHttp: true,
    isLakeOverHttp: true,
});
await runCases();

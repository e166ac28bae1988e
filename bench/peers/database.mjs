// database.mjs - a database per contestant on the server that all share, made for this run and dropped after it.
import { need } from './deps.mjs';

const URL_FORM = /^(postgres(?:ql)?:\/\/[^/?]*)(?:\/[^?]*)?(\?.*)?$/;

export async function connectTo(url) {
    const { Client } = need('pg');
    const client = new Client({ connectionString: url });
    client.on('error', () => {}); // the query under way fails and says so
    await client.connect();
    return client;
}

// Numbers of a server that answers before the disk has it do not belong into the table.
export async function checkDurability(url) {
    const client = await connectTo(url);
    try {
        for (const setting of ['fsync', 'synchronous_commit', 'full_page_writes']) {
            const value = (await client.query(`SHOW ${setting}`)).rows[0][setting];
            if (value === 'off')
                throw new Error(`${setting} is off on this PostgreSQL: its figures would not be of synced jobs`);
        }
        return (await client.query('SHOW server_version')).rows[0].server_version.split(' ')[0];
    } finally {
        await client.end();
    }
}

// Returns the URL of a new, empty database.
export async function makeDatabase(url, name, defer) {
    const form = URL_FORM.exec(url);
    if (!form)
        throw new Error(`--pg ${url}: want postgres://USER@HOST:PORT/DATABASE`);
    const unique = `tidemark_peers_${process.pid}_${name.toLowerCase().replaceAll(/\W/g, '_')}`;
    await runOnce(url, `CREATE DATABASE ${unique}`);
    defer(() => runOnce(url, `DROP DATABASE IF EXISTS ${unique} WITH (FORCE)`));
    return `${form[1]}/${unique}${form[2] ?? ''}`;
}

async function runOnce(url, statement) {
    const client = await connectTo(url);
    try {
        await client.query(statement);
    } finally {
        await client.end();
    }
}

// client.mjs - calls of Tidemark's services as JSON by POST, and a position that outlives the program. Needs Node alone.
//
//     const work = service('http://127.0.0.1:4319', 'tidemark.work.v1.WorkService');
//     const { items } = await work.Claim({ worker: 'w1', wait_ms: 1000 });
//
// Members are named as the fields in proto/tidemark/*/v1/*.proto (docs/protocol.md, Plain JSON). tidemark.agent.v1 has protobuf's own
// mapping: lowerCamelCase, and 64-bit numbers as decimal texts.
//
// Every call is sent again when its answer was lost or the service is away. That is safe because the examples make only calls
// that may be repeated: with an id, a key or a token that tells the service "this is the same one".
import { open, readFile, rename } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

// Passing trouble, and "it may have happened": both end by asking the same again.
const REPEAT = new Set(['UNAVAILABLE', 'BUSY', 'TIMEOUT', 'OUTCOME_UNKNOWN', 'SERIALIZATION', 'FULL', 'NOMEM']);
const TRIES = 8;

// The service has decided. reason: LEASE_LOST, CONFLICT, EXISTS, NOT_FOUND, INVALID, ... (docs/reference/errors.md).
export class Refused extends Error {
    constructor(reason, message, retryAfterMs = 0) {
        super(`${reason}: ${message}`);
        Object.assign(this, { reason, retryAfterMs });
    }
}

export function service(url, name, { token } = {}) {
    const headers = { 'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }) };
    return new Proxy({}, { get: (_, method) => (request = {}) => post(`${url}/${name}/${method}`, request, headers) });
}

async function post(url, request, headers) {
    for (let attempt = 1; ; attempt++) {
        try {
            return await postOnce(url, request, headers);
        } catch (error) {
            const failure = error instanceof Refused ? error : new Refused('UNAVAILABLE', error.message); // cut off: nobody knows
            if (!REPEAT.has(failure.reason) || attempt === TRIES) throw failure;
            // Longer each time, and never in step with other clients.
            await sleep(Math.max(failure.retryAfterMs, (0.5 + Math.random() / 2) * 50 * 2 ** attempt));
        }
    }
}

async function postOnce(url, request, headers) {
    const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify(request), signal: AbortSignal.timeout(70_000) });
    const body = await answer.json().catch(() => ({ message: answer.statusText })); // a proxy's page is no answer of ours
    if (answer.ok) return body;
    const reason = body.details?.find((detail) => detail.reason)?.reason;
    const retryAfterMs = 1000 * Number(answer.headers.get('retry-after') ?? 0);
    throw new Refused(reason ?? (answer.status >= 500 ? 'UNAVAILABLE' : `HTTP_${answer.status}`), body.message, retryAfterMs);
}

export async function loadPosition(path, start) {
    try {
        return JSON.parse(await readFile(path, 'utf8'));
    } catch (error) {
        if (error.code === 'ENOENT') return start;
        throw error;
    }
}

// The old one or the new one is there, never half of it.
export async function savePosition(path, position) {
    const file = await open(`${path}.new`, 'w');
    await file.writeFile(JSON.stringify(position));
    await file.sync();
    await file.close();
    await rename(`${path}.new`, path);
}

// certificates.mjs - an authority and a certificate of 127.0.0.1, made by openssl in a directory that is given.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';

export function makeCertificates(directory) {
    const at = (name) => path.join(directory, name);
    const make = (...options) =>
        execFileSync(
            'openssl',
            ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '1', ...options],
            { stdio: ['ignore', 'ignore', 'pipe'] },
        );
    make('-keyout', at('ca.key'), '-out', at('ca.pem'), '-subj', '/CN=authority of a test');
    make(
        ...['-CA', at('ca.pem'), '-CAkey', at('ca.key'), '-keyout', at('server.key'), '-out', at('server.pem')],
        ...['-subj', '/CN=agent', '-addext', 'subjectAltName=IP:127.0.0.1', '-addext', 'basicConstraints=critical,CA:FALSE'],
    );
    return { ca: readFileSync(at('ca.pem')), options: ['--tls-cert', at('server.pem'), '--tls-key', at('server.key')] };
}

// replica_old_peer.mjs ADDRESS - a peer that knows TableEvents and nothing else: stands before a node, and passes on that one method. Prints `ready ADDRESS`.
//
// @grpc/grpc-js is the server here, so that everything else is UNIMPLEMENTED as another implementation would say it. Numbers per origin (field 5) are taken
// out of requests, and tokens (fields 7 and 3) out of both: such a peer knows times and pages only.
import { need } from '../../clients/deps.mjs';

const grpc = need('@grpc/grpc-js');
const path = '/tidemark.replica.v1.ReplicaService/TableEvents';
const same = (bytes) => bytes;

function varint(bytes, at) {
    let number = 0n;
    for (let shift = 0n; ; shift += 7n) {
        number |= BigInt(bytes[at] & 127) << shift;
        if (bytes[at++] < 128) return [number, at];
    }
}

// The message without some of its fields.
function without(bytes, ...fields) {
    const kept = [];
    for (let at = 0; at < bytes.length; ) {
        const begin = at;
        const [tag, next] = varint(bytes, at);
        const [value, end] = varint(bytes, next);
        at = Number(tag & 7n) === 2 ? end + Number(value) : end;
        if (!fields.includes(Number(tag >> 3n))) kept.push(bytes.subarray(begin, at));
    }
    return Buffer.concat(kept);
}

const client = new grpc.Client(process.argv[2], grpc.credentials.createInsecure(), { 'grpc.max_receive_message_length': -1 });
const server = new grpc.Server({ 'grpc.max_receive_message_length': -1 });
const method = {
    path,
    requestStream: false,
    responseStream: false,
    requestSerialize: same,
    requestDeserialize: same,
    responseSerialize: same,
    responseDeserialize: same,
};
server.addService(
    { TableEvents: method },
    {
        TableEvents: ({ request }, done) =>
            client.makeUnaryRequest(path, same, same, without(request, 5, 7), (error, answer) => done(error, error ? null : without(answer, 3))),
    },
);
server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) => {
    if (error) throw error;
    console.log(`ready 127.0.0.1:${port}`);
});

// status.mjs - google.rpc.Status as clients get it in grpc-status-details-bin, with the details that we send.
import { need } from './deps.mjs';

const protobuf = need('protobufjs');

const { root } = protobuf.parse(`
syntax = "proto3";
package google.rpc;
message Any { string type_url = 1; bytes value = 2; }
message Status { int32 code = 1; string message = 2; repeated Any details = 3; }
message ErrorInfo { string reason = 1; string domain = 2; map<string, string> metadata = 3; }
message Duration { int64 seconds = 1; int32 nanos = 2; }
message RetryInfo { Duration retry_delay = 1; }
`);

// { code, message, details: { 'google.rpc.ErrorInfo': {...}, ... } } of an error that grpc-js gives.
export function readStatus(error) {
    const [bytes] = error.metadata.get('grpc-status-details-bin');
    const status = root.lookupType('google.rpc.Status').decode(bytes);
    const details = {};
    for (const { typeUrl, value } of status.details) {
        const name = typeUrl.slice(typeUrl.lastIndexOf('/') + 1);
        const type = root.lookupType(name);
        details[name] = type.toObject(type.decode(value), { longs: Number, defaults: true });
    }
    return { code: status.code, message: status.message, details };
}

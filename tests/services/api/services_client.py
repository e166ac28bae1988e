#!/usr/bin/env python3
"""services_client.py ADDRESS [PID] - asks a running server what every gRPC server has: reflection and health.

With a PID the server is told to end (SIGTERM) while somebody watches its health. Ends with 0 when all is as it should.
"""

import os
import signal
import sys

import grpc
from google.protobuf import descriptor_pb2

from wire import field, fields

# A call that must be answered waits this long: who runs this script ends it earlier, by a limit that knows a busy machine.
LIMIT_S = 600


def reflect(channel, version, requests):
    call = channel.stream_stream(f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo")
    return list(call(iter(requests), timeout=LIMIT_S))


def answer(response, number):
    found = [value for n, value in fields(response) if n == number]
    assert len(found) == 1, f"answer {number} is missing in {response}"
    return found[0]


def check_reflection(channel, version):
    listed, missing = reflect(channel, version, [field(7, b"*"), field(4, b"no.such.Symbol")])
    services = [name for _, one in fields(answer(listed, 6)) for _, name in fields(one)]
    assert b"grpc.health.v1.Health" in services and len(services) >= 3, services
    assert dict(fields(answer(missing, 7)))[1] == 5, missing
    # Everything that is listed can be described, down to the last type it uses.
    for response, service in zip(
        reflect(channel, version, [field(4, name) for name in services]), services
    ):
        files = [descriptor_pb2.FileDescriptorProto.FromString(one) for _, one in fields(answer(response, 4))]
        names = {file.name for file in files}
        assert all(needed in names for file in files for needed in file.dependency), names
        assert any(f"{files[0].package}.{s.name}".encode() == service for s in files[0].service), service


def check_health(channel, pid):
    check = channel.unary_unary("/grpc.health.v1.Health/Check")
    assert check(b"", timeout=LIMIT_S) == b"\x08\x01"
    try:
        check(field(1, b"no.Service"), timeout=LIMIT_S)
        raise AssertionError("an unknown service was found")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.NOT_FOUND, error
    watch = channel.unary_stream("/grpc.health.v1.Health/Watch")
    unknown = watch(field(1, b"no.Service"), timeout=LIMIT_S)
    assert next(unknown) == b"\x08\x03"
    unknown.cancel()
    watcher = watch(b"", timeout=LIMIT_S)
    assert next(watcher) == b"\x08\x01"
    if pid is None:
        return
    os.kill(pid, signal.SIGTERM)
    assert next(watcher) == b"\x08\x02"
    try:
        next(watcher)
        raise AssertionError("the watch went on")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.UNAVAILABLE, error


def main():
    channel = grpc.insecure_channel(sys.argv[1])
    check_reflection(channel, "v1")
    check_reflection(channel, "v1alpha")
    check_health(channel, int(sys.argv[2]) if len(sys.argv) > 2 else None)


if __name__ == "__main__":
    main()

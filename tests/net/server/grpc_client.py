#!/usr/bin/env python3
"""grpc_client.py ADDRESS [CA_FILE [TOKEN]] - the test service, as Debian's python3-grpcio calls it.

Messages are encoded by hand: only grpcio is needed. Prints what failed and ends with 1, or "ok".
"""

import concurrent.futures
import sys
import time

import grpc

OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
]


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)


def simple_request(response_size=0, body=b"", status=None):
    out = field(2, response_size) if response_size else b""
    if body:
        out += field(3, field(2, body))
    if status:
        out += field(7, field(1, status[0]) + field(2, status[1].encode()))
    return out


def output_request(sizes):
    return b"".join(field(2, field(1, size)) for size in sizes)


class Service:
    def __init__(self, channel, metadata):
        self.metadata = metadata
        path = "/grpc.testing.TestService/"
        self.unary = channel.unary_unary(path + "UnaryCall")
        self.writing = channel.unary_unary(path + "CacheableUnaryCall")
        self.output = channel.unary_stream(path + "StreamingOutputCall")
        self.input = channel.stream_unary(path + "StreamingInputCall")
        self.duplex = channel.stream_stream(path + "FullDuplexCall")
        self.nothing = channel.unary_unary("/grpc.testing.Nothing/Nothing")


def expect(code, call):
    try:
        call()
    except grpc.RpcError as error:
        assert error.code() == code, (code, error)
        return error
    raise AssertionError(f"want {code}")


def check_unary(s):
    answer, call = s.unary.with_call(
        simple_request(1000),
        metadata=s.metadata + [("x-grpc-test-echo-initial", "a"), ("x-grpc-test-echo-trailing-bin", b"\0\1\xff")],
    )
    assert len(answer) > 1000
    assert ("x-grpc-test-echo-initial", "a") in [tuple(m) for m in call.initial_metadata()]
    assert ("x-grpc-test-echo-trailing-bin", b"\0\1\xff") in [tuple(m) for m in call.trailing_metadata()]
    error = expect(
        grpc.StatusCode.FAILED_PRECONDITION,
        lambda: s.unary(simple_request(status=(9, "grüße %\n")), metadata=s.metadata),
    )
    assert error.details() == "grüße %\n", error.details()
    expect(grpc.StatusCode.UNIMPLEMENTED, lambda: s.nothing(b"", metadata=s.metadata))


def check_sizes(s):
    limit = 64 << 20
    framing = len(simple_request(1, b"x" * (limit - 100))) - (limit - 100)
    body = bytes(limit - framing)
    answer = s.unary(simple_request(1, body), metadata=s.metadata)
    assert len(answer) < 100
    expect(
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        lambda: s.unary(simple_request(1, body + b"x"), metadata=s.metadata),
    )


def check_compression(s):
    answer = s.unary(
        simple_request(100000, b"a" * 100000), metadata=s.metadata, compression=grpc.Compression.Gzip
    )
    assert len(answer) > 100000
    bomb = bytes(65 << 20)
    expect(
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        lambda: s.unary(simple_request(1, bomb), metadata=s.metadata, compression=grpc.Compression.Gzip),
    )


def check_streams(s):
    sizes = [31415, 9, 2653, 58979] * 50
    answers = list(s.output(output_request(sizes), metadata=s.metadata))
    assert len(answers) == len(sizes)
    total = s.input((field(1, field(2, b"x" * n)) for n in range(1000)), metadata=s.metadata)
    assert total == field(1, sum(range(1000))), total
    answers = list(s.duplex((output_request([n, n]) for n in range(1, 200)), metadata=s.metadata))
    assert len(answers) == 2 * 199


def check_ends(s):
    def wait():
        time.sleep(1)
        yield output_request([1])

    before = time.monotonic()
    expect(grpc.StatusCode.DEADLINE_EXCEEDED, lambda: list(s.duplex(wait(), timeout=0.3, metadata=s.metadata)))
    assert time.monotonic() - before < 3
    call = s.output(output_request([100000] * 10000), metadata=s.metadata)
    next(call)
    call.cancel()
    expect(grpc.StatusCode.CANCELLED, lambda: list(call))


def check_many(s):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda n: s.unary(simple_request(n), metadata=s.metadata), range(1, 2000)))
    assert all(len(answer) > n for n, answer in zip(range(1, 2000), answers))


def main():
    address, ca_file, token = (sys.argv[1:] + [None, None])[:3]
    if ca_file:
        with open(ca_file, "rb") as file:
            channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(file.read()), OPTIONS)
    else:
        channel = grpc.insecure_channel(address, OPTIONS)
    service = Service(channel, [("authorization", f"Bearer {token}")] if token else [])
    if token:
        expect(grpc.StatusCode.UNAUTHENTICATED, lambda: service.unary(b""))
        expect(grpc.StatusCode.PERMISSION_DENIED, lambda: service.writing(b"", metadata=service.metadata))
    else:
        assert service.writing(simple_request(1)) != b""
    for check in (check_unary, check_streams, check_ends, check_compression, check_sizes, check_many):
        check(service)
    channel.close()
    print("ok")


main()

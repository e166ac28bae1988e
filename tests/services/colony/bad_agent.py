#!/usr/bin/env python3
"""bad_agent.py - agents that others made, and made badly. Prints `ready MODE=PORT ...` and serves until stdin ends.

They know what the telemetry document knows: QueryTelemetry with start_seq_id and max_records, answered by spans, max_seq_id and session_id. All other
calls are unknown to them. By mode:

  fine            spans 1..2000, as they should be
  garbage         bytes that are no message
  sessions        another session with every answer
  nosession       no session
  huge            100 MiB, whatever was asked for
  large           spans 1..6, of which number 3 has 70 MiB
  largefirst      the same, of which number 1 has
  double          each number twice, with different contents
  backwards       the highest number first
  above           a number above 2^63-1
  zero            a number that is 0
  future          a record's own time is in the year 2500, and max_seq_id far above all records
  unasked         always from number 1, whatever was asked for
  several         more records than were asked for
  busy            RESOURCE_EXHAUSTED, always
  silent          takes the question and never answers
  byte            the first byte of an answer, and then nothing; by plain sockets
"""

import concurrent.futures
import os
import socket
import sys
import threading
import time

import grpc

COUNTS = {
    "fine": 2000, "garbage": 0, "sessions": 0, "nosession": 0, "huge": 1500, "large": 6, "largefirst": 6, "double": 50,
    "backwards": 300, "above": 0, "zero": 0, "future": 5, "unasked": 20, "several": 40, "busy": 0, "silent": 0,
}
SESSIONS = {mode: "11111111-2222-3333-4444-%012d" % i for i, mode in enumerate(COUNTS)}
LARGE = bytes(100 << 20)  # is refused for its length, whatever is in it
asked = 0


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def text(number, value):
    return varint(number << 3 | 2) + varint(len(value)) + value


def number(field, value):
    return varint(field << 3) + varint(value)


def read(data):
    """The numbers of a request, by field."""
    out, at = {}, 0

    def next_varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            value |= (byte & 127) << shift
            shift, at = shift + 7, at + 1
            if byte < 128:
                return value

    while at < len(data):
        tag = next_varint()
        if tag & 7 == 0:
            out[tag >> 3] = next_varint()
        elif tag & 7 == 2:
            length = next_varint()
            at += length
        else:
            at += 8 if tag & 7 == 1 else 4
    return out


def span(seq, extra=b"", milliseconds=1700000000000, name="web"):
    return text(1, number(1, milliseconds) + text(2, b"trace-%d" % seq + extra) + text(4, name.encode()) + number(12, seq))


def respond(session, spans, highest):
    return b"".join(spans) + number(2, len(spans)) + number(3, highest) + (text(4, session.encode()) if session else b"")


def query(mode, request, context):
    global asked
    asked += 1
    given = read(request)
    start, most, count = given.get(4, 0), given.get(5, 0) or 10000, COUNTS[mode]
    seqs = list(range(start + 1, min(count, start + most) + 1))
    last = seqs[-1] if seqs else 0

    def answer(spans, highest, session=SESSIONS[mode]):
        return respond(session, spans, highest)

    if mode == "garbage":
        return os.urandom(300)
    if mode == "sessions":
        return answer([span(1)] if start == 0 else [], 1, "session-%d" % asked)
    if mode == "nosession":
        return answer([span(1)], 1, "")
    if mode == "huge" or (mode == "large" and 3 in seqs) or (mode == "largefirst" and 1 in seqs):
        return LARGE
    if mode == "double":
        return answer([one for i in seqs for one in (span(i), span(i, b"-again"))], last)
    if mode == "backwards":
        return answer([span(i) for i in reversed(seqs)], last)
    if mode == "above":
        return answer([span(2**63 + 7)], 2**63 + 7)
    if mode == "zero":
        return answer([span(0)], 0)
    if mode == "future":
        return answer([span(i, b"", 16725225600000) for i in seqs], 2**62)
    if mode == "unasked":
        return answer([span(i) for i in range(1, count + 1)], count)
    if mode == "several":
        return answer([span(i) for i in range(start + 1, count + 1)], count if start < count else 0)
    if mode == "silent":
        time.sleep(3600)
    if mode == "busy":
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too much to do")
    return answer([span(i) for i in seqs], last)


class Agent(grpc.GenericRpcHandler):
    def __init__(self, mode):
        self.mode = mode

    def service(self, details):
        if details.method == "/tidemark.agent.v1.AgentService/QueryTelemetry":
            return grpc.unary_unary_rpc_method_handler(lambda request, context: query(self.mode, request, context))
        return None


# ---- by plain sockets ----


def frame(kind, flags, stream, payload):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def literal(name, value):
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


HEAD = b"\x88" + literal(b"content-type", b"application/grpc")
UNKNOWN = HEAD + literal(b"grpc-status", b"12")


def receive(sock, length):
    out = b""
    while len(out) < length:
        part = sock.recv(length - len(out))
        if not part:
            raise ConnectionError
        out += part
    return out


def speak(sock):
    """The first call of a connection (for news) is unknown; the others get one byte of a message of a thousand."""
    count = 0
    try:
        receive(sock, 24)
        sock.sendall(frame(4, 0, 0, b""))
        while True:
            head = receive(sock, 9)
            payload = receive(sock, int.from_bytes(head[:3], "big"))
            kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big")
            if kind == 4 and not flags & 1:
                sock.sendall(frame(4, 1, 0, b""))
            elif kind == 6 and not flags & 1:
                sock.sendall(frame(6, 1, 0, payload))
            elif kind == 0 and flags & 1:
                count += 1
                if count == 1:
                    sock.sendall(frame(1, 5, stream, UNKNOWN))
                else:
                    sock.sendall(frame(1, 4, stream, HEAD) + frame(0, 0, stream, b"\0\0\0\3\xe8\x0a"))
    except OSError:
        sock.close()


def serve_plain():
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)

    def accept():
        while True:
            threading.Thread(target=speak, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


def serve(mode):
    server = grpc.server(
        concurrent.futures.ThreadPoolExecutor(max_workers=8),
        handlers=[Agent(mode)],
        options=[("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0)],
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


def main():
    servers = {mode: serve(mode) for mode in COUNTS}
    ports = {mode: port for mode, (_, port) in servers.items()}
    ports["byte"] = serve_plain()
    print("ready", *(f"{mode}={port}" for mode, port in ports.items()), flush=True)
    sys.stdin.read()
    os._exit(0)


main()

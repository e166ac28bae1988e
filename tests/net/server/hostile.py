#!/usr/bin/env python3
"""hostile.py ADDRESS ATTACK [NUMBER] - a peer that means no good, by plain sockets.

Ends with 0 when the server did what it should: refuse, close, and stay there for others.
"""

import resource
import socket
import sys
import time

# How long an answer may take: who runs this script ends it earlier, by a limit that knows a busy machine.
LIMIT_S = 600
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
NEVER = b"\x82\x86\x04\x06/never\x41\x01a"  # :method GET, :scheme http, :path /never, :authority a


def connect(address, source=None):
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=LIMIT_S, source_address=(source, 0) if source else None)


def frame(kind, flags, stream, payload):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def read_all(sock):
    """What comes until the server closes; a reset is an end too."""
    out = b""
    try:
        while True:
            part = sock.recv(65536)
            if not part:
                return out
            out += part
    except ConnectionResetError:
        return out


def is_served(address, source=None):
    sock = connect(address, source)
    sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    return read_all(sock).startswith(b"HTTP/1.1 200 ")


def send_until_closed(sock, pieces):
    """Send; true: the server ended the connection."""
    sent = 0
    try:
        for piece in pieces:
            sock.sendall(piece)
            sent += 1
    except (BrokenPipeError, ConnectionResetError):
        return sent
    sock.settimeout(LIMIT_S)
    read_all(sock)
    return sent


def uploads(address, count, head, length):
    """Unfinished uploads, held open together; returns the first bytes of each answer."""
    socks = []
    for _ in range(count):
        sock = connect(address)
        sock.sendall(b"POST /echo HTTP/1.1\r\nHost: a\r\n" + head + b"Content-Length: %d\r\n\r\n" % length)
        socks.append(sock)
    piece = bytes(1 << 20)
    for _ in range((length >> 20) - 1):
        for sock in socks:
            try:
                sock.settimeout(0.5)
                sock.sendall(piece)
            except OSError:
                pass
    assert is_served(address)
    answers = []
    for sock in socks:
        sock.settimeout(0.2)
        try:
            answers.append(sock.recv(12))
        except OSError:
            answers.append(b"")
    return answers


def unauthenticated_uploads(address, number):
    answers = uploads(address, number or 8, b"", 60 << 20)
    assert all(answer in (b"HTTP/1.1 401", b"") for answer in answers), answers
    assert answers.count(b"HTTP/1.1 401") > 0, answers


def authenticated_uploads(address, number):
    answers = uploads(address, number or 8, b"Authorization: Bearer reader\r\n", 60 << 20)
    assert answers.count(b"HTTP/1.1 503") + answers.count(b"") == len(answers), answers


def idle(address, number):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    socks = []
    for i in range(number or 2000):
        sock = connect(address, f"127.0.1.{i % 100 + 1}")
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n" if i % 2 else PREFACE)
        socks.append(sock)
    for sock in socks:
        assert sock.recv(9)
    assert is_served(address)
    print("holding", len(socks), flush=True)
    sys.stdin.readline()


def rapid_reset(address, number):
    sock = connect(address)
    sock.sendall(PREFACE)

    def pieces():
        for i in range(number or 20000):
            stream = 2 * i + 1
            yield frame(1, 5, stream, NEVER) + frame(3, 0, stream, b"\0\0\0\x08")

    sent = send_until_closed(sock, pieces())
    assert sent < (number or 20000), sent
    assert is_served(address)


def continuation_flood(address, number):
    sock = connect(address)
    sock.sendall(PREFACE + frame(1, 1, 1, b"\x82"))
    payload = b"\0\1x\1y" * 3000
    sent = send_until_closed(sock, (frame(9, 0, 1, payload) for _ in range(number or 10000)))
    assert sent < (number or 10000), sent
    assert is_served(address)


def ping_flood(address, number):
    sock = connect(address)
    sock.sendall(PREFACE)
    sent = send_until_closed(sock, (frame(6, 0, 0, bytes(8)) * 100 for _ in range(number or 10000)))
    assert sent < (number or 10000), sent
    assert is_served(address)


def header_bomb(address, number):
    """One large field in the table, then references to it: 4 KiB for each byte."""
    sock = connect(address)
    field = b"\x40\x01x\x7f\xa1\x1e" + b"a" * 4000
    block = b"\x82\x86\x84\x41\x01a" + field + b"\xbe" * 12000
    sock.sendall(PREFACE + frame(1, 5, 1, block[:16000]) + b"")
    sock.settimeout(LIMIT_S)
    answer = sock.recv(65536)
    for _ in range(number or 200):
        sock.sendall(b"")
    assert answer
    assert is_served(address)


def half_open(address, number):
    """Connections that stop in the middle are closed by the server, each within its time-out."""
    beginnings = [b"", b"GET / HT", b"PRI * HTTP/2.0\r\n", PREFACE[:24], PREFACE + frame(1, 1, 1, b"\x82"),
                  b"GET / HTTP/1.1\r\nHost: a\r\n"]
    socks = []
    for beginning in beginnings * (number or 5):
        sock = connect(address)
        sock.sendall(beginning)
        socks.append(sock)
    before = time.monotonic()
    for sock in socks:
        read_all(sock)
    assert time.monotonic() - before < 10
    assert is_served(address)


def no_window(address, number):
    """A hundred downloads that are never read."""
    sock = connect(address)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.sendall(PREFACE)
    path = b"/stream?10000"
    block = b"\x82\x86\x04" + bytes([len(path)]) + path + b"\x41\x01a"
    for i in range(number or 100):
        sock.sendall(frame(1, 5, 2 * i + 1, block))
    time.sleep(1)
    assert is_served(address)


def ask(address, source, head, body=b""):
    """One request from an address of our own: status and length of the answer's body."""
    sock = connect(address, source)
    sock.sendall(head + b"Host: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    answer = read_all(sock)
    return answer[9:12], len(answer.partition(b"\r\n\r\n")[2])


def unread_pages(address, number):
    """Long answers that nobody reads, all of one address: others get theirs."""
    socks = []
    for _ in range(number or 60):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        host, port = address.rsplit(":", 1)
        sock.bind(("127.0.0.3", 0))
        sock.connect((host, int(port)))
        sock.sendall(b"GET /page?33554432 HTTP/1.1\r\nHost: a\r\n\r\n")
        socks.append(sock)
    for sock in socks:
        sock.settimeout(LIMIT_S)
        assert sock.recv(12) == b"HTTP/1.1 200"
    for source in ("127.0.0.2", "127.0.0.3"):
        print(*ask(address, source, b"GET /page?4194304 HTTP/1.1\r\n"))


def dawdle(address, number):
    """Reads all the time, and too little: the server does not wait for ever."""
    sock = connect(address)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    sock.sendall(b"GET /stream?10000 HTTP/1.1\r\nHost: a\r\n\r\n")
    begun = time.monotonic()
    try:
        while sock.recv(65536):
            time.sleep(0.1)
            assert time.monotonic() - begun < (number or 20)
    except ConnectionResetError:
        pass


def half_bodies(address, number):
    """Bodies that never end, all of one address: others send theirs, and small ones get through from there too."""
    socks = []
    for _ in range(number or 100):
        sock = connect(address, "127.0.0.3")
        sock.sendall(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 60000000\r\n\r\n" + bytes(1400000))
        socks.append(sock)
    head = b"POST /echo HTTP/1.1\r\n"
    print(*ask(address, "127.0.0.2", head, bytes(4 << 20)))
    print(*ask(address, "127.0.0.3", head, bytes(20000)))
    print(*ask(address, "127.0.0.3", head, bytes(4 << 20)))


def too_many(address, number):
    """number connections are taken, one more is not; another address still is."""
    socks = []
    for _ in range(number):
        sock = connect(address)
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert sock.recv(9) == b"HTTP/1.1 "
        socks.append(sock)
    sock = connect(address)
    sock.settimeout(LIMIT_S)
    assert read_all(sock) == b""
    print(is_served(address, "127.0.0.2"))


def make_room(address, number):
    """As many again are served: the first ones, which are idle, are closed for them."""
    socks = []
    for _ in range(2 * number):
        sock = connect(address)
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert sock.recv(9) == b"HTTP/1.1 "
        socks.append(sock)
    for sock in socks[:4]:
        sock.settimeout(LIMIT_S)
        assert read_all(sock).endswith(b"ok\n")


def main():
    address, attack = sys.argv[1:3]
    number = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    globals()[attack](address, number)
    print("ok")


main()

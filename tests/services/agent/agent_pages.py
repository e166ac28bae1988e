#!/usr/bin/env python3
"""agent_pages.py HTTP-ADDRESS COUNT - an agent with much to tell, and readers that do not read.

Stores 9 MB, then COUNT connections of one address ask for all of it and take nothing, and one HTTP/2 connection with 128 calls
opens no window. Prints how many of the first were answered well, and what a reader of another address gets.
"""

import base64
import http.client
import json
import os
import socket
import sys
import time

QUERY = "/tidemark.agent.v1.AgentService/QueryRecords"
ASK = json.dumps({"stream": "big", "max_records": 50000, "position": {"max_bytes": 33554432}}).encode()
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def post(address, path, body, source=None):
    host, port = address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=60, source_address=(source, 0) if source else None)
    connection.request("POST", path, body, {"content-type": "application/json"})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def frame(kind, flags, stream, payload):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def field(name, value):
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def ask_and_leave(address, source):
    host, port = address.rsplit(":", 1)
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.bind((source, 0))
    sock.connect((host, int(port)))
    head = f"POST {QUERY} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {len(ASK)}\r\n\r\n"
    sock.sendall(head.encode() + ASK)
    return sock


def ask_without_window(address, source):
    host, port = address.rsplit(":", 1)
    sock = socket.create_connection((host, int(port)), source_address=(source, 0))
    head = b"\x83\x86" + field(b":path", QUERY.encode()) + field(b":authority", b"localhost") + \
        field(b"content-type", b"application/json")
    sock.sendall(PREFACE + frame(4, 0, 0, b"\0\4\0\0\0\0"))
    for i in range(128):
        sock.sendall(frame(1, 4, 2 * i + 1, head) + frame(0, 1, 2 * i + 1, ASK))
    return sock


def main():
    address, count = sys.argv[1], int(sys.argv[2])
    record = {"data": base64.b64encode(os.urandom(150000)).decode()}
    for _ in range(6):
        status, said = post(address, QUERY.replace("Query", "Ingest"),
                            json.dumps({"stream": "big", "records": [record] * 10}))
        assert status == 200, said
    socks = [ask_and_leave(address, "127.0.0.3") for _ in range(count)]
    good = 0
    for sock in socks:
        sock.settimeout(60)
        good += sock.recv(12) == b"HTTP/1.1 200"
    unread = ask_without_window(address, "127.0.0.4")
    time.sleep(2)
    status, said = post(address, QUERY, ASK, "127.0.0.2")
    print("served", good)
    print("other", status, len(said.get("records", [])))
    unread.close()


main()

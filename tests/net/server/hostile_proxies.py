#!/usr/bin/env python3
"""hostile_proxies.py ADDRESS haproxy|nginx FILE - the requests of FILE, sent to a server through a proxy.

The proxy gives each request that it forwards a token. A request that reaches the server without one was smuggled past
the proxy: two programs read the same bytes differently. The server refuses and counts such requests; who runs this
script looks at the count.

Prints how many of the requests got an answer, and ends when the proxy has closed all its connections.
"""

import os
import re
import selectors
import socket
import subprocess
import sys
import tempfile
import time

# Who runs this script ends it earlier, by a limit that knows a busy machine.
LIMIT_S = 600
TOKEN = "Bearer reader"
POST = b"POST /echo HTTP/1.1\r\nHost: a\r\n"
TAIL = b"GET /files/tail HTTP/1.1\r\nHost: a\r\n\r\n"
PLAIN = b"GET /files/plain HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

HAPROXY = """
defaults
    mode http
    http-reuse always
    timeout connect 60s
    timeout server 60s
    timeout client 1s
    timeout http-request 1s
frontend front
    bind unix@{socket}
    default_backend back
backend back
    http-request set-header Authorization "{token}"
    server one {address}
"""

NGINX = """
daemon off;
master_process off;
pid {dir}/pid;
error_log {dir}/error.log;
events {{ worker_connections 2000; }}
http {{
    access_log off;
    client_body_temp_path {dir}/body;
    proxy_temp_path {dir}/proxy;
    fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi;
    scgi_temp_path {dir}/scgi;
    client_header_timeout 1s;
    client_body_timeout 1s;
    keepalive_timeout 1s;
    upstream back {{ server {address}; keepalive 16; }}
    server {{
        listen unix:{socket};
        location / {{
            proxy_pass http://back;
            proxy_http_version 1.1;
            proxy_request_buffering off;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
            proxy_set_header Authorization "{token}";
        }}
    }}
}}
"""


def unescape(text):
    names = {"r": b"\r", "n": b"\n", "t": b"\t", "0": b"\0", "\\": b"\\", '"': b'"'}
    out = b""
    for found in re.finditer(r"\\x(..)|\\(.)|(.)", text, re.S):
        code, name, plain = found.groups()
        out += bytes([int(code, 16)]) if code else names[name] if name else plain.encode("latin-1")
    return out


def decode(text):
    out = b""
    for found in re.finditer(r"\{(post|tail)\}|\{(\d+)\*([^}]*)\}|([^{]+)", text):
        word, count, repeated, plain = found.groups()
        if word:
            out += POST if word == "post" else TAIL
        else:
            out += unescape(repeated) * int(count) if count else unescape(plain)
    return out


def read_rows(path):
    with open(path, encoding="ascii") as file:
        lines = [line.rstrip("\n") for line in file]
    return [decode(line.split(" ", 2)[2]) for line in lines if line and not line.startswith("#")]


def connect(path):
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(LIMIT_S)
    sock.connect(path)
    return sock


def start(kind, address, directory, path):
    config = os.path.join(directory, "config")
    text = (HAPROXY if kind == "haproxy" else NGINX).format(
        socket=path, address=address, dir=directory, token=TOKEN)
    with open(config, "w", encoding="ascii") as file:
        file.write(text)
    argv = ["haproxy", "-db", "-q", "-f", config] if kind == "haproxy" else \
        ["nginx", "-e", os.path.join(directory, "error.log"), "-p", directory, "-c", config]
    env = dict(os.environ, PATH=os.environ["PATH"] + ":/usr/sbin")
    proxy = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL)
    while True:
        try:
            connect(path).close()
            return proxy
        except OSError:
            assert proxy.poll() is None, f"{kind} ended with {proxy.returncode}"
            time.sleep(0.01)


def exchange(path, requests):
    """Send each on a connection of its own, all at once; what came back until the proxy closed."""
    selector = selectors.DefaultSelector()
    answers = [b""] * len(requests)
    for i, request in enumerate(requests):
        sock = connect(path)
        try:
            sock.sendall(request)
        except OSError:
            pass  # refused before everything was sent: the answer is there
        sock.setblocking(False)
        selector.register(sock, selectors.EVENT_READ, i)
    while selector.get_map():
        ready = selector.select(LIMIT_S)
        assert ready, "the proxy is silent"
        for key, _ in ready:
            try:
                part = key.fileobj.recv(65536)
            except OSError:
                part = b""
            answers[key.data] += part
            if not part:
                selector.unregister(key.fileobj)
                key.fileobj.close()
    return answers


def main():
    address, kind, rows = sys.argv[1:4]
    requests = read_rows(rows)
    with tempfile.TemporaryDirectory(prefix="tidemark-proxy-") as directory:
        path = os.path.join(directory, "socket")
        proxy = start(kind, address, directory, path)
        try:
            assert exchange(path, [PLAIN])[0].startswith(b"HTTP/1.1 200 ")
            # Twice: what one request left behind on a connection to the server meets the next.
            answers = exchange(path, requests) + exchange(path, requests)
            assert exchange(path, [PLAIN])[0].startswith(b"HTTP/1.1 200 ")
        finally:
            proxy.terminate()
            proxy.wait()
    print(f"{sum(answer != b'' for answer in answers)} of {len(answers)} answered,"
          f" {sum(b' 200 OK' in answer for answer in answers)} with 200")
    print("ok")


main()

#!/usr/bin/env python3
"""echo_server.py [CERT KEY [CA]] - a gRPC server made by others, for the tests of our client.

Prints `ready GRPC_PORT HTTP_PORT BROKEN_PORT SOCKET_PATH` and serves until stdin ends. With CERT and KEY the gRPC port speaks TLS;
with CA it asks for client certificates.

  /test.Echo/Unary    answers what it was sent; metadata of the request says what else to do:
      x-code, x-message       end with this code instead
      x-retry-ms              with RetryInfo
      x-pushback-ms           with grpc-retry-pushback-ms
      x-fail KEY:N            the first N calls with this key end with UNAVAILABLE (and RetryInfo, if x-retry-ms is there)
      x-sleep-ms              before the answer
      x-show                  answer metadata, peer and deadline as text
  /test.Echo/Stream   "COUNT LEN": so many messages of so many bytes, each beginning with its number
  /test.Echo/Collect  how many messages, and how many bytes
  /test.Echo/Chat     each message, at once
  HTTP: POST /echo answers the body; /code/N answers N; /fail/KEY/N 503 N times, then 200; /retry/KEY/N the same with
  Retry-After: 0; /show the headers; /long a body of 100 KiB; /json an error as our services word it
  BROKEN: takes a connection, reads a little and closes it
"""

import collections
import concurrent.futures
import gzip
import http.server
import os
import shutil
import socket
import struct
import sys
import tempfile
import threading
import time

import grpc

failures = collections.Counter()


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    return varint(number << 3 | 2) + varint(len(value)) + value


def retry_details(code, message, delay_ms):
    duration = b"\x08" + varint(delay_ms // 1000) + b"\x10" + varint(delay_ms % 1000 * 1000000)
    info = field(1, duration)
    any_ = field(1, b"type.googleapis.com/google.rpc.RetryInfo") + field(2, info)
    other = field(1, b"type.googleapis.com/google.rpc.ErrorInfo") + field(2, b"")
    return b"\x08" + varint(code) + field(2, message.encode()) + field(3, other) + field(3, any_)


def end(context, asked, code, message):
    trailers = [("x-trailer", "yes"), ("x-trailer-bin", b"\x00\x01\xff")]
    if "x-retry-ms" in asked:
        details = retry_details(code, message, int(asked["x-retry-ms"]))
        trailers.append(("grpc-status-details-bin", details))
    if "x-pushback-ms" in asked:
        trailers.append(("grpc-retry-pushback-ms", asked["x-pushback-ms"]))
    context.set_trailing_metadata(trailers)
    codes = {c.value[0]: c for c in grpc.StatusCode}
    context.abort(codes[code], message)


def unary(request, context):
    asked = dict(context.invocation_metadata())
    if "x-gzip" in asked:
        context.set_compression(grpc.Compression.Gzip)
    context.send_initial_metadata([("x-header", "hello"), ("x-header-bin", b"\x00\xfe")])
    if "x-fail" in asked:
        key, count = asked["x-fail"].split(":")
        failures[key] += 1
        if failures[key] <= int(count):
            end(context, asked, 14, "not yet")
        context.set_trailing_metadata([("x-tries", str(failures[key]))])
    if "x-sleep-ms" in asked:
        time.sleep(int(asked["x-sleep-ms"]) / 1000)
    if "x-code" in asked:
        end(context, asked, int(asked["x-code"]), asked.get("x-message", ""))
    if "x-show" in asked:
        lines = [f"{k}={v!r}" for k, v in sorted(asked.items())]
        lines += [f"peer={context.peer()}", f"left={context.time_remaining()}"]
        lines += [f"name={context.auth_context().get('x509_common_name')}"]
        return "\n".join(lines).encode()
    return request


def stream(request, context):
    count, length = map(int, request.split())
    for i in range(count):
        yield str(i).encode().ljust(length, b".")[:max(length, len(str(i)))]


def collect(requests, context):
    sizes = [len(r) for r in requests]
    return f"{len(sizes)} {sum(sizes)}".encode()


def chat(requests, context):
    for request in requests:
        yield request


class Echo(grpc.GenericRpcHandler):
    methods = {
        "/test.Echo/Unary": grpc.unary_unary_rpc_method_handler(unary),
        "/test.Echo/Stream": grpc.unary_stream_rpc_method_handler(stream),
        "/test.Echo/Collect": grpc.stream_unary_rpc_method_handler(collect),
        "/test.Echo/Chat": grpc.stream_stream_rpc_method_handler(chat),
    }

    def service(self, details):
        return self.methods.get(details.method)


class HttpServer(http.server.ThreadingHTTPServer):
    def handle_error(self, *args):
        pass  # clients that break off are part of the tests


class Http(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, code, body, fields=()):
        self.send_response(code)
        for name, value in fields:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        words = self.path.split("/")[1:]
        if words[0] == "echo":
            packed = gzip.compress(body)
            self.answer(200, packed, [("Content-Encoding", "gzip"), ("X-Header", "hello")])
        elif words[0] == "code":
            self.answer(int(words[1]), b"as you wish\n")
        elif words[0] in ("fail", "retry"):
            failures[words[1]] += 1
            advice = [("Retry-After", "0")] if words[0] == "retry" else []
            over = failures[words[1]] > int(words[2])
            self.answer(200 if over else 503, str(failures[words[1]]).encode(), [] if over else advice)
        elif words[0] == "show":
            self.answer(200, str(self.headers).encode())
        elif words[0] == "long":
            self.answer(200, b"x" * 102400)
        elif words[0] == "json":
            self.answer(409, b'{"code":10,"message":"somebody was faster"}', [("Content-Type", "application/json")])
        else:
            self.answer(404, b"")

    def log_message(self, *args):
        pass


def serve_broken(listener):
    while True:
        connection, _ = listener.accept()
        connection.recv(4096)
        time.sleep(0.05)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()


def main():
    server = grpc.server(
        concurrent.futures.ThreadPoolExecutor(max_workers=64),
        handlers=[Echo()],
        options=[("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0)],
    )
    files = [open(path, "rb").read() for path in sys.argv[1:]]
    if files:
        credentials = grpc.ssl_server_credentials(
            [(files[1], files[0])],
            root_certificates=files[2] if len(files) > 2 else None,
            require_client_auth=len(files) > 2,
        )
        port = server.add_secure_port("127.0.0.1:0", credentials)
    else:
        port = server.add_insecure_port("127.0.0.1:0")
    path = os.path.join(tempfile.mkdtemp(), "echo.sock")
    server.add_insecure_port("unix:" + path)
    server.start()
    plain = HttpServer(("127.0.0.1", 0), Http)
    threading.Thread(target=plain.serve_forever, daemon=True).start()
    broken = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=serve_broken, args=(broken,), daemon=True).start()
    print("ready", port, plain.server_address[1], broken.getsockname()[1], path, flush=True)
    sys.stdin.read()
    server.stop(None).wait()
    shutil.rmtree(os.path.dirname(path), ignore_errors=True)
    os._exit(0)


main()

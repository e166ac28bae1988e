"""A TCP proxy of our own: the network between two processes, and its faults.

    proxy = Proxy(port)             clients connect to proxy.port
    proxy.refuse()                  connections are refused, those that are open break off
    proxy.allow()
    proxy.cut()                     open connections break off; new ones are served
    proxy.hold() / proxy.release()  bytes stay where they are: a network that swallows packets;
                                    `held` is set when some do
    proxy.lose_answer(pattern, request=b"...")
                                    the next answer that holds the pattern is dropped, and with it
                                    its connection, or all of them; request: only on a connection
                                    that asked for something with these bytes since

A lost answer is lost behind the server's work: the server has sent it, the client never sees it."""

import re
import socket
import struct
import threading

# PostgreSQL's CommandComplete for COMMIT: the transaction is committed when it is sent.
PG_COMMITTED = rb"C\x00\x00\x00\x0bCOMMIT\x00"
# Any bytes: the first answer of a service.
ANY_ANSWER = rb"(?s)."


class _Link:
    """One connection through the proxy: two sockets and two threads."""

    def __init__(self, proxy, client):
        self.proxy = proxy
        self.client = client
        self.has_asked = False
        self.server = socket.create_connection(("127.0.0.1", proxy.target), timeout=10)
        self.server.settimeout(None)
        for source, sink, is_answer in ((client, self.server, False), (self.server, client, True)):
            sink.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._copy, args=(source, sink, is_answer), daemon=True).start()

    def _copy(self, source, sink, is_answer):
        tail = b""
        try:
            while True:
                data = source.recv(65536)
                if not self.proxy.gate.is_set():
                    self.proxy.held.set()
                    self.proxy.gate.wait()
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    return
                if is_answer and self.proxy.must_lose(self, tail + data):
                    return
                if not is_answer:
                    self.proxy.note_request(self, tail + data)
                tail = data[-64:]
                sink.sendall(data)
        except OSError:
            self.close()
        finally:
            self.proxy.forget(self, is_answer)

    def close(self):
        """Reset both sides."""
        for sock in (self.client, self.server):
            try:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            try:
                sock.close()
            except OSError:
                pass


class Proxy:
    """127.0.0.1:port is forwarded to 127.0.0.1:target."""

    def __init__(self, target):
        self.target = target
        self.lock = threading.Lock()
        self.links = set()
        self.ended = {}
        self.gate = threading.Event()
        self.gate.set()
        self.held = threading.Event()
        self.is_refusing = False
        self.losing = None
        self.lost = threading.Event()
        self.accepted = 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.accepted += 1
            if self.is_refusing:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.close()
                continue
            try:
                link = _Link(self, client)
            except OSError:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.close()
                continue
            with self.lock:
                self.links.add(link)

    def forget(self, link, is_answer):
        """One direction of a link has ended; with both it is closed."""
        with self.lock:
            done = self.ended.setdefault(link, set())
            done.add(is_answer)
            if len(done) < 2:
                return
            self.ended.pop(link, None)
            self.links.discard(link)
        link.close()

    def cut(self):
        with self.lock:
            links = list(self.links)
        for link in links:
            link.close()

    def refuse(self):
        self.is_refusing = True
        self.cut()

    def allow(self):
        self.is_refusing = False

    def hold(self):
        self.held.clear()
        self.gate.clear()

    def release(self):
        self.gate.set()

    def lose_answer(self, pattern, all_connections=False, refuse=False, request=b""):
        """Arm: the next answer that matches is lost. `lost` is set when it is. With refuse=True
        the proxy refuses connections from then on."""
        self.lost.clear()
        with self.lock:
            for link in self.links:
                link.has_asked = False
        self.losing = (re.compile(pattern), all_connections, refuse, request)

    def note_request(self, link, data):
        losing = self.losing
        if losing is not None and losing[3] in data:
            link.has_asked = True

    def must_lose(self, link, data):
        with self.lock:
            losing = self.losing
            if losing is None or not link.has_asked or not losing[0].search(data):
                return False
            self.losing = None
        if losing[2]:
            self.is_refusing = True
        self.lost.set()
        if losing[1]:
            self.cut()
        link.close()
        return True

    def close(self):
        self.listener.close()
        self.gate.set()
        self.cut()

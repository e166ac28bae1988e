#!/usr/bin/env python3
"""lake_client.py ADDRESS CASE [ARGUMENT...] - a client of tidemark.lake.v1 that knows of it only what the server's reflection tells.

Each case is a function below. Ends with 0 when all is as it should be.
"""

import json
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../api"))
from wire import field, fields  # noqa: E402

SERVICE = "tidemark.lake.v1.LakeService"
CODE = grpc.StatusCode
# A call that must be answered waits this long: who runs this script ends it earlier, by a limit that knows a busy machine.
LIMIT_S = 600


# ---- reflection ----


class Lake:
    """A channel, and each method of the service as a method that takes the request's fields."""

    def __init__(self, address, token=None):
        self.address = address
        self.token = token
        self.channel = grpc.insecure_channel(
            address, options=[("grpc.max_receive_message_length", 128 << 20), ("grpc.max_send_message_length", 128 << 20)]
        )
        ask = self.channel.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
        answer = list(ask(iter([field(4, SERVICE.encode())]), timeout=LIMIT_S, metadata=self.metadata()))[0]
        pool = descriptor_pool.DescriptorPool()
        for number, value in fields(answer):
            if number == 4:
                for _, one in reversed(list(fields(value))):  # what a file imports comes behind it
                    pool.Add(descriptor_pb2.FileDescriptorProto.FromString(one))
        self.factory = message_factory.MessageFactory(pool)
        self.service = pool.FindServiceByName(SERVICE)

    def metadata(self):
        return [("authorization", f"Bearer {self.token}")] if self.token else []

    def message(self, type_, **given):
        return self.factory.GetPrototype(self.service.file.message_types_by_name[type_])(**given)

    def stub(self, name):
        method = self.service.methods_by_name[name]
        response = self.factory.GetPrototype(method.output_type)
        kind = {"AppendStream": self.channel.stream_unary, "Watch": self.channel.unary_stream}.get(name, self.channel.unary_unary)
        return kind(f"/{SERVICE}/{name}", lambda m: m.SerializeToString(), response.FromString)

    def request(self, method_, **given):
        return self.factory.GetPrototype(self.service.methods_by_name[method_].input_type)(**given)

    def __getattr__(self, name):
        def call(timeout=LIMIT_S, **given):
            return self.stub(name)(self.request(name, **given), timeout=timeout, metadata=self.metadata())

        return call


def refused(code, call, words=""):
    try:
        call()
    except grpc.RpcError as error:
        assert error.code() == code, (error.code(), error.details())
        assert words in error.details(), error.details()
        return error
    raise AssertionError(f"it was not refused with {code}")


def info_of(error):
    """reason and metadata of the google.rpc.ErrorInfo among a failure's details."""
    details = dict(error.trailing_metadata())["grpc-status-details-bin"]
    for number, value in fields(details):
        if number == 3:
            any_ = dict(fields(value))
            if any_[1].endswith(b"ErrorInfo"):
                metadata = [dict(fields(entry)) for n, entry in fields(any_[2]) if n == 3]
                reason = [entry for n, entry in fields(any_[2]) if n == 1][0]
                return reason.decode(), {e[1].decode(): e.get(2, b"").decode() for e in metadata}
    raise AssertionError("no ErrorInfo")


def rows_of(response):
    return [[getattr(cell, cell.WhichOneof("value")) for cell in row.cells] for row in response.rows]


def make(lake, name, columns="a BIGINT, b VARCHAR"):
    lake.CreateCatalog(name=name)
    return lake.CreateTable(catalog=name, operation=dict(schema="main", table="t", columns=columns))


def append(lake, catalog, text, **commit):
    return lake.Append(catalog=catalog, operation=dict(schema="main", table="t", text=text), commit=commit)


def count(lake, catalog, at=""):
    return rows_of(lake.Query(sql="SELECT count(*) FROM t", catalog=catalog, at=at))[0][0]


# ---- cases ----


def every_method(lake):
    made = lake.CreateCatalog(name="books", commit=dict(author="ann"))
    assert made.catalog_id > 0 and made.snapshot_id > 0 and not made.was_there
    assert lake.CreateCatalog(name="BOOKS", may_exist=True).was_there
    refused(CODE.ALREADY_EXISTS, lambda: lake.CreateCatalog(name="books"))

    schema = lake.CreateSchema(catalog="books", operation=dict(schema="s"))
    assert schema.snapshot_id > made.snapshot_id and schema.parent_snapshot_id == made.snapshot_id
    lake.CreateTable(catalog="books", operation=dict(schema="s", table="t", columns="a BIGINT, b VARCHAR"))
    first = lake.Append(catalog="books", operation=dict(schema="s", table="t", text="a,b\n1,x\n2,y\n3,z\n"))
    assert first.rows == 3
    lake.Append(catalog="books", operation=dict(schema="s", table="t", format="json", rows=b'{"a": 4, "b": "w"}\n'))
    gone = lake.Delete(catalog="books", operation=dict(schema="s", table="t", where="a <= 2"))
    assert gone.rows_deleted == 2
    files = lake.ListFiles(catalog="books", schema="s", table="t")
    assert [(f.rows, f.deleted_rows, f.begin_snapshot_id) for f in files.files][0] == (3, 2, first.snapshot_id), files
    assert files.snapshot_id == gone.snapshot_id and files.files_total == 2 and files.rows_total == 2 and not files.cut, files
    assert files.bytes_total == sum(f.bytes for f in files.files) > 0
    one = lake.ListFiles(catalog="books", schema="s", table="t", limit=1)
    assert one.cut and len(one.files) == 1 and one.files_total == 2 and one.rows_total == 2, one
    assert lake.ListFiles(catalog="books", schema="s", table="t", at=str(first.snapshot_id)).rows_total == 3
    refused(CODE.NOT_FOUND, lambda: lake.ListFiles(catalog="books", schema="s", table="nobody"))
    nothing = lake.Delete(catalog="books", operation=dict(schema="s", table="t", where="a > 100"))
    assert nothing.unchanged and nothing.snapshot_id == gone.snapshot_id

    for action in (
        dict(add_column="c INTEGER DEFAULT 7"),
        dict(rename_column=dict(column="b", to="name")),
        dict(set_type=dict(column="c", type="BIGINT")),
        dict(partition=dict(keys=[dict(column="a", transform="bucket(4)")])),
        dict(drop_column="c"),
        dict(rename_to="u"),
    ):
        lake.AlterTable(catalog="books", operation=dict(schema="s", table="t", **action))
    lake.CreateView(catalog="books", operation=dict(schema="s", view="v", sql="SELECT a FROM s.u"))
    lake.AlterView(catalog="books", operation=dict(schema="s", view="v", sql="SELECT a + 1 AS a FROM s.u"))
    answer = lake.Query(sql="SELECT a FROM books.s.v ORDER BY a")
    assert list(answer.columns) == ["a"] and rows_of(answer) == [[4], [5]] and not answer.cut
    assert rows_of(lake.Query(sql="SELECT count(*) FROM books.s.t", at=str(first.snapshot_id))) == [[3]]
    cut = lake.Query(sql="SELECT * FROM range(100)", max_rows=10)
    assert cut.cut and len(cut.rows) == 10
    kinds = lake.Query(sql="SELECT NULL, true, 1.5::DOUBLE, 'x', '\\xAA'::BLOB, 7")
    assert rows_of(kinds) == [[True, True, 1.5, "x", b"\xaa", 7]]
    assert kinds.rows[0].cells[0].WhichOneof("value") == "is_null"

    tables = lake.ListTables(catalog="books", schema="s").tables
    assert [(t.name, t.kind) for t in tables] == [("u", "table"), ("v", "view")], tables
    assert [(c.name, c.type) for c in tables[0].columns] == [("a", "int64"), ("name", "varchar")]
    assert tables[1].sql == "SELECT a + 1 AS a FROM s.u"
    assert [s.name for s in lake.ListSchemas(catalog="books").schemas] == ["main", "s"]
    assert [s.name for s in lake.ListSchemas(catalog="books", at=str(made.snapshot_id)).schemas] == ["main"]
    snapshots = lake.ListSnapshots(catalog="books").snapshots
    assert snapshots[0].author == "ann" and snapshots[0].snapshot_id == made.snapshot_id
    assert [s.snapshot_id for s in lake.ListSnapshots(catalog="books", after=made.snapshot_id, limit=1).snapshots] == [
        schema.snapshot_id
    ]
    newest = [s.snapshot_id for s in lake.ListSnapshots(catalog="books", newest_first=True, limit=3).snapshots]
    assert newest == [s.snapshot_id for s in snapshots][: -4 : -1], newest
    below = lake.ListSnapshots(catalog="books", newest_first=True, before=schema.snapshot_id).snapshots
    assert [s.snapshot_id for s in below] == [made.snapshot_id]
    diff = lake.Diff(catalog="books", **{"from": str(made.snapshot_id), "to": str(first.snapshot_id)})
    assert ("schema", "s", True) in [(d.kind, d.name, d.added) for d in diff.differences]
    assert lake.Diff(catalog="books", limit=1, **{"from": str(made.snapshot_id)}).cut

    fork = lake.ForkCatalog(parent="books", name="branch", at=str(first.snapshot_id))
    assert fork.parent_snapshot_id == first.snapshot_id
    assert rows_of(lake.Query(sql="SELECT count(*) FROM branch.s.t")) == [[3]]
    listed = {c.name: c for c in lake.ListCatalogs().catalogs}
    assert listed["branch"].parent == "books" and listed["branch"].snapshot_id == fork.snapshot_id
    spent = lake.NextSnapshotId().snapshot_id
    assert lake.NextSnapshotId().snapshot_id > spent > fork.snapshot_id
    assert lake.DropView(catalog="books", operation=dict(schema="s", view="v")).snapshot_id > spent
    lake.DropTable(catalog="books", operation=dict(schema="s", table="u"))
    lake.DropSchema(catalog="books", operation=dict(schema="s"))

    make(lake, "small")
    for i in range(5):
        append(lake, "small", f"a,b\n{i},x\n")
    done = lake.Compact(catalog="small")
    assert done.files_before == 5 and done.files_after == 1 and done.rows == 5, done
    assert count(lake, "small") == 5
    assert lake.Expire(catalog="small", keep_last=1, dry_run=True).snapshots > 0
    expired = lake.Expire(catalog="small", keep_last=1)
    assert expired.files == 5 and not expired.more, expired
    refused(CODE.INVALID_ARGUMENT, lambda: lake.Expire(catalog="small"))
    assert lake.Cleanup(dry_run=True, grace_ms=0).files == 5
    cleaned = lake.Cleanup(grace_ms=0)
    assert cleaned.files == 5 and cleaned.bytes > 0, cleaned
    lake.DropCatalog(name="branch")
    refused(CODE.NOT_FOUND, lambda: lake.ListTables(catalog="branch"))
    verdict = lake.Verify()
    assert verdict.findings == 0 and verdict.catalogs >= 2, verdict


def several_operations(lake):
    lake.CreateCatalog(name="many")
    done = lake.Commit(
        catalog="many",
        operations=[
            dict(create_table=dict(schema="s", table="t", columns="a BIGINT", create_schema=True)),
            dict(append=dict(schema="s", table="t", text="a\n1\n2\n")),
            dict(create_view=dict(schema="s", view="v", sql="SELECT * FROM s.t")),
        ],
        commit=dict(message="all at once"),
    )
    assert done.rows == 2 and rows_of(lake.Query(sql="SELECT sum(a) FROM many.s.v")) == [[3]]
    assert len(lake.ListSnapshots(catalog="many").snapshots) == 2
    # One that fails takes the others with it, and says which it was.
    refused(
        CODE.ALREADY_EXISTS,
        lambda: lake.Commit(
            catalog="many",
            operations=[dict(create_schema=dict(schema="x")), dict(create_table=dict(schema="s", table="t", columns="a BIGINT"))],
        ),
        "operation 2",
    )
    assert len(lake.ListSnapshots(catalog="many").snapshots) == 2


def conflicts(lake):
    make(lake, "c")
    base = append(lake, "c", "a,b\n1,x\n").snapshot_id
    dropped = lake.DropTable(catalog="c", operation=dict(schema="main", table="t"), commit=dict(author="bob"))
    error = refused(CODE.ABORTED, lambda: append(lake, "c", "a,b\n2,y\n", base_snapshot_id=base), "bob")
    reason, metadata = info_of(error)
    assert reason == "CONFLICT", reason
    assert metadata["snapshot_id"] == str(dropped.snapshot_id) and metadata["author"] == "bob", metadata
    assert metadata["mark"].startswith("drop ") and metadata["catalog"] == "c" and metadata["what"], metadata
    assert metadata["base_snapshot_id"] == str(base), metadata
    # The same over HTTP.
    body = json.dumps(
        dict(
            catalog="c",
            operation=dict(schema="main", table="t", text="a,b\n2,y\n"),
            commit=dict(baseSnapshotId=str(base)),
        )
    ).encode()
    try:
        post(lake, "Append", body)
        raise AssertionError("it was not refused")
    except urllib.error.HTTPError as error:
        told = json.load(error)
        assert error.code == 409 and told["details"][0]["metadata"]["author"] == "bob", told
    refused(CODE.ABORTED, lambda: append(lake, "c", "a,b\n3,y\n", base_snapshot_id=base, author="eve"))
    seen = lake.ListConflicts(catalog="C").conflicts  # the newest first
    assert [(one.author, one.with_author, one.snapshot_id, one.base_snapshot_id) for one in seen][0] == ("eve", "bob", dropped.snapshot_id, base)
    assert len(seen) == 3 and seen[0].mark.startswith("drop ") and seen[0].what and seen[0].time >= seen[2].time, seen
    assert len(lake.ListConflicts(limit=2).conflicts) == 2 and not lake.ListConflicts(catalog="nobody").conflicts
    with urllib.request.urlopen(f"http://{lake.address}/metrics", timeout=LIMIT_S) as page:
        text = page.read().decode()
    assert 'tidemark_lake_conflicts_total{with="drop"} 3' in text, text
    assert 'tidemark_lake_commits_total{result="conflict"} 3' in text
    assert "\ntidemark_lake_catalogs " in text and "\ntidemark_lake_data_bytes " in text
    # What lost has left nothing behind.
    assert lake.Cleanup(orphans=True, grace_ms=0, dry_run=True).orphans == 0


def keys(lake):
    make(lake, "k")
    first = append(lake, "k", "a,b\n1,x\n", request_key="one")
    again = append(lake, "k", "a,b\n1,x\n", request_key="one")
    assert again.snapshot_id == first.snapshot_id and again.replayed and again.rows == 1
    refused(CODE.ABORTED, lambda: append(lake, "k", "a,b\n2,x\n", request_key="one"), "another request")
    # A stream of the same rows is the same request; what would be refused the second time is answered.
    streamed = stream(lake, "k", [b"a,b\n", b"1,x\n"], request_key="one")
    assert streamed.replayed and streamed.snapshot_id == first.snapshot_id
    table = dict(catalog="k", operation=dict(schema="main", table="u", columns="a BIGINT"), commit=dict(request_key="two"))
    made = lake.CreateTable(**table)
    assert lake.CreateTable(**table).snapshot_id == made.snapshot_id
    catalog = dict(name="kk", commit=dict(request_key="three"))
    assert lake.CreateCatalog(**catalog).snapshot_id == lake.CreateCatalog(**catalog).snapshot_id
    assert count(lake, "k") == 1


def stream(lake, catalog, pieces, timeout=LIMIT_S, **commit):
    def chunks():
        yield lake.message(
            "AppendChunk",
            append=dict(catalog=catalog, operation=dict(schema="main", table="t"), commit=commit),
        )
        for piece in pieces:
            yield lake.message("AppendChunk", rows=piece)

    return lake.stub("AppendStream")(chunks(), timeout=timeout, metadata=lake.metadata())


def streams(lake):
    make(lake, "big")
    lines = b"".join(b"%d,row\n" % i for i in range(200000))
    pieces = [b"a,b\n"] + [lines[at : at + 100000] for at in range(0, len(lines), 100000)]
    done = stream(lake, "big", pieces)
    assert done.rows == 200000 and count(lake, "big") == 200000
    refused(CODE.INVALID_ARGUMENT, lambda: stream(lake, "big", [b"a,nope\n1,2\n"]), "nope")
    refused(CODE.INVALID_ARGUMENT, lambda: stream(lake, "big", []), "what was sent is empty")
    refused(CODE.NOT_FOUND, lambda: stream(lake, "nobody", [b"a,b\n"]))
    refused(CODE.INVALID_ARGUMENT, lambda: lake.stub("AppendStream")(iter([]), timeout=LIMIT_S), "no message")
    refused(
        CODE.INVALID_ARGUMENT,
        lambda: lake.stub("AppendStream")(iter([lake.message("AppendChunk", rows=b"a\n")]), timeout=LIMIT_S),
        "first message",
    )
    # Who leaves in the midst has changed nothing, and nothing stays of it.
    halt = threading.Event()

    def endless():
        yield lake.message("AppendChunk", append=dict(catalog="big", operation=dict(schema="main", table="t")), rows=b"a,b\n1,x\n")
        halt.wait(LIMIT_S)

    call = lake.stub("AppendStream").future(endless(), timeout=LIMIT_S)
    until(lambda: any(name.endswith(".new") for name in os.listdir(sys.argv[3])))
    call.cancel()
    until(lambda: not any(name.endswith(".new") for name in os.listdir(sys.argv[3])))
    halt.set()
    assert count(lake, "big") == 200000


def until(is_so, seconds=LIMIT_S):
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.01)


def crowd(lake):
    """Many at once, more than there are desks: every one has a snapshot of its own, and all rows are there."""
    make(lake, "crowd")
    calls = [
        lake.stub("Append").future(
            lake.request(
                "Append",
                catalog="crowd",
                operation=dict(schema="main", table="t", text=f"a,b\n{i},x\n"),
                commit=dict(request_key=f"k{i}"),
            ),
            timeout=LIMIT_S,
        )
        for i in range(12)
    ]
    ids = {call.result().snapshot_id for call in calls}
    assert len(ids) == len(calls)
    assert rows_of(lake.Query(sql="SELECT count(DISTINCT a) FROM crowd.main.t")) == [[len(calls)]]
    parents = [s.snapshot_id for s in lake.ListSnapshots(catalog="crowd").snapshots]
    assert parents == sorted(parents) and ids == set(parents[2:])


def watches(lake):
    made = make(lake, "w")
    seen = []
    there = threading.Event()

    def follow():
        try:
            for snapshot in lake.stub("Watch")(lake.request("Watch", catalog="w", after=0), timeout=LIMIT_S):
                seen.append(snapshot)
                there.set()
        except grpc.RpcError as error:
            seen.append(error.code())

    thread = threading.Thread(target=follow)
    thread.start()
    assert there.wait(20)
    begun = time.monotonic()
    added = append(lake, "w", "a,b\n1,x\n", author="ann")
    until(lambda: seen[-1].snapshot_id == added.snapshot_id)
    ids = [s.snapshot_id for s in seen]
    assert ids == sorted(set(ids)) and made.snapshot_id in ids and seen[-1].author == "ann"
    # A list that waits is answered by the next commit, not by its time.
    waiting = lake.stub("ListSnapshots").future(
        lake.request("ListSnapshots", catalog="w", after=added.snapshot_id, wait_ms=60000), timeout=LIMIT_S
    )
    lake.CreateSchema(catalog="w", operation=dict(schema="s"))
    assert len(waiting.result().snapshots) == 1 and time.monotonic() - begun < 30
    assert len(lake.ListSnapshots(catalog="w", after=waiting.result().snapshots[0].snapshot_id, wait_ms=50).snapshots) == 0
    lake.DropCatalog(name="w")
    thread.join(20)
    assert seen[-1] == CODE.NOT_FOUND, seen[-1]
    refused(CODE.NOT_FOUND, lambda: list(lake.stub("Watch")(lake.request("Watch", catalog="w"), timeout=LIMIT_S)))


def bad_input(lake):
    make(lake, "b", "a BIGINT NOT NULL, b VARCHAR")
    wrong = [
        (CODE.NOT_FOUND, lambda: append(lake, "nobody", "a\n1\n"), "nobody"),
        (CODE.NOT_FOUND, lambda: lake.Append(catalog="b", operation=dict(schema="main", table="x", text="a\n1\n")), "x"),
        (CODE.NOT_FOUND, lambda: lake.ListTables(catalog="b", at="999999"), "999999"),
        (CODE.NOT_FOUND, lambda: append(lake, "b", "a\n1\n", base_snapshot_id=999999), ""),
        (CODE.NOT_FOUND, lambda: lake.ListTables(catalog="b", schema="none"), "none"),
        (CODE.NOT_FOUND, lambda: lake.Compact(catalog="b", schema="main", table="x"), ""),
        (CODE.INVALID_ARGUMENT, lambda: append(lake, "b", "a\n1\n", base_snapshot_id=-1), "base_snapshot_id"),
        (CODE.INVALID_ARGUMENT, lambda: append(lake, "b", "a,b\n1,x\nnope,y\n"), "nope"),
        (CODE.INVALID_ARGUMENT, lambda: append(lake, "b", "b\nx\n"), "a"),
        (CODE.INVALID_ARGUMENT, lambda: append(lake, "b", "a\n1\n", request_key="x" * 300), "request key"),
        (CODE.INVALID_ARGUMENT, lambda: lake.Append(catalog="b"), "operation"),
        (CODE.INVALID_ARGUMENT, lambda: lake.Append(catalog="b", operation=dict(schema="main", table="t", text="a\n", rows=b"a\n")), "one of them"),
        (CODE.INVALID_ARGUMENT, lambda: lake.Append(catalog="b", operation=dict(schema="main", table="t", format="xml", text="a\n")), "xml"),
        (CODE.INVALID_ARGUMENT, lambda: lake.Append(catalog="b", operation=dict(schema="main", table="t", format="parquet", text="a\n")), ""),
        (CODE.INVALID_ARGUMENT, lambda: lake.Commit(catalog="b"), "no operations"),
        (CODE.INVALID_ARGUMENT, lambda: lake.Commit(catalog="b", operations=[dict()]), "empty"),
        (CODE.RESOURCE_EXHAUSTED, lambda: lake.Commit(catalog="b", operations=[dict()] * 1001), "1000"),
        (CODE.INVALID_ARGUMENT, lambda: lake.AlterTable(catalog="b", operation=dict(schema="main", table="t")), "no action"),
        (CODE.INVALID_ARGUMENT, lambda: lake.CreateCatalog(name=""), ""),
        (CODE.INVALID_ARGUMENT, lambda: lake.CreateCatalog(name="a\x01b"), ""),
        (CODE.INVALID_ARGUMENT, lambda: lake.CreateTable(catalog="b", operation=dict(schema="main", table="y", columns="a NOTYPE")), "NOTYPE"),
        (CODE.INVALID_ARGUMENT, lambda: lake.Delete(catalog="b", operation=dict(schema="main", table="t")), "where"),
        (CODE.INVALID_ARGUMENT, lambda: lake.Delete(catalog="b", operation=dict(schema="main", table="t", where="a >")), ""),
        (CODE.INVALID_ARGUMENT, lambda: lake.Query(sql="SELECT"), ""),
        (CODE.INVALID_ARGUMENT, lambda: lake.Query(sql="SELECT 1", max_rows=-1), "max_rows"),
        (CODE.INVALID_ARGUMENT, lambda: lake.Query(sql="SELECT 1", timeout_ms=10**12), "timeout_ms"),
        (CODE.RESOURCE_EXHAUSTED, lambda: lake.Query(sql="SELECT 1 --" + "x" * (1 << 20)), "statement"),
        (CODE.INVALID_ARGUMENT, lambda: lake.ListSnapshots(catalog="b", wait_ms=10**9), "wait_ms"),
        (CODE.INVALID_ARGUMENT, lambda: lake.Diff(catalog="b", limit=10**9), "limit"),
        (CODE.INVALID_ARGUMENT, lambda: lake.Expire(catalog="b", keep_last=-1), "keep_last"),
        (CODE.INVALID_ARGUMENT, lambda: lake.Cleanup(grace_ms=-1), "grace_ms"),
        (CODE.INVALID_ARGUMENT, lambda: lake.Compact(catalog="b", schema="main"), "both"),
        (CODE.PERMISSION_DENIED, lambda: lake.Query(sql="SELECT * FROM read_csv('/etc/passwd')"), ""),
        (CODE.PERMISSION_DENIED, lambda: lake.Query(sql="COPY (SELECT 1) TO '/tmp/lsvc-never'"), ""),
        (CODE.PERMISSION_DENIED, lambda: lake.Query(sql="CREATE TABLE x (a INT)"), ""),
        (CODE.DEADLINE_EXCEEDED, lambda: lake.Query(sql="SELECT count(*) FROM range(1000000000000)", timeout_ms=50), "took longer"),
    ]
    for number, (code, call, words) in enumerate(wrong):
        try:
            refused(code, call, words)
        except AssertionError as error:
            raise AssertionError(f"bad input {number}: {error}") from error
    assert count(lake, "b") == 0 and len(lake.ListSnapshots(catalog="b").snapshots) == 2


def leaving(lake):
    """Of a server with one desk: who leaves makes room for the next one."""
    make(lake, "l")
    endless = "SELECT count(*) FROM range(1000000000000)"
    refused(CODE.DEADLINE_EXCEEDED, lambda: lake.Query(sql=endless, timeout_ms=30000, timeout=0.5))
    call = lake.stub("Query").future(lake.request("Query", sql=endless, timeout_ms=30000), timeout=600)
    time.sleep(0.2)  # it may have begun by now, or not: both must end
    call.cancel()
    begun = time.monotonic()
    # A condition that never ends, on a row that is there.
    append(lake, "l", "a,b\n1,x\n")
    where = "a IN (SELECT count(*) FROM range(1000000000000))"
    refused(
        CODE.DEADLINE_EXCEEDED,
        lambda: lake.Delete(catalog="l", operation=dict(schema="main", table="t", where=where), timeout=0.5),
    )
    assert count(lake, "l") == 1 and time.monotonic() - begun < 60
    assert len(lake.ListSnapshots(catalog="l").snapshots) == 3


def roles(lake):
    """lake has a token of the role read; the other arguments are tokens of write and admin."""
    writer, admin = Lake(lake.address, sys.argv[3]), Lake(lake.address, sys.argv[4])
    writer.CreateCatalog(name="r")
    refused(CODE.PERMISSION_DENIED, lambda: lake.CreateCatalog(name="x"))
    for name in ("CreateSchema", "Commit", "Append", "Delete", "NextSnapshotId", "ForkCatalog", "AlterView"):
        refused(CODE.PERMISSION_DENIED, lambda name=name: getattr(lake, name)())
    refused(CODE.PERMISSION_DENIED, lambda: stream(lake, "r", []))
    for name in ("DropCatalog", "Expire", "Cleanup", "Compact"):
        refused(CODE.PERMISSION_DENIED, lambda name=name: getattr(lake, name)())
        refused(CODE.PERMISSION_DENIED, lambda name=name: getattr(writer, name)())
    assert lake.ListCatalogs().catalogs[0].name == "r" and lake.Verify().findings == 0
    assert rows_of(lake.Query(sql="SELECT 1")) == [[1]]
    # Who says nothing about himself is who his token says.
    assert lake.ListSnapshots(catalog="r").snapshots[0].author == "scribe"
    admin.DropCatalog(name="r")
    refused(CODE.UNAUTHENTICATED, lambda: post_anonymous(lake.address))


def post_anonymous(address):
    call = grpc.insecure_channel(address).unary_unary(f"/{SERVICE}/ListCatalogs")
    call(b"", timeout=LIMIT_S)


def post(lake, method, body):
    request = urllib.request.Request(
        f"http://{lake.address}/{SERVICE}/{method}", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
        return json.load(answer)


def over_http(lake):
    assert post(lake, "CreateCatalog", b'{"name":"h"}')["snapshot_id"]
    post(lake, "CreateTable", b'{"catalog":"h","operation":{"schema":"main","table":"t","columns":"a BIGINT"}}')
    done = post(lake, "Append", b'{"catalog":"h","operation":{"schema":"main","table":"t","rows":"YQoxCg=="}}')
    assert done["rows"] == 1, done
    answer = post(lake, "Query", b'{"sql":"SELECT a FROM h.main.t"}')
    assert answer["rows"] == [[1]], answer
    try:
        post(lake, "ListTables", b'{"catalog":"nobody"}')
        raise AssertionError("it was found")
    except urllib.error.HTTPError as error:
        assert error.code == 404


def lost(lake):
    """The server dies between its commit and its answer."""
    make(lake, "d")
    refused(CODE.UNAVAILABLE, lambda: append(lake, "d", "a,b\n1,x\n", request_key="once"))


def found(lake):
    """Another one answers for it."""
    before = lake.ListSnapshots(catalog="d").snapshots
    assert len(before) == 3, before
    again = append(lake, "d", "a,b\n1,x\n", request_key="once")
    assert again.replayed and again.snapshot_id == before[-1].snapshot_id and again.rows == 1
    assert count(lake, "d") == 1 and lake.Verify().findings == 0


def draining(lake):
    """A watch does not keep the server from ending."""
    lake.CreateCatalog(name="z")
    watch = lake.stub("Watch")(lake.request("Watch", catalog="z", after=0), timeout=LIMIT_S)
    next(watch)
    os.kill(int(sys.argv[4]), signal.SIGTERM)
    refused(CODE.UNAVAILABLE, lambda: next(watch))


GROUPS = {
    "all": [every_method, several_operations, conflicts, keys, streams, crowd, watches, bad_input, over_http, draining],
}


def main():
    case = sys.argv[2]
    lake = Lake(sys.argv[1], os.environ.get("LAKE_TOKEN"))
    for one in GROUPS.get(case) or [globals()[case]]:
        begun = time.monotonic()
        one(lake)
        print(f"{one.__name__}: {time.monotonic() - begun:.2f} s")


if __name__ == "__main__":
    main()

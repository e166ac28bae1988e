"""A lake behind `tidemark lake serve`: a metabase in a store, a directory of data files, writers
and readers. What the states of the lake have in common; the history is for the checker `catalog`.

    client --- network --- lake serve --- network --- metabase (SQLite file or PostgreSQL server)
                               |
                           data directory"""

import glob
import json
import os

from . import store_world
from .grid import LAKE

CATALOG = "books"
TABLE = "books.main.t"
FAILED = r'tidemark_(rpc_calls_total\{code="[1-9]|lake_|store_)'


class Lake:
    """Mixed into the worlds of store_world: serve is `lake serve`."""

    def prepare(self, data=None):
        """The metabase, a catalog and a table; three rows at the snapshot `first`."""
        g = self.g
        self.data = data or g.path("lake-files")
        self.keys = 0
        g.must("lake", "init", "--data", self.data, store=self.direct_url, **self.as_serve())
        g.must("lake", "catalog", "create", CATALOG, store=self.direct_url, **self.as_serve())
        g.must("lake", "table", "create", TABLE, "a BIGINT, b VARCHAR", store=self.direct_url,
               **self.as_serve())
        self.start_serve()
        self.first = int(self.must_append([1, 2, 3])["snapshot_id"])
        return self

    def as_serve(self):
        environment = self.serve_environment()
        return {"environment": environment} if environment else {}

    def start_serve(self):
        self.serve = self.g.daemon("lake", "lake", "serve", "--listen", "127.0.0.1:0",
                                   store=self.url, environment=self.serve_environment())
        return self.serve

    # ---- clients ----

    def append(self, numbers, key=None, base=0, limit=None, writer="w1"):
        """Append rows by the service; noted in the history."""
        self.keys += 1
        key = key or f"key-{self.keys}"
        call = self.g.history.call(writer, "commit", catalog=CATALOG, key=key,
                                   **({"base": base} if base else {}))
        answer = self.call(LAKE + "Append", {
            "catalog": CATALOG,
            "operation": {"schema": "main", "table": "t", "format": "csv",
                          "text": "a,b\n" + "".join(f"{n},row {n}\n" for n in numbers)},
            "commit": {"request_key": key, "base_snapshot_id": base}}, limit)
        members = {"snapshot": int(answer.json["snapshot_id"])} if answer.is_ok else {}
        return self.g.history.note(call, answer, **members)

    def must_append(self, numbers, **options):
        answer = self.append(numbers, **options)
        self.g.require(answer.is_ok, f"append: {answer}")
        return answer.json

    def numbers(self, at=None):
        """The values of column a, sorted; None: the query failed, and `refusal` is its answer."""
        answer = self.call(LAKE + "Query", {"sql": f"SELECT a FROM {TABLE} ORDER BY a",
                                            **({"at": str(at)} if at else {})})
        self.refusal = answer
        if not answer.is_ok:
            return None
        return [row[0] for row in answer.json["rows"]]

    def lake(self, *words, **options):
        """tidemark lake ... on the same store, as a command beside the service."""
        return self.g.tidemark("lake", *words, store=self.direct_url, **self.as_serve(), **options)

    def must_lake(self, *words, **options):
        ended = self.lake(*words, **options)
        self.g.require(ended.code == 0, f"lake {' '.join(words)}: {ended}")
        return ended.out

    def verify(self):
        return self.lake("verify", "--json")

    def is_sound(self):
        return self.verify().code == 0

    def head(self):
        for line in self.must_lake("catalog", "ls", "--json").splitlines():
            found = json.loads(line)
            if found["name"] == CATALOG:
                return int(found["snapshot_id"])
        return 0

    def files(self):
        return sorted(glob.glob(os.path.join(self.data, "**", "*.parquet"), recursive=True))

    # ---- the end ----

    def note(self, expected, limit=30):
        """What there is in the end: expected numbers, a sound metabase; for the checker."""
        g = self.g
        g.healed(lambda: self.numbers() is not None, "the table can be read", limit)
        found = self.numbers()
        g.data(found == sorted(expected), f"the table has {found}, and not {sorted(expected)}")
        ended = self.verify()
        g.data(ended.code == 0, f"lake verify: {ended}")
        self.note_snapshots()

    def note_snapshots(self):
        parent = 0
        for line in self.must_lake("snapshots", CATALOG, "--json").splitlines():
            one = json.loads(line)
            self.g.history.found("reader", "snapshot", catalog=CATALOG,
                                 snapshot=one["snapshot_id"], parent=parent)
            parent = one["snapshot_id"]
        self.g.check("catalog")


class SqliteLake(Lake, store_world.Sqlite):
    """lake serve over a SQLite file. disk_size: metabase and data files on a small disk."""

    def __init__(self, g, name="lake.db", disk_size=0, hours=None):
        super().__init__(g, name=name, disk_size=disk_size, hours=hours, start=False)
        self.prepare(os.path.join(self.disk.path if self.disk else g.dir, name + "-files"))


class PostgresLake(Lake, store_world.Postgres):
    """lake serve over a PostgreSQL server."""

    def __init__(self, g, hours=None, standby=False):
        super().__init__(g, hours=hours, standby=standby, start=False)
        self.prepare()

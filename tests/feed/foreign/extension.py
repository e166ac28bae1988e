"""extension.py STORE EXTENSION - the loadable extension inside of Python's own SQLite, beside a process that writes.

The store has 100 batches of 10 spans, numbered 1 to 1000 (service s0 to s9 in turn, timestamps 1,000 apart from batch to batch), and gets
further logs all the time. Prints what failed and ends with 1.
"""

import json
import sqlite3
import subprocess
import sys

STORE, EXTENSION = sys.argv[1], sys.argv[2]
START_MS = 1700000000000


def connect(path=STORE, uri=False):
    db = sqlite3.connect(path, isolation_level=None, timeout=30, uri=uri)
    db.enable_load_extension(True)
    db.load_extension(EXTENSION)
    return db


def one(db, sql, *values):
    rows = db.execute(sql, values).fetchall()
    assert len(rows) == 1, (sql, rows)
    return rows[0][0] if len(rows[0]) == 1 else rows[0]


def opened_by(db, sql):
    before = json.loads(one(db, "SELECT tidemark_stats()"))
    db.execute(sql).fetchall()
    return json.loads(one(db, "SELECT tidemark_stats()"))["opened"] - before["opened"]


def refused(db, sql, words, error=sqlite3.OperationalError):
    try:
        db.execute(sql).fetchall()
    except error as failure:
        assert words in str(failure), (sql, failure)
        return
    raise AssertionError(f"{sql} was not refused")


def streams_are_tables():
    db = connect()
    assert one(db, "SELECT count(*), min(seq_id), max(seq_id) FROM otel_spans_local") == (1000, 1, 1000)
    names = [column[1] for column in db.execute("PRAGMA table_info(otel_spans_local)")]
    assert names[0] == "seq_id" and names[-1] == "arrived_at", names
    row = one(db, "SELECT timestamp, service_name, duration_ms, is_error, attributes FROM otel_spans_local WHERE seq_id = 25")
    assert row == (START_MS + 2000, "s2", 1.5, 1, '{"i":"4"}'), row
    assert one(db, "SELECT json_extract(attributes, '$.i') FROM otel_spans_local WHERE seq_id = 25") == "4"
    assert one(db, "SELECT data FROM orders_local") == b"\x00\xff"
    for table in ("system_metrics", "beyla_http_metrics", "beyla_grpc_metrics", "beyla_sql_metrics", "beyla_traces",
                  "cpu_profile_samples", "memory_profile_samples", "loss_receipts"):
        assert one(db, f"SELECT count(*) FROM {table}_local") == 0, table


def conditions_are_pushed_down():
    db = connect()
    assert opened_by(db, "SELECT trace_id FROM otel_spans_local WHERE seq_id = 500") == 1
    assert opened_by(db, "SELECT trace_id FROM otel_spans_local WHERE seq_id BETWEEN 101 AND 130") == 3
    assert opened_by(db, "SELECT trace_id FROM otel_spans_local ORDER BY seq_id DESC LIMIT 3") == 1
    assert opened_by(db, f"SELECT trace_id FROM otel_spans_local WHERE timestamp >= {START_MS + 98000}") == 2
    assert opened_by(db, "SELECT trace_id FROM otel_spans_local WHERE service_name = 's3'") == 10
    assert opened_by(db, "SELECT trace_id FROM otel_spans_local WHERE service_name IN ('s3', 's4')") == 20
    assert opened_by(db, "SELECT count(*) FROM otel_spans_local") == 0


def what_is_read_beside_a_writer_is_whole():
    """Numbers without a gap up to the highest, from one look to the next only more."""
    db = connect()
    before = 0
    for _ in range(50):
        count, last, texts = one(db, "SELECT count(*), max(seq_id), count(body) FROM logs_local")
        assert count == last == texts and last >= before, (count, last, texts, before)
        before = last
    assert before > 0


def numbers_are_given_once():
    first, second = connect(), connect()
    numbers = []
    for _ in range(20):
        numbers.append(one(first, "SELECT nextval('orders of python')"))
        numbers.append(one(second, "SELECT nextval('orders of python')"))
    assert numbers == list(range(1, 41)), numbers
    first.execute("BEGIN IMMEDIATE")
    assert one(first, "SELECT nextval('orders of python')") == 41
    first.execute("ROLLBACK")
    assert one(second, "SELECT nextval('orders of python')") == 41
    assert one(first, "SELECT currval('orders of python')") == 41
    first.execute("CREATE TEMP TABLE mine (id INTEGER, name TEXT)")
    first.execute("INSERT INTO mine VALUES (nextval('orders of python'), 'a'), (nextval('orders of python'), 'b')")
    assert first.execute("SELECT id FROM mine").fetchall() == [(42,), (43,)]


def a_streams_numbers_belong_to_its_records():
    db = connect()
    assert one(db, "SELECT currval('seq_otel_spans')") == 1000
    refused(db, "SELECT nextval('seq_otel_spans')", "belong to a stream")
    assert one(db, "SELECT currval('seq_otel_spans')") == 1000
    refused(db, "SELECT currval('never used')", "was ever taken")


def a_reader_cannot_take_numbers():
    db = connect(f"file:{STORE}?mode=ro", uri=True)
    assert one(db, "SELECT count(trace_id) FROM otel_spans_local") == 1000
    refused(db, "SELECT nextval('orders of python')", "read only")
    refused(db, "DELETE FROM otel_spans_local", "may not be modified")


def another_database_attaches_a_store():
    db = connect(":memory:")
    refused(db, "SELECT * FROM otel_spans_local", "no Tidemark store")
    db.execute("ATTACH ? AS store", (STORE,))
    db.execute("CREATE VIRTUAL TABLE temp.spans USING tidemark_stream('telemetry', 'store')")
    assert one(db, "SELECT count(trace_id) FROM spans") == 1000
    assert one(db, "SELECT currval('seq_otel_spans', 'store')") == 1000


def loading_twice_is_fine():
    db = connect()
    db.load_extension(EXTENSION)
    assert one(db, "SELECT count(*) FROM otel_spans_local") == 1000


def damage_is_told():
    """Batch 30 of the declared stream `broken`, whose body was overwritten."""
    db = connect()
    refused(db, "SELECT data FROM broken_local", "is damaged", sqlite3.DatabaseError)
    assert one(db, "SELECT count(data) FROM broken_local WHERE skip_damaged = 1") == 1


def no_sqlite_of_ours_is_inside():
    """Two SQLites on one file in one process would release each other's locks."""
    symbols = subprocess.run(["nm", "--defined-only", EXTENSION], capture_output=True, text=True, check=True).stdout
    own = [line.split()[-1] for line in symbols.splitlines() if " T " in line.upper() and "sqlite3_" in line]
    assert own == ["sqlite3_tidemarksqlite_init"], own
    exported = subprocess.run(["nm", "-D", "--defined-only", EXTENSION], capture_output=True, text=True, check=True).stdout
    assert [line.split()[-1] for line in exported.splitlines()] == ["sqlite3_tidemarksqlite_init"], exported


def the_shell_loads_it():
    done = subprocess.run(["sqlite3", "-batch", STORE, f".load {EXTENSION}", "SELECT max(seq_id) FROM otel_spans_local;"],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and done.stdout.strip() == "1000", done


def main():
    cases = [
        streams_are_tables,
        conditions_are_pushed_down,
        what_is_read_beside_a_writer_is_whole,
        numbers_are_given_once,
        a_streams_numbers_belong_to_its_records,
        a_reader_cannot_take_numbers,
        another_database_attaches_a_store,
        loading_twice_is_fine,
        damage_is_told,
        no_sqlite_of_ours_is_inside,
        the_shell_loads_it,
    ]
    failed = 0
    print(f"SQLite {sqlite3.sqlite_version}")
    for case in cases:
        try:
            case()
            print(f"ok      {case.__name__}")
        except Exception as failure:  # every case is told
            failed += 1
            print(f"FAILED  {case.__name__}: {type(failure).__name__}: {failure}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

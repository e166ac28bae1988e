#!/usr/bin/env python3
"""lake.py URL CATALOG DAY - loads the orders of a day into a table, corrects one, and asks before and after.

    tidemark lake serve --store lake.db --data lake-data &          # ready listen=127.0.0.1:4322
    ./lake.py http://127.0.0.1:4322 shop 2026-01-29

Run it again for the same day: nothing is loaded twice.
"""

import sys

from tidemark_json import Refused, Service


def lake_of(url):
    return Service(url, "tidemark.lake.v1.LakeService")


def prepare(lake, catalog):
    lake.CreateCatalog(name=catalog, may_exist=True)
    table = {"schema": "sales", "table": "orders", "columns": "id BIGINT, day DATE, amount DECIMAL(18,2)", "create_schema": True}
    try:
        lake.CreateTable(catalog=catalog, operation=table)
    except Refused as refusal:
        if refusal.reason not in ("EXISTS", "CONFLICT"):  # CONFLICT: somebody makes it at this moment
            raise


def load(lake, catalog, day):
    """The key makes a day's load one snapshot, whatever happens: after a lost answer the second one is the first's."""
    rows = "id,day,amount\n" + "".join(f"{number},{day},{number}.50\n" for number in range(1, 6))
    done = lake.Append(
        catalog=catalog,
        operation={"schema": "sales", "table": "orders", "format": "csv", "text": rows},
        commit={"request_key": f"orders-{day}", "author": "lake.py", "message": f"orders of {day}"},
    )
    print(f"snapshot {done['snapshot_id']}" + (" (was there)" if done["replayed"] else f": {done['rows']} rows"))
    return done["snapshot_id"]


def correct(lake, catalog, day):
    """Delete and append as one snapshot, made from what we have seen. Who changed these rows since then makes it a conflict."""
    for _ in range(5):
        seen = lake.ListTables(catalog=catalog, schema="sales", without_columns=True)["snapshot_id"]
        operations = [
            {"delete": {"schema": "sales", "table": "orders", "where": f"id = 3 AND day = '{day}'"}},
            {"append": {"schema": "sales", "table": "orders", "format": "csv", "text": f"id,day,amount\n3,{day},100\n"}},
        ]
        try:
            return lake.Commit(
                catalog=catalog,
                operations=operations,
                commit={"request_key": f"correct-{day}-{seen}", "base_snapshot_id": seen, "message": "order 3"},
            )["snapshot_id"]
        except Refused as refusal:
            if refusal.reason != "CONFLICT":
                raise
            print(f"again: {refusal}", file=sys.stderr)  # nothing was changed: look at what is there now, and decide anew
    sys.exit("others change this table all the time")


def total(lake, catalog, at):
    answer = lake.Query(sql="SELECT count(*), CAST(sum(amount) AS VARCHAR) FROM sales.orders", catalog=catalog, at=str(at))
    count, amount = answer["rows"][0]
    return f"{count} orders, {amount}"


def main(url, catalog, day):
    lake = lake_of(url)
    prepare(lake, catalog)
    loaded = load(lake, catalog, day)
    corrected = correct(lake, catalog, day)
    print(f"loaded: {total(lake, catalog, loaded)}")  # a snapshot never changes
    print(f"corrected: {total(lake, catalog, corrected)}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])

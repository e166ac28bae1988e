#!/usr/bin/env python3
"""colony.py COLONY_URL - what a colony has collected, what is missing, and whether its ledger balances.

    tidemark colony --store colony.db --agent web-1=127.0.0.1:4317 &      # ready http=127.0.0.1:4320
    ./colony.py http://127.0.0.1:4320

Ends with 1 when a number is unexplained: that must not happen, and somebody should look.
"""

import sys

from tidemark_json import Service


def rows(colony, sql, limit=1000):
    answer = colony.Query(sql=sql, max_rows=limit)
    if answer["cut"]:
        print(f"only the first {limit} rows", file=sys.stderr)
    yield from answer["rows"]  # each a list of values


def gaps(colony):
    """All of them, page by page: behind the last id, so that none is missed or told twice while others come."""
    after = 0
    while True:
        page = colony.ListGaps(after_id=after, limit=100)
        for gap in page["gaps"]:
            yield gap
            after = gap["id"]
        if not page["more"]:
            return


def main(url):
    colony = Service(url, "tidemark.colony.v1.ColonyService")
    polled = colony.Poll(wait_ms=10000)  # what agents have now is here when this is answered
    print(f"{polled['caught_up']} of {polled['agents']} agents caught up")
    if polled["failed"] != 0:
        print(f"not all: {polled['failure']}", file=sys.stderr)

    for service, count in rows(colony, "SELECT service_name, count(*) FROM spans GROUP BY service_name ORDER BY 1"):
        print(f"{service}: {count} spans")

    for gap in gaps(colony):
        print(f"gap {gap['agent_id']} {gap['data_type']} {gap['start_seq_id']}..{gap['end_seq_id']} {gap['status']} ({gap['reason']})")

    audit = colony.Audit()
    for line in audit["lines"]:
        ledger = line["ledger"]
        if ledger["head"] != 0:
            print(f"ledger {line['agent_id']} {line['data_type']}: head {ledger['head']} stored {ledger['stored']} lost {ledger['lost']}")
    print("the ledger balances" if audit["balanced"] else "THE LEDGER DOES NOT BALANCE")
    return 0 if audit["balanced"] else 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))

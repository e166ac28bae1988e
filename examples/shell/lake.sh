#!/usr/bin/env bash
# lake.sh STORE CATALOG DAY - loads the orders of a day into a table, corrects one, and asks before and after. Needs tidemark and jq.
#
#     tidemark lake init --store lake.db --data lake-data
#     ./lake.sh lake.db shop 2026-01-29
#
# Run it again for the same day: nothing is loaded twice. Other clients and `lake serve` may be at work beside it.
set -euo pipefail
. "$(dirname "$0")/again.sh"
export TIDEMARK_STORE=$1
catalog=$2 day=$3
tidemark=${TIDEMARK:-tidemark}
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT

total() {
    "$tidemark" lake query 'SELECT count(*) AS n, CAST(sum(amount) AS VARCHAR) AS amount FROM sales.orders' --catalog "$catalog" --at "$1" --json |
        jq -r '"\(.n) orders, \(.amount)"'
}

# 4: it is there, or somebody makes it at this moment.
again "$tidemark" lake table create "$catalog.sales.orders" 'id BIGINT, day DATE, amount DECIMAL(18,2)' --create >/dev/null 2>&1 || [ $? = 4 ]

# The key makes a day's load one snapshot, whatever happens: the second answer is the first's.
{
    echo id,day,amount
    for id in 1 2 3 4 5; do echo "$id,$day,$id.50"; done
} >"$files/orders.csv"
load() {
    "$tidemark" lake table append "$catalog.sales.orders" - --format csv --request-key "orders-$day" \
        --author lake.sh --message "orders of $day" --json <"$files/orders.csv"
}
loaded=$(again load)
jq -r 'if .replayed then "snapshot \(.snapshot_id) (was there)" else "snapshot \(.snapshot_id): \(.rows) rows" end' <<<"$loaded"

# Delete and append as one snapshot, or not at all. 4: somebody changed these rows meanwhile; nothing was changed, and we may decide anew.
printf 'id,day,amount\n3,%s,100\n' "$day" >"$files/correction.csv"
cat >"$files/operations.jsonl" <<END
{"op":"delete","table":"sales.orders","where":"id = 3 AND day = '$day'"}
{"op":"append","table":"sales.orders","file":"$files/correction.csv"}
END
for try in 1 2 3 4 5; do
    status=0
    key=$(cat /proc/sys/kernel/random/uuid) # of this try: repeated after 7 it is the same one, after 4 another
    corrected=$(again "$tidemark" lake commit "$catalog" --file "$files/operations.jsonl" --request-key "$key" --message 'order 3' --json) || status=$?
    [ $status = 4 ] || break
done
[ $status = 0 ] || exit $status

echo "loaded: $(total "$(jq .snapshot_id <<<"$loaded")")" # a snapshot never changes
echo "corrected: $(total "$(jq .snapshot_id <<<"$corrected")")"

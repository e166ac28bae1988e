#!/usr/bin/env bash
# replica.sh DB PEER WHO - an application with a SQLite file of its own, which shares its table with others. Needs tidemark, sqlite3 and jq.
#
#     tidemark replica serve other.db --listen 127.0.0.1:4321 &       # any node; ready grpc=127.0.0.1:4321
#     ./replica.sh notes.db 127.0.0.1:4321 ann
#
# The application writes plain SQL and knows nothing of replication: triggers log its changes in its own transactions.
set -euo pipefail
db=$1 peer=$2 who=${3//\'/\'\'}
tidemark=${TIDEMARK:-tidemark}
sql() { sqlite3 -bail -cmd '.timeout 10000' "$db" "$1"; }

# Keys that no two nodes make: an INTEGER PRIMARY KEY counted up on each of them would name different notes alike.
sql 'CREATE TABLE IF NOT EXISTS notes (id TEXT NOT NULL PRIMARY KEY, author TEXT, text TEXT)'
"$tidemark" replica track "$db" notes >/dev/null # again: nothing, or triggers are put right

# One transaction here is one transaction at the peers.
sql "BEGIN IMMEDIATE;
     INSERT INTO notes VALUES ('$who-1', '$who', 'note 1 of $who'), ('$who-2', '$who', 'note 2 of $who'), ('$who-3', '$who', 'note 3 of $who')
         ON CONFLICT (id) DO UPDATE SET text = excluded.text;
     COMMIT"

# 0 means proven: everything that either side had when it began is at both. 6: the peer is away; changes stay in the log until it is back.
for try in 1 2 3 4 5; do
    status=0
    told=$("$tidemark" replica sync "$db" "$peer" --json) || status=$?
    [ $status = 6 ] || break
    sleep "$try"
done
[ $status = 0 ] || exit $status
jq -r '"pulled \(.pulled) pushed \(.pushed)"' <<<"$told"

sql "SELECT author || ': ' || count(*) || ' notes' FROM notes GROUP BY author ORDER BY author"
"$tidemark" replica conflicts "$db" --json | sed 's/^/conflict /' # each column goes to its last writer; what lost is kept for people

#!/usr/bin/env bash
# colony.sh COLONY_URL - what a colony has collected, what is missing, and whether its ledger balances. Needs tidemark and jq.
#
#     tidemark colony --store colony.db --agent web-1=127.0.0.1:4317 &      # ready http=127.0.0.1:4320
#     ./colony.sh http://127.0.0.1:4320
#
# Ends with 1 when a number is unexplained: that must not happen, and somebody should look.
set -euo pipefail
export TIDEMARK_ADDRESS=${1#http://} # where all the commands below ask
tidemark=${TIDEMARK:-tidemark}

"$tidemark" colony poll --once # what agents have now is here when this ends; 6: one could not be reached

"$tidemark" query 'SELECT service_name AS name, count(*) AS n FROM spans GROUP BY service_name ORDER BY 1' --json |
    jq -r '"\(.name): \(.n) spans"'

"$tidemark" gaps ls --json |
    jq -r '"gap \(.agent_id) \(.data_type) \(.start_seq_id)..\(.end_seq_id) \(.status) (\(.reason))"'

status=0
ledger=$("$tidemark" colony audit --json) || status=$? # 8: it does not balance
jq -r 'select(.ledger.head > 0) | "ledger \(.agent_id) \(.data_type): head \(.ledger.head) stored \(.ledger.stored) lost \(.ledger.lost)"' <<<"$ledger"
case $status in
0) echo 'the ledger balances' ;;
8) echo 'THE LEDGER DOES NOT BALANCE' && exit 1 ;;
*) exit "$status" ;;
esac

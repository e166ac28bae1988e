#!/usr/bin/env bash
# work.sh STORE add ITEM PAGES - adds an item of so many pages.
# work.sh STORE run EFFECTS_FILE [OPTION...] - works on items; options of `tidemark work run` (--worker, --lease, --limit, ...).
#
#     ./work.sh work.db add invoice-7 20
#     ./work.sh work.db run effects.txt
#
# Stop it, kill it or freeze it at any point and start another: it goes on behind the last page. Workers put back what lost its worker
# once a minute; who cannot wait calls `tidemark work sweep`. Needs tidemark and jq.
set -euo pipefail
. "$(dirname "$0")/again.sh"
export TIDEMARK_STORE=$1
verb=$2 subject=$3
shift 3
tidemark=${TIDEMARK:-tidemark}

case $verb in
add)
    again "$tidemark" task create 'invoices of the month' --task invoices >/dev/null 2>&1 || [ $? = 4 ] # somebody was first: fine
    # An id of our own makes this repeatable: an item that is there already is not added twice.
    again "$tidemark" work add --task invoices --type invoice --work-item "$subject" --input "{\"pages\":$1}" --json |
        jq -r 'if .is_existing then "was there" else "added" end'
    ;;
run)
    # Claims, renews leases, retries and resumes; the program that does the work needs to know of one item only.
    exec "$tidemark" work run --type invoice --drain 0s "$@" -- "$(dirname "$0")/work_item.sh" "$subject"
    ;;
esac

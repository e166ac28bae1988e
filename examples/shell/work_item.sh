#!/usr/bin/env bash
# work_item.sh EFFECTS_FILE - one item, started by `tidemark work run` (see work.sh): its input on stdin, what it is in the environment.
# Says what it does on stderr; stdout is the item's output.
set -euo pipefail
effects=$1
item=$TIDEMARK_WORK_ITEM_ID
tidemark=${TIDEMARK:-tidemark}
pages=$(jq .pages)

not_now=75 # given back without spending an attempt
trap 'echo released >&2; exit $not_now' TERM

page=0 # or where the attempt before has come to
if [ -n "${TIDEMARK_CHECKPOINT_FILE:-}" ]; then page=$(jq .page "$TIDEMARK_CHECKPOINT_FILE"); fi
echo "$item attempt $TIDEMARK_ATTEMPT behind page $page" >&2

while [ "$page" -lt "$pages" ]; do
    page=$((page + 1))
    sleep 0.05 # the work itself
    status=0
    "$tidemark" work checkpoint --data "{\"page\":$page}" >/dev/null 2>&1 || status=$?
    if [ $status = 4 ]; then # refused: another may be at it by now, and nothing is to be put right
        echo "$item lease lost" >&2
        exit $not_now
    fi
    [ $status = 0 ] || exit $status # the attempt has failed, and is repeated from the last page
    echo "page $page" >&2
done

# What the outside world sees (a mail, a payment) is done once under a key, and its answer is kept. 6: somebody else is at it.
status=0
"$tidemark" idempotency run --scope invoice --key "$item" --request "$pages" -- \
    sh -c 'printf "%s %s pages\n" "$1" "$2" >>"$3" && printf "{\"sent\":\"%s\"}\n" "$1"' sh "$item" "$pages" "$effects" || status=$?
[ $status != 6 ] || exit $not_now
[ $status = 0 ] || exit $status
echo "$item finished" >&2

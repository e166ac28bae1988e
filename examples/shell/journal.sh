#!/usr/bin/env bash
# journal.sh STORE POSITION_FILE TASK [STEP...] - appends a checkpoint per step, then follows the journal from where it last stood.
#
#     ./journal.sh work.db position draft outline text review
#
# Needs tidemark and jq.
set -euo pipefail
. "$(dirname "$0")/again.sh"
export TIDEMARK_STORE=$1
position_file=$2 task=$3
shift 3
tidemark=${TIDEMARK:-tidemark}

again "$tidemark" task create "$task" --task "$task" >/dev/null 2>&1 || [ $? = 4 ] # it is there: fine

done='[]'
for step in "$@"; do
    done=$(jq -c --arg step "$step" '. + [$step]' <<<"$done")
    again "$tidemark" checkpoint add --task "$task" --key "$task-$step" --data "{\"done\":$done}" --message "$step" --json |
        jq -r --arg step "$step" --arg task "$task" '"\($step): \(.sequence_number) of \($task)\(if .is_existing then " (was there)" else "" end)"'
done

if [ $# -gt 1 ]; then
    "$tidemark" checkpoint diff "$task-$1" "$task-${!#}" --json | jq -r '"\(.kind) \(.path) \(.after | tojson)"'
fi

# A reader that has seen n has seen everything below n: this one number is the whole position. (With --follow it would not end.)
position=$(cat "$position_file" 2>/dev/null || echo 0)
"$tidemark" checkpoint tail --from $((position + 1)) --json | jq -c 'select(.event == "created") | .checkpoint' |
    while read -r event; do
        jq -r '"\(.global_sequence) \(.task_id) \(.message)"' <<<"$event"
        jq .global_sequence <<<"$event" >"$position_file.new" && mv "$position_file.new" "$position_file" # behind the work
    done

#!/usr/bin/env bash
# telemetry.sh AGENT_URL POSITION_FILE - sends three spans to an agent, then reads what is new there. Needs curl and jq.
#
#     tidemark agent --store agent.db &           # ready grpc=127.0.0.1:4317 http=127.0.0.1:4318
#     ./telemetry.sh http://127.0.0.1:4318 position.json
#
# Run it again: it goes on behind the last span that it has read.
set -euo pipefail
url=$1 position_file=$2

# One call. Sent again after passing trouble and after a lost answer: who reads twice, or sends a span twice, does no harm.
post() {
    curl --silent --show-error --fail-with-body --max-time 70 --retry 6 --retry-all-errors --retry-delay 1 \
        --header 'content-type: application/json' --data-binary @- "$url/$1"
}

hex() { od -An -N"$1" -tx1 /dev/urandom | tr -d ' \n'; }

# OTLP as JSON. Answered means on disk at the agent. After a lost answer the same spans may be there twice, under two numbers, and are never
# missing; their span ids are the same, so a reader that must count exactly can tell.
send() {
    local start end trace span
    start=$(date +%s%N)
    end=$((start + 12000000))
    trace=$(hex 16)
    for span in "$@"; do
        jq -n --arg trace "$trace" --arg id "$(hex 8)" --arg name "$span" --arg begun "$start" --arg ended "$end" \
            '{traceId: $trace, spanId: $id, name: $name, kind: 2, startTimeUnixNano: $begun, endTimeUnixNano: $ended}'
    done | jq -s '{resourceSpans: [{
            resource: {attributes: [{key: "service.name", value: {stringValue: "checkout"}}]},
            scopeSpans: [{spans: .}]}]}' | post v1/traces >/dev/null
}

# A position says whose numbers ours are (session, epoch), and up to which one everything was read.
start='{"session":"","epoch":"0","epochId":"","seq":"0"}'
position=$(cat "$position_file" 2>/dev/null || printf '%s' "$start")

# One page. A reader with a name keeps what it has not read from being dropped.
ask() {
    jq '{startSeqId: .seq, position: {reader: "example-shell", epoch, epochId}}' <<<"$position" |
        post tidemark.agent.v1.AgentService/QueryTelemetry
}

read_new() {
    local page more=true
    while [ "$more" = true ]; do
        page=$(ask)
        if jq -e --argjson known "$position" \
            '.state.standing == "STANDING_DIVERGED" or ($known.session != "" and $known.session != .sessionId)' <<<"$page" >/dev/null; then
            echo 'another history: reading from its beginning' >&2
            position=$start
            continue
        fi
        # Numbers that will never come, and why: a fact, not a guess.
        jq -r '.state.holes[] | "lost \(.firstSeqId)..\(.lastSeqId): \(.reason)"' <<<"$page" >&2
        jq -r '.spans[] | "span \(.seqId) \(.serviceName) \(.spanName) \(.durationMs) ms"' <<<"$page"
        # scannedThrough and not the last span's number: it is right also when the page is empty.
        position=$(jq -c '{session: .sessionId, epoch: .state.epoch, epochId: .state.epochId, seq: .state.scannedThroughSeqId}' <<<"$page")
        # Behind the work, and by renaming: a crash repeats a page and skips nothing.
        printf '%s' "$position" >"$position_file.new" && sync "$position_file.new" && mv "$position_file.new" "$position_file"
        more=$(jq .state.more <<<"$page")
    done
}

send 'GET /cart' 'POST /order' 'GET /receipt'
read_new

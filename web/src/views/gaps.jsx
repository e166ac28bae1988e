// Every missing number: where, since when, what became of it.
import { colony, quote, select } from "../api.js";
import { ago, count, micros, when, word } from "../format.js";
import { useAsked } from "../hooks.js";
import { Act, Filter, State, Table, Text, View } from "../parts.jsx";
import { address, place } from "../place.js";

const SHOWN = 500;
const STATES = ["detected", "recovering", "recovered", "void", "permanent"];

const width = (gap) => BigInt(gap.endSeqId) - BigInt(gap.startSeqId) + 1n;

function Timeline({ gaps }) {
  if (!gaps.length) return null;
  const now = Date.now() / 1000;
  const from = Math.min(...gaps.map((gap) => micros(gap.detectedAtUs)));
  const span = Math.max(1, now - from);
  const end = (gap) => (Number(gap.settledAtUs) > 0 ? micros(gap.settledAtUs) : now);
  return (
    <figure class="timeline">
      <figcaption>When gaps were open, from {when(from * 1e6)} until now</figcaption>
      <svg viewBox={`0 0 1000 ${gaps.length * 14}`} role="img" aria-label={`${gaps.length} gaps over time; the table below says the same`} preserveAspectRatio="none">
        {gaps.map((gap, row) => {
          const left = ((micros(gap.detectedAtUs) - from) / span) * 1000;
          return <rect key={gap.id} class={`bar bar-${gap.status}`} x={left} y={row * 14 + 2} height={10} width={Math.max(4, ((end(gap) - from) / span) * 1000 - left)} rx={2} />;
        })}
      </svg>
    </figure>
  );
}

// The service lists from the oldest on: the newest are asked for from the number behind which they lie.
async function askNewest({ status, agent, type }, abort) {
  const terms = [status && `status = ${quote(status)}`, agent && `agent_id = ${quote(agent)}`, type && `data_type = ${quote(type)}`].filter(Boolean);
  const where = terms.length ? `WHERE ${terms.join(" AND ")}` : "";
  const first = await select(`SELECT id FROM sequence_gaps ${where} ORDER BY id DESC LIMIT 1 OFFSET ${SHOWN}`, abort);
  return colony("ListGaps", { agentId: agent || "", dataType: type || "", statuses: status ? [status] : [], afterId: String(first.rows[0]?.[0] ?? 0), limit: SHOWN }, abort);
}

export function Gaps() {
  const { status, agent, type } = place.value.filters;
  const asked = useAsked((abort) => askNewest({ status, agent, type }, abort), [status, agent, type], ["colony"]);
  const gaps = (asked.data?.gaps || []).slice().reverse();
  const change = (method, id, extra) => async () => {
    await colony(method, { id, ...extra });
    asked.refresh();
  };
  return (
    <View title="Gaps" what="a colony" asked={asked} command={`tidemark gaps ls${agent ? ` --agent ${word(agent)}` : ""}${status ? ` --status ${status}` : ""}`}>
      <div class="filters">
        <Filter name="status" label="state" options={STATES} />
        {(agent || type) && <a href={address("gaps", [], { status })}>of all agents</a>}
      </div>
      <Timeline gaps={gaps.slice(0, 60)} />
      <Table caption="Gaps, newest first" rows={gaps} rowKey={(row) => row.id} empty="No number is missing." columns={[
        { name: "id", align: "right" },
        { name: "agentId", title: "agent", cell: (row) => <a href={address("agent", [row.agentId])}><Text value={row.agentId} max={60} /></a> },
        { name: "dataType", title: "data type" },
        { name: "range", cell: (row) => `${count(row.startSeqId)} – ${count(row.endSeqId)}` },
        { name: "width", align: "right", cell: (row) => count(String(width(row))) },
        { name: "status", title: "state", cell: (row) => <State value={row.status} /> },
        { name: "reason", cell: (row) => <Text value={[row.reason, row.evidence].filter(Boolean).join(": ")} max={120} /> },
        { name: "attempts", align: "right", cell: (row) => row.recoveryAttempts ?? 0 },
        { name: "detected", cell: (row) => ago(row.detectedAtUs) },
        { name: "act", title: <span class="unseen">what can be done</span>, cell: (row) => row.status === "recovered" || row.status === "void" ? null : (
          <span class="acts">
            <Act run={change("RetryGap", row.id)}>retry</Act>
            {row.status !== "permanent" && <Act confirm={`Accept the loss of ${width(row)} numbers of ${row.agentId}?`} run={change("AcceptGap", row.id, { note: "dashboard" })}>accept</Act>}
          </span>
        ) },
      ]} />
    </View>
  );
}

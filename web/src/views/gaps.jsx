// Every missing number: where, since when, what became of it.
import { colony, quote, select } from "../api.js";
import { ago, count, seconds, plain, word } from "../format.js";
import { useAsked } from "../hooks.js";
import { Lanes } from "../lanes.jsx";
import { Act, Filter, State, Table, Text, View } from "../parts.jsx";
import { address, place } from "../place.js";

const SHOWN = 500;
const LINES = 12; // of the timeline
const STATES = ["detected", "recovering", "recovered", "void", "permanent"];

const LEGEND = [["detected", "open: detected, recovering"], ["recovered", "recovered"], ["void", "void"], ["permanent", "permanent: lost, with a reason"]];

const width = (gap) => BigInt(gap.end_seq_id) - BigInt(gap.start_seq_id) + 1n;

// A line per agent and type, those with the newest gaps first.
function Timeline({ gaps }) {
  if (!gaps.length) return null;
  const now = Date.now() / 1000;
  const rows = new Map();
  for (const gap of gaps) {
    const key = `${gap.agent_id} ${gap.data_type}`;
    if (!rows.has(key)) rows.set(key, { key, label: <a href={address("gaps", [], { agent: gap.agent_id, type: gap.data_type })}><Text value={key} max={60} /></a>, bars: [] });
    const until = seconds(gap.settled_at) || now;
    rows.get(key).bars.push({ key: gap.id, from: seconds(gap.detected_at), until, tone: gap.status, title: `${plain(key)} ${gap.start_seq_id} – ${gap.end_seq_id}: ${gap.status}` });
  }
  const shown = [...rows.values()].slice(0, LINES);
  const from = Math.min(...shown.flatMap((row) => row.bars.map((bar) => bar.from)));
  return (
    <>
      <Lanes caption={`When gaps were open${rows.size > LINES ? `; the ${LINES} agents and types with the newest` : ""}`} rows={shown} from={from} until={now} words={(row) => `${plain(row.key)}: ${row.bars.length} gaps; the table below says the same`} />
      <p class="legend">{LEGEND.map(([state, words]) => <span key={state}><i class={`swatch bar-${state}`} />{words}</span>)}</p>
    </>
  );
}

// The service lists from the oldest on: the newest are asked for from the number behind which they lie.
async function askNewest({ status, agent, type }, abort) {
  const terms = [status && `status = ${quote(status)}`, agent && `agent_id = ${quote(agent)}`, type && `data_type = ${quote(type)}`].filter(Boolean);
  const where = terms.length ? `WHERE ${terms.join(" AND ")}` : "";
  const first = await select(`SELECT id FROM sequence_gaps ${where} ORDER BY id DESC LIMIT 1 OFFSET ${SHOWN}`, abort);
  return colony("ListGaps", { agent_id: agent || "", data_type: type || "", statuses: status ? [status] : [], after_id: first.rows[0]?.[0] ?? 0, limit: SHOWN }, abort);
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
    <View title="Gaps" what="a colony" asked={asked} command={`tidemark gaps ls${agent ? ` --agent ${word(agent)}` : ""}${type ? ` --data-type ${word(type)}` : ""}${status ? ` --status ${word(status)}` : ""}`}>
      <div class="filters">
        <Filter name="status" label="state" options={STATES} />
        {(agent || type) && <a href={address("gaps", [], { status })}>of all agents</a>}
      </div>
      <Timeline gaps={gaps} />
      <Table caption="Gaps, newest first" rows={gaps} rowKey={(row) => row.id} empty="No number is missing." columns={[
        { name: "id", align: "right" },
        { name: "agent_id", title: "agent", cell: (row) => <a href={address("agent", [row.agent_id])}><Text value={row.agent_id} max={60} /></a> },
        { name: "data_type", title: "data type" },
        { name: "range", cell: (row) => `${count(row.start_seq_id)} – ${count(row.end_seq_id)}` },
        { name: "width", align: "right", cell: (row) => count(String(width(row))) },
        { name: "status", title: "state", cell: (row) => <State value={row.status} /> },
        { name: "reason", cell: (row) => <Text value={[row.reason, row.evidence].filter(Boolean).join(": ")} max={120} /> },
        { name: "attempts", align: "right", cell: (row) => row.recovery_attempts ?? 0 },
        { name: "detected", cell: (row) => ago(row.detected_at) },
        { name: "act", title: <span class="unseen">what can be done</span>, cell: (row) => row.status === "recovered" || row.status === "void" ? null : (
          <span class="acts">
            <Act run={change("RetryGap", row.id)}>retry</Act>
            {row.status !== "permanent" && <Act confirm={`Accept the loss of ${width(row)} numbers of ${row.agent_id}?`} run={change("AcceptGap", row.id, { note: "dashboard" })}>accept</Act>}
          </span>
        ) },
      ]} />
    </View>
  );
}

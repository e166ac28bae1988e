// What agents have told: spans with their traces, metrics over time, profiles as flames.
import { quote, select } from "../api.js";
import { Chart } from "../chart.jsx";
import { bytes, count, duration, plain, word } from "../format.js";
import { SLOW_MS, useAsked } from "../hooks.js";
import { Table, Text, View } from "../parts.jsx";
import { address, place, setFilter } from "../place.js";

const TABS = ["spans", "metrics", "cpu", "memory"];
// Names come from senders of telemetry: in a shell each is one quoted argument.
const sqlCommand = (sql) => `tidemark query ${word(sql)}`;
const parse = (text) => Date.parse(`${String(text).replace(" ", "T").slice(0, 23)}Z`) / 1000;

function Spans() {
  const asked = useAsked((abort) => select(
    "SELECT timestamp, trace_id, service_name, span_name, duration_ms, is_error, agent_id FROM spans ORDER BY timestamp DESC LIMIT 100", abort), [], ["colony"]);
  const rows = asked.data?.rows || [];
  return (
    <View title="Spans" what="a colony's rows" asked={asked} command={sqlCommand("SELECT * FROM spans ORDER BY timestamp DESC LIMIT 100")}>
      <Table caption="Spans, newest first" rows={rows} empty="No spans yet." columns={[
        { name: "time", cell: (row) => String(row[0]).slice(11, 23) },
        { name: "trace", cell: (row) => <a href={address("telemetry", ["trace", row[1]])}><code><Text value={row[1]} max={12} /></code></a> },
        { name: "service", cell: (row) => <Text value={row[2]} max={40} /> },
        { name: "span", cell: (row) => <Text value={row[3]} max={60} /> },
        { name: "took", align: "right", cell: (row) => duration(Number(row[4]) / 1000) },
        { name: "outcome", cell: (row) => (Number(row[5]) ? <span class="failure">error</span> : "ok") },
        { name: "agent", cell: (row) => <a href={address("agent", [row[6]])}><Text value={row[6]} max={40} /></a> },
      ]} />
    </View>
  );
}

// Children under their parents, by start.
function order(spans) {
  const known = new Set(spans.map((span) => span.id));
  const under = new Map();
  for (const span of spans) {
    const parent = known.has(span.parent) && span.parent !== span.id ? span.parent : "";
    under.set(parent, [...(under.get(parent) || []), span]);
  }
  const out = [];
  const seen = new Set();
  const walk = (parent, depth) => {
    for (const span of (under.get(parent) || []).sort((a, b) => a.start - b.start)) {
      if (seen.has(span.id) || depth > 64) continue;
      seen.add(span.id);
      out.push({ ...span, depth });
      walk(span.id, depth + 1);
    }
  };
  walk("", 0);
  return out.concat(spans.filter((span) => !seen.has(span.id)).map((span) => ({ ...span, depth: 0 })));
}

function Trace({ id }) {
  const asked = useAsked((abort) => select(
    `SELECT span_id, parent_span_id, service_name, span_name, timestamp, duration_ms, is_error FROM spans WHERE trace_id = ${quote(id)} LIMIT 1000`, abort), [id], []);
  const spans = order((asked.data?.rows || []).map((row) => (
    { id: row[0], parent: row[1] || "", service: row[2], name: row[3], start: parse(row[4]), length: Number(row[5]) / 1000, isError: !!Number(row[6]) })));
  const from = Math.min(...spans.map((span) => span.start));
  const total = Math.max(0.000001, Math.max(...spans.map((span) => span.start + span.length)) - from);
  return (
    <View title={<>Trace <Text value={id} max={32} /></>} what="a colony's rows" asked={asked} command={sqlCommand(`SELECT * FROM spans WHERE trace_id = ${quote(id)}`)}>
      {asked.data && !spans.length && <p class="note">No span of this trace is here: it was not read yet, or its rows have expired.</p>}
      <ol class="waterfall" aria-label="spans of the trace">
        {spans.map((span) => (
          <li key={span.id}>
            <span class="waterfall-name" style={{ paddingLeft: `${span.depth * 14}px` }}><b><Text value={span.service} max={30} /></b> <Text value={span.name} max={60} /></span>
            <span class="waterfall-lane">
              <span class={`waterfall-bar ${span.isError ? "is-error" : ""}`} style={{ left: `${((span.start - from) / total) * 100}%`, width: `${Math.max(0.3, (span.length / total) * 100)}%` }} />
            </span>
            <span class="number">{duration(span.length)}</span>
          </li>
        ))}
      </ol>
    </View>
  );
}

function Metrics() {
  const chosen = place.value.filters.metric;
  const names = useAsked((abort) => select("SELECT metric_name, count(*) FROM system_metrics GROUP BY metric_name ORDER BY metric_name LIMIT 500", abort), [], []);
  const list = (names.data?.rows || []).map((row) => row[0]);
  const metric = chosen || list.find((name) => /cpu/.test(name)) || list[0];
  const values = useAsked(async (abort) => metric ? select(
    `SELECT timestamp, agent_id, value FROM system_metrics WHERE metric_name = ${quote(metric)} ORDER BY timestamp DESC LIMIT 1000`, abort) : null, [metric], ["colony"], SLOW_MS);
  const rows = (values.data?.rows || []).slice().reverse();
  const agents = [...new Set(rows.map((row) => row[1]))].slice(0, 8);
  const times = [...new Set(rows.map((row) => parse(row[0])))];
  const series = agents.map((agent) => {
    const byTime = new Map(rows.filter((row) => row[1] === agent).map((row) => [parse(row[0]), Number(row[2])]));
    return { name: plain(agent).slice(0, 40), values: times.map((time) => byTime.get(time) ?? null) };
  });
  return (
    <View title="Metrics" what="a colony's rows" asked={names} command={sqlCommand(`SELECT timestamp, agent_id, value FROM system_metrics WHERE metric_name = ${quote(metric || "")}`)}>
      <label class="filter">metric
        <select value={metric} onChange={(event) => setFilter("metric", event.currentTarget.value)}>
          {list.map((name) => <option key={name} value={name}>{plain(name)}</option>)}
        </select>
      </label>
      <Chart title={plain(metric || "")} times={times} series={series} height={280} isMerged />
    </View>
  );
}

// Frames of a sample stand root first; equal beginnings share a box.
function flame(samples) {
  const root = { name: "all", value: 0, under: new Map() };
  for (const { frames, value } of samples) {
    root.value += value;
    let node = root;
    for (const name of frames) {
      if (!node.under.has(name)) node.under.set(name, { name, value: 0, under: new Map() });
      node = node.under.get(name);
      node.value += value;
    }
  }
  return root;
}

function boxes(node, left, depth, total, out) {
  if (node.value / total < 0.002 || depth > 60) return out;
  out.push({ node, left, depth, width: node.value / total });
  let at = left;
  for (const child of [...node.under.values()].sort((a, b) => b.value - a.value)) {
    boxes(child, at, depth + 1, total, out);
    at += child.value / total;
  }
  return out;
}

const PROFILES = {
  cpu: { table: "cpu_profile_samples", value: "sample_count", title: "CPU", unit: (total) => `${count(total)} samples` },
  memory: { table: "memory_profile_samples", value: "alloc_bytes", title: "Memory", unit: (total) => `${bytes(total)} allocated` },
};

function frameIds(text) {
  return String(text ?? "").replace(/[[\]{}]/g, "").split(",").map((id) => id.trim()).filter(Boolean);
}

function Profile({ kind }) {
  const { table, value, title, unit } = PROFILES[kind];
  const asked = useAsked(async (abort) => {
    const samples = await select(`SELECT agent_id, session_id, stack_frame_ids, ${value} FROM ${table} ORDER BY timestamp DESC LIMIT 5000`, abort, 5000);
    const frames = await select("SELECT agent_id, session_id, frame_id, frame_name FROM profile_frames LIMIT 10000", abort, 10000);
    const names = new Map(frames.rows.map((row) => [`${row[0]} ${row[1]} ${row[2]}`, row[3]]));
    return samples.rows.map((row) => ({
      frames: frameIds(row[2]).map((id) => names.get(`${row[0]} ${row[1]} ${id}`) || `frame ${id}`).reverse(),
      value: Number(row[3]) || 0,
    }));
  }, [kind], ["colony"], SLOW_MS);
  const root = flame(asked.data || []);
  const drawn = root.value ? boxes(root, 0, 0, root.value, []) : [];
  const depth = Math.max(0, ...drawn.map((box) => box.depth));
  return (
    <View title={`${title} profile`} what="a colony's rows" asked={asked} command={sqlCommand(`SELECT * FROM ${table} LIMIT 100`)}>
      {drawn.length > 0 && <p class="soft">The newest {count(asked.data.length)} stacks, {unit(root.value)} in all; the wider, the more. The root is at the top.</p>}
      {drawn.length ? (
        <div class="flame scroll" role="img" tabIndex={0} aria-label={`${title} flame graph of ${asked.data.length} samples`} style={{ height: `${(depth + 1) * 20}px` }}>
          {drawn.map(({ node, left, depth: row, width }, index) => (
            <span key={index} class={`flame-box flame-${[...node.name].reduce((sum, c) => sum + c.charCodeAt(0), 0) % 5}`} title={`${plain(node.name)}: ${((node.value / root.value) * 100).toFixed(1)} %, ${unit(node.value)}`}
              style={{ left: `${left * 100}%`, width: `${width * 100}%`, top: `${row * 20}px` }}>{plain(node.name)}</span>
          ))}
        </div>
      ) : <p class="note">No samples yet.</p>}
    </View>
  );
}

export function Telemetry({ parts }) {
  const tab = parts[0] || "spans";
  return (
    <>
      <nav class="tabs" aria-label="telemetry">
        {TABS.map((name) => <a key={name} href={address("telemetry", [name])} aria-current={tab === name || (tab === "trace" && name === "spans") ? "page" : undefined}>{name === "cpu" || name === "memory" ? `${name} profile` : name}</a>)}
      </nav>
      {tab === "trace" ? <Trace id={parts[1] || ""} /> : tab === "metrics" ? <Metrics /> : tab === "cpu" || tab === "memory" ? <Profile kind={tab} /> : <Spans />}
    </>
  );
}

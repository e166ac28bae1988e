// One agent: its checkpoints against its heads, over time, and its sessions and epochs.
import { useEffect, useState } from "preact/hooks";
import { Chart } from "../chart.jsx";
import { colony } from "../api.js";
import { ago, count, duration, plain, seconds, when, word } from "../format.js";
import { useAsked } from "../hooks.js";
import { Act, State, Table, Text, View } from "../parts.jsx";
import { address, place, setFilter } from "../place.js";

const KEPT = 600; // points of a chart

const ask = async (agent_id, abort) => {
  const [checkpoints, agents] = await Promise.all([
    colony("ListCheckpoints", { agent_id, with_closed: true }, abort),
    colony("ListAgents", { with_removed: true }, abort),
  ]);
  return {
    checkpoints: checkpoints.checkpoints || [],
    agent: (agents.agents || []).find((one) => one.agent_id === agent_id),
  };
};

const isCurrent = (checkpoint) => checkpoint.closed_at === null;
const unread = (checkpoint) => Number(checkpoint.ledger?.pending ?? 0);

// What the colony remembers of the time before: its looks are the same for all data types.
function remembered(courses) {
  const times = [...new Set(courses.flatMap((course) => course.times.map(seconds)))].sort((a, b) => a - b);
  const at = new Map(times.map((time, index) => [time, index]));
  const byType = {};
  for (const course of courses) {
    const points = Array(times.length).fill({});
    course.times.forEach((time, index) => {
      const checkpoint = Number(course.last_seq_id[index]);
      const head = Number(course.head_seq_id[index]);
      points[at.get(seconds(time))] = { checkpoint, head, unread: Math.max(0, head - checkpoint) };
    });
    byType[course.data_type] = points;
  }
  return { times, byType };
}

// The past as the colony remembers it, and from then on what the page sees.
function useSeen(name, checkpoints) {
  const [seen, setSeen] = useState({ times: [], byType: {} });
  useEffect(() => {
    const abort = new AbortController();
    setSeen({ times: [], byType: {} });
    colony("CheckpointHistory", { agent_id: name }, abort.signal).then(
      ({ courses }) => setSeen((since) => {
        const before = remembered(courses || []);
        const byType = {};
        for (const type of new Set([...Object.keys(before.byType), ...Object.keys(since.byType)])) {
          const none = (times) => Array(times.length).fill({});
          byType[type] = [...(before.byType[type] || none(before.times)), ...(since.byType[type] || none(since.times))];
        }
        return { times: [...before.times, ...since.times], byType };
      }),
      () => {}, // an older colony: the page begins with the present
    );
    return () => abort.abort();
  }, [name]);
  useEffect(() => {
    if (!checkpoints?.length) return;
    setSeen((before) => {
      const times = [...before.times, Date.now() / 1000].slice(-KEPT);
      const byType = {};
      for (const checkpoint of checkpoints.filter(isCurrent)) {
        const old = before.byType[checkpoint.data_type] || Array(before.times.length).fill({});
        const now = { unread: unread(checkpoint), checkpoint: Number(checkpoint.last_seq_id), head: Number(checkpoint.ledger?.head ?? 0) };
        byType[checkpoint.data_type] = [...old, now].slice(-KEPT);
      }
      return { times, byType };
    });
  }, [checkpoints]);
  return seen;
}

const line = (name, points, field) => ({ name, values: points.map((point) => point[field] ?? null) });

function Course({ seen, checkpoints }) {
  const busiest = checkpoints.slice().sort((a, b) => Number(b.ledger?.head ?? 0) - Number(a.ledger?.head ?? 0))[0]?.data_type;
  const type = place.value.filters.type || busiest || "";
  const points = seen.byType[type] || [];
  return (
    <>
      <label class="filter">data type
        <select value={type} onChange={(event) => setFilter("type", event.currentTarget.value)}>
          {Object.keys(seen.byType).sort().map((name) => <option key={name} value={name}>{plain(name)}</option>)}
        </select>
      </label>
      <Chart title={`Checkpoint against head of ${plain(type)}, of the last minutes`} times={points.length ? seen.times : []} series={[{ ...line("head", points, "head"), width: 5 }, line("checkpoint", points, "checkpoint")]} />
      <Chart title="Records behind the head, all data types" times={seen.times} series={Object.entries(seen.byType).map(([name, all]) => line(name, all, "unread"))} />
    </>
  );
}

// How far the agent's clock was from ours at the last answer.
function Skew({ checkpoints }) {
  const last = checkpoints.filter((one) => one.agent_now).sort((a, b) => seconds(b.last_poll_time) - seconds(a.last_poll_time))[0];
  if (!last) return "not known";
  const ahead = seconds(last.agent_now) - seconds(last.last_poll_time);
  return `${duration(Math.abs(ahead))} ${ahead >= 0 ? "ahead of" : "behind"} ours${Math.abs(ahead) < 1 ? ", the way included" : ""}`;
}

// One line per session and epoch, whatever the data types; the newest first.
function sessionsOf(checkpoints) {
  const all = new Map();
  for (const one of checkpoints) {
    const key = `${one.session_id} ${one.epoch}`;
    const known = all.get(key) || { key, session_id: one.session_id, epoch: one.epoch, began: Infinity, closed: 0, reasons: new Set(), records: 0n, types: 0, isCurrent: false };
    known.began = Math.min(known.began, seconds(one.created_at));
    known.closed = Math.max(known.closed, seconds(one.closed_at));
    known.isCurrent ||= isCurrent(one);
    known.records += BigInt(one.ledger?.stored ?? 0);
    known.types++;
    if (one.closed_reason) known.reasons.add(one.closed_reason);
    all.set(key, known);
  }
  return [...all.values()].sort((a, b) => b.began - a.began);
}

const Sessions = ({ checkpoints }) => (
  <Table caption="Sessions and epochs, newest first" rows={sessionsOf(checkpoints)} rowKey={(row) => row.key} empty="Nothing was read from it yet." columns={[
    { name: "state", cell: (row) => <State value={row.isCurrent ? "current" : "ended"} /> },
    { name: "session_id", title: "session", cell: (row) => <code><Text value={row.session_id} max={36} /></code> },
    { name: "epoch", align: "right" },
    { name: "types", title: "data types", align: "right" },
    { name: "records", title: "records stored", align: "right", cell: (row) => count(String(row.records)) },
    { name: "began", title: "known since", cell: (row) => when(row.began) },
    { name: "closed", title: "ended", cell: (row) => (row.isCurrent ? "" : when(row.closed)) },
    { name: "why", cell: (row) => <Text value={[...row.reasons].join(", ")} max={80} /> },
  ]} />
);

export function Agent({ name }) {
  const asked = useAsked((abort) => ask(name, abort), [name], ["colony"]);
  const checkpoints = asked.data?.checkpoints;
  const seen = useSeen(name, checkpoints);
  const current = (checkpoints || []).filter(isCurrent);
  const agent = asked.data?.agent;
  return (
    <View title={<>Agent <Text value={name} max={80} /></>} what="a colony" asked={asked} command={`tidemark colony checkpoint ls ${word(name)}`}>
      {agent && (
        <dl class="facts">
          <dt>health</dt><dd><State value={agent.health} /></dd>
          <dt>address</dt><dd><code><Text value={agent.address} /></code></dd>
          <dt>seen</dt><dd>{ago(agent.seen_at)}</dd>
          <dt>polled by</dt><dd><Text value={agent.holder || "no colony"} /></dd>
          <dt>its clock</dt><dd><Skew checkpoints={current} /></dd>
          {agent.error && <><dt>last failure</dt><dd><Text value={agent.error} max={300} /> ({ago(agent.failed_at)})</dd></>}
        </dl>
      )}
      <Table caption="Checkpoint against head" rows={current} rowKey={(row) => row.data_type} empty="Nothing was read from it yet." columns={[
        { name: "data_type", title: "data type" },
        { name: "last", title: "checkpoint", align: "right", cell: (row) => count(row.last_seq_id) },
        { name: "head", align: "right", cell: (row) => count(row.ledger?.head) },
        { name: "pending", align: "right", cell: (row) => count(row.ledger?.pending) },
        { name: "stored", align: "right", cell: (row) => count(row.ledger?.stored) },
        { name: "lost", align: "right", cell: (row) => count(row.ledger?.lost) },
        { name: "gaps", title: "open gaps", align: "right", cell: (row) => <a href={address("gaps", [], { agent: name, type: row.data_type })}>{count(row.ledger?.open_gaps)}</a> },
        { name: "ledger", cell: (row) => (row.ledger?.unexplained === 0 ? "balanced" : <span class="failure">off by {row.ledger.unexplained}</span>) },
        { name: "polled", cell: (row) => ago(row.last_poll_time) },
        { name: "act", title: <span class="unseen">what can be done</span>, cell: (row) => (
          <Act confirm={`Read ${row.data_type} of ${name} again from its start? Rows that are stored are not stored twice.`}
            run={async () => { await colony("ResetCheckpoints", { agent_id: name, data_type: row.data_type }); asked.refresh(); }}>reset</Act>
        ) },
      ]} />
      <Course seen={seen} checkpoints={current} />
      <Sessions checkpoints={checkpoints || []} />
    </View>
  );
}

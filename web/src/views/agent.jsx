// One agent: its checkpoints against its heads, over time, and its sessions and epochs.
import { useEffect, useState } from "preact/hooks";
import { Chart } from "../chart.jsx";
import { colony, exact } from "../api.js";
import { ago, count, duration, plain, when, word } from "../format.js";
import { useAsked } from "../hooks.js";
import { Act, State, Table, Text, View } from "../parts.jsx";
import { address, place, setFilter } from "../place.js";

const KEPT = 600; // points of a chart

const ask = async (agentId, abort) => {
  const [checkpoints, agents] = await Promise.all([
    colony("ListCheckpoints", { agentId, withClosed: true }, abort),
    colony("ListAgents", { withRemoved: true }, abort),
  ]);
  return {
    checkpoints: checkpoints.checkpoints || [],
    agent: (agents.agents || []).find((one) => one.agentId === agentId),
  };
};

const isCurrent = (checkpoint) => checkpoint.closedAtUs === "0" || !checkpoint.closedAtUs;
const unread = (checkpoint) => Number(checkpoint.books?.pending ?? 0);

// What the colony remembers of the time before: its looks are the same for all data types.
function remembered(courses) {
  const times = [...new Set(courses.flatMap((course) => (course.timeMs || []).map(Number)))].sort((a, b) => a - b);
  const at = new Map(times.map((time, index) => [time, index]));
  const byType = {};
  for (const course of courses) {
    const points = Array(times.length).fill({});
    (course.timeMs || []).forEach((time, index) => {
      const checkpoint = Number(course.lastSeqId[index]);
      const head = Number(course.headSeqId[index]);
      points[at.get(Number(time))] = { checkpoint, head, unread: Math.max(0, head - checkpoint) };
    });
    byType[course.dataType] = points;
  }
  return { times: times.map((time) => time / 1000), byType };
}

// The past as the colony remembers it, and from then on what the page sees.
function useSeen(name, checkpoints) {
  const [seen, setSeen] = useState({ times: [], byType: {} });
  useEffect(() => {
    const abort = new AbortController();
    setSeen({ times: [], byType: {} });
    colony("CheckpointHistory", { agentId: name }, abort.signal).then(
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
        const old = before.byType[checkpoint.dataType] || Array(before.times.length).fill({});
        const now = { unread: unread(checkpoint), checkpoint: Number(checkpoint.lastSeqId), head: Number(checkpoint.books?.head ?? 0) };
        byType[checkpoint.dataType] = [...old, now].slice(-KEPT);
      }
      return { times, byType };
    });
  }, [checkpoints]);
  return seen;
}

const line = (name, points, field) => ({ name, values: points.map((point) => point[field] ?? null) });

function Course({ seen, checkpoints }) {
  const busiest = checkpoints.slice().sort((a, b) => Number(b.books?.head ?? 0) - Number(a.books?.head ?? 0))[0]?.dataType;
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
  const last = checkpoints.filter((one) => Number(one.agentNowMs) > 0).sort((a, b) => Number(b.lastPollTimeUs) - Number(a.lastPollTimeUs))[0];
  if (!last) return "not known";
  const ms = Number(last.agentNowMs) - Number(last.lastPollTimeUs) / 1000;
  return `${duration(Math.abs(ms) / 1000)} ${ms >= 0 ? "ahead of" : "behind"} ours${Math.abs(ms) < 1000 ? ", the way included" : ""}`;
}

// One line per session and epoch, whatever the data types; the newest first.
function sessionsOf(checkpoints) {
  const all = new Map();
  for (const one of checkpoints) {
    const key = `${one.sessionId} ${one.epoch}`;
    const known = all.get(key) || { key, sessionId: one.sessionId, epoch: one.epoch, began: Infinity, closed: 0, reasons: new Set(), records: 0n, types: 0, isCurrent: false };
    known.began = Math.min(known.began, Number(one.createdAtUs));
    known.closed = Math.max(known.closed, Number(one.closedAtUs || 0));
    known.isCurrent ||= isCurrent(one);
    known.records += BigInt(one.books?.stored ?? 0);
    known.types++;
    if (one.closedReason) known.reasons.add(one.closedReason);
    all.set(key, known);
  }
  return [...all.values()].sort((a, b) => b.began - a.began);
}

const Sessions = ({ checkpoints }) => (
  <Table caption="Sessions and epochs, newest first" rows={sessionsOf(checkpoints)} rowKey={(row) => row.key} empty="Nothing was read from it yet." columns={[
    { name: "state", cell: (row) => <State value={row.isCurrent ? "current" : "ended"} /> },
    { name: "sessionId", title: "session", cell: (row) => <code><Text value={row.sessionId} max={36} /></code> },
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
          <dt>seen</dt><dd>{ago(agent.seenAtUs)}</dd>
          <dt>polled by</dt><dd><Text value={agent.holder || "nobody"} /></dd>
          <dt>its clock</dt><dd><Skew checkpoints={current} /></dd>
          {agent.error && <><dt>last failure</dt><dd><Text value={agent.error} max={300} /> ({ago(agent.failedAtUs)})</dd></>}
        </dl>
      )}
      <Table caption="Checkpoint against head" rows={current} rowKey={(row) => row.dataType} empty="Nothing was read from it yet." columns={[
        { name: "dataType", title: "data type" },
        { name: "last", title: "checkpoint", align: "right", cell: (row) => count(row.lastSeqId) },
        { name: "head", align: "right", cell: (row) => count(row.books?.head) },
        { name: "pending", align: "right", cell: (row) => count(row.books?.pending) },
        { name: "stored", align: "right", cell: (row) => count(row.books?.stored) },
        { name: "lost", align: "right", cell: (row) => count(row.books?.lost) },
        { name: "gaps", title: "open gaps", align: "right", cell: (row) => <a href={address("gaps", [], { agent: name, type: row.dataType })}>{count(row.books?.openGaps)}</a> },
        { name: "books", cell: (row) => (exact(row.books?.unexplained ?? 0) === 0 ? "close" : <span class="failure">off by {row.books.unexplained}</span>) },
        { name: "polled", cell: (row) => ago(row.lastPollTimeUs) },
        { name: "act", title: <span class="unseen">what can be done</span>, cell: (row) => (
          <Act confirm={`Read ${row.dataType} of ${name} again from its start? Rows that are stored are not stored twice.`}
            run={async () => { await colony("ResetCheckpoints", { agentId: name, dataType: row.dataType }); asked.refresh(); }}>reset</Act>
        ) },
      ]} />
      <Course seen={seen} checkpoints={current} />
      <Sessions checkpoints={checkpoints || []} />
    </View>
  );
}

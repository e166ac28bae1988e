// One agent: its checkpoints against its heads, over time, and its sessions and epochs.
import { useEffect, useState } from "preact/hooks";
import { Chart } from "../chart.jsx";
import { colony, exact } from "../api.js";
import { ago, count, duration, when, word } from "../format.js";
import { useAsked } from "../hooks.js";
import { Act, State, Table, Text, View } from "../parts.jsx";
import { address } from "../place.js";

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

// What was seen since the page is open: the service tells the present, the page remembers.
function useLags(checkpoints) {
  const [lags, setLags] = useState({ times: [], byType: {} });
  useEffect(() => {
    if (!checkpoints?.length) return;
    setLags((before) => {
      const times = [...before.times, Date.now() / 1000].slice(-KEPT);
      const byType = {};
      for (const checkpoint of checkpoints.filter(isCurrent)) {
        const old = before.byType[checkpoint.dataType] || Array(before.times.length).fill(null);
        byType[checkpoint.dataType] = [...old, unread(checkpoint)].slice(-KEPT);
      }
      return { times, byType };
    });
  }, [checkpoints]);
  return lags;
}

export function Agent({ name }) {
  const asked = useAsked((abort) => ask(name, abort), [name], ["colony"]);
  const checkpoints = asked.data?.checkpoints;
  const lags = useLags(checkpoints);
  const current = (checkpoints || []).filter(isCurrent);
  const closed = (checkpoints || []).filter((checkpoint) => !isCurrent(checkpoint));
  const agent = asked.data?.agent;
  const skewMs = current.length ? Number(current[0].agentNowMs) - Number(current[0].lastPollTimeUs) / 1000 : 0;
  return (
    <View title={<>Agent <Text value={name} max={80} /></>} what="a colony" asked={asked} command={`tidemark colony checkpoint ls ${word(name)}`}>
      {agent && (
        <dl class="facts">
          <dt>health</dt><dd><State value={agent.health} /></dd>
          <dt>address</dt><dd><code><Text value={agent.address} /></code></dd>
          <dt>seen</dt><dd>{ago(agent.seenAtUs)}</dd>
          <dt>polled by</dt><dd><Text value={agent.holder || "nobody"} /></dd>
          <dt>its clock</dt><dd>{Math.abs(skewMs) < 1000 ? "as ours" : `${duration(Math.abs(skewMs) / 1000)} ${skewMs > 0 ? "ahead" : "behind"}`}</dd>
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
      <Chart title="Records behind the head, since this page is open" times={lags.times}
        series={Object.entries(lags.byType).map(([type, values]) => ({ name: type, values }))} />
      <Table caption="Sessions and epochs that have ended" rows={closed} rowKey={(row) => `${row.dataType} ${row.sessionId} ${row.epoch}`}
        empty="No session or epoch of it has ended." columns={[
          { name: "dataType", title: "data type" },
          { name: "sessionId", title: "session", cell: (row) => <code><Text value={row.sessionId} max={36} /></code> },
          { name: "epoch", align: "right" },
          { name: "last", title: "checkpoint", align: "right", cell: (row) => count(row.lastSeqId) },
          { name: "closed", cell: (row) => when(row.closedAtUs) },
          { name: "closedReason", title: "why" },
        ]} />
    </View>
  );
}

// Work items: what waits, runs, failed and why; and one item with its leases and attempts.
import { useState } from "preact/hooks";
import { journal, work } from "../api.js";
import { ago, count, duration, word } from "../format.js";
import { useAsked } from "../hooks.js";
import { Act, Figure, Filter, State, Table, Text, View } from "../parts.jsx";
import { address, place } from "../place.js";

const STATES = ["pending", "in_progress", "completed", "failed", "cancelled", "quarantined"];

export function Work() {
  const { status, type } = place.value.filters;
  const [chosen, setChosen] = useState(() => new Set());
  const asked = useAsked(async (abort) => {
    const [items, stats] = await Promise.all([
      work("ListItems", { status: status || "", workType: type || "", limit: 200 }, abort),
      work("Stats", {}, abort),
    ]);
    return { items: items.items || [], stats: stats.items || [] };
  }, [status, type], ["work"]);
  const items = asked.data?.items || [];
  const stats = asked.data?.stats || [];
  const total = (name) => stats.filter((one) => one.status === name).reduce((sum, one) => sum + Number(one.count || 0), 0);
  const toggle = (id) => setChosen((before) => {
    const after = new Set(before);
    if (!after.delete(id)) after.add(id);
    return after;
  });
  const chooseAll = (event) => setChosen(new Set(event.currentTarget.checked ? items.map((one) => one.workItemId) : []));
  const bulk = (method) => async () => {
    for (const id of chosen) await work(method, { workItemId: id, ...(method === "Cancel" ? { reason: "dashboard" } : {}) });
    setChosen(new Set());
    asked.refresh();
  };
  return (
    <View title="Work" asked={asked} what="work items" command={`tidemark work ls${status ? ` --status ${status}` : ""}${type ? ` --type ${word(type)}` : ""}`}>
      <div class="figures">{STATES.map((name) => <Figure key={name} value={count(total(name))} label={name.replace("_", " ")} tone={name === "failed" && total(name) ? "warn" : ""} />)}</div>
      <div class="filters">
        <Filter name="status" label="state" options={STATES} />
        <Filter name="type" label="type" options={[...new Set(stats.map((one) => one.workType).filter(Boolean))].sort()} />
        <Act disabled={!chosen.size} run={bulk("Retry")}>retry {chosen.size || ""}</Act>
        <Act disabled={!chosen.size} confirm={`Cancel ${chosen.size} items?`} run={bulk("Cancel")}>cancel {chosen.size || ""}</Act>
      </div>
      <Table caption="Items, newest first" rows={items} rowKey={(row) => row.workItemId} empty="No such items." columns={[
        { name: "choose", title: <input type="checkbox" aria-label="choose all that are shown" checked={items.length > 0 && items.every((one) => chosen.has(one.workItemId))} onChange={chooseAll} />, cell: (row) => <input type="checkbox" aria-label={`choose ${row.workItemId}`} checked={chosen.has(row.workItemId)} onChange={() => toggle(row.workItemId)} /> },
        { name: "id", title: "item", cell: (row) => <a href={address("work", [row.workItemId])}><Text value={row.workItemId} max={36} /></a> },
        { name: "workType", title: "type" },
        { name: "status", title: "state", cell: (row) => <State value={row.status} /> },
        { name: "holder", title: "held by", cell: (row) => <Text value={row.leaseHolder} max={40} /> },
        { name: "tries", align: "right", cell: (row) => `${row.retryCount ?? 0}/${row.maxRetries ?? 0}` },
        { name: "error", cell: (row) => <Text value={row.errorMessage} max={80} /> },
        { name: "created", cell: (row) => ago(row.createdAt) },
      ]} />
    </View>
  );
}

function Leases({ attempts }) {
  const now = Date.now() * 1000;
  const from = Math.min(...attempts.map((one) => Number(one.startedAt)));
  const span = Math.max(1, Math.max(...attempts.map((one) => Number(one.endedAt) || now)) - from);
  return (
    <figure class="timeline">
      <figcaption>Leases: {duration(span / 1e6)} from the first to the end of the last</figcaption>
      <svg viewBox={`0 0 1000 ${attempts.length * 18}`} role="img" aria-label="leases over time; the table below says the same" preserveAspectRatio="none">
        {attempts.map((one, row) => {
          const left = ((Number(one.startedAt) - from) / span) * 1000;
          const right = (((Number(one.endedAt) || now) - from) / span) * 1000;
          return <rect key={one.attempt} class={`bar bar-${one.outcome || "open"}`} x={left} y={row * 18 + 3} width={Math.max(4, right - left)} height={12} rx={2} />;
        })}
      </svg>
    </figure>
  );
}

export function Item({ id }) {
  const asked = useAsked(async (abort) => {
    const [item, attempts, reasons, checkpoints] = await Promise.all([
      work("GetItem", { workItemId: id }, abort),
      work("ListAttempts", { workItemId: id }, abort),
      work("Explain", { workItemId: id }, abort),
      journal("List", { workItemId: id, limit: 100, newestFirst: true }, abort).catch(() => ({})),
    ]);
    return { item, attempts: attempts.attempts || [], reasons: reasons.reasons || [], checkpoints: checkpoints.checkpoints || [] };
  }, [id], ["work", "journal"]);
  const { item, attempts = [], reasons = [], checkpoints = [] } = asked.data || {};
  const act = (method, extra) => async () => {
    await work(method, { workItemId: id, ...extra });
    asked.refresh();
  };
  return (
    <View title={<>Item <Text value={id} max={40} /></>} what="work items" asked={asked} command={`tidemark work explain ${word(id)}`}
      actions={<span class="acts"><Act disabled={item?.status === "completed"} run={act("Retry")}>retry</Act><Act disabled={item?.status === "completed"} confirm="Cancel this item?" run={act("Cancel", { reason: "dashboard" })}>cancel</Act></span>}>
      {item && (
        <dl class="facts">
          <dt>state</dt><dd><State value={item.status} /></dd>
          <dt>why</dt><dd>{reasons.map((one) => <Text key={one.code} value={one.words} max={300} />)}</dd>
          <dt>type</dt><dd><Text value={item.workType} /></dd>
          <dt>task</dt><dd><a href={address("checkpoints", [], { task: item.taskId })}><Text value={item.taskId} /></a></dd>
          <dt>held by</dt><dd><Text value={item.leaseHolder || "nobody"} /></dd>
          <dt>input</dt><dd><pre><Text value={item.inputData} max={2000} /></pre></dd>
          <dt>output</dt><dd><pre><Text value={item.outputData} max={2000} /></pre></dd>
          {item.errorMessage && <><dt>error</dt><dd><Text value={item.errorMessage} max={1000} /></dd></>}
        </dl>
      )}
      {attempts.length > 0 && <Leases attempts={attempts} />}
      <Table caption="Attempts" rows={attempts} rowKey={(row) => row.attempt} empty="Nobody has tried it yet." columns={[
        { name: "attempt", align: "right" },
        { name: "worker" },
        { name: "outcome", cell: (row) => <State value={row.outcome || "open"} /> },
        { name: "took", cell: (row) => duration(((Number(row.endedAt) || Date.now() * 1000) - Number(row.startedAt)) / 1e6) },
        { name: "started", cell: (row) => ago(row.startedAt) },
        { name: "error", cell: (row) => <Text value={row.errorMessage} max={160} /> },
      ]} />
      <Table caption="Checkpoints of this item" rows={checkpoints} rowKey={(row) => row.globalSequence} empty="It has written no checkpoints." columns={[
        { name: "globalSequence", title: "number", align: "right", cell: (row) => <a href={address("checkpoints", [row.globalSequence])}>{row.globalSequence}</a> },
        { name: "type" },
        { name: "message" },
        { name: "written", cell: (row) => ago(row.createdAt) },
      ]} />
    </View>
  );
}

// Work items: what waits, runs, failed and why; and one item with its leases and attempts.
import { useState } from "preact/hooks";
import { journal, work } from "../api.js";
import { ago, count, duration, json, seconds, word } from "../format.js";
import { useAsked } from "../hooks.js";
import { Lanes } from "../lanes.jsx";
import { Act, Figure, Filter, State, Table, Text, View } from "../parts.jsx";
import { address, place } from "../place.js";

const RETRIED = ["failed", "cancelled", "quarantined"];
const STATES = ["pending", "in_progress", "completed", "failed", "cancelled", "quarantined"];

export function Work() {
  const { status, type } = place.value.filters;
  const [chosen, setChosen] = useState(() => new Set());
  const [made, setMade] = useState([]); // items that a retry has made
  const asked = useAsked(async (abort) => {
    const [items, stats] = await Promise.all([
      work("ListItems", { status: status || "", work_type: type || "", limit: 200 }, abort),
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
  const chooseAll = (event) => setChosen(new Set(event.currentTarget.checked ? items.map((one) => one.work_item_id) : []));
  // Only what is visible: an item that left the list is not acted on.
  const picked = items.map((one) => one.work_item_id).filter((id) => chosen.has(id));
  // Each for itself: one that cannot does not keep the others from it, and stays chosen. A retry is an item of its own; the failed one stays as it is.
  const bulk = (method) => async () => {
    const refused = new Map();
    const answers = [];
    for (const id of picked)
      await work(method, { work_item_id: id, ...(method === "Cancel" ? { reason: "dashboard" } : {}) }).then((answer) => answers.push(answer.work_item_id), (error) => refused.set(id, error.message));
    setChosen(new Set(refused.keys()));
    setMade(answers.filter(Boolean));
    asked.refresh();
    if (refused.size) throw new Error(`${refused.size} of ${picked.length} not: ${[...refused.values()][0]}`);
  };
  return (
    <View title="Work" asked={asked} what="work items" command={`tidemark work ls${status ? ` --status ${word(status)}` : ""}${type ? ` --type ${word(type)}` : ""}`}>
      <div class="figures">{STATES.map((name) => <Figure key={name} value={count(total(name))} label={name.replace("_", " ")} tone={name === "failed" && total(name) ? "warn" : ""} />)}</div>
      <div class="filters">
        <Filter name="status" label="state" options={STATES} />
        <Filter name="type" label="type" options={[...new Set(stats.map((one) => one.work_type).filter(Boolean))].sort()} />
        <Act disabled={!picked.length} run={bulk("Retry")}>retry {picked.length || ""}</Act>
        <Act disabled={!picked.length} confirm={`Cancel ${picked.length} items?`} run={bulk("Cancel")}>cancel {picked.length || ""}</Act>
      </div>
      <p class="note" role="status">{made.length > 0 && <>Tried again as {made.slice(0, 5).map((id) => <a key={id} class="made" href={address("work", [id])}>{id}</a>)}{made.length > 5 && `and ${made.length - 5} more`}</>}</p>
      <Table caption="Items, newest first" rows={items} rowKey={(row) => row.work_item_id} empty="No such items." columns={[
        { name: "choose", title: <input type="checkbox" aria-label="choose all that are shown" checked={items.length > 0 && items.every((one) => chosen.has(one.work_item_id))} onChange={chooseAll} />, cell: (row) => <input type="checkbox" aria-label={`choose ${row.work_item_id}`} checked={chosen.has(row.work_item_id)} onChange={() => toggle(row.work_item_id)} /> },
        { name: "id", title: "item", cell: (row) => <a href={address("work", [row.work_item_id])}><Text value={row.work_item_id} max={36} /></a> },
        { name: "work_type", title: "type" },
        { name: "status", title: "state", cell: (row) => <State value={row.status} /> },
        { name: "holder", title: "held by", cell: (row) => <Text value={row.lease_holder} max={40} /> },
        { name: "tries", align: "right", cell: (row) => `${row.retry_count ?? 0}/${row.max_retries ?? 0}` },
        { name: "error", cell: (row) => <Text value={row.error_message} max={80} /> },
        { name: "created", cell: (row) => ago(row.created_at) },
      ]} />
    </View>
  );
}

function Leases({ attempts }) {
  const now = Date.now() / 1000;
  const rows = attempts.map((one) => {
    const until = seconds(one.ended_at) || now;
    const bar = { key: 1, from: seconds(one.started_at), until, tone: one.outcome || "open", title: `${one.outcome || "open"} after ${duration(until - seconds(one.started_at))}` };
    return { key: one.attempt, label: <>{one.attempt} <Text value={one.worker} max={30} /></>, bars: [bar] };
  });
  const from = Math.min(...rows.map((row) => row.bars[0].from));
  const until = Math.max(...rows.map((row) => row.bars[0].until));
  return <Lanes caption={`Leases: ${duration(until - from)} from the first to the end of the last`} rows={rows} from={from} until={until} words={(row) => `attempt ${row.key}: ${row.bars[0].title}; the table below says the same`} />;
}

export function Item({ id }) {
  const asked = useAsked(async (abort) => {
    const [item, reasons, checkpoints] = await Promise.all([
      work("GetItem", { work_item_id: id }, abort),
      work("Explain", { work_item_id: id }, abort),
      journal("List", { work_item_id: id, limit: 100, newest_first: true }, abort).catch(() => ({})),
    ]);
    return { item, attempts: item.attempts || [], reasons: reasons.reasons || [], checkpoints: checkpoints.checkpoints || [] };
  }, [id], ["work", "journal"]);
  const { item, attempts = [], reasons = [], checkpoints = [] } = asked.data || {};
  const act = (method, extra) => async () => {
    await work(method, { work_item_id: id, ...extra });
    asked.refresh();
  };
  const retry = async () => {
    location.hash = address("work", [(await work("Retry", { work_item_id: id })).work_item_id]);
  };
  return (
    <View title={<>Item <Text value={id} max={40} /></>} what="work items" asked={asked} command={`tidemark work explain ${word(id)}`}
      actions={<span class="acts"><Act disabled={!RETRIED.includes(item?.status)} run={retry}>retry</Act><Act disabled={item?.status === "completed"} confirm="Cancel this item?" run={act("Cancel", { reason: "dashboard" })}>cancel</Act></span>}>
      {item && (
        <dl class="facts">
          <dt>state</dt><dd><State value={item.status} /></dd>
          <dt>why</dt><dd>{reasons.map((one) => <Text key={one.code} value={one.text} max={300} />)}</dd>
          <dt>type</dt><dd><Text value={item.work_type} /></dd>
          <dt>task</dt><dd><a href={address("checkpoints", [], { task: item.task_id })}><Text value={item.task_id} /></a></dd>
          <dt>held by</dt><dd><Text value={item.lease_holder || "no worker"} /></dd>
          {item.retried_from && <><dt>retry of</dt><dd><a href={address("work", [item.retried_from])}><Text value={item.retried_from} /></a></dd></>}
          <dt>input</dt><dd><pre><Text value={json(item.input_data)} max={2000} /></pre></dd>
          <dt>output</dt><dd><pre><Text value={json(item.output_data)} max={2000} /></pre></dd>
          {item.error_message && <><dt>error</dt><dd><Text value={item.error_message} max={1000} /></dd></>}
        </dl>
      )}
      {attempts.length > 0 && <Leases attempts={attempts} />}
      <Table caption="Attempts" rows={attempts} rowKey={(row) => row.attempt} empty="No attempt yet." columns={[
        { name: "attempt", align: "right" },
        { name: "worker" },
        { name: "outcome", cell: (row) => <State value={row.outcome || "open"} /> },
        { name: "took", cell: (row) => duration((seconds(row.ended_at) || Date.now() / 1000) - seconds(row.started_at)) },
        { name: "started", cell: (row) => ago(row.started_at) },
        { name: "error", cell: (row) => <Text value={row.error_message} max={160} /> },
      ]} />
      <Table caption="Checkpoints of this item" rows={checkpoints} rowKey={(row) => row.global_sequence} empty="It has written no checkpoints." columns={[
        { name: "global_sequence", title: "number", align: "right", cell: (row) => <a href={address("checkpoints", [row.global_sequence])}>{row.global_sequence}</a> },
        { name: "type" },
        { name: "message" },
        { name: "written", cell: (row) => ago(row.created_at) },
      ]} />
    </View>
  );
}

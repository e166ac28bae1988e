// The global timeline of checkpoints across tasks, and the structural difference of two of them.
import { journal } from "../api.js";
import { ago, bytes, json, plain, seconds, when, word } from "../format.js";
import { useAsked } from "../hooks.js";
import { Lanes } from "../lanes.jsx";
import { Command, State, Table, Text, View } from "../parts.jsx";
import { address, place, setFilter } from "../place.js";

const LINES = 12; // of the timeline

function Difference({ a, b }) {
  const asked = useAsked((abort) => journal("Diff", { a, b }, abort), [a, b], []);
  return (
    <section aria-label="difference">
      <h2>From {a} to {b}</h2>
      {asked.error && <p class="failure" role="alert"><Text value={asked.error.message} max={300} /></p>}
      <Table caption={`What changed from ${a} to ${b}`} rows={asked.data?.differences} rowKey={(row) => row.path} empty={asked.isLoading ? "Comparing …" : "They are equal."} columns={[
        { name: "kind", cell: (row) => <State value={row.kind} /> },
        { name: "path", cell: (row) => <code><Text value={row.path || "/"} /></code> },
        { name: "before", cell: (row) => <code><Text value={row.kind === "added" ? "" : JSON.stringify(row.before)} /></code> },
        { name: "after", cell: (row) => <code><Text value={row.kind === "removed" ? "" : JSON.stringify(row.after)} /></code> },
      ]} />
      <Command text={`tidemark checkpoint diff ${word(a)} ${word(b)}`} />
    </section>
  );
}

export function Checkpoint({ id }) {
  const asked = useAsked((abort) => journal("Get", { id, with_snapshot: true }, abort), [id], []);
  const row = asked.data;
  return (
    <View title={<>Checkpoint <Text value={id} max={40} /></>} what="checkpoints" asked={asked} command={`tidemark checkpoint show ${word(id)}`}>
      {row && (
        <>
          <dl class="facts">
            <dt>task</dt><dd><a href={address("checkpoints", [], { task: row.task_id })}><Text value={row.task_id} max={60} /></a>, number {row.sequence_number} in it</dd>
            {row.work_item_id && <><dt>item</dt><dd><a href={address("work", [row.work_item_id])}><Text value={row.work_item_id} max={60} /></a></dd></>}
            <dt>type</dt><dd><Text value={row.checkpoint_type} /> ({row.trigger})</dd>
            <dt>written</dt><dd>{when(row.created_at)} ({ago(row.created_at)})</dd>
            {row.message && <><dt>message</dt><dd><Text value={row.message} max={600} /></dd></>}
            {row.tags?.length > 0 && <><dt>tags</dt><dd><Text value={row.tags.join(", ")} /></dd></>}
            <dt>snapshot</dt><dd>{bytes(row.snapshot_len)}</dd>
          </dl>
          <pre class="box" tabIndex={0} role="region" aria-label="snapshot"><Text value={json(row.snapshot_data, 2)} max={20000} isMultiline /></pre>
          <p><a href={address("checkpoints", [], { task: row.task_id, a: row.global_sequence })}>Compare it with another one of its task</a></p>
          <Command text={`tidemark task resume ${word(row.task_id)}`} label="to go on from the task's last checkpoint" />
        </>
      )}
    </View>
  );
}

// A line per task, those with the newest checkpoints first; the two that are compared stand out.
function Timeline({ rows, chosen }) {
  if (!rows.length) return null;
  const tasks = new Map();
  for (const row of rows) {
    if (!tasks.has(row.task_id)) tasks.set(row.task_id, { key: row.task_id, label: <a href={address("checkpoints", [], { task: row.task_id })}><Text value={row.task_id} max={36} /></a>, dots: [] });
    tasks.get(row.task_id).dots.push({
      key: row.global_sequence, at: seconds(row.created_at), tone: row.checkpoint_type === "error_boundary" ? "failed" : "plain", isChosen: chosen.includes(String(row.global_sequence)),
      title: `${row.global_sequence}: ${plain(row.checkpoint_type)}, ${when(row.created_at)}`,
    });
  }
  const shown = [...tasks.values()].slice(0, LINES);
  const times = shown.flatMap((task) => task.dots.map((dot) => dot.at));
  return (
    <Lanes caption={`${rows.length} checkpoints of ${tasks.size} tasks${tasks.size > LINES ? `; the ${LINES} tasks with the newest are drawn` : ""}`} rows={shown} from={Math.min(...times)} until={Math.max(...times)}
      words={(task) => `task ${plain(task.key)}: ${task.dots.length} checkpoints; the table below says the same`} />
  );
}

export function Checkpoints() {
  const { task, a, b, before } = place.value.filters;
  const asked = useAsked(
    (abort) => journal("List", { task_id: task || "", last_global: before || 0, limit: 100, newest_first: true }, abort), [task, before], ["journal"]);
  const rows = asked.data?.checkpoints || [];
  const choose = (number) => (a && !b && a !== number ? setFilter("b", number) : location.replace(address("checkpoints", [], { task, before, a: number })));
  return (
    <View title="Checkpoints" what="checkpoints" asked={asked} command={`tidemark checkpoint ls${task ? ` --task ${word(task)}` : ""}`}>
      {task && <p>Of task <code><Text value={task} /></code>. <a href={address("checkpoints")}>All tasks</a></p>}
      {task && <Command text={`tidemark task resume ${word(task)}`} label="to go on from the last of them" />}
      {a && b ? <Difference a={a} b={b} /> : a && <p class="note" role="status">Choose a second one to compare with {a}.</p>}
      <Timeline rows={rows} chosen={[a, b]} />
      <Table caption={task ? "Checkpoints of the task, newest first" : "Checkpoints of all tasks, newest first"} rows={rows} rowKey={(row) => row.global_sequence} empty="There are no checkpoints." columns={[
        { name: "number", align: "right", cell: (row) => <a href={address("checkpoints", [row.global_sequence])}>{row.global_sequence}</a> },
        { name: "task", cell: (row) => <a href={address("checkpoints", [], { task: row.task_id })}><Text value={row.task_id} max={40} /></a> },
        { name: "inTask", title: "in task", align: "right", cell: (row) => row.sequence_number },
        { name: "type" },
        { name: "message", cell: (row) => <Text value={row.message} max={100} /> },
        { name: "size", align: "right", cell: (row) => bytes(row.snapshot_len) },
        { name: "written", cell: (row) => ago(row.created_at) },
        { name: "act", title: <span class="unseen">what can be done</span>, cell: (row) => <button type="button" aria-pressed={[a, b].includes(String(row.global_sequence))} onClick={() => choose(String(row.global_sequence))}>compare</button> },
      ]} />
      {rows.length === 100 && <p><a href={address("checkpoints", [], { task, before: rows.at(-1).global_sequence - 1 })}>older</a></p>}
    </View>
  );
}

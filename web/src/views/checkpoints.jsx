// The global timeline of checkpoints across tasks, and the structural difference of two of them.
import { journal } from "../api.js";
import { ago, bytes, micros, plain, when, word } from "../format.js";
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
        { name: "before", cell: (row) => <code><Text value={row.before} /></code> },
        { name: "after", cell: (row) => <code><Text value={row.after} /></code> },
      ]} />
      <Command text={`tidemark checkpoint diff ${word(a)} ${word(b)}`} />
    </section>
  );
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text; // not JSON: shown as it is
  }
}

export function Checkpoint({ id }) {
  const asked = useAsked((abort) => journal("Get", { id, withSnapshot: true }, abort), [id], []);
  const row = asked.data;
  return (
    <View title={<>Checkpoint <Text value={id} max={40} /></>} what="checkpoints" asked={asked} command={`tidemark checkpoint show ${word(id)}`}>
      {row && (
        <>
          <dl class="facts">
            <dt>task</dt><dd><a href={address("checkpoints", [], { task: row.taskId })}><Text value={row.taskId} max={60} /></a>, number {row.sequenceNumber} in it</dd>
            {row.workItemId && <><dt>item</dt><dd><a href={address("work", [row.workItemId])}><Text value={row.workItemId} max={60} /></a></dd></>}
            <dt>type</dt><dd><Text value={row.type} /> ({row.trigger})</dd>
            <dt>written</dt><dd>{when(row.createdAt)} ({ago(row.createdAt)})</dd>
            {row.message && <><dt>message</dt><dd><Text value={row.message} max={600} /></dd></>}
            {row.tags?.length > 0 && <><dt>tags</dt><dd><Text value={row.tags.join(", ")} /></dd></>}
            <dt>snapshot</dt><dd>{bytes(row.snapshotLen)}</dd>
          </dl>
          <pre class="box" tabIndex={0} role="region" aria-label="snapshot"><Text value={pretty(row.snapshot)} max={20000} isMultiline /></pre>
          <p><a href={address("checkpoints", [], { task: row.taskId, a: row.globalSequence })}>Compare it with another one of its task</a></p>
          <Command text={`tidemark task resume ${word(row.taskId)}`} label="to go on from the task's last checkpoint" />
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
    if (!tasks.has(row.taskId)) tasks.set(row.taskId, { key: row.taskId, label: <a href={address("checkpoints", [], { task: row.taskId })}><Text value={row.taskId} max={36} /></a>, dots: [] });
    tasks.get(row.taskId).dots.push({
      key: row.globalSequence, at: micros(row.createdAt), tone: row.type === "error_boundary" ? "failed" : "plain", isChosen: chosen.includes(row.globalSequence),
      title: `${row.globalSequence}: ${plain(row.type)}, ${when(row.createdAt)}`,
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
    (abort) => journal("List", { taskId: task || "", lastGlobal: before || "0", limit: 100, newestFirst: true }, abort), [task, before], ["journal"]);
  const rows = asked.data?.checkpoints || [];
  const choose = (number) => (a && !b && a !== number ? setFilter("b", number) : location.replace(address("checkpoints", [], { task, before, a: number })));
  return (
    <View title="Checkpoints" what="checkpoints" asked={asked} command={`tidemark checkpoint ls${task ? ` --task ${word(task)}` : ""}`}>
      {task && <p>Of task <code><Text value={task} /></code>. <a href={address("checkpoints")}>All tasks</a></p>}
      {task && <Command text={`tidemark task resume ${word(task)}`} label="to go on from the last of them" />}
      {a && b ? <Difference a={a} b={b} /> : a && <p class="note" role="status">Choose a second one to compare with {a}.</p>}
      <Timeline rows={rows} chosen={[a, b]} />
      <Table caption={task ? "Checkpoints of the task, newest first" : "Checkpoints of all tasks, newest first"} rows={rows} rowKey={(row) => row.globalSequence} empty="There are no checkpoints." columns={[
        { name: "number", align: "right", cell: (row) => <a href={address("checkpoints", [row.globalSequence])}>{row.globalSequence}</a> },
        { name: "task", cell: (row) => <a href={address("checkpoints", [], { task: row.taskId })}><Text value={row.taskId} max={40} /></a> },
        { name: "inTask", title: "in task", align: "right", cell: (row) => row.sequenceNumber },
        { name: "type" },
        { name: "message", cell: (row) => <Text value={row.message} max={100} /> },
        { name: "size", align: "right", cell: (row) => bytes(row.snapshotLen) },
        { name: "written", cell: (row) => ago(row.createdAt) },
        { name: "act", title: <span class="unseen">what can be done</span>, cell: (row) => <button type="button" aria-pressed={a === row.globalSequence || b === row.globalSequence} onClick={() => choose(row.globalSequence)}>compare</button> },
      ]} />
      {rows.length === 100 && <p><a href={address("checkpoints", [], { task, before: String(BigInt(rows.at(-1).globalSequence) - 1n) })}>older</a></p>}
    </View>
  );
}

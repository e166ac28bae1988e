// Read-only SQL over the colony's store, and a picture of the answer where it has one.
import { useState } from "preact/hooks";
import { select } from "../api.js";
import { Chart } from "../chart.jsx";
import { word } from "../format.js";
import { Command, Failure, Table, Text } from "../parts.jsx";
import { place, setFilter } from "../place.js";

const FIRST = "SELECT minute, service_name, count, errors, p95_ms FROM spans_1m ORDER BY minute DESC LIMIT 100";

const seconds = (value) => {
  const text = String(value);
  const parsed = /^\d{4}-\d\d-\d\d[ T]\d\d:\d\d/.test(text) ? Date.parse(`${text.replace(" ", "T").slice(0, 23)}${/[Z+]/.test(text.slice(10)) ? "" : "Z"}`) : NaN;
  return parsed / 1000;
};

// A first column of times, then columns of numbers: lines. Otherwise there is only the table.
export function linesOf({ columns, rows }) {
  const time = columns.findIndex((_, index) => rows.length > 1 && rows.every((row) => !Number.isNaN(seconds(row[index]))));
  if (time < 0) return null;
  const sorted = rows.slice().sort((a, b) => seconds(a[time]) - seconds(b[time]));
  const series = columns
    .map((name, index) => ({ name, index }))
    .filter(({ index }) => index !== time && sorted.every((row) => row[index] === null || typeof row[index] === "number"))
    .slice(0, 6)
    .map(({ name, index }) => ({ name, values: sorted.map((row) => row[index]) }));
  return series.length ? { times: sorted.map((row) => seconds(row[time])), series } : null;
}

export function Query() {
  const sql = place.value.filters.sql || FIRST;
  const [draft, setDraft] = useState(sql);
  const [state, setState] = useState({ answer: null, error: null, isBusy: false });
  const run = async (event) => {
    event?.preventDefault();
    setFilter("sql", draft);
    setState((before) => ({ ...before, isBusy: true, error: null }));
    try {
      setState({ answer: await select(draft), error: null, isBusy: false });
    } catch (error) {
      setState({ answer: null, error, isBusy: false });
    }
  };
  const lines = state.answer && linesOf(state.answer);
  return (
    <section aria-labelledby="view-title">
      <header class="view-head"><h1 id="view-title" tabIndex={-1}>Query</h1></header>
      <form onSubmit={run}>
        <label for="sql">One statement that reads</label>
        <textarea id="sql" rows={6} spellcheck={false} value={draft} onInput={(event) => setDraft(event.currentTarget.value)}
          onKeyDown={(event) => (event.ctrlKey || event.metaKey) && event.key === "Enter" && run(event)} />
        <button type="submit" disabled={state.isBusy} aria-busy={state.isBusy}>run (Ctrl-Enter)</button>
      </form>
      <Failure error={state.error} what="a colony's rows" />
      {lines && <Chart title="The numbers over time" times={lines.times} series={lines.series} />}
      {state.answer && (
        <>
          <p class="note" role="status">{state.answer.rows.length} rows{state.answer.isCut ? ", more were left out" : ""}</p>
          <Table caption="Answer" rows={state.answer.rows} columns={state.answer.columns.map((name, index) => ({
            name: `${index}`, title: <Text value={name} max={60} />, align: typeof state.answer.rows[0]?.[index] === "number" ? "right" : undefined,
            cell: (row) => (row[index] === null ? <span class="soft">NULL</span> : <Text value={row[index]} max={120} />),
          }))} />
        </>
      )}
      <Command text={`tidemark query ${word(draft)}`} />
    </section>
  );
}

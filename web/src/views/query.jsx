// Read-only SQL over the colony's store, and a picture of the answer where it has one.
import { useEffect, useState } from "preact/hooks";
import { select } from "../api.js";
import { Chart } from "../chart.jsx";
import { plain, word } from "../format.js";
import { Command, Failure, Table, Text } from "../parts.jsx";
import { address, place, setFilter } from "../place.js";

const LINES = 8; // of a chart
const FIRST = `SELECT minute, service_name, sum(count) AS spans, sum(errors) AS errors, round(max(p95_ms), 1) AS p95_ms
FROM spans_1m
GROUP BY minute, service_name
ORDER BY minute DESC LIMIT 200`;

const seconds = (value) => {
  const text = String(value);
  const parsed = /^\d{4}-\d\d-\d\d[ T]\d\d:\d\d/.test(text) ? Date.parse(`${text.replace(" ", "T").slice(0, 23)}${/[Z+]/.test(text.slice(10)) ? "" : "Z"}`) : NaN;
  return parsed / 1000;
};

const isNumeric = (rows, index) => rows.every((row) => row[index] === null || typeof row[index] === "number") && rows.some((row) => row[index] !== null);

// Lines of one column, one for each of the names that the other columns give (the most frequent ones); a name has at most one value at a time.
function linesByName(sorted, times, names, { name, index }) {
  const groups = new Map();
  sorted.forEach((row, at) => {
    const key = names.map((one) => plain(row[one] ?? "NULL")).join(" ");
    groups.set(key, (groups.get(key) || []).concat({ at: times[at], value: row[index] }));
  });
  const moments = [...new Set(times)];
  const shown = [...groups].sort((a, b) => b[1].length - a[1].length).slice(0, LINES);
  const series = shown.map(([key, points]) => {
    const byTime = new Map(points.map(({ at, value }) => [at, value]));
    return { name: key.slice(0, 40), values: moments.map((moment) => byTime.get(moment) ?? null) };
  });
  return { title: `${plain(name)} over time${groups.size > LINES ? `; ${LINES} of ${groups.size}` : ""}`, times: moments, series, isMerged: true };
}

// A column of times and columns of numbers: lines, all of them; where other columns give names, those of the chosen column. Otherwise there is only the table.
export function linesOf({ columns, rows }, chosen) {
  const time = columns.findIndex((_, index) => rows.length > 1 && rows.every((row) => !Number.isNaN(seconds(row[index]))));
  if (time < 0) return null;
  const others = columns.map((name, index) => ({ name, index })).filter(({ index }) => index !== time);
  const numbers = others.filter(({ index }) => isNumeric(rows, index));
  if (!numbers.length) return null;
  const names = others.filter((one) => !numbers.includes(one)).map(({ index }) => index);
  const sorted = rows.slice().sort((a, b) => seconds(a[time]) - seconds(b[time]));
  const times = sorted.map((row) => seconds(row[time]));
  if (names.length) return { numbers, ...linesByName(sorted, times, names, numbers.find(({ name }) => name === chosen) || numbers[0]) };
  const series = numbers.slice(0, LINES).map(({ name, index }) => ({ name: plain(name), values: sorted.map((row) => row[index]) }));
  return { numbers: [], title: "The numbers over time", times, series, isMerged: false };
}

function Answer({ answer }) {
  const lines = linesOf(answer, place.value.filters.y);
  return (
    <>
      {lines?.numbers.length > 1 && (
        <label class="filter">drawn
          <select value={place.value.filters.y || lines.numbers[0].name} onChange={(event) => setFilter("y", event.currentTarget.value)}>
            {lines.numbers.map(({ name }) => <option key={name} value={name}>{plain(name)}</option>)}
          </select>
        </label>
      )}
      {lines && <Chart title={lines.title} times={lines.times} series={lines.series} isMerged={lines.isMerged} />}
      <p class="note" role="status">{answer.rows.length} rows{answer.isCut ? ", more were left out" : ""}</p>
      <Table caption="Answer" rows={answer.rows} columns={answer.columns.map((name, index) => ({
        name: `${index}`, title: <Text value={name} max={60} />, align: typeof answer.rows[0]?.[index] === "number" ? "right" : undefined,
        cell: (row) => (row[index] === null ? <span class="soft">NULL</span> : <Text value={row[index]} max={120} />),
      }))} />
    </>
  );
}

// The address carries the statement, so that it can be sent to others. Any web page can open an address,
// so its statement is shown, and runs on a click only.
export function Query() {
  const sql = place.value.filters.sql || FIRST;
  const [draft, setDraft] = useState(sql);
  const [turn, setTurn] = useState(0);
  const [clicked, setClicked] = useState(FIRST);
  const [state, setState] = useState({ answer: null, error: null, isBusy: false });
  const isHeld = sql !== clicked && sql !== FIRST;
  useEffect(() => {
    const abort = new AbortController();
    setDraft(sql);
    if (isHeld) {
      setState({ answer: null, error: null, isBusy: false });
      return undefined;
    }
    setState((before) => ({ ...before, error: null, isBusy: true }));
    select(sql, abort.signal).then(
      (answer) => setState({ answer, error: null, isBusy: false }),
      (error) => error.name === "AbortError" || setState({ answer: null, error, isBusy: false }),
    );
    return () => abort.abort();
  }, [sql, turn, isHeld]);
  const run = (event) => {
    event.preventDefault();
    setClicked(draft);
    if (draft === sql) setTurn(turn + 1);
    else location.hash = address("query", [], { sql: draft });
  };
  return (
    <section aria-labelledby="view-title">
      <header class="view-head"><h1 id="view-title" tabIndex={-1}>Query</h1></header>
      <form class="query" onSubmit={run}>
        <label for="sql">One statement that reads</label>
        <textarea id="sql" rows={5} spellcheck={false} value={draft} onInput={(event) => setDraft(event.currentTarget.value)}
          onKeyDown={(event) => (event.ctrlKey || event.metaKey) && event.key === "Enter" && run(event)} />
        <button type="submit" disabled={state.isBusy} aria-busy={state.isBusy}>{state.isBusy ? "running …" : "run (Ctrl-Enter)"}</button>
      </form>
      {isHeld && <p class="note" role="status">This statement is from the address. Read it, then run it.</p>}
      <Failure error={state.error} what="a colony's rows" />
      {state.answer && <Answer answer={state.answer} />}
      <Command text={`tidemark query ${word(draft)}`} />
    </section>
  );
}

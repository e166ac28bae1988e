// What every view is made of.
import { useState } from "preact/hooks";
import { store } from "./api.js";
import { plain, word } from "./format.js";
import { isStale } from "./fresh.js";
import { place, setFilter } from "./place.js";

export const Text = ({ value, max = 200, isMultiline = false }) => {
  const text = isMultiline ? String(value ?? "").split("\n").map(plain).join("\n") : plain(value);
  return text.length > max ? <span title={text.slice(0, 4000)}>{text.slice(0, max)}…</span> : <>{text}</>;
};

// What was healthy when the server was heard last may not be now.
export const State = ({ value, title }) => (
  <span class={isStale.value ? "state" : `state state-${String(value).replace(/[^a-z_]/g, "")}`} title={title}>
    <Text value={isStale.value && value === "healthy" ? "unknown" : value} max={40} />
  </span>
);

export const Failure = ({ error, what }) =>
  !error ? null : error.isAbsent ? (
    <p class="note">This process does not serve {what}.</p>
  ) : (
    <p class="failure" role="alert">
      <Text value={error.message} max={600} />
    </p>
  );

// Commands that call a service name it; the others open the store itself, or name a file of their own.
const ASKING = /^tidemark (status|top|check|colony|gaps|query|demo)\b/;
const ITSELF = /^tidemark (replica|up)\b/;

export const placed = (text) =>
  ASKING.test(text) ? `${text} --address ${word(location.host)}` : ITSELF.test(text) ? text : `${text} --store ${word(store.value)}`;

export function Command({ text, label = "the same in a terminal" }) {
  const [isCopied, setCopied] = useState(false);
  const whole = placed(text);
  const copy = async () => {
    await navigator.clipboard?.writeText(whole);
    setCopied(true);
  };
  return (
    <p class="command">
      <span class="command-label">{label}</span>
      <code><Text value={whole} max={2000} isMultiline /></code>
      <button type="button" class="quiet" onClick={copy} aria-live="polite">{isCopied ? "copied" : "copy"}</button>
    </p>
  );
}

export function View({ title, command, asked, what, children, actions }) {
  return (
    <section aria-labelledby="view-title">
      <header class="view-head">
        <h1 id="view-title" tabIndex={-1}>
          {title}
        </h1>
        {actions}
      </header>
      <Failure error={asked?.error} what={what || title} />
      {asked?.isLoading && !asked.data ? <p class="note">Loading …</p> : children}
      {command && <Command text={command} />}
    </section>
  );
}

// columns: [{ name, title, cell(row), align }]
export function Table({ caption, columns, rows, rowKey, empty = "Nothing here." }) {
  if (!rows?.length) return <p class="note">{empty}</p>;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={caption}>
      <table>
        <caption>{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.name} scope="col" class={column.align === "right" ? "number" : undefined}>
                {column.title ?? column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={rowKey ? rowKey(row) : index}>
              {columns.map((column) => (
                <td key={column.name} class={column.align === "right" ? "number" : undefined}>
                  {column.cell ? column.cell(row) : <Text value={row[column.name]} />}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export const Filter = ({ name, label, options }) => (
  <label class="filter">
    {label}
    <select value={place.value.filters[name] || ""} onChange={(event) => setFilter(name, event.currentTarget.value)}>
      <option value="">all</option>
      {options.map((option) => (
        <option key={option} value={option}>
          {plain(option)}
        </option>
      ))}
    </select>
  </label>
);

export const Figure = ({ value, label, tone, href }) => (
  <div class={`figure ${tone || ""}`}>
    <strong>{href ? <a href={href}>{value}</a> : value}</strong>
    <span>{label}</span>
  </div>
);

// A button for something that changes something: says when it is under way and why it failed.
export function Act({ children, run, confirm: question, disabled }) {
  const [state, setState] = useState({ isBusy: false, error: null });
  const start = async () => {
    if (question && !window.confirm(question)) return;
    setState({ isBusy: true, error: null });
    try {
      await run();
      setState({ isBusy: false, error: null });
    } catch (error) {
      setState({ isBusy: false, error });
    }
  };
  return (
    <>
      <button type="button" onClick={start} disabled={disabled || state.isBusy} aria-busy={state.isBusy}>
        {children}
      </button>
      {state.error && (
        <span class="failure" role="alert">
          <Text value={state.error.message} max={200} />
        </span>
      )}
    </>
  );
}

// Agents x data types: how far behind, how long until something is lost; and the one number that must be 0.
import { Component } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { colony } from "../api.js";
import { count, duration, plain } from "../format.js";
import { isStale, noteServed } from "../fresh.js";
import { useAsked } from "../hooks.js";
import { Figure, Filter, State, View, placed } from "../parts.jsx";
import { address, place, setFilter } from "../place.js";

const ROW = 30; // px: rows outside the window are not made, so a thousand agents scroll as ten do
const SEEN = 20; // rows of the window
const MARGIN = 8; // further ones on either side
const STEP = 4; // the window moves by so many rows
const AGAIN_MS = 1000; // the service makes one answer a second for all pages

const number = (text) => Number(text ?? 0);

function tone(lagMs, lossMs) {
  if (lossMs >= 0 && lossMs < 60000) return "bad";
  if (lossMs >= 0 && lossMs < 600000) return "warn";
  if (lagMs > 60000) return "warn";
  return lagMs > 5000 ? "near" : "good";
}

// The heads of row and column name agent and stream; a cell has the rest.
function wordsOf(records, lagMs, lossMs, hold) {
  const loss = lossMs >= 0 ? `, first loss in ${duration(lossMs / 1000)}` : "";
  return `${count(records)} records, ${duration(lagMs / 1000)} behind${loss}${hold ? `, held: ${plain(hold)}` : ""}`;
}

// Most cells of a large fleet are caught up: they are one element and one text.
function Cell({ agent, index }) {
  const records = number(agent.lag_records?.[index]);
  const hold = agent.holds?.[index];
  if (!records && !hold && agent.health !== "healthy") return <div role="cell" class="heat" title="It does not answer: what it has is not known">?</div>;
  if (!records && !hold && isStale.value) return <div role="cell" class="heat" title="What it has now is not known">?</div>;
  if (!records && !hold) return <div role="cell" class="heat heat-good heat-ok">caught up</div>;
  const lagMs = number(agent.lag_ms?.[index]);
  const lossMs = number(agent.until_loss_ms?.[index] ?? -1);
  return (
    <div role="cell" class={`heat heat-${hold ? "held" : tone(lagMs, lossMs)}`} title={wordsOf(records, lagMs, lossMs, hold)}>
      {hold ? "held" : duration(lagMs / 1000)}
      {lossMs >= 0 && <small> / {duration(lossMs / 1000)}</small>}
    </div>
  );
}

// A row is laid out by itself, at its place, and made again only for another answer: scrolling adds and removes a few at the ends.
class Row extends Component {
  shouldComponentUpdate(next) {
    return next.agent !== this.props.agent || next.types.length !== this.props.types.length;
  }
  render({ agent, types, index }) {
    return (
      <div role="row" aria-rowindex={index + 2} class="heat-row" style={{ top: `${index * ROW}px` }}>
        <div role="rowheader"><a href={address("agent", [agent.agent_id])}>{plain(agent.agent_id).slice(0, 60)}</a></div>
        <div role="cell">{number(agent.silent_ms) > 0 ? <span class="state state-away">silent for {duration(number(agent.silent_ms) / 1000)}</span> : <State value={agent.health} title={agent.error || undefined} />}</div>
        {types.map((type, at) => <Cell key={type} agent={agent} index={at} />)}
      </div>
    );
  }
}

function Heat({ agents, types }) {
  const box = useRef(null);
  const [from, setFrom] = useState(0); // the first row of the window, in steps
  const first = Math.max(0, from * STEP - MARGIN);
  const last = Math.min(agents.length, from * STEP + STEP + SEEN + MARGIN);
  const style = { "--types": types.length, minWidth: `${270 + types.length * 92}px` };
  return (
    <div class="scroll heat-box" ref={box} tabIndex={0} role="region" aria-label="lag of every agent and data type"
      style={{ maxHeight: `${Math.min(agents.length, SEEN) * ROW + 46}px` }} onScroll={() => setFrom(Math.floor(box.current.scrollTop / ROW / STEP))}>
      <div role="table" aria-label="Lag of every agent and data type" aria-rowcount={agents.length + 1} class="heat-fleet" style={style}>
        <div role="rowgroup" class="heat-head">
          <div role="row" aria-rowindex={1}>
            <div role="columnheader">agent</div>
            <div role="columnheader">health</div>
            {types.map((type) => <div role="columnheader" key={type} title={type}>{type.replaceAll("_", " ")}</div>)}
          </div>
        </div>
        <div role="rowgroup" class="heat-body" style={{ height: `${agents.length * ROW}px` }}>
          {agents.slice(first, last).map((agent, offset) => <Row key={first + offset} agent={agent} types={types} index={first + offset} />)}
        </div>
      </div>
    </div>
  );
}

const LEGEND = [
  ["good", "caught up, or nearly"],
  ["near", "over 5 s behind"],
  ["warn", "over 60 s behind, or a loss within 10 min"],
  ["bad", "a loss within 60 s"],
  ["held", "held"],
];

const Legend = () => (
  <p class="legend">
    {LEGEND.map(([name, words]) => <span key={name}><i class={`swatch heat-${name}`} />{words}</span>)}
    <span>?: it does not answer</span>
    <span>In a cell: how far behind <small>/ until the first loss</small></span>
  </p>
);

const LOST_SHOWN = 12;

// Which records are lost, by stream; each leads to its gaps.
function Lost({ agents, types }) {
  const streams = agents.flatMap((agent) =>
    (agent.lost || []).map((lost, at) => ({ agent: agent.agent_id, type: types[at], lost: number(lost) })).filter(({ lost }) => lost > 0));
  return (
    <p class="failure lost" role="alert">Lost records:{" "}
      {streams.slice(0, LOST_SHOWN).map(({ agent, type, lost }) => (
        <a key={`${agent} ${type}`} href={address("gaps", [], { status: "permanent", agent, type })}>{plain(agent).slice(0, 60)} {plain(type)}: {count(lost)}</a>
      ))}
      {streams.length > LOST_SHOWN && <a href={address("gaps", [], { status: "permanent" })}>and {streams.length - LOST_SHOWN} more streams</a>}
    </p>
  );
}

const byName = new Intl.Collator("en", { numeric: true }).compare;
const RANK = { away: 0, degraded: 1, unseen: 2, healthy: 3 };

export function Fleet() {
  const asked = useAsked((abort) => colony("Fleet", { brief: true }, abort), [], ["colony"], AGAIN_MS);
  const { health, find } = place.value.filters;
  const all = asked.data?.agents || [];
  const agents = all
    .filter((agent) => (!health || agent.health === health) && (!find || agent.agent_id.includes(find)))
    .sort((a, b) => (RANK[a.health] ?? 9) - (RANK[b.health] ?? 9) || byName(a.agent_id, b.agent_id));
  const unexplained = number(asked.data?.unexplained);
  const lost = number(asked.data?.lost_unaccepted);
  const storeReason = asked.data && asked.data.store_up === false ? `the store is down: ${asked.data.store_reason || "no reason given"}` : "";
  useEffect(() => {
    noteServed(number(asked.data?.age_ms), storeReason);
    return () => noteServed(0, "");
  }, [asked.data]);
  return (
    <View title="Fleet" what="a colony" asked={asked} command="tidemark status">
      <div class="figures">
        <Figure value={count(unexplained)} label="unexplained gaps, in numbers" tone={unexplained ? "bad big" : "good big"} />
        <Figure value={count(all.length)} label="agents" />
        <Figure value={count(all.filter((agent) => agent.health === "away").length)} label="away" />
        <Figure value={count(asked.data?.open_gaps)} label="open gaps" />
        <Figure value={count(asked.data?.pending)} label="numbers pending" />
        <Figure value={count(lost || asked.data?.lost)} label={lost ? "lost records, not accepted" : "lost, all accepted or long ago"} tone={lost ? "bad" : ""} href={lost ? address("gaps", [], { status: "permanent" }) : undefined} />
      </div>
      {lost > 0 && <Lost agents={all} types={asked.data.data_types || []} />}
      <div class="filters">
        <Filter name="health" label="health" options={["healthy", "degraded", "away", "unseen"]} />
        <label class="filter">name has
          <input type="search" value={find || ""} onInput={(event) => setFilter("find", event.currentTarget.value)} />
        </label>
      </div>
      {agents.length ? <><Heat agents={agents} types={asked.data.data_types || []} /><Legend /></> : (
        <p class="note">No agents{health ? ` that are ${health}` : ""}{find ? " of such a name" : ""}. <code>{placed("tidemark colony agent add NAME HOST:PORT")}</code> adds one.</p>
      )}
    </View>
  );
}

// Agents x data types: how far behind, how long until something is lost; and the one number that must be 0.
import { useRef, useState } from "preact/hooks";
import { colony } from "../api.js";
import { count, duration, plain } from "../format.js";
import { useAsked } from "../hooks.js";
import { Figure, Filter, State, View } from "../parts.jsx";
import { address, place } from "../place.js";

const ROW = 30; // px: rows outside the window are not made, so a thousand agents scroll as ten do
const MARGIN = 10;

const number = (text) => Number(text ?? 0);

function tone(lagMs, lossMs) {
  if (lossMs >= 0 && lossMs < 60000) return "bad";
  if (lossMs >= 0 && lossMs < 600000) return "warn";
  if (lagMs > 60000) return "warn";
  return lagMs > 5000 ? "near" : "good";
}

function Cell({ agent, type, index }) {
  const records = number(agent.lagRecords?.[index]);
  const lagMs = number(agent.lagMs?.[index]);
  const lossMs = number(agent.untilLossMs?.[index] ?? -1);
  const hold = agent.holds?.[index];
  const words = `${plain(agent.agentId)}, ${type}: ${records ? `${count(records)} records, ${duration(lagMs / 1000)} behind` : "caught up"}${
    lossMs >= 0 && records ? `, first loss in ${duration(lossMs / 1000)}` : ""
  }${hold ? `, held: ${hold}` : ""}`;
  return (
    <td class={`heat heat-${hold ? "held" : tone(lagMs, records ? lossMs : -1)}`} title={words}>
      <span class="unseen">{words}</span>
      <span aria-hidden="true">{hold ? "held" : records ? duration(lagMs / 1000) : "·"}</span>
    </td>
  );
}

function Heat({ agents, types }) {
  const box = useRef(null);
  const [top, setTop] = useState(0);
  const height = Math.min(agents.length, 20) * ROW;
  const first = Math.max(0, Math.floor(top / ROW) - MARGIN);
  const last = Math.min(agents.length, Math.ceil((top + height) / ROW) + MARGIN);
  return (
    <div class="scroll heat-box" ref={box} tabIndex={0} role="region" aria-label="lag of every agent and data type"
      style={{ maxHeight: `${height + ROW + 8}px` }} onScroll={() => setTop(box.current.scrollTop)}>
      <table class="heat-table" aria-rowcount={agents.length + 1}>
        <caption class="unseen">Lag of every agent and data type</caption>
        <thead>
          <tr aria-rowindex={1}>
            <th scope="col">agent</th>
            <th scope="col">health</th>
            {types.map((type) => <th scope="col" key={type}>{type}</th>)}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <tr aria-hidden="true" style={{ height: `${first * ROW}px` }}><td colSpan={types.length + 2} /></tr>}
          {agents.slice(first, last).map((agent, offset) => (
            <tr key={agent.agentId} aria-rowindex={first + offset + 2} class="heat-row">
              <th scope="row"><a href={address("agent", [agent.agentId])}>{plain(agent.agentId).slice(0, 60)}</a></th>
              <td><State value={agent.health} /></td>
              {types.map((type, index) => <Cell key={type} agent={agent} type={type} index={index} />)}
            </tr>
          ))}
          {last < agents.length && (
            <tr aria-hidden="true" style={{ height: `${(agents.length - last) * ROW}px` }}><td colSpan={types.length + 2} /></tr>
          )}
        </tbody>
      </table>
    </div>
  );
}

const RANK = { away: 0, degraded: 1, unseen: 2, healthy: 3 };

export function Fleet() {
  const asked = useAsked((abort) => colony("Fleet", {}, abort), [], ["colony"]);
  const { health, find } = place.value.filters;
  const all = asked.data?.agents || [];
  const agents = all
    .filter((agent) => (!health || agent.health === health) && (!find || agent.agentId.includes(find)))
    .sort((a, b) => (RANK[a.health] ?? 9) - (RANK[b.health] ?? 9) || (a.agentId < b.agentId ? -1 : 1));
  const unexplained = number(asked.data?.unexplained);
  return (
    <View title="Fleet" what="a colony" asked={asked} command="tidemark status">
      <div class="figures">
        <Figure value={count(unexplained)} label="numbers unexplained" tone={unexplained ? "bad big" : "good big"} />
        <Figure value={count(all.length)} label="agents" />
        <Figure value={count(all.filter((agent) => agent.health === "away").length)} label="away" />
        <Figure value={count(asked.data?.openGaps)} label="open gaps" />
        <Figure value={count(asked.data?.pending)} label="numbers pending" />
        <Figure value={count(asked.data?.lost)} label="lost, with a reason" />
      </div>
      <div class="filters">
        <Filter name="health" label="health" options={["healthy", "degraded", "away", "unseen"]} />
      </div>
      {agents.length ? <Heat agents={agents} types={asked.data.dataTypes || []} /> : (
        <p class="note">No agents{health ? ` that are ${health}` : ""}. <code>tidemark colony agent add NAME HOST:PORT</code> adds one.</p>
      )}
    </View>
  );
}

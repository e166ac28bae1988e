// Faults on request, where the demonstration runs: something is broken on purpose, and heals while one looks.
import { useState } from "preact/hooks";
import { demo } from "../api.js";
import { useAsked } from "../hooks.js";
import { Act, Text } from "../parts.jsx";

const FAULTS = [
  ["pause", "pause an agent", "It does not answer for a while: health goes to away, then it catches up."],
  ["wipe", "wipe an agent", "Its store is deleted: a new session begins, and what nobody had read is told as lost."],
  ["drop", "drop its packets", "Its connections break off in the middle of answers: pages are asked for again."],
  ["kill", "kill a worker", "kill -9 in the middle of an item: its lease runs out and another goes on from its checkpoint."],
];

export function Demo() {
  const asked = useAsked((abort) => demo("GetDemo", {}, abort), [], []);
  const [chosen, setChosen] = useState("");
  const [done, setDone] = useState("");
  if (!asked.data) return null;
  const agents = asked.data.agents || [];
  return (
    <aside class="demo" aria-label="faults on request">
      <h2>Break something</h2>
      <label class="filter">agent
        <select value={chosen} onChange={(event) => setChosen(event.currentTarget.value)}>
          <option value="">any</option>
          {agents.map((name) => <option key={name} value={name}>{name}</option>)}
        </select>
      </label>
      {FAULTS.map(([fault, title, words]) => (
        <span key={fault} class="demo-act" title={words}>
          <Act run={async () => setDone((await demo("Disturb", { fault, agent: chosen })).words)}>{title}</Act>
        </span>
      ))}
      <p role="status"><Text value={done} max={200} /></p>
    </aside>
  );
}

// Faults on request, where the demonstration runs: something is broken on purpose, and heals while one looks.
import { useState } from "preact/hooks";
import { demo } from "../api.js";
import { useAsked } from "../hooks.js";
import { Act, Text } from "../parts.jsx";

// Labels of buttons; the service describes what a fault does.
const TITLES = {
  pause: "pause an agent",
  resume: "let it answer again",
  drop: "drop its packets",
  late: "let it be late",
  wipe: "wipe an agent",
  kill: "kill a worker",
};

export function Demo() {
  const asked = useAsked((abort) => demo("GetDemo", {}, abort), [], []);
  const [agent, setAgent] = useState("");
  const [done, setDone] = useState("");
  if (!asked.data) return null;
  const words = Object.fromEntries((asked.data.fault_texts || []).map((one) => [one.name, one.text.replace("%s", "the agent")]));
  return (
    <aside class="demo" aria-label="faults on request">
      <h2>Break something</h2>
      <label class="filter">agent
        <input list="demo-agents" placeholder="any" value={agent} onInput={(event) => setAgent(event.currentTarget.value)} />
      </label>
      <datalist id="demo-agents">{(asked.data.agents || []).map((name) => <option key={name} value={name} />)}</datalist>
      {(asked.data.faults || []).map((fault) => (
        <span key={fault} class="demo-act" title={words[fault] || ""}>
          <Act run={async () => setDone((await demo("Disturb", { fault, agent: agent.trim() })).text)}>{TITLES[fault] || fault}</Act>
        </span>
      ))}
      <p role="status"><Text value={done} max={300} /></p>
    </aside>
  );
}

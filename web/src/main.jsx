import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { about, askAbout, askEarly, askPlace, isLive, keepToken, needsToken, stayLive, token } from "./api.js";
import { duration } from "./format.js";
import { isStale, now, stale, watchFreshness } from "./fresh.js";
import { useKey } from "./hooks.js";
import { Text, View } from "./parts.jsx";
import { address, place } from "./place.js";
import { theme } from "./theme.js";
import { Agent } from "./views/agent.jsx";
import { Checkpoint, Checkpoints } from "./views/checkpoints.jsx";
import { Demo } from "./views/demo.jsx";
import { Fleet } from "./views/fleet.jsx";
import { Gaps } from "./views/gaps.jsx";
import { Lake } from "./views/lake.jsx";
import { Query } from "./views/query.jsx";
import { Replication } from "./views/replication.jsx";
import { Telemetry } from "./views/telemetry.jsx";
import { Item, Work } from "./views/work.jsx";

const VIEWS = [
  ["fleet", "Fleet"],
  ["gaps", "Gaps"],
  ["work", "Work"],
  ["checkpoints", "Checkpoints"],
  ["replication", "Replication"],
  ["lake", "Lake"],
  ["telemetry", "Telemetry"],
  ["query", "Query"],
];

function Shown() {
  const { view, parts } = place.value;
  switch (view) {
    case "fleet":
      return <Fleet />;
    case "agent":
      return <Agent name={parts[0] || ""} />;
    case "gaps":
      return <Gaps />;
    case "work":
      return parts[0] ? <Item id={parts[0]} /> : <Work />;
    case "checkpoints":
      return parts[0] ? <Checkpoint id={parts[0]} /> : <Checkpoints />;
    case "replication":
      return <Replication chosen={parts[0] || ""} />;
    case "lake":
      return <Lake chosen={parts[0] || ""} />;
    case "telemetry":
      return <Telemetry parts={parts} />;
    case "query":
      return <Query />;
    default:
      return <View title="Nowhere"><p class="failure">There is no view of this name. <a href={address("fleet")}>To the fleet</a></p></View>;
  }
}

function Login() {
  const [text, setText] = useState("");
  return (
    <form class="login" onSubmit={(event) => { event.preventDefault(); keepToken(text.trim()); location.reload(); }}>
      <h1>A token is needed</h1>
      {token.value && <p class="failure" role="alert">The one that was given is not accepted.</p>}
      <p>This server wants a token from every caller. <code>tidemark token create</code> makes one.</p>
      <label for="token">Token</label>
      <input id="token" type="password" autocomplete="off" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      <button type="submit" disabled={!text.trim()}>go on</button>
    </form>
  );
}

// Over everything while the page may not be true: why, and of when it is.
function Stale() {
  if (!stale.value) return null;
  const { since, reason } = stale.value;
  return (
    <div class="stale-bar" role="alert">
      <strong>Stale:</strong> <Text value={reason} max={200} />. Data is <span class="stale-age">{duration(Math.max(0, now.value - since) / 1000)}</span> old ({new Date(since).toLocaleTimeString()}).
    </div>
  );
}

function App() {
  const [help, setHelp] = useState(false);
  useKey("?", () => setHelp((shown) => !shown));
  VIEWS.forEach(([view], index) => useKey(String(index + 1), () => (location.hash = address(view))));
  const { view, parts } = place.value;
  useEffect(() => {
    document.title = `${view} · Tidemark`;
    document.getElementById("view-title")?.focus({ preventScroll: true });
  }, [view, parts.join("/")]);
  if (needsToken.value) return <main id="main"><Login /></main>;
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>to the contents</a>
      <Stale />
      <header class="bar-top">
        <a class="brand" href={address(about.value.views[0] || "fleet")}>Tidemark</a>
        <nav aria-label="views">
          {VIEWS.filter(([name]) => about.value.views.includes(name)).map(([name, title]) => <a key={name} href={address(name)} aria-current={view === name || (name === "fleet" && view === "agent") ? "page" : undefined}>{title}</a>)}
        </nav>
        <span class={`live ${isLive.value && !isStale.value ? "is-live" : ""}`} role="status">{isLive.value && !isStale.value ? "live" : "not live"}</span>
        <label class="filter">theme
          <select value={theme.value} onChange={(event) => (theme.value = event.currentTarget.value)}>
            <option value="">as the system</option><option value="dark">dark</option><option value="light">light</option>
          </select>
        </label>
      </header>
      {help && <p class="note keys" role="status">Keys: 1 to {VIEWS.length} choose a view, ? shows this, Tab and Enter do the rest.</p>}
      <main id="main" tabIndex={-1} data-stale={String(isStale.value)}><Shown /></main>
      {about.value.views.includes("demo") && <Demo />}
    </>
  );
}

// The first view waits for one answer: it is under way while the page is being made.
if (place.value.view === "fleet") askEarly("tidemark.colony.v1.ColonyService", "Fleet", { brief: true });
// A server without agents begins with the first view that it has.
askAbout().then(() => {
  const first = about.value.views[0];
  if (!location.hash && first && first !== "fleet") location.replace(address(first));
});
askPlace();
render(<App />, document.getElementById("app"));
watchFreshness();
stayLive();

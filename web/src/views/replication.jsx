// Replicated databases: how far each node is in each log, what holds floors down, what collided, what waits, and what a new node could begin with.
import { replica, replicas } from "../api.js";
import { ago, bytes, count, duration, seconds, when, word } from "../format.js";
import { useAsked } from "../hooks.js";
import { Command, Figure, State, Table, Text, View } from "../parts.jsx";
import { address } from "../place.js";

const short = (id) => String(id).slice(0, 8);
const number = (text) => BigInt(text ?? 0);
const greater = (a, b) => (a > b ? a : b);

// Every database that is served here, with what it says of itself.
async function ask(abort) {
  const list = (await replicas(abort)).replicas || [];
  return Promise.all(list.map(async (one) => ({ ...one, ...(await replica(one, "GetStatus", {}, abort)) })));
}

async function askDetails(database, abort) {
  if (!database) return { conflicts: [], held: [] };
  const wanted = (counted, method) => (counted > 0 ? replica(database, method, { limit: 100 }, abort) : {});
  const [conflicts, held] = await Promise.all([
    wanted(Number(database.conflicts) + Number(database.aside), "ListConflicts"),
    wanted(Number(database.quarantined), "ListQuarantined"),
  ]);
  return { conflicts: conflicts.conflicts || [], moreConflicts: !!conflicts.more, held: held.events || [], moreHeld: !!held.more };
}

// Names for ids: a database here, the name that a peer was given, or the beginning of its id.
function namesOf(databases) {
  const names = new Map();
  for (const database of databases) for (const peer of database.peers || []) if (peer.name) names.set(peer.node, peer.name);
  for (const database of databases) names.set(database.node, database.name);
  return (id) => names.get(id) || short(id);
}

const logKey = (log) => `${log.origin} ${log.epoch}`;

// Rows: nodes, those here first. Columns: logs (an origin's epoch). A node that is here reports its own version vector; of others the last report counts.
function matrixOf(databases) {
  const logs = new Map();
  const nodes = new Map(databases.map((database) => [database.node, { id: database.node, isHere: true, seen_at: database.now, marks: new Map() }]));
  for (const database of databases)
    for (const log of database.logs || []) {
      const known = logs.get(logKey(log)) || { ...log, head: 0n };
      logs.set(logKey(log), { ...known, head: greater(known.head, number(log.highest)) });
      nodes.get(database.node).marks.set(logKey(log), number(log.prefix));
    }
  for (const database of databases)
    for (const peer of database.peers || []) {
      const known = nodes.get(peer.node);
      if (known?.isHere || (known && number(known.seen_at) >= number(peer.seen_at))) continue;
      const marks = new Map((peer.marks || []).map((mark) => [logKey(mark), number(mark.mark)]));
      nodes.set(peer.node, { id: peer.node, isHere: false, seen_at: peer.seen_at, marks });
      for (const [key, mark] of marks) if (logs.has(key)) logs.get(key).head = greater(logs.get(key).head, mark);
    }
  return { logs: [...logs.values()], nodes: [...nodes.values()] };
}

const lagOf = (node, log) => log.head - (node.marks.get(logKey(log)) ?? number(log.start));

// By name; epochs that have ended and are everywhere are history, and left out.
function shownLogs({ logs, nodes }, name) {
  const isNewest = (log) => !logs.some((other) => other.origin === log.origin && number(other.epoch) > number(log.epoch));
  const rank = (log) => `${name(log.origin)} ${String(log.epoch).padStart(20, "0")}`;
  return logs.filter((log) => isNewest(log) || nodes.some((node) => lagOf(node, log) > 0n)).sort((a, b) => (rank(a) < rank(b) ? -1 : 1));
}
const toneOf = (lag) => (lag === 0n ? "good" : lag < 100n ? "near" : lag < 10000n ? "warn" : "bad");

function MarkCell({ node, log, name }) {
  const lag = lagOf(node, log);
  const mark = node.marks.get(logKey(log));
  const words = `${name(node.id)} has ${mark === undefined ? "nothing" : `everything up to ${count(String(mark))}`} of ${name(log.origin)}${lag > 0n ? `: ${count(String(lag))} events behind` : ""}`;
  return (
    <td class={`heat heat-${toneOf(lag)}`} title={words}>
      <span class="unseen">{words}</span>
      <span aria-hidden="true">{count(String(mark ?? 0n))}{lag > 0n && <small> −{count(String(lag))}</small>}</span>
    </td>
  );
}

function Matrix({ matrix, name, now }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="how far each node is in each log">
      <table class="heat-table">
        <caption>How far each node (rows) is in the log of each origin (columns)</caption>
        <thead>
          <tr>
            <th scope="col">node</th>
            <th scope="col">seen</th>
            {matrix.logs.map((log) => <th scope="col" key={logKey(log)} title={log.origin}><Text value={name(log.origin)} max={30} />{log.epoch !== 1 && <span class="soft"> epoch {log.epoch}</span>}</th>)}
          </tr>
        </thead>
        <tbody>
          {matrix.nodes.map((node) => (
            <tr key={node.id}>
              <th scope="row" title={node.id}><Text value={name(node.id)} max={40} /> {node.isHere && <span class="soft">here</span>}</th>
              <td>{node.isHere ? "now" : ago(node.seen_at, seconds(now))}</td>
              {matrix.logs.map((log) => <MarkCell key={logKey(log)} node={node} log={log} name={name} />)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const Floors = ({ database, name }) => (
  <Table caption={`Logs of ${database.name}: what was collected, and who holds the floor down`} rows={database.logs} rowKey={logKey} empty="No table of it is tracked." columns={[
    { name: "origin", cell: (row) => <span title={row.origin}><Text value={name(row.origin)} max={40} /></span> },
    { name: "epoch", align: "right" },
    { name: "floor", align: "right", cell: (row) => count(row.floor) },
    { name: "prefix", title: "through", align: "right", cell: (row) => count(row.prefix) },
    { name: "kept", title: "events kept", align: "right", cell: (row) => count(String(number(row.prefix) - greater(number(row.floor), number(row.start)))) },
    { name: "pin", title: "may rise to", align: "right", cell: (row) => count(row.pin) },
    { name: "pinned_by", title: "held down by", cell: (row) => (row.pinned_by ? <span title={row.pinned_by}><Text value={name(row.pinned_by)} max={40} /></span> : <span class="soft">no peer</span>) },
  ]} />
);

const Peers = ({ database, name }) => (
  <Table caption={`Peers of ${database.name}`} rows={database.peers} rowKey={(row) => row.node} empty="No peer has told yet how far it is." columns={[
    { name: "node", title: "peer", cell: (row) => <span title={row.node}><Text value={name(row.node)} max={60} /></span> },
    { name: "seen", cell: (row) => ago(row.seen_at, seconds(database.now)) },
    { name: "expires", title: "bounds collection for", cell: (row) => (seconds(row.expires_at) > seconds(database.now) ? duration(seconds(row.expires_at) - seconds(database.now)) : <State value="expired" />) },
    { name: "unlike", title: "tables of other types", cell: (row) => <Text value={row.unlike || "none"} max={80} /> },
  ]} />
);

const Conflicts = ({ details, name }) => (
  <Table caption={`Writes that lost against others unseen, and rows that a constraint keeps out${details.moreConflicts ? "; the first 100" : ""}`} rows={details.conflicts} empty="Nothing has collided." columns={[
    { name: "table" },
    { name: "key", cell: (row) => <code><Text value={row.record_id} max={60} /></code> },
    { name: "reason" },
    { name: "column" },
    { name: "value", title: "what was lost", cell: (row) => <code><Text value={row.theirs === null ? "" : JSON.stringify(row.theirs)} max={80} /></code> },
    { name: "node", title: "written by", cell: (row) => <Text value={row.node ? name(row.node) : ""} max={40} /> },
    { name: "written", cell: (row) => when(row.written_at) },
  ]} />
);

const Quarantine = ({ details, name }) => (
  <Table caption={`Events that cannot be merged yet${details.moreHeld ? "; the first 100" : ""}`} rows={details.held} rowKey={(row) => `${row.origin} ${row.epoch} ${row.seq}`} empty="Every event is merged." columns={[
    { name: "origin", cell: (row) => <Text value={name(row.origin)} max={40} /> },
    { name: "seq", title: "number", align: "right", cell: (row) => count(row.seq) },
    { name: "table" },
    { name: "record_id", title: "row", cell: (row) => <code><Text value={row.record_id} max={40} /></code> },
    { name: "reason", cell: (row) => <State value={row.reason} /> },
    { name: "detail", title: "why", cell: (row) => <Text value={row.detail} max={120} /> },
    { name: "found", cell: (row) => ago(row.found_at) },
  ]} />
);

const Snapshots = ({ database, name }) => (
  <Table caption={`Snapshots of ${database.name}`} rows={(database.snapshots || []).slice().reverse()} rowKey={(row) => row.snapshot_id} empty="None was made: as long as no floor has risen, a new peer needs none." columns={[
    { name: "snapshot_id", title: "snapshot", cell: (row) => <code><Text value={row.snapshot_id} max={36} /></code> },
    { name: "made", cell: (row) => ago(row.created_at) },
    { name: "size", align: "right", cell: (row) => bytes(row.bytes) },
    { name: "verified", cell: (row) => <State value={row.verified ? "verified" : "unverified"} /> },
    { name: "serves", title: "for a new peer", cell: (row) => (row.serves ? "serves" : "below a floor") },
    { name: "cut", title: "up to", cell: (row) => <Text value={(row.cut || []).map((mark) => `${name(mark.origin)} ${count(mark.mark)}`).join(", ")} max={120} /> },
  ]} />
);

function Database({ database, name }) {
  const asked = useAsked((abort) => askDetails(database, abort), [database.node, database.conflicts, database.aside, database.quarantined], []);
  const details = asked.data || { conflicts: [], held: [] };
  const file = word(database.file || database.name);
  return (
    <section aria-label={`database ${database.name}`}>
      <h2><Text value={database.name} max={60} /></h2>
      <p class="soft">Tables: <Text value={(database.tables || []).join(", ") || "none"} max={200} />. Node <code>{database.node}</code>, epoch {database.epoch}.</p>
      <Floors database={database} name={name} />
      <Peers database={database} name={name} />
      <Conflicts details={details} name={name} />
      <Quarantine details={details} name={name} />
      <Snapshots database={database} name={name} />
      <Command text={`tidemark replica conflicts ${file}`} />
      <Command text={`tidemark replica snapshot ls ${file}`} />
    </section>
  );
}

export function Replication({ chosen }) {
  const asked = useAsked(ask, [], ["replica"]);
  const databases = asked.data || [];
  const shown = databases.find((one) => one.name === chosen) || databases[0];
  const name = namesOf(databases);
  const all = matrixOf(databases);
  const matrix = { ...all, logs: shownLogs(all, name) };
  const total = (field) => databases.reduce((sum, one) => sum + Number(one[field] || 0), 0);
  const behind = matrix.nodes.flatMap((node) => matrix.logs.map((log) => lagOf(node, log))).reduce(greater, 0n);
  return (
    <View title="Replication" what="replicated databases" asked={asked} command={shown ? `tidemark replica status ${word(shown.file || shown.name)}` : "tidemark up --replica NAME=FILE"}>
      {shown ? (
        <>
          <div class="figures">
            <Figure value={count(String(behind))} label="events behind, at most" tone={behind === 0n ? "good big" : "warn big"} />
            <Figure value={count(databases.length)} label="databases here" />
            <Figure value={count(matrix.nodes.length - databases.length)} label="nodes elsewhere" />
            <Figure value={count(total("conflicts"))} label="conflicts" tone={total("conflicts") ? "warn" : ""} />
            <Figure value={count(total("aside"))} label="rows aside" tone={total("aside") ? "warn" : ""} />
            <Figure value={count(total("quarantined"))} label="quarantined" tone={total("quarantined") ? "bad" : ""} />
          </div>
          <Matrix matrix={matrix} name={name} now={shown.now} />
          {databases.length > 1 && (
            <nav class="tabs" aria-label="databases">
              {databases.map((one) => <a key={one.name} href={address("replication", [one.name])} aria-current={one === shown ? "page" : undefined}><Text value={one.name} max={40} /></a>)}
            </nav>
          )}
          <Database key={shown.node} database={shown} name={name} />
        </>
      ) : <p class="note">No database is replicated here.</p>}
    </View>
  );
}

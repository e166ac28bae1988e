// The lake: catalogs and their forks, the chain of snapshots of one, what it holds at each, and which commits collided.
import { lake } from "../api.js";
import { ago, bytes, count, seconds, plain, when, word } from "../format.js";
import { useAsked } from "../hooks.js";
import { Command, Failure, Figure, State, Table, Text, View, placed } from "../parts.jsx";
import { address, place } from "../place.js";

const PAGE = 50;

const ask = async (abort) => {
  const [catalogs, conflicts] = await Promise.all([lake("ListCatalogs", {}, abort), lake("ListConflicts", { limit: 100 }, abort)]);
  return { catalogs: catalogs.catalogs || [], unavailable: catalogs.rows_unavailable, conflicts: conflicts.conflicts || [] };
};

const childrenOf = (catalogs, parent) => catalogs.filter((one) => (one.parent || "") === parent);
// A fork whose parent is not here any more stands at the top.
const rootsOf = (catalogs) => catalogs.filter((one) => !one.parent || !catalogs.some((other) => other.name === one.parent));

function Branch({ catalogs, catalog, chosen, depth }) {
  const forks = depth < 16 ? childrenOf(catalogs, catalog.name) : [];
  return (
    <li>
      <a href={address("lake", [catalog.name])} aria-current={catalog.name === chosen ? "page" : undefined}><Text value={catalog.name} max={60} /></a>
      <span class="soft"> at {catalog.snapshot_id}, {ago(catalog.snapshot_time)}{catalog.parent && `, forked at ${catalog.parent_snapshot_id}`}</span>
      {forks.length > 0 && <ul>{forks.map((fork) => <Branch key={fork.catalog_id} catalogs={catalogs} catalog={fork} chosen={chosen} depth={depth + 1} />)}</ul>}
    </li>
  );
}

// In the order of the tree, so that a fork stands below its parent.
function inOrder(catalogs, some = rootsOf(catalogs), depth = 0) {
  return some.flatMap((one) => [one, ...(depth < 16 ? inOrder(catalogs, childrenOf(catalogs, one.name), depth + 1) : [])]);
}

// A line per catalog: from when it was made to its newest snapshot, and thinly on. A fork hangs on its parent's line.
function Lines({ catalogs }) {
  const rows = inOrder(catalogs).slice(0, 40);
  if (!rows.some((one) => one.parent)) return null;
  const from = Math.min(...rows.map((one) => seconds(one.created_at)));
  const span = Math.max(1, Math.max(...rows.map((one) => seconds(one.snapshot_time))) - from);
  const x = (time) => 8 + ((seconds(time) - from) / span) * 980;
  const y = (one) => 18 + rows.indexOf(one) * 26;
  return (
    <figure class="timeline">
      <figcaption>Catalogs and forks, from {when(from)} on</figcaption>
      <svg viewBox={`0 0 1000 ${rows.length * 26 + 8}`} role="img" aria-label="catalogs over time; the list says the same">
        {rows.map((one) => {
          const parent = rows.find((other) => other.name === one.parent);
          return (
            <g key={one.catalog_id} class={parent ? "lane lane-fork" : "lane"}>
              {parent && <path d={`M${x(one.created_at)} ${y(parent)} V${y(one)}`} />}
              <path class="lane-quiet" d={`M${x(one.created_at)} ${y(one)} H988`} />
              <path d={`M${x(one.created_at)} ${y(one)} H${x(one.snapshot_time)}`} />
              <circle cx={x(one.snapshot_time)} cy={y(one)} r={4} />
              <text x={Math.min(x(one.created_at) + 6, 860)} y={y(one) - 5}>{plain(one.name).slice(0, 40)}</text>
            </g>
          );
        })}
      </svg>
    </figure>
  );
}

// "inserted_into_table:2,dropped_table:3" as people say it; a table that is here is called by its name.
function deeds(text, tables) {
  const named = (id) => tables.find((one) => String(one.table_id) === id);
  const say = (deed, of) => `${deed.replaceAll("_", " ")} ${named(of) ? `${named(of).schema}.${named(of).name}` : of}`;
  return String(text || "").split(/,(?=[a-z_]+:)/).filter(Boolean).map((one) => say(...one.split(/:(.*)/s))).join("; ");
}

function Chain({ catalog, catalogs, snapshots, tables, at }) {
  const owner = (id) => catalogs.find((one) => one.catalog_id === id)?.name || `catalog ${id}`;
  return (
    <Table caption={`Snapshots of ${catalog.name}, newest first`} rows={snapshots} rowKey={(row) => row.snapshot_id} empty="No snapshots." columns={[
      { name: "snapshot_id", title: "snapshot", align: "right", cell: (row) => <a href={address("lake", [catalog.name], { at: row.snapshot_id })} aria-current={String(row.snapshot_id) === at ? "true" : undefined}>{row.snapshot_id}</a> },
      { name: "when", cell: (row) => ago(row.snapshot_time) },
      { name: "changes", cell: (row) => <Text value={deeds(row.changes_made, tables) || "the catalog began"} max={120} /> },
      { name: "author", cell: (row) => <Text value={row.author} max={40} /> },
      { name: "message", cell: (row) => <Text value={row.message} max={80} /> },
      { name: "of", cell: (row) => (row.catalog_id === catalog.catalog_id ? <span class="soft">its own</span> : <Text value={owner(row.catalog_id)} max={40} />) },
    ]} />
  );
}

function Difference({ catalog, from, to }) {
  const asked = useAsked((abort) => lake("Diff", { catalog, from, to, limit: 200 }, abort), [catalog, from, to], []);
  return (
    <>
      <Failure error={asked.error} what="a lake" />
      <Table caption={`What changed from ${from} to ${to}${asked.data?.cut ? "; the first 200" : ""}`} rows={asked.data?.differences} empty={asked.isLoading ? "Comparing …" : "Nothing."} columns={[
        { name: "added", title: "how", cell: (row) => <State value={row.added ? "added" : "removed"} /> },
        { name: "kind", cell: (row) => String(row.kind).replace("_", " ") },
        { name: "name", cell: (row) => <code><Text value={row.name} max={80} /></code> },
        { name: "records", title: "rows", align: "right", cell: (row) => (Number(row.records) ? count(row.records) : "") },
      ]} />
      <Command text={`tidemark lake diff ${word(catalog)} ${word(from)} ${word(to)}`} />
    </>
  );
}

function Files({ catalog, table, at }) {
  const asked = useAsked((abort) => lake("ListFiles", { catalog: catalog.name, schema: table.schema, table: table.name, at: at || "", limit: 200 }, abort), [catalog.snapshot_id, table.table_id, at], []);
  const files = asked.data || {};
  return (
    <section aria-label={`table ${table.schema}.${table.name}`}>
      <h3><Text value={`${table.schema}.${table.name}`} max={80} /></h3>
      <Failure error={asked.error} what="a lake" />
      <p class="soft">{count(files.rows_total)} rows in {count(files.files_total)} files, {bytes(files.bytes_total)}</p>
      <Table caption="Columns" rows={table.columns} rowKey={(row) => row.column_id} empty="No columns." columns={[
        { name: "name" },
        { name: "type", cell: (row) => <code><Text value={row.type} max={60} /></code> },
        { name: "nulls", cell: (row) => (row.nulls ? "allowed" : "not allowed") },
      ]} />
      <Table caption={`Data files${files.cut ? "; the first 200" : ""}`} rows={files.files} rowKey={(row) => row.data_file_id} empty={asked.isLoading ? "Loading …" : "No files: the table is empty."} columns={[
        { name: "data_file_id", title: "file", align: "right" },
        { name: "rows", align: "right", cell: (row) => count(row.rows) },
        { name: "deleted_rows", title: "deleted", align: "right", cell: (row) => (Number(row.deleted_rows) ? count(row.deleted_rows) : "") },
        { name: "bytes", title: "size", align: "right", cell: (row) => bytes(row.bytes) },
        { name: "begin_snapshot_id", title: "since snapshot", align: "right" },
        { name: "shared", cell: (row) => (row.catalog_id === catalog.catalog_id ? "" : "shared with an ancestor") },
        { name: "path", cell: (row) => <code title={row.path}><Text value={String(row.path).split("/").at(-1)} max={60} /></code> },
      ]} />
    </section>
  );
}

function Contents({ catalog, catalogs }) {
  const { at, table, before } = place.value.filters;
  const asked = useAsked(async (abort) => {
    const [snapshots, tables] = await Promise.all([
      lake("ListSnapshots", { catalog: catalog.name, newest_first: true, before: before || 0, limit: PAGE }, abort),
      lake("ListTables", { catalog: catalog.name, at: at || "" }, abort),
    ]);
    return { snapshots: snapshots.snapshots || [], tables: tables.tables || [] };
  }, [catalog.name, catalog.snapshot_id, at, before], []);
  const { snapshots = [], tables = [] } = asked.data || {};
  const shown = tables.find((one) => `${one.schema}.${one.name}` === table);
  const previous = snapshots[snapshots.findIndex((one) => String(one.snapshot_id) === at) + 1];
  const here = (filters) => address("lake", [catalog.name], { at, table, before, ...filters });
  return (
    <section aria-label={`catalog ${catalog.name}`}>
      <h2><Text value={catalog.name} max={60} />{at && <> at snapshot {at}, <a href={here({ at: "" })}>newest</a></>}</h2>
      <Failure error={asked.error} what="a lake" />
      <Table caption="Tables and views" rows={tables} rowKey={(row) => `${row.kind} ${row.table_id}`} empty="Nothing is in it." columns={[
        { name: "name", cell: (row) => (row.kind === "table" ? <a href={here({ table: `${row.schema}.${row.name}` })}><Text value={`${row.schema}.${row.name}`} max={80} /></a> : <Text value={`${row.schema}.${row.name}`} max={80} />) },
        { name: "kind" },
        { name: "columns", cell: (row) => <Text value={row.sql || (row.columns || []).map((one) => `${one.name} ${one.type}`).join(", ")} max={120} /> },
        { name: "begin_snapshot_id", title: "since snapshot", align: "right" },
      ]} />
      {shown && <Files catalog={catalog} table={shown} at={at} />}
      <Chain catalog={catalog} catalogs={catalogs} snapshots={snapshots} tables={tables} at={at} />
      <p>
        {before && <a href={here({ before: "" })}>newest</a>} {snapshots.length === PAGE && <a href={here({ before: snapshots.at(-1).snapshot_id })}>older</a>}
      </p>
      {at && previous && <Difference catalog={catalog.name} from={String(previous.snapshot_id)} to={at} />}
      <Command text={`tidemark lake snapshots ${word(catalog.name)}`} />
      <Command text={`tidemark lake table ls ${word(catalog.name)}${at ? ` --at ${word(at)}` : ""}`} />
    </section>
  );
}

export function Lake({ chosen }) {
  const asked = useAsked(ask, [], ["lake"]);
  const { catalogs = [], conflicts = [], unavailable } = asked.data || {};
  const shown = catalogs.find((one) => one.name === chosen) || (chosen ? null : rootsOf(catalogs)[0]);
  return (
    <View title="Lake" what="a lake" asked={asked} command="tidemark lake catalog ls">
      {unavailable && <p class="failure" role="alert">Rows cannot be read or written: <Text value={unavailable} max={400} />. In a source tree, <code>make duckdb</code> downloads it.</p>}
      <div class="figures">
        <Figure value={count(catalogs.length)} label="catalogs" />
        <Figure value={count(catalogs.filter((one) => one.parent).length)} label="of them forks" />
        <Figure value={count(catalogs.reduce((most, one) => Math.max(most, Number(one.snapshot_id)), 0))} label="newest snapshot" />
        <Figure value={count(conflicts.length)} label="commits refused lately" />
      </div>
      {catalogs.length ? (
        <>
          <nav aria-label="catalogs"><ul class="tree">{rootsOf(catalogs).map((one) => <Branch key={one.catalog_id} catalogs={catalogs} catalog={one} chosen={shown?.name} depth={0} />)}</ul></nav>
          <Lines catalogs={catalogs} />
        </>
      ) : <p class="note">No catalogs. <code>{placed("tidemark lake catalog create NAME")}</code> makes one.</p>}
      {shown ? <Contents key={shown.catalog_id} catalog={shown} catalogs={catalogs} /> : chosen && <p class="failure">There is no catalog <Text value={chosen} max={60} />.</p>}
      <Table caption="Commits that were refused, since this process began" rows={conflicts} empty="No commit was refused." columns={[
        { name: "when", cell: (row) => ago(row.time) },
        { name: "catalog", cell: (row) => <a href={address("lake", [row.catalog])}><Text value={row.catalog} max={40} /></a> },
        { name: "author", title: "of", cell: (row) => <Text value={row.author || "unknown"} max={40} /> },
        { name: "base", title: "based on", align: "right", cell: (row) => row.base_snapshot_id },
        { name: "snapshot", title: "collided with", align: "right", cell: (row) => <a href={address("lake", [row.catalog], { at: row.snapshot_id })}>{row.snapshot_id}</a> },
        { name: "with_author", title: "by", cell: (row) => <Text value={row.with_author || "unknown"} max={40} /> },
        { name: "what", title: "which", cell: (row) => <Text value={row.what} max={80} /> },
      ]} />
    </View>
  );
}

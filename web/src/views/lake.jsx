// Catalogs with their forks, the chain of snapshots, the files that live now.
import { lake } from "../api.js";
import { bytes, count, when, word } from "../format.js";
import { useAsked } from "../hooks.js";
import { Table, Text, View } from "../parts.jsx";
import { address } from "../place.js";

function Branch({ catalogs, parent }) {
  const under = catalogs.filter((one) => (one.parentName || "") === parent);
  if (!under.length) return null;
  return (
    <ul class="tree">
      {under.map((one) => (
        <li key={one.catalogId}>
          <a href={address("lake", [one.name])}><Text value={one.name} max={80} /></a>
          <span class="soft"> snapshot {one.head}{one.forkSnapshot && one.forkSnapshot !== "0" ? `, forked at ${one.forkSnapshot}` : ""}</span>
          <Branch catalogs={catalogs} parent={one.name} />
        </li>
      ))}
    </ul>
  );
}

export function Lake({ parts }) {
  const name = parts[0];
  const asked = useAsked(async (abort) => {
    const catalogs = await lake("ListCatalogs", {}, abort);
    if (!name) return { catalogs: catalogs.catalogs || [] };
    const [snapshots, tables] = await Promise.all([
      lake("ListSnapshots", { catalog: name, limit: 200, newestFirst: true }, abort),
      lake("ListTables", { catalog: name }, abort),
    ]);
    return { catalogs: catalogs.catalogs || [], snapshots: snapshots.snapshots || [], tables: tables.tables || [] };
  }, [name], ["lake"]);
  return (
    <View title="Lake" what="a lake" asked={asked} command={name ? `tidemark lake snapshots ${word(name)}` : "tidemark lake catalog ls"}>
      {asked.data && (asked.data.catalogs.length ? <Branch catalogs={asked.data.catalogs} parent="" /> : <p class="note">No catalogs. <code>tidemark lake catalog create NAME</code> makes one.</p>)}
      {name && (
        <>
          <Table caption={`Tables of ${name}`} rows={asked.data?.tables} rowKey={(row) => row.tableId} empty="No tables." columns={[
            { name: "name", title: "table", cell: (row) => <Text value={`${row.schema}.${row.name}`} max={80} /> },
            { name: "files", align: "right", cell: (row) => count(row.files) },
            { name: "rows", align: "right", cell: (row) => count(row.records) },
            { name: "size", align: "right", cell: (row) => bytes(row.bytes) },
          ]} />
          <Table caption={`Snapshots of ${name}, newest first`} rows={asked.data?.snapshots} rowKey={(row) => row.snapshotId} empty="No snapshots." columns={[
            { name: "snapshotId", title: "snapshot", align: "right" },
            { name: "time", cell: (row) => when(row.timeUs) },
            { name: "changesMade", title: "changes", cell: (row) => <Text value={row.changesMade} max={120} /> },
            { name: "author" },
          ]} />
        </>
      )}
    </View>
  );
}

// Nodes and logs: who has how much of whose history, what pins the floor, what was lost to a concurrent write.
import { replica } from "../api.js";
import { ago, bytes, count, when } from "../format.js";
import { useAsked } from "../hooks.js";
import { Table, Text, View } from "../parts.jsx";

const short = (id) => String(id || "").slice(0, 8);

export function Replication() {
  const asked = useAsked((abort) => replica("Status", {}, abort), [], ["replica"]);
  const nodes = asked.data?.nodes || [];
  return (
    <View title="Replication" what="replicated databases" asked={asked} command="tidemark replica status DB">
      {nodes.length === 0 && !asked.error && <p class="note">No replicated database here. <code>tidemark replica track DB TABLE</code> makes one.</p>}
      {nodes.map((node) => (
        <section key={node.nodeId} aria-label={`node ${node.name}`}>
          <h2><Text value={node.name} max={60} /> <code>{short(node.nodeId)}</code></h2>
          <Table caption="How far each log is, here and at the peers" rows={node.origins || []} rowKey={(row) => `${row.origin} ${row.epoch}`} empty="No logs yet." columns={[
            { name: "origin", cell: (row) => <code>{short(row.origin)}</code> },
            { name: "epoch", align: "right" },
            { name: "here", align: "right", cell: (row) => count(row.prefix) },
            ...(node.peers || []).map((peer) => ({
              name: peer.nodeId, title: <Text value={peer.name || short(peer.nodeId)} max={30} />, align: "right",
              cell: (row) => count((peer.marks || []).find((mark) => mark.origin === row.origin && mark.epoch === row.epoch)?.mark),
            })),
            { name: "floor", align: "right", cell: (row) => count(row.floor) },
            { name: "pinnedBy", title: "floor held by", cell: (row) => <Text value={row.pinnedBy || "retention"} max={40} /> },
          ]} />
          <Table caption="Conflicts: writes that were lost to concurrent ones" rows={node.conflicts || []} empty="No write was lost." columns={[
            { name: "table" }, { name: "key", cell: (row) => <code><Text value={row.key} max={60} /></code> },
            { name: "column" }, { name: "value", cell: (row) => <Text value={row.value} max={80} /> }, { name: "reason" },
            { name: "found", cell: (row) => ago(row.foundAtUs) },
          ]} />
          <Table caption="Snapshots" rows={node.snapshots || []} rowKey={(row) => row.snapshotId} empty="No snapshots yet." columns={[
            { name: "snapshotId", title: "snapshot" }, { name: "created", cell: (row) => when(row.createdAtUs) },
            { name: "size", align: "right", cell: (row) => bytes(row.bytes) },
            { name: "verified", cell: (row) => (row.verified ? "✓ restored and compared" : "not yet") },
          ]} />
        </section>
      ))}
    </View>
  );
}

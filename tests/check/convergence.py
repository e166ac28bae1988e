#!/usr/bin/env python3
"""Judge a history of replicas: all show the same rows, and no acknowledged write is lost."""

import sys
from collections import defaultdict

from history import Checker, Unreadable, main

EXAMPLE = """\
{"process":"w","operation":"transaction","begin":1,"end":2,"result":"ok","node":"a","value":"w 1",\
"new":["t|1|c|text:'x'"],"gone":[]}
{"process":"r","operation":"state","begin":8,"end":9,"result":"ok","node":"a","rows":["t|1|x"],\
"cells":["t|1|c|text:'x'"]}
{"process":"r","operation":"state","begin":8,"end":9,"result":"ok","node":"b","rows":["t|1|x"],\
"cells":["t|1|c|text:'x'"]}
"""


class Node:
    def __init__(self):
        self.rows = []
        self.cells = set()
        self.listed = set()
        self.is_found = False
        self.position = 0


class Convergence(Checker):
    def __init__(self):
        super().__init__()
        self.nodes = defaultdict(Node)
        self.new = {}  # cell -> (transaction, position), acknowledged
        self.possible = set()  # cells that some write may have made
        self.gone = set()  # cells that some write may have removed
        self.acknowledged = 0
        self.verified = 0
        self.vectors = defaultdict(list)
        self.operations = {
            "transaction": self.transaction,
            "state": self.state,
            "listed": self.listed,
            "verify": self.verify,
            "vector": self.vector,
            "cut": self.cut,
        }

    # ---- reading ----

    def transaction(self, line, position):
        value, new, gone = line["value"], line["new"], line["gone"]
        if line["result"] == "fail":
            return
        self.possible.update(new)
        self.gone.update(gone)
        if line["result"] == "ok":
            self.acknowledged += 1
            for cell in new:
                self.new[cell] = (value, position)

    def state(self, line, position):
        node = self.nodes[line["node"]]
        node.is_found = True
        node.position = position
        node.rows.extend(line["rows"])
        node.cells.update(line["cells"])

    def listed(self, line, position):
        self.nodes[line["node"]].listed.update(line["cells"])

    def verify(self, line, position):
        self.verified += 1
        if line["result"] != "ok":
            text = f": {line['text']}" if "text" in line else ""
            self.violate("verify", f"{line['node']}: {line['name']}{text}", position)

    def vector(self, line, position):
        if line["result"] == "ok":
            self.vectors[line["node"]].append(
                (line["begin"], line["end"], line["vector"], position)
            )

    def cut(self, line, position):
        if "node" not in line:
            return  # of another checker
        self.vectors[line["node"]].append((line["begin"], line["end"], None, position))

    # ---- judging ----

    def judge(self):
        nodes = {name: node for name, node in self.nodes.items() if node.is_found}
        if not nodes and not self.vectors:
            raise Unreadable("no state of a node: there is nothing to judge")
        if nodes and len(nodes) < 2:
            raise Unreadable("the state of one node only: there is nothing to compare")
        self.judge_rows(nodes)
        for name, node in nodes.items():
            self.judge_cells(name, node)
        for name, samples in self.vectors.items():
            self.judge_vectors(name, samples)
        first = next(iter(nodes.values()), Node())
        return {
            "nodes": len(nodes),
            "transactions": self.acknowledged,
            "cells": len(self.new),
            "rows": len(first.rows),
            "listed": len(first.listed),
            "vectors": sum(len(samples) for samples in self.vectors.values()),
        }

    def judge_rows(self, nodes):
        wanted = name = None
        for other, node in nodes.items():
            rows = sorted(node.rows)
            if wanted is None:
                wanted, name = rows, other
            elif rows != wanted:
                differ = sorted(set(rows) ^ set(wanted)) or ["a row that is there twice"]
                self.violate(
                    "diverged",
                    f"{name} and {other} differ in {len(differ)} rows, the first {differ[0]}",
                    nodes[name].position,
                    node.position,
                )

    def judge_cells(self, name, node):
        for cell, (value, position) in self.new.items():
            if cell in node.cells or cell in self.gone or cell in node.listed:
                continue
            self.violate(
                "lost",
                f"{cell} of {value} is neither shown on {name}, nor replaced, nor listed",
                position,
            )
        if not self.possible:
            return
        for cell in node.cells:
            if cell not in self.possible and not cell.endswith("|null:NULL"):
                # a foreign key may have set a column to NULL
                self.violate(
                    "phantom", f"{cell} is shown on {name} and nobody wrote it", node.position
                )

    def judge_vectors(self, name, samples):
        """A node never knows less than it was known to know."""
        known = {}  # origin -> (number, position)
        pending = []
        for begin, end, vector, position in sorted(samples, key=lambda sample: sample[0]):
            for sample in [each for each in pending if each[0] < begin]:
                pending.remove(sample)
                if sample[1] is None:
                    known = {}
                    continue
                for origin, number in sample[1].items():
                    if number > known.get(origin, (0, 0))[0]:
                        known[origin] = (number, sample[2])
            for origin, (number, where) in known.items() if vector is not None else ():
                if vector.get(origin, 0) < number:
                    self.violate(
                        "vector",
                        f"{name}: {origin} went back from {number} to {vector.get(origin, 0)}",
                        where,
                        position,
                    )
            pending.append((end, vector, position))


if __name__ == "__main__":
    sys.exit(main(Convergence, EXAMPLE))

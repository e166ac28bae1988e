-- Ranges of a table by key order (replica/range.c, repair.c). ?1 to ?64: the key behind which a range begins; ?65 and on, at the places of the
-- key's columns: the key that it ends with.

-- template: range_all
SELECT {{each columns ,}}{{name}}{{end}} FROM {{table}}{{if nullable}} WHERE {{each key AND}}{{name}} IS NOT NULL{{end}}{{end}} ORDER BY {{each key ,}}{{name}}{{if wide}} COLLATE {{sql}}{{end}}{{end}};

-- template: range_after
SELECT {{each columns ,}}{{name}}{{end}} FROM {{table}}
WHERE ({{each key ,}}{{name}}{{end}}) > ({{each key ,}}?{{n}}{{if wide}} COLLATE {{sql}}{{end}}{{end}}){{if nullable}} AND {{each key AND}}{{name}} IS NOT NULL{{end}}{{end}} ORDER BY {{each key ,}}{{name}}{{if wide}} COLLATE {{sql}}{{end}}{{end}};

-- template: range_through
SELECT {{each columns ,}}{{name}}{{end}} FROM {{table}}
WHERE ({{each key ,}}{{name}}{{end}}) <= ({{each key ,}}?{{p}}{{if wide}} COLLATE {{sql}}{{end}}{{end}}){{if nullable}} AND {{each key AND}}{{name}} IS NOT NULL{{end}}{{end}} ORDER BY {{each key ,}}{{name}}{{if wide}} COLLATE {{sql}}{{end}}{{end}};

-- template: range_between
SELECT {{each columns ,}}{{name}}{{end}} FROM {{table}}
WHERE ({{each key ,}}{{name}}{{end}}) > ({{each key ,}}?{{n}}{{if wide}} COLLATE {{sql}}{{end}}{{end}}) AND ({{each key ,}}{{name}}{{end}}) <= ({{each key ,}}?{{p}}{{if wide}} COLLATE {{sql}}{{end}}{{end}}){{if nullable}} AND {{each key AND}}{{name}} IS NOT NULL{{end}}{{end}}
ORDER BY {{each key ,}}{{name}}{{if wide}} COLLATE {{sql}}{{end}}{{end}};

-- template: range_count_all
SELECT count(*) FROM {{table}}{{if nullable}} WHERE {{each key AND}}{{name}} IS NOT NULL{{end}}{{end}};

-- template: range_count_after
SELECT count(*) FROM {{table}} WHERE ({{each key ,}}{{name}}{{end}}) > ({{each key ,}}?{{n}}{{if wide}} COLLATE {{sql}}{{end}}{{end}}){{if nullable}} AND {{each key AND}}{{name}} IS NOT NULL{{end}}{{end}};

-- template: range_count_through
SELECT count(*) FROM {{table}} WHERE ({{each key ,}}{{name}}{{end}}) <= ({{each key ,}}?{{p}}{{if wide}} COLLATE {{sql}}{{end}}{{end}}){{if nullable}} AND {{each key AND}}{{name}} IS NOT NULL{{end}}{{end}};

-- template: range_count_between
SELECT count(*) FROM {{table}}
WHERE ({{each key ,}}{{name}}{{end}}) > ({{each key ,}}?{{n}}{{if wide}} COLLATE {{sql}}{{end}}{{end}}) AND ({{each key ,}}{{name}}{{end}}) <= ({{each key ,}}?{{p}}{{if wide}} COLLATE {{sql}}{{end}}{{end}}){{if nullable}} AND {{each key AND}}{{name}} IS NOT NULL{{end}}{{end}};

-- template: repair_conflict_put
-- A value that was chosen against although its stamp was the same: under a stamp of its own, which no write will ever name as known.
INSERT OR IGNORE INTO tide_replica_conflicts (table_id, key, col, time, node, value, found_at)
VALUES (:table, :key, :col, :time, :node, :value, :now);

-- template: repair_print_find
SELECT digest FROM tide_replica_clocks WHERE table_id = :table AND key = :key;

-- What the applications of the demonstration write to their own databases (demo/demo_replica.c), as any SQLite program would.

-- template: demo_shop_schema
CREATE TABLE IF NOT EXISTS orders (
    id TEXT PRIMARY KEY NOT NULL,
    shop TEXT NOT NULL,
    item TEXT NOT NULL,
    quantity INTEGER NOT NULL,
    status TEXT NOT NULL,
    ordered_at TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS stock (
    item TEXT PRIMARY KEY NOT NULL,
    units INTEGER NOT NULL,
    counted_by TEXT
);

-- template: demo_order_add
INSERT INTO orders (id, shop, item, quantity, status, ordered_at)
VALUES (lower(hex(randomblob(8))), :shop, :item, :number, 'placed', strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));

-- template: demo_order_ship
-- The oldest that this shop has not sent yet.
UPDATE orders SET status = 'shipped'
WHERE id = (SELECT id FROM orders WHERE status = 'placed' AND shop = :shop ORDER BY ordered_at, id LIMIT 1);

-- template: demo_order_prune
-- A shop forgets its own old orders: the table stays as long as it is.
DELETE FROM orders
WHERE shop = :shop
  AND id NOT IN (SELECT id FROM orders WHERE shop = :shop ORDER BY ordered_at DESC, id LIMIT :number);

-- template: demo_stock_fill
INSERT INTO stock (item, units, counted_by) VALUES (:item, :number, :shop)
ON CONFLICT (item) DO NOTHING;

-- template: demo_stock_count
-- Both shops count the same shelf at the same time: one of the two writes is lost, and listed as a conflict.
UPDATE stock SET units = :number, counted_by = :shop WHERE item = :item;

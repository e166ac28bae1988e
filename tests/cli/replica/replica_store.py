#!/usr/bin/env python3
"""replica_store.py DB make SEED SCALE - a music store: eleven tables, as shops of this kind publish them.
replica_store.py DB write SEED SHOP COUNT - what happens in such a shop: sales, new records, corrections, playlists, people who come and go.
replica_store.py DB tables - their names.

Ids are made so that shops do not collide where they should not (each shop number has a range of its own), and do where they may: the same tracks are
repriced, the same customers move, the same playlists are filled and emptied.
"""

import random
import sqlite3
import sys

SCHEMA = """
CREATE TABLE Artist (ArtistId INTEGER NOT NULL PRIMARY KEY, Name NVARCHAR(120));
CREATE TABLE Album (AlbumId INTEGER NOT NULL PRIMARY KEY, Title NVARCHAR(160) NOT NULL,
    ArtistId INTEGER NOT NULL REFERENCES Artist (ArtistId) ON DELETE NO ACTION ON UPDATE NO ACTION);
CREATE TABLE Genre (GenreId INTEGER NOT NULL PRIMARY KEY, Name NVARCHAR(120));
CREATE TABLE MediaType (MediaTypeId INTEGER NOT NULL PRIMARY KEY, Name NVARCHAR(120));
CREATE TABLE Track (TrackId INTEGER NOT NULL PRIMARY KEY, Name NVARCHAR(200) NOT NULL, AlbumId INTEGER REFERENCES Album (AlbumId),
    MediaTypeId INTEGER NOT NULL REFERENCES MediaType (MediaTypeId), GenreId INTEGER REFERENCES Genre (GenreId), Composer NVARCHAR(220),
    Milliseconds INTEGER NOT NULL, Bytes INTEGER, UnitPrice NUMERIC(10, 2) NOT NULL);
CREATE TABLE Playlist (PlaylistId INTEGER NOT NULL PRIMARY KEY, Name NVARCHAR(120));
CREATE TABLE PlaylistTrack (PlaylistId INTEGER NOT NULL REFERENCES Playlist (PlaylistId) ON DELETE CASCADE, TrackId INTEGER NOT NULL REFERENCES Track (TrackId),
    CONSTRAINT PK_PlaylistTrack PRIMARY KEY (PlaylistId, TrackId));
CREATE TABLE Employee (EmployeeId INTEGER NOT NULL PRIMARY KEY, LastName NVARCHAR(20) NOT NULL, FirstName NVARCHAR(20) NOT NULL, Title NVARCHAR(30),
    ReportsTo INTEGER REFERENCES Employee (EmployeeId), BirthDate DATETIME, HireDate DATETIME, Email NVARCHAR(60));
CREATE TABLE Customer (CustomerId INTEGER NOT NULL PRIMARY KEY, FirstName NVARCHAR(40) NOT NULL, LastName NVARCHAR(20) NOT NULL, Company NVARCHAR(80),
    Address NVARCHAR(70), City NVARCHAR(40), Country NVARCHAR(40), PostalCode NVARCHAR(10), Phone NVARCHAR(24), Email NVARCHAR(60) NOT NULL,
    SupportRepId INTEGER REFERENCES Employee (EmployeeId));
CREATE TABLE Invoice (InvoiceId INTEGER NOT NULL PRIMARY KEY, CustomerId INTEGER NOT NULL REFERENCES Customer (CustomerId), InvoiceDate DATETIME NOT NULL,
    BillingCity NVARCHAR(40), BillingCountry NVARCHAR(40), Total NUMERIC(10, 2) NOT NULL);
CREATE TABLE InvoiceLine (InvoiceLineId INTEGER NOT NULL PRIMARY KEY, InvoiceId INTEGER NOT NULL REFERENCES Invoice (InvoiceId),
    TrackId INTEGER NOT NULL REFERENCES Track (TrackId), UnitPrice NUMERIC(10, 2) NOT NULL, Quantity INTEGER NOT NULL);
CREATE INDEX IFK_AlbumArtistId ON Album (ArtistId);
CREATE INDEX IFK_TrackAlbumId ON Track (AlbumId);
CREATE INDEX IFK_TrackGenreId ON Track (GenreId);
CREATE INDEX IFK_PlaylistTrackTrackId ON PlaylistTrack (TrackId);
CREATE INDEX IFK_CustomerSupportRepId ON Customer (SupportRepId);
CREATE INDEX IFK_InvoiceCustomerId ON Invoice (CustomerId);
CREATE INDEX IFK_InvoiceLineInvoiceId ON InvoiceLine (InvoiceId);
CREATE INDEX IFK_InvoiceLineTrackId ON InvoiceLine (TrackId);
"""
TABLES = ["Artist", "Album", "Genre", "MediaType", "Track", "Playlist", "PlaylistTrack", "Employee", "Customer", "Invoice", "InvoiceLine"]
WORDS = "Água Für Élan Órbita Straße Łódź Night River Blue Iron Velvet Motor Ghost Paper Silver 東京 Noise Harbour".split()


def words(r, count):
    return " ".join(r.choice(WORDS) for _ in range(count))


def price(r):
    return r.choice([0.99, 1.99, 1, "0.5", 12.345])


def date(r):
    return "20%02d-%02d-%02d 00:00:00" % (r.randrange(9, 26), r.randrange(1, 13), r.randrange(1, 29))


def make(db, seed, scale):
    r = random.Random(seed)
    db.executescript(SCHEMA)
    with db:
        db.executemany("INSERT INTO Genre VALUES (?, ?)", [(i, words(r, 1)) for i in range(1, 26)])
        db.executemany("INSERT INTO MediaType VALUES (?, ?)", [(i, f"type {i}") for i in range(1, 6)])
        db.executemany("INSERT INTO Artist VALUES (?, ?)", [(i, words(r, 2) if i % 17 else None) for i in range(1, 27 * scale)])
        db.executemany("INSERT INTO Album VALUES (?, ?, ?)", [(i, words(r, 3), r.randrange(1, 27 * scale)) for i in range(1, 35 * scale)])
        db.executemany("INSERT INTO Track VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                       [(i, words(r, 3), r.choice([None, r.randrange(1, 35 * scale)]), r.randrange(1, 6), r.choice([None, r.randrange(1, 26)]),
                         r.choice([None, words(r, 2), "O'" + words(r, 1)]), r.randrange(1000, 10**6), r.choice([None, r.randrange(10**7)]), price(r))
                        for i in range(1, 350 * scale)])
        db.executemany("INSERT INTO Playlist VALUES (?, ?)", [(i, words(r, 1)) for i in range(1, 19)])
        db.executemany("INSERT OR IGNORE INTO PlaylistTrack VALUES (?, ?)",
                       [(r.randrange(1, 19), r.randrange(1, 350 * scale)) for _ in range(800 * scale)])
        db.executemany("INSERT INTO Employee VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                       [(i, words(r, 1), words(r, 1), "staff", None if i == 1 else r.randrange(1, i), date(r), date(r), f"e{i}@shop") for i in range(1, 9)])
        db.executemany("INSERT INTO Customer VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                       [(i, words(r, 1), words(r, 1), r.choice([None, words(r, 2)]), words(r, 3), words(r, 1), r.choice(["Brazil", "Germany", None]),
                         r.choice([None, "0%04d" % r.randrange(10**4)]), "+49 0%d" % r.randrange(10**6), f"c{i}@mail", r.randrange(1, 9)) for i in range(1, 60)])
        for i in range(1, 40 * scale):
            sell(db, r, i, r.randrange(1, 60), 350 * scale)


def sell(db, r, invoice, customer, tracks):
    lines = [(invoice * 20 + n, invoice, r.randrange(1, tracks), price(r), r.randrange(1, 4)) for n in range(r.randrange(1, 9))]
    total = sum(float(line[3]) * line[4] for line in lines)
    db.execute("INSERT INTO Invoice SELECT ?, CustomerId, ?, City, Country, ? FROM Customer WHERE CustomerId = ?", (invoice, date(r), total, customer))
    db.executemany("INSERT INTO InvoiceLine VALUES (?, ?, ?, ?, ?)", lines)


def one(db, r, base, i):
    top = db.execute("SELECT max(TrackId) FROM Track WHERE TrackId < 1000000").fetchone()[0]
    kind = r.randrange(12)
    if kind < 3:
        customers = db.execute("SELECT CustomerId FROM Customer ORDER BY CustomerId").fetchall()
        sell(db, r, base + i, r.choice(customers)[0], top)
    elif kind == 3:
        db.execute("INSERT INTO Artist VALUES (?, ?)", (base + i, words(r, 2)))
        db.execute("INSERT INTO Album VALUES (?, ?, ?)", (base + i, words(r, 2), base + i))
        db.executemany("INSERT INTO Track VALUES (?, ?, ?, 1, NULL, NULL, 1, NULL, ?)", [(base + i * 10 + n, words(r, 2), base + i, price(r)) for n in range(5)])
    elif kind == 4:
        db.execute("UPDATE Track SET UnitPrice = ? WHERE TrackId = ?", (price(r), r.randrange(1, 60)))
    elif kind == 5:
        db.execute("UPDATE Customer SET City = ?, Phone = ?, Country = NULL WHERE CustomerId = ?", (words(r, 1), "moved %d" % base, r.randrange(1, 20)))
    elif kind == 6:
        db.execute("INSERT OR REPLACE INTO PlaylistTrack VALUES (?, ?)", (r.randrange(1, 6), r.randrange(1, 100)))
        db.execute("DELETE FROM PlaylistTrack WHERE PlaylistId = ? AND TrackId % 5 = ?", (r.randrange(1, 6), r.randrange(5)))
    elif kind == 7:
        db.execute("INSERT INTO Playlist VALUES (?, ?) ON CONFLICT (PlaylistId) DO UPDATE SET Name = excluded.Name", (r.randrange(10, 25), words(r, 1)))
    elif kind == 8:
        db.execute("DELETE FROM Playlist WHERE PlaylistId = ?", (r.randrange(10, 25),))
    elif kind == 9:
        db.execute("UPDATE Employee SET ReportsTo = ?, Title = ? WHERE EmployeeId = ?", (r.randrange(1, 5), words(r, 1), r.randrange(5, 9)))
    elif kind == 10:
        db.execute("DELETE FROM InvoiceLine WHERE InvoiceId = ?", (r.randrange(1, 20),))
        db.execute("DELETE FROM Invoice WHERE InvoiceId = ? AND NOT EXISTS (SELECT 1 FROM InvoiceLine l WHERE l.InvoiceId = Invoice.InvoiceId)", (r.randrange(1, 20),))
    else:
        db.execute("UPDATE Invoice SET Total = (SELECT coalesce(sum(UnitPrice * Quantity), 0) FROM InvoiceLine l WHERE l.InvoiceId = Invoice.InvoiceId) "
                   "WHERE InvoiceId % 10 = ?", (r.randrange(10),))


def write(db, seed, shop, count):
    r = random.Random(f"{seed} {shop}")
    for i in range(count):
        try:
            with db:
                db.execute("BEGIN IMMEDIATE")
                one(db, r, 1000000 * shop, i)
        except sqlite3.IntegrityError:
            pass


def main(path, what, *rest):
    db = sqlite3.connect(path, timeout=60, isolation_level=None)
    db.execute("PRAGMA foreign_keys = ON")
    if what == "make":
        db.isolation_level = ""
        make(db, rest[0], int(rest[1]))
    elif what == "write":
        write(db, rest[0], int(rest[1]), int(rest[2]))
    else:
        print("\n".join(TABLES))


main(*sys.argv[1:])

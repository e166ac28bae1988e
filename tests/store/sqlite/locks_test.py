#!/usr/bin/env python3
"""libtidemark.so, loaded by ctypes, beside Python's sqlite3 in one process, on one file.

A second process asks for the write lock. It must not get it while either SQLite of this process writes,
whichever of the two closes the file meanwhile.
"""
import _ctypes
import ctypes
import os
import sqlite3
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support", "program"))
sys.dont_write_bytecode = True
import tap  # noqa: E402

OTHER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
try:
    db.execute("BEGIN IMMEDIATE")
    db.execute("CREATE TABLE IF NOT EXISTS other (n)")
    db.execute("INSERT INTO other VALUES (1)")
    db.execute("COMMIT")
    print("wrote")
except sqlite3.OperationalError as error:
    print(error)
"""

library = ctypes.CDLL(os.path.join(os.environ["TIDEMARK_BUILD_DIR"], "libtidemark.so"))
CLOSURE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
library.tide_store_open.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_char_p,
                                    ctypes.c_void_p, ctypes.c_void_p]
library.tide_store_write.argtypes = [ctypes.c_void_p, CLOSURE, ctypes.c_void_p, ctypes.c_void_p]
library.tide_sequence_declare.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64,
                                          ctypes.c_void_p, ctypes.c_void_p]
library.tide_store_close.argtypes = [ctypes.c_void_p]
library.tide_store_close.restype = None


def ask_other(path):
    done = subprocess.run([sys.executable, "-c", OTHER, path], check=True, capture_output=True,
                          text=True)
    return done.stdout.strip()


class Beside(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory(prefix="beside-")
        self.addCleanup(self.directory.cleanup)
        os.environ["XDG_STATE_HOME"] = self.directory.name
        self.path = os.path.join(self.directory.name, "store.db")

    def open_store(self):
        store = ctypes.c_void_p()
        self.assertEqual(0, library.tide_store_open(store, self.path.encode(), None, None))
        return store

    def check_sound(self):
        db = sqlite3.connect(self.path)
        self.assertEqual([("ok",)], db.execute("PRAGMA integrity_check").fetchall())
        db.close()

    def test_the_application_closes_inside_our_write_transaction(self):
        store = self.open_store()
        answers = []
        number_range = (ctypes.c_int64 * 4)()

        def write(tx, _, err):
            status = library.tide_sequence_declare(tx, b"orders", 1, number_range, err)
            own = sqlite3.connect(self.path)
            own.execute("SELECT count(*) FROM sqlite_master").fetchall()
            own.close()
            answers.append(ask_other(self.path))
            return status

        closure = CLOSURE(write)
        for _ in range(4):
            self.assertEqual(0, library.tide_store_write(store, closure, None, None))
            self.assertEqual("wrote", ask_other(self.path))
        self.assertEqual(["database is locked"] * 4, answers)
        library.tide_store_close(store)
        self.check_sound()

    def test_we_close_inside_the_applications_write_transaction(self):
        library.tide_store_close(self.open_store())
        own = sqlite3.connect(self.path, isolation_level=None)
        own.execute("CREATE TABLE own (n)")
        for _ in range(4):
            store = self.open_store()
            own.execute("BEGIN IMMEDIATE")
            own.execute("INSERT INTO own VALUES (1)")
            library.tide_store_close(store)
            self.assertEqual("database is locked", ask_other(self.path))
            own.execute("COMMIT")
            self.assertEqual("wrote", ask_other(self.path))
        self.assertEqual([(16,)], own.execute("SELECT count(*) FROM own, other").fetchall())
        own.close()
        self.check_sound()

    def test_an_open_store_works_after_the_library_was_unloaded_and_loaded_again(self):
        done = subprocess.run([sys.executable, __file__, "--unload", self.path], check=False,
                              capture_output=True, text=True)
        self.assertEqual((0, "0"), (done.returncode, done.stdout.strip()), done.stderr)


def unload(path):
    """The writer thread of an open store runs the library's code, whatever dlclose() is told."""
    store = ctypes.c_void_p()
    status = library.tide_store_open(store, path.encode(), None, None)
    _ctypes.dlclose(library._handle)
    again = ctypes.CDLL(library._name)
    again.tide_store_write.argtypes = library.tide_store_write.argtypes
    again.tide_store_close.argtypes = library.tide_store_close.argtypes
    closure = CLOSURE(lambda tx, arg, err: 0)
    status = status or again.tide_store_write(store, closure, None, None)
    again.tide_store_close(store)
    print(status)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--unload"]:
        unload(sys.argv[2])
    else:
        tap.main()

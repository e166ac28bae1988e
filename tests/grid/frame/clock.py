"""A wall clock of its own for a process, by libfaketime (Debian package faketime).

The offset is in a file and may change while the process runs. The monotonic and the boot clock stay
the machine's: setting a clock does not move them."""

import glob
import os


class Clock:
    """The wall clock of the processes that are started with environment()."""

    def __init__(self, path, hours=0):
        found = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
        if not found:
            raise RuntimeError("libfaketimeMT.so.1 is missing: install the package faketime")
        self.library = found[0]
        self.path = path
        self.set(hours)

    def set(self, hours):
        """Put the clock so many hours ahead of the machine's; behind it if negative."""
        temporary = self.path + ".new"
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(f"{int(hours * 3600):+d}\n")
        os.chmod(temporary, 0o644)
        os.rename(temporary, self.path)

    def environment(self, base):
        return {
            **base,
            "LD_PRELOAD": self.library,
            "FAKETIME_TIMESTAMP_FILE": self.path,
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_RESET": "1",
            "FAKETIME_DISABLE_SHM": "1",
            # Else limits of waits on the monotonic clock are moved, too, and have passed at once.
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        }

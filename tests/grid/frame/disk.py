"""A small disk (tmpfs) that can be filled to its last byte.

Mounts belong to the cell's own mount namespace and end with it. Without root the cell has a user
namespace of its own, too, in which it may mount."""

import ctypes
import os

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_MS_REC_PRIVATE = 16384 | 262144
_MNT_DETACH = 2

_libc = ctypes.CDLL(None, use_errno=True)


def _must(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def have_own_mounts():
    """From here on what this process mounts is its own, and ends with it. For the only thread of a
    process, before it starts others."""
    user, group = os.geteuid(), os.getegid()
    _must(_libc.unshare(_CLONE_NEWNS | (_CLONE_NEWUSER if user else 0)), "unshare")
    if user:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"),
                           ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="utf-8") as file:
                file.write(text)
    _must(_libc.mount(b"none", b"/", None, _MS_REC_PRIVATE, None), "mount")


class Disk:
    """A file system of `size` bytes mounted at path."""

    def __init__(self, path, size):
        self.path = path
        self.ballast = os.path.join(path, "ballast")
        os.makedirs(path, exist_ok=True)
        _must(_libc.mount(b"tmpfs", path.encode(), b"tmpfs", 0, f"size={size},mode=0777".encode()),
              f"mount {path}")
        self.is_mounted = True

    def fill(self, leave=0):
        """Write until nothing fits any more, except `leave` bytes."""
        with open(self.ballast, "ab", buffering=0) as file:
            for size in (1 << 20, 1 << 16, 4096, 512, 1):
                try:
                    while True:
                        file.write(b"\0" * size)
                except OSError:
                    pass
            if leave:
                file.truncate(max(0, os.path.getsize(self.ballast) - leave))

    def free(self):
        """Make the room again."""
        if os.path.exists(self.ballast):
            os.remove(self.ballast)

    def unmount(self):
        """Take the file system away; lazily, where a process has a file of it open."""
        if self.is_mounted:
            self.is_mounted = False
            _libc.umount2(self.path.encode(), _MNT_DETACH)

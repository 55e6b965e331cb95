"""What a process does to files, counted from outside of what does it: at one of these operations the process is
killed, or the disk is full from then on."""
import builtins
import errno
import io
import os
import signal

COUNTED = ("replace", "rename", "fsync", "unlink", "rmdir", "mkdir", "chmod")
CREATING = ("write", "open", "mkdir")  # which fail for as long as a disk is full


class Operations:
    """Installed in a process, counts for as long as it lives.

    log: the names of the operations so far.
    """

    def __init__(self, how=None, at=0):
        """how: "kill" before operation number `at`, the first being 1, or a "full" disk from then on, or None."""
        self.log = []
        self._how, self._at = how, at
        for name in COUNTED:
            setattr(os, name, self._counted(name, getattr(os, name)))
        self._os_open, self._io_open = os.open, io.open
        os.open, io.open, builtins.open = self._open_descriptor, self._open_file, self._open_file

    def __call__(self, name, fail=None):
        self.log.append(name)
        if len(self.log) == self._at and self._how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        struck = len(self.log) == self._at and name not in ("unlink", "rmdir")  # which need no room
        if self._how == "full" and (struck or len(self.log) > self._at and name in CREATING):
            if fail is not None:
                fail()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _counted(self, name, original):
        def call(*arguments, **named):
            self(name)
            return original(*arguments, **named)

        return call

    def _open_descriptor(self, path, flags, *arguments, **named):
        if flags & os.O_CREAT:
            self("open")
        return self._os_open(path, flags, *arguments, **named)

    def _open_file(self, file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, closefd=True,
                   opener=None):
        if not set(mode) & set("wax+"):
            return self._io_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
        if not isinstance(file, int):
            self("open")
        operations = self

        class Raw(io.FileIO):
            def write(self, data):
                # What did not fit all may have been written in part.
                operations("write", lambda: super(Raw, self).write(bytes(data)[: len(data) // 2]))
                return super().write(data)

        raw = Raw(file, mode.replace("b", "").replace("t", ""), closefd, opener)
        if buffering == 0:
            return raw
        buffered = (io.BufferedRandom if "+" in mode else io.BufferedWriter)(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline, buffering == 1)

"""What every sandboxed process does first: takes its job, limits itself, and only then becomes what it is for.

Bytes go in frames, eight hexadecimal digits of length and then the content. The limits that namespaces cannot set are set
here, before a byte of the guest runs; what fails ends the process before it says that it is ready.
"""

import os
import sys


class Channel:
    """Frames over a pair of descriptors."""

    def __init__(self, source, sink):
        self.source = source
        self.sink = sink

    def receive(self):
        head = self._exactly(8)
        return None if head is None else self._exactly(int(head, 16))

    def send(self, data):
        data = b"%08x%s" % (len(data), data)
        view = memoryview(data)
        while view:
            view = view[os.write(self.sink, view) :]

    def _exactly(self, size):
        parts = []
        while size:
            part = os.read(self.source, min(size, 1 << 20))
            if not part:
                return None
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def moved_channel():
    """The channel on other descriptors than 0 and 1, which then are no way to it: the guest reads nothing and prints to 2."""
    import fcntl

    channel = Channel(*(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 200) for fd in (0, 1)))
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return channel


def close_others(kept):
    """Closes what was left open by whoever started the grader."""
    first = 3
    for fd in sorted(kept):
        os.closerange(first, fd)
        first = max(first, fd + 1)
    os.closerange(first, 1 << 20)


def limit(limits):
    import resource

    for name, value in limits.items():
        # A program that catches the signal of the soft limit has a second until the hard one.
        hard = value + 1 if name == "RLIMIT_CPU" else value
        resource.setrlimit(getattr(resource, name), (value, hard))


_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _REFER, _TRUNCATE, _IOCTL = 1, 2, 4, 8, 1 << 13, 1 << 14, 1 << 15
_FIRST = (1 << 13) - 1


def landlock():
    """Confines this process to reading everywhere and writing below /tmp and /dev/shm; gives the version, 0 without."""
    try:
        import _ctypes

        call = _ctypes.dlsym(_ctypes.dlopen(None, 2), "syscall")
        version = _ctypes.call_function(call, (444, 0, 0, 1))
        if version < 1:
            return 0
        return version if _confined(lambda *arguments: _ctypes.call_function(call, arguments), version) else 0
    except (ImportError, AttributeError):
        return 0


def _confined(call, version):
    files = _FIRST
    for since, right in ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL)):
        files |= right if version >= since else 0
    ruleset = [files]
    if version >= 4:
        ruleset.append(3)  # No TCP port to bind or connect to.
    if version >= 6:
        ruleset.append(3)  # No abstract socket and no signal to outside.
    data = b"".join(part.to_bytes(8, sys.byteorder) for part in ruleset)
    handle = call(444, data, len(data), 0)
    if handle < 0:
        return False
    device = files & (_WRITE_FILE | _READ_FILE | _READ_DIR | _TRUNCATE | _IOCTL)
    for path, rights in (("/", _EXECUTE | _READ_FILE | _READ_DIR), ("/dev", device), ("/tmp", files), ("/dev/shm", files)):
        below = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = rights.to_bytes(8, sys.byteorder) + below.to_bytes(4, sys.byteorder)
        added = call(445, handle, 1, rule, 0)
        os.close(below)
        if added:
            return False
    is_confined = call(446, handle, 0) == 0
    os.close(handle)
    return is_confined


def start(channel):
    """Takes the job, and confines this process as it says."""
    job = decode(channel.receive())
    close_others((channel.source, channel.sink))
    sys.path.extend(job["packages"])
    sys.dont_write_bytecode = True
    if job["landlock"] and not landlock():
        raise SystemExit("the kernel offered Landlock before and does not now")
    limit(job["limits"])
    channel.send(b"S")
    return job

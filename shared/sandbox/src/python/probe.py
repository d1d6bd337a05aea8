"""Says what the sandbox looks like from inside, for the host to compare with what it should."""


def tried(action):
    try:
        action()
    except OSError as error:
        return error.errno
    return 0


def mounts():
    """Where something may be written, with the size of what is there."""
    places = []
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            fields = line.split(" ")
            if "rw" in fields[5].split(","):
                places.append(fields[4])
    return places


def status():
    wanted = ("Seccomp", "NoNewPrivs", "CapEff", "CapPrm", "CapBnd")
    with open("/proc/self/status", encoding="utf-8") as file:
        pairs = (line.split(":\t", 1) for line in file if ":\t" in line)
        return {name: content.strip() for name, content in pairs if name in wanted}


def interfaces():
    with open("/proc/net/dev", encoding="utf-8") as file:
        return [line.split(":")[0].strip() for line in file if ":" in line]


def connect():
    import _socket

    _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM).close()


def main():
    channel = moved_channel()
    channel.send(b"R")
    job = decode(channel.receive())
    close_others((channel.source, channel.sink))
    seen = {"landlock": landlock(), "mounts": mounts(), "status": status(), "interfaces": interfaces()}
    limit(job["limits"])
    seen["pid"] = os.getpid()
    seen["uid"] = os.getuid()
    seen["socket"] = tried(connect)
    seen["write"] = tried(lambda: os.mkdir("/usr/written"))
    seen["environment"] = sorted(os.environ)
    seen["descriptors"] = len(os.listdir("/proc/self/fd")) - 1  # Without the one that lists.
    seen["python"] = sys.version.split()[0]
    lines = ["%s=%s" % (name, seen[name]) for name in ("landlock", "pid", "uid", "socket", "write", "descriptors", "python")]
    lines += ["mount=%s" % place for place in seen["mounts"]]
    lines += ["interface=%s" % name for name in seen["interfaces"]]
    lines += ["status.%s=%s" % pair for pair in seen["status"].items()]
    lines += ["environment=%s" % name for name in seen["environment"]]
    channel.send(b"P" + "\n".join(lines).encode())


main()

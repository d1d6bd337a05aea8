"""Runs the tests, which are trusted, and asks the program under test, which is elsewhere, by values.

The verdict is this process's: nothing of the program ever runs here, and what comes from it is decoded to plain data.
"""

import builtins


class ProgramError(Exception):
    """The program under test raised what has no name here, or sent what is no value."""


class Tests:
    """What the tests did."""

    def __init__(self, channel):
        self.channel = channel
        self.calls = 0
        self.fault = None

    def function(self, name):
        """A function that has the program's function of this name called."""

        def call(*arguments, **named):
            self.calls += 1
            try:
                frame = encode((name, arguments, named))
            except Unpassable as error:
                self.fault = "the tests pass %s to %s, and only plain values can be passed" % (error, name)
                raise
            self.channel.send(b"C" + frame)
            return self.result(self.channel.receive())

        call.__name__ = call.__qualname__ = name
        return call

    def result(self, reply):
        if reply is None:
            os._exit(3)
        try:
            value = decode(reply[1:])
            kind, names, said, line = value if reply[:1] == b"X" else (None,) * 4
            raised = None if kind is None else exception(list(names), "%s: %s" % (kind, said))
        except Exception as error:
            raise ProgramError("the program sent what is no value: %r" % error) from None
        if reply[:1] == b"V":
            return value
        if raised is None:
            raise ProgramError("the program sent what is no answer")
        raised.line = line
        raise raised


def exception(names, said):
    """The program's exception under the nearest name that Python itself has; those that steer a program stay errors.

    `StopIteration` would end a loop over the program's answers as if all had been looked at.
    """
    for name in names:
        known = getattr(builtins, name, None) if isinstance(name, str) else None
        if isinstance(known, type) and issubclass(known, Exception):
            if issubclass(known, (StopIteration, StopAsyncIteration, UnicodeError)):
                break
            return known(said)
    return ProgramError(said)


def said(error):
    """What it says; a number of thousands of digits, for one, does not become a text."""
    try:
        return str(error)[:500]
    except Exception as second:
        return "what cannot be shown: %s" % type(second).__name__


def place(error, source):
    """Which line of the tests was running."""
    import traceback

    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "tests"]
    if not lines:
        return ""
    text = source.split("\n")[lines[-1] - 1].strip()[:200]
    return " (line %d of the tests: %s)" % (lines[-1], text)


def run(tests, job):
    names = {"__name__": "tests", "__builtins__": builtins}
    try:
        exec(compile(job["prelude"], "prelude", "exec"), names)
        code = compile(job["tests"], "tests", "exec")
    except BaseException as error:
        return b"B", "the tests do not load: %s: %s" % (type(error).__name__, error)
    for name in job["entry_points"]:
        names[name] = tests.function(name)
    failed = None
    try:
        exec(code, names)
    except SystemExit as error:
        failed = None if error.code in (None, 0) else "the tests ended with %r" % (error.code,)
    except BaseException as error:
        failed = "%s: %s%s" % (type(error).__name__, said(error), place(error, job["tests"]))
    if tests.fault is not None:
        return b"B", tests.fault
    if failed is not None:
        return b"F", failed
    if not tests.calls:
        return b"B", "the tests call nothing of the program: entry points are %s" % ", ".join(job["entry_points"])
    return b"P", "passed %d calls" % tests.calls


def main():
    channel = moved_channel()
    channel.send(b"R")
    job = start(channel)
    kind, said = run(Tests(channel), job)
    channel.send(kind + said.encode("utf-8", "backslashreplace"))


main()

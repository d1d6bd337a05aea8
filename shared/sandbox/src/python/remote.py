

class Remote:
    # An object of the program's, or one of its functions by name. What the tests do with it is done there, and what comes of
    # that is plain data or another of these. It is asked for no comparison or calculation with a value of the tests', for it
    # would see what is expected; an object that the tests made of a class that they name is, for then that is the test.

    __slots__ = ("_of_tests", "_target_there", "_type_there", "_is_made", "__weakref__")

    def __init__(self, tests, target, kind):
        for name, value in (("_of_tests", tests), ("_target_there", target), ("_type_there", kind), ("_is_made", False)):
            object.__setattr__(self, name, value)

    def __del__(self):
        if isinstance(self._target_there, int):
            self._of_tests.release(self._target_there)

    def __call__(self, *arguments, **named):
        made = ask(self, "call", arguments, tuple(named.items()))
        target = self._target_there
        if isinstance(made, Remote) and isinstance(target, str) and target[:1].isupper():
            object.__setattr__(made, "_is_made", True)
        return made

    def __getattr__(self, name):
        if name == "__name__" and isinstance(self._target_there, str):
            return self._target_there
        if name.startswith("__") and name.endswith("__") and name not in ("__name__", "__dict__", "__members__"):
            raise AttributeError(name)
        return ask(self, "getattr", (name,))

    def __setattr__(self, name, value):
        ask(self, "setattr", (name, value))

    def __delattr__(self, name):
        ask(self, "delattr", (name,))

    def __instancecheck__(self, value):
        return isinstance(value, Remote) and ask(self, "isinstance", (value,))

    def __eq__(self, other):
        return compared(self, other, "eq", False)

    def __ne__(self, other):
        return compared(self, other, "ne", True)

    def __hash__(self):
        return ask(self, "hash") if self._is_made else object.__hash__(self)

    def __contains__(self, value):
        if self._is_made or isinstance(value, Remote):
            return ask(self, "contains", (value,))
        return any(value is one or value == one for one in self)

    def __iter__(self):
        iterator = ask(self, "iter")
        if not isinstance(iterator, Remote):
            return iter(iterator)
        return more(iterator)

    def __next__(self):
        return next_of(self)

    def __repr__(self):
        return ask(self, "repr")

    def __exit__(self, *_):
        ask(self, "leave")

    def __reduce_ex__(self, _protocol):
        raise TypeError("an object of the program's cannot be pickled")


def target_of(remote):
    return object.__getattribute__(remote, "_target_there")


def ask(remote, deed, arguments=(), named=()):
    return remote._of_tests.ask(deed, remote._target_there, arguments, named)


def more(iterator):
    """The values of an iterator there, many at a time."""
    while True:
        taken = ask(iterator, "more")
        yield from taken
        if not taken:
            return


def next_of(remote):
    try:
        return ask(remote, "next")
    except ProgramError as error:
        if str(error).startswith("StopIteration:"):
            raise StopIteration from None
        raise


def compared(remote, other, deed, unequal):
    """Two objects of the program's are compared there; one is never equal to a value of the tests'."""
    if remote is other:
        return not unequal
    if isinstance(other, Remote) or remote._is_made:
        return bool(ask(remote, deed, (other,)))
    tests = remote._of_tests
    tests.compared = "an object of type %s is no plain data, and equals no value of the tests'" % remote._type_there
    try:
        Graph(tests).message(other)
    except Unpassable as error:
        tests.fault = "the tests compare %s with what the program gave, and neither can be passed" % error
        raise
    return unequal


def asking(deed):
    return lambda self, *arguments: ask(self, deed, arguments)


def calculating(deed, turned=None):
    """An operator: asked only of objects that the tests made, or with two of the program's; what it gives is made as well."""

    def calculate(self, other):
        if not (self._is_made or isinstance(other, Remote)):
            return NotImplemented
        made = ask(self, turned or deed, (other,))
        if isinstance(made, Remote) and self._is_made:
            object.__setattr__(made, "_is_made", True)
        return made

    return calculate


for _deed in "next len bool str int float complex abs round format reversed dir enter copy deepcopy".split():
    if _deed != "next":
        setattr(Remote, "__%s__" % _deed, asking(_deed))
for _deed in "getitem setitem delitem neg pos invert index".split():
    setattr(Remote, "__%s__" % _deed, asking(_deed))
for _deed in "lt le gt ge".split():
    setattr(Remote, "__%s__" % _deed, calculating(_deed))
for _deed in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift divmod".split():
    _there = _deed + "_" if _deed in ("and", "or") else _deed
    setattr(Remote, "__%s__" % _deed, calculating(_there))
    setattr(Remote, "__r%s__" % _deed, calculating(_there, "r_" + _there))


class Waiting(Remote):
    # What the program's side waits for, when the tests do.

    __slots__ = ()

    def __await__(self):
        return ask(self, "await")
        yield

    def __next__(self):
        raise StopIteration(ask(self, "await"))

    def send(self, _value):
        raise StopIteration(ask(self, "await"))

    def throw(self, *error):
        raise error[0]

    def close(self):
        pass


def entry_point(tests, name):
    """What stands for a name of the program's: an exception is known by its name, and caught by that."""
    if name[:1].isupper() and name.endswith(("Error", "Exception", "Warning")):
        return type(name, (Exception,), {"__module__": "program"})
    return Remote(tests, name, "function")

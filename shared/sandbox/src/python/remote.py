

class Remote:
    # An object of the program's, or one of its functions by name. What the tests do with it is done there, and what comes of
    # that is plain data or another of these. It is asked for no comparison or calculation with a value of the tests', for it
    # would see what is expected; an object that the tests made of a class that they name is, for then that is the test. What
    # the program gave as an answer (what its operators make, or an object of the tests' making that comes back) may be one
    # that says of every value that it is equal.

    __slots__ = ("_of_tests", "_target_there", "_type_there", "_is_made", "_is_given", "__weakref__")

    def __init__(self, tests, target, kind):
        for name, value in (("_of_tests", tests), ("_target_there", target), ("_type_there", kind)):
            object.__setattr__(self, name, value)
        mark(self, "_is_made", False)
        mark(self, "_is_given", False)

    def __del__(self):
        if isinstance(self._target_there, int):
            self._of_tests.release(self._target_there)

    def __getattr__(self, name):
        if name in ("__name__", "__qualname__") and isinstance(self._target_there, str):
            return self._target_there
        if name in UNTOLD and isinstance(self._target_there, str):
            self._of_tests.cannot("the tests ask for %s of %s, which stays with the program" % (name, self._target_there))
        if name.startswith("__") and name.endswith("__") and name not in TOLD:
            raise AttributeError(name)
        value = ask(self, "getattr", (name,))
        if name in COMPARING and isinstance(value, Remote) and not is_of_tests_making(self):
            self._of_tests.cannot("the tests hand what they expect to %s of an object that the program gave" % name)
        return value

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
        return object.__hash__(self) if isinstance(self._target_there, str) else ask(self, "hash")

    def __repr__(self):
        return ask(self, "repr")

    def __reduce_ex__(self, _protocol):
        self._of_tests.cannot("the tests pickle %s, which stays with the program" % self._type_there)

    def __mro_entries__(self, _bases):
        self._of_tests.cannot("the tests derive a class from %s, which stays with the program" % name_of(self))

    def __subclasscheck__(self, _kind):
        self._of_tests.cannot("the tests ask for what derives from %s, which stays with the program" % name_of(self))


# Names of Python's own that are asked for there, and those of what a function is made of, which cannot come.
TOLD = frozenset("__name__ __qualname__ __dict__ __members__ __annotations__ __defaults__ __kwdefaults__".split())
UNTOLD = frozenset("__code__ __globals__ __closure__ __signature__ __bases__ __mro__ __subclasses__".split())

# Methods of plain data that only say whether it is as their argument.
COMPARING = frozenset("startswith endswith issubset issuperset isdisjoint is_relative_to".split())


def mark(remote, name, value):
    object.__setattr__(remote, name, value)


def is_of_tests_making(remote):
    """Whether it is an object that the tests made by calling a class, and no answer of the program's; or a name of theirs."""
    return isinstance(remote._target_there, str) or remote._is_made and not remote._is_given


def name_of(remote):
    return remote._target_there if isinstance(remote._target_there, str) else remote._type_there


def target_of(remote):
    return object.__getattribute__(remote, "_target_there")


def ask(remote, deed, arguments=(), named=()):
    return remote._of_tests.ask(deed, remote._target_there, arguments, named)


def lazily(iterator):
    """The values of an iterator there: one at a time, then several, of which none shows that it came before it was asked for."""
    asked, ahead, sent = 0, [], None
    while True:
        if sent is not None:
            if ahead:
                iterator._of_tests.cannot("the tests send something into an iterator that has gone on already")
            taken, ended, given = ask(iterator, "send", (sent,))
        elif not ahead:
            asked += 1
            taken, ended, given = ask(iterator, "more", (1 << min(max(asked - ONE_BY_ONE, 0), 10),))
        ahead.extend(taken)
        while ahead:
            try:
                sent = yield ahead.pop(0)
            except Exception as error:
                if ahead or type(error).__module__ != "builtins":
                    iterator._of_tests.cannot("the tests throw something into an iterator that does not reach it")
                taken, ended, given = ask(iterator, "throw", (type(error).__name__, error.args))
                ahead.extend(taken)
                sent = None
            if sent is not None:
                break
        else:
            if ended:
                return given


# So many values of an iterator are asked for one by one.
ONE_BY_ONE = 16


def call_of(remote, *arguments, **named):
    made = ask(remote, "call", arguments, tuple(named.items()))
    target = target_of(remote)
    if isinstance(made, Remote) and made._type_there == target and target in remote._of_tests.classes:
        mark(made, "_is_made", True)
    return made


def iter_of(remote):
    iterator = ask(remote, "iter")
    return lazily(iterator) if isinstance(iterator, Remote) else iter(iterator)


def next_of(remote):
    try:
        return ask(remote, "next")
    except ProgramError as error:
        if str(error).startswith("StopIteration:"):
            raise StopIteration from None
        raise


def contains_of(remote, value):
    if remote._is_made or isinstance(value, Remote):
        told_if_given(remote, value)
        return ask(remote, "contains", (value,))
    return any(value is one or value == one for one in remote)


async def next_awaited_of(remote):
    try:
        return ask(remote, "anext")
    except ProgramError as error:
        if str(error).startswith("StopAsyncIteration:"):
            raise StopAsyncIteration from None
        raise


async def entered_of(remote):
    return ask(remote, "aenter")


def left(remote, deed, error):
    """Leaves a context with what happened in it. What the tests assert goes past the program, which could let it pass."""
    if error is None or isinstance(error, AssertionError):
        ask(remote, deed)
        return False
    kind = next(kind for kind in type(error).__mro__ if kind.__module__ in ("program", "builtins"))
    try:
        arguments = decode(encode(error.args))
    except Unpassable:
        arguments = ()
    passes = bool(ask(remote, deed, (kind.__name__, arguments)))
    if passes and not is_own_raise(remote._of_tests, error):
        remote._of_tests.cannot("the program's context lets %s pass, which may say that it is wrong" % kind.__name__)
    return passes


SIMPLE = frozenset("Raise Expr Assign AugAssign AnnAssign Return Assert Delete".split())
CHOOSING = frozenset("If While IfExp Match BoolOp".split())


def is_own_raise(tests, error):
    """Whether the tests raised it by themselves, whatever the program does: by `raise` or by nothing but Python's own."""
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    if hasattr(error, "program_line") or trace.tb_frame.f_code.co_filename != "tests":
        return False
    there = [node for node in nodes(tests.tree) if getattr(node, "lineno", trace.tb_lineno + 1) <= trace.tb_lineno <= node.end_lineno]
    if any(type(node).__name__ in CHOOSING and type(getattr(node, "test", None)).__name__ != "Constant" for node in there):
        return False

    def is_own(statement):
        if type(statement).__name__ == "Raise":
            return True
        return all(hasattr(builtins, node.id) for node in nodes(statement) if type(node).__name__ == "Name")

    return all(is_own(node) for node in there if type(node).__name__ in SIMPLE)


async def left_of(remote, _kind=None, error=None, _trace=None):
    return left(remote, "aexit", error)


def awaited_of(remote, *_):
    """One step of a coroutine, which is all of it: the program's side waits."""
    raise StopIteration(ask(remote, "await"))


def await_of(remote):
    return ask(remote, "await")
    yield


def throw_of(_remote, *error):
    raise error[0]


def compared(remote, other, deed, unequal):
    """Two objects of the program's are compared there; one is never equal to a value of the tests'."""
    if remote is other:
        return not unequal
    if isinstance(other, Remote) or remote._is_made:
        told_if_given(remote, other)
        return bool(ask(remote, deed, (other,)))
    tests = remote._of_tests
    if type(other).__module__ == "tests" and type(other).__name__ == remote._type_there:
        tests.cannot("the tests compare an object of their class %s with one of the program's of that name" % remote._type_there)
    tests.compared = "an object of type %s is no plain data, and equals no value of the tests'" % remote._type_there
    try:
        Graph(tests).message(other)
    except Unpassable as error:
        tests.fault = "the tests compare %s with what the program gave, and neither can be passed" % error
        raise
    return unequal


def show(remote, deed, value):
    """Shows an object a value of the tests' by an operator; where it could know by that what is expected, there is no verdict."""
    if not (remote._is_made or remote._is_given):
        tests, kind = remote._of_tests, remote._type_there
        is_entry_point = kind not in tests.classes and isinstance(tests.names.get(kind), Remote)
        says = "; if %s is a class, the prelude says so: `class %s: pass`" % (kind, kind) if is_entry_point else ""
        tests.cannot("the tests use %s with a value of theirs and an object of type %s, which stays with the program%s" % (deed, kind, says))
    if deed in SHOWING or deed in ORDERS:
        told_if_given(remote, value)


def told_if_given(remote, other):
    """What the tests made and the program then gave as an answer is told nothing that may be expected of it."""
    if remote._is_given and not isinstance(other, Remote):
        what = "an object of type %s, which the program gave" % remote._type_there
        remote._of_tests.cannot("the tests compare %s, with what it is to be" % what)


def asking(deed):
    return lambda self, *arguments: ask(self, deed, arguments)


def giving(deed):
    """An operator of one object, or a copy."""
    return lambda self, *arguments: given(self, ask(self, deed, arguments))


def given(remote, value):
    if isinstance(value, Remote) and (remote._is_made or remote._is_given):
        mark(value, "_is_given", True)
    return value


# What gives an object itself without saying something of it.
SAME = frozenset(["enter", "aenter", "iter", *IN_PLACE])

# Operators of which a value that is expected may come out as nothing.
SHOWING = frozenset("sub truediv floordiv mod divmod xor".split())


def calculating(deed, turned=None):
    """An operator: asked only of objects that the tests made, of what such operators gave, or with two of the program's."""

    def calculate(self, other):
        if not isinstance(other, Remote):
            show(self, deed, other)
        return given(self, ask(self, turned or there(deed), (other,)))

    return calculate


def in_place(deed):
    """An operator that changes its object: what comes back of it is as it was before."""

    def change(self, other):
        if not isinstance(other, Remote):
            show(self, deed[1:], other)
        changed = ask(self, deed, (other,))
        return changed if changed is self else given(self, changed)

    return change


def there(deed):
    """The name of an operator's function."""
    return deed + "_" if deed in ("and", "or") else deed


for _deed in "bool str int float complex format dir setitem delitem index".split():
    setattr(Remote, "__%s__" % _deed, asking(_deed))
for _deed in "abs round copy deepcopy neg pos invert".split():
    setattr(Remote, "__%s__" % _deed, giving(_deed))


# What a remote object has for each of its traits.
USES = {
    "call": {"__call__": call_of},
    "iter": {"__iter__": iter_of},
    "next": {"__next__": next_of},
    "len": {"__len__": asking("len")},
    "getitem": {"__getitem__": asking("getitem")},
    "contains": {"__contains__": contains_of},
    "reversed": {"__reversed__": asking("reversed")},
    "enter": {"__enter__": asking("enter"), "__exit__": lambda remote, _kind, error, _trace: left(remote, "leave", error)},
    "aiter": {"__aiter__": lambda remote: remote},
    "anext": {"__anext__": next_awaited_of},
    "aenter": {"__aenter__": entered_of, "__aexit__": left_of},
    "await": {
        "__await__": await_of,
        "__next__": awaited_of,
        "send": awaited_of,
        "throw": throw_of,
        "close": lambda remote: None,
    },
}
USES.update((_deed, {"__%s__" % _deed: in_place(_deed)}) for _deed in IN_PLACE)
USES.update((_deed, {"__%s__" % _deed: calculating(_deed)}) for _deed in ORDERS + BINARY)
USES.update(("r" + _deed, {"__r%s__" % _deed: calculating(_deed, "r_" + there(_deed))}) for _deed in BINARY)
KINDS = {}


def remote_kind(name, traits):
    """The class of remote objects of a type of that name, which can do so much."""
    kind = KINDS.get((name, traits))
    if kind is None:
        told = property(lambda remote: ask(remote, "getattr", ("__doc__",)))
        contents = {"__slots__": (), "__module__": "program", "__doc__": told}
        for number, trait in enumerate(TRAITS):
            if traits >> number & 1:
                contents.update(USES[trait])
        kind = KINDS[name, traits] = type(name, (Remote,), contents)
    return kind


# What neither a function nor a class does.
NOT_OF_FUNCTIONS = "next await enter reversed aiter anext aenter".split() + IN_PLACE + OPERATORS


# Functions of unittest that are given the class of an exception.
RAISING = ("assertRaises", "assertRaisesRegex", "assertRaisesRegexp", "suppress", "raises")


def is_exception(name, known, source):
    """Whether the tests take a name for an exception: by the prelude, else by its end, or where they catch or raise it."""
    if known is not None:
        return isinstance(known, type) and issubclass(known, BaseException)
    if name[:1].isupper() and name.endswith(("Error", "Exception", "Warning")):
        return True
    for node in nodes(compile(source, "tests", "exec", 0x400)):
        kind = type(node).__name__
        if kind == "ExceptHandler":
            taken = [node.type]
        elif kind == "Raise":
            taken = [node.exc, getattr(node.exc, "func", None)]
        elif kind == "Call" and (getattr(node.func, "attr", None) or getattr(node.func, "id", None)) in RAISING:
            taken = node.args[:1]
        else:
            continue
        taken = [part for one in taken for part in (getattr(one, "elts", None) or [one])]
        if any(getattr(part, "id", None) == name for part in taken):
            return True
    return False


def stand_in(tests, name):
    """An exception of the program's, of which the bases are known when it comes; one that the tests make has nothing but that."""

    def missing(error, wanted):
        if wanted[:1] != "_" and wanted != "program_line" and "program_line" not in vars(error):
            tests.cannot("the tests make an exception %s, and its class stays with the program" % name)
        raise AttributeError("%r object has no attribute %r" % (type(error).__name__, wanted))

    kind = type(name, (Exception,), {"__module__": "program", "__getattr__": missing})
    tests.stand_ins.add(kind)
    return kind


def entry_point(tests, name, known, source):
    """What stands for a name of the program's: an exception is known by its name, and caught by that."""
    if is_exception(name, known, source):
        return known if is_of_tests(known) else stand_in(tests, name)
    all_but = sum(1 << number for number, trait in enumerate(TRAITS) if trait not in NOT_OF_FUNCTIONS)
    return remote_kind("Remote", all_but)(tests, name, "function")

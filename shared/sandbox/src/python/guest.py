"""Runs the program under test, and calls its functions for the tests, which are in another process."""

import _operator as operators
import io
from time import monotonic


def described(error):
    """Type, names of its built-in bases, text, and line: of a program that does not load."""
    names = [kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins"]
    return encode((type(error).__name__[:100], names, said(error), line_of(error)))


def said(error):
    try:
        return str(error)[:500]
    except Exception:
        return ""


def line_of(error):
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == PROGRAM]
    if isinstance(error, SyntaxError) and error.filename == PROGRAM:
        lines = [error.lineno]
    return (lines[-1] if lines else 0) or 0


PROGRAM = "/tmp/program.py"


class Sink(io.RawIOBase):
    """Prints on, and keeps the first of what is printed for tests that look at it."""

    KEPT = 1 << 18

    def __init__(self):
        self.kept = bytearray()

    def writable(self):
        return True

    def fileno(self):
        return 1

    def write(self, data):
        room = self.KEPT - len(self.kept)
        if room > 0:
            self.kept += data[:room]
        return os.write(1, data)


def loaded(source):
    import builtins
    import types

    builtins.exit = builtins.quit = sys.exit
    # What an editor puts before a file is no part of it.
    source = source.removeprefix("\ufeff")
    with open(PROGRAM, "w", encoding="utf-8", errors="surrogatepass") as file:
        file.write(source)
    module = types.ModuleType("program")
    module.__file__ = PROGRAM
    sys.modules["program"] = module
    sys.argv = [PROGRAM]
    exec(compile(source, PROGRAM, "exec"), module.__dict__)
    return module.__dict__


class Program(Side):
    """The program's side: what cannot be sent stays here and has a number."""

    keeps_iterators = True
    deepest = DEPTH * 3 // 4

    def __init__(self, names, sink, printing):
        self.names = names
        self.sink = sink
        self.printing = printing
        self.kept = {}
        self.numbers = {}
        self.count = 0
        self.theirs = ()
        self.loop = None
        self.failed = {}
        # What is known of the tests' classes, by name; classes that stand for them; and what of them is not here and was used.
        self.told = {}
        self.stand_ins = {}
        self.used = None

    def named(self, name):
        kind = self.names.get(name)
        return kind if isinstance(kind, type) else None

    def is_shared(self, kind):
        return kind.__name__ in self.theirs and kind.__module__ == "program"

    def made(self, name):
        """An object of the program's class of that name, or of one that has nothing but the name."""
        kind = self.named(name)
        if kind is None or not is_plain_class(kind):
            kind = self.names[name] = self.stand_ins[name] = self.stand_in(name)
        return object.__new__(kind)

    def tell(self, classes):
        """Keeps what classes of the tests' have; what stood for others of these names stands for them no more."""
        for name, *known in classes:
            self.told[name] = known
            if name in self.stand_ins and self.names.get(name) is self.stand_ins[name]:
                del self.names[name]

    def stand_in(self, name):
        """A class that has of the tests' what is data, and is a data class where that is one."""
        attributes, own_code, data = self.told.get(name, ((), (), None))
        contents = {attribute: decode(content) for attribute, content in attributes}
        contents.update((one.lstrip("="), self.untold(name, one)) for one in own_code)
        if data is None:
            return type(name, (), {**contents, "__module__": "program"})
        import dataclasses

        fields, named = data
        fields = [(field, object, dataclasses.field(**decode(given))) for field, given in fields]
        kind = dataclasses.make_dataclass(name, fields, namespace={"__doc__": "Of the tests.", **contents}, **dict(named))
        kind.__module__ = "program"
        return kind

    def untold(self, kind, name):
        return (UntoldProperty if name.startswith("=") else Untold)(self, kind, name.lstrip("="))

    def enumeration(self, name, base, mixed, members):
        """The program's enumeration of that name, or one that has nothing but the members."""
        import enum

        kind = self.named(name)
        if kind is None or not issubclass(kind, enum.Enum):
            if not members:
                raise ValueError("the program has no enumeration %s, and the tests' is more than its members" % name)
            kind = self.names[name] = made_enumeration(name, base, mixed, members, "program")
        return kind

    def factory(self, factory):
        return factory

    def write_other(self, writer, value):
        number = self.numbers.get(id(value))
        if number is None:
            self.count += 1
            number = self.numbers[id(value)] = self.count
            self.kept[number] = value
        writer.out.append(b"h")
        for part in (number, type(value).__name__[:100], traits(type(value))):
            writer.value(part)

    def wrote(self, writer, value, depth):
        if id(value) in self.numbers:
            return self.write_other(writer, value) is None
        number = writer.graph.numbers.get(id(value))
        if number is not None and writer.graph.kinds[number] == "object":
            writer.count(b"@", number)
            return True
        return super().wrote(writer, value, depth)

    def read_kept(self, parts):
        return self.target(parts[0])

    def target(self, target):
        if isinstance(target, int):
            return self.kept[target]
        if target not in self.names:
            raise NameError("the program defines no %s" % target)
        return self.names[target]

    def release(self, numbers):
        for number in numbers:
            value = self.kept.pop(number, None)
            self.numbers.pop(id(value), None)
            self.failed.pop(id(value), None)

    def do(self, deed, target, arguments, named):
        if deed == "classes":
            return self.tell(arguments)
        target = self.target(target)
        if deed == "call":
            made = target(*arguments, **dict(named))
            # An object of a class that the tests name is used by its methods, whatever the class derives from.
            if isinstance(target, type) and type(made) is target and target.__module__ == "program":
                if not (issubclass(target, tuple) and hasattr(target, "_fields")):
                    self.write_other(Writer(None), made)
            return made
        if deed == "refill":
            return self.refill((getattr if arguments[0] == "getattr" else operators.getitem)(target, *arguments[1]), arguments[2])
        if deed in ("leave", "aexit") and arguments:
            arguments = (self.error(*arguments),)
        if deed in AWAITED:
            import asyncio

            if self.loop is None:
                self.loop = asyncio.new_event_loop()
            return self.loop.run_until_complete(AWAITED[deed](target, *arguments))
        if deed == "more":
            return self.more(target, *arguments)
        if deed == "send":
            return one_more(target.send, arguments[0])
        if deed == "throw":
            import builtins

            return one_more(target.throw, getattr(builtins, arguments[0])(*arguments[1]))
        if deed in ("copy", "deepcopy"):
            import copy

            return getattr(copy, deed)(target)
        if deed.startswith("r_"):
            return getattr(operators, deed[2:])(arguments[0], target)
        return (DEEDS.get(deed) or getattr(operators, deed))(target, *arguments)

    def refill(self, value, changed):
        """Puts into a list or its like what the tests have put into theirs, which they had of it."""
        kind = container_of(type(value))
        if kind is not None and kind == container_of(type(changed)):
            _CONTAINERS[kind].change(value, _CONTAINERS[kind].contents(changed))

    def error(self, name, arguments):
        """An exception that comes from the tests, of the program's class of that name, or Python's."""
        import builtins

        kind = self.names.get(name)
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            kind = getattr(builtins, name, Exception)
        try:
            return kind(*arguments)
        except Exception:
            error = kind.__new__(kind)
            error.args = arguments
            return error

    def more(self, iterator, most):
        """Some values of an iterator, whether it ended, and what it gave then.

        What would show that more than one was asked for ends the taking: that one takes long, prints, or fails.
        """
        failed = self.failed.pop(id(iterator), None)
        if failed is not None:
            raise failed
        taken = []
        until = monotonic() + 0.002
        try:
            while True:
                taken.append(next(iterator))
                if len(taken) >= most or monotonic() > until or self.has_printed():
                    return (tuple(taken), False, None)
        except StopIteration as end:
            return (tuple(taken), True, end.value)
        except BaseException as error:
            if not taken:
                raise
            self.failed[id(iterator)] = error
            return (tuple(taken), False, None)

    def has_printed(self):
        try:
            self.flush()
        except Exception:
            return False
        return bool(self.sink.kept)

    def flush(self):
        self.printing.flush()
        sys.stdout.flush()

    def printed(self):
        """What was printed since the last look, where the program did not put something else in the place."""
        try:
            self.flush()
        except Exception:
            return ""
        text = self.sink.kept.decode("utf-8", "replace")
        self.sink.kept.clear()
        return text


class Untold:
    """What a class has on the tests' side alone: that it was looked at is told, for what comes then is none of the program's."""

    def __init__(self, program, kind, name):
        self.told = (program, "the program uses %s of %s, which stays with the tests" % (name, kind))

    def __get__(self, value, kind=None):
        self.told[0].used = self.told[1]
        raise NotImplementedError(self.told[1])


class UntoldProperty(Untold):
    def __set__(self, value, content):
        self.__get__(value)


def traits(kind):
    # Not by hasattr: a class is called and may be iterated whatever its objects can. Any object has names for an order.
    has = {name for base in kind.__mro__ if base is not object for name in vars(base)}
    return sum(1 << number for number, trait in enumerate(TRAITS) if "__%s__" % trait in has)


async def awaited(value):
    return await value


async def next_awaited(value):
    return await type(value).__anext__(value)


async def entered(value):
    return await type(value).__aenter__(value)


async def left(value, error=None):
    if error is None:
        return await type(value).__aexit__(value, None, None, None)
    try:
        raise error
    except BaseException:
        return await type(value).__aexit__(value, type(error), error, error.__traceback__)


AWAITED = {"await": awaited, "anext": next_awaited, "aenter": entered, "aexit": left}


def one_more(step, argument):
    """As several values are given: the one that comes of a step, or that it ended and what it gave."""
    try:
        return ((step(argument),), False, None)
    except StopIteration as end:
        return ((), True, end.value)


def is_instance(kind, value):
    return isinstance(value, kind)


def enter(value):
    return type(value).__enter__(value)


def leave(value, error=None):
    if error is None:
        return type(value).__exit__(value, None, None, None)
    try:
        raise error
    except BaseException:
        return type(value).__exit__(value, type(error), error, error.__traceback__)


DEEDS = {"getattr": getattr, "setattr": setattr, "delattr": delattr, "isinstance": is_instance, "enter": enter, "leave": leave}
for _deed in (iter, next, len, bool, str, repr, int, float, complex, abs, round, hash, format, divmod, reversed, dir):
    DEEDS[_deed.__name__] = _deed


def held(error):
    """What an exception has besides its arguments, with its name: of its own, and of its classes."""
    kinds = [kind for kind in type(error).__mro__ if kind.__module__ in ("program", "builtins")]
    kinds = [kind for kind in kinds if kind not in (object, BaseException, Exception, *OF_GROUPS)]
    found = {}
    for name in {**{name: None for kind in kinds for name in vars(kind)}, **vars(error)}:
        if isinstance(name, str) and not name.startswith("__") and name not in ("args", "obj", "object"):
            try:
                found[name] = getattr(error, name)
            except Exception:
                continue
    return tuple(found.items())


# Exceptions of several: what they hold is told by itself.
OF_GROUPS = [GROUPS, *GROUPS.__subclasses__()] if GROUPS else []

# So many causes of causes are told.
CAUSES = 8


def raised(error, causes=CAUSES):
    """What is said of an exception: its type and its bases by module and name, its text and its arguments, where it was, what
    it has, and its cause."""
    bases = tuple((str(kind.__module__), kind.__name__[:100]) for kind in type(error).__mro__)
    arguments = tuple(error.args)
    if isinstance(error, GROUPS):
        arguments = (error.message, tuple(map(raised, error.exceptions)))
    cause = error.__cause__
    cause = raised(cause, causes - 1) if isinstance(cause, BaseException) and causes else None
    return (type(error).__name__[:100], bases, said(error), arguments, line_of(error), held(error), cause)


def answer(program, frame):
    graph = Graph(program)
    try:
        deed, target, arguments, named, released, program.theirs = graph.read(frame)
    except (NameError, MemoryError) as error:
        # What is asked for by name is not there. Of no type that a test could wait for.
        failed = ("what the tests pass cannot be made", (("builtins", "Exception"),), said(error), (), 0, (), None)
        return b"V" + Graph(program).message((False, failed, "", None))
    except Exception as error:
        return b"V" + Graph(program).message((True, None, "", "what the tests pass cannot be made: %s" % said(error)))
    graph.remember()
    first = len(graph.objects)
    program.release(released)
    try:
        root = (True, program.do(deed, target, arguments, named))
    except BaseException as error:
        root = (False, raised(error))
    printed, used = program.printed(), program.used
    program.used = None
    # What cannot be sent is an exception; one that cannot be sent goes without what it holds.
    for _ in range(3):
        try:
            return b"V" + graph.message(root + (printed, used))
        except BaseException as error:
            failed = raised(error)
            root = (False, failed if root[0] else failed[:3] + ((), 0, (), None))
            graph.forget_from(first)
            graph.before = []
    return b"V"


def main():
    channel = moved_channel()
    channel.send(b"R")
    job = start(channel)
    sink = Sink()
    printing = sys.stdout = io.TextIOWrapper(io.BufferedWriter(sink, 1 << 13), encoding="utf-8", errors="surrogateescape")
    try:
        names = loaded(job["program"])
    except BaseException as error:
        return channel.send(b"E" + described(error))
    program = Program(names, sink, printing)
    program.printed()
    channel.send(b"L")
    while True:
        frame = channel.receive()
        if frame is None:
            os._exit(0)
        channel.send(answer(program, frame))


main()

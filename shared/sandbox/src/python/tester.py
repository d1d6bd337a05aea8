"""Runs the tests, which are trusted, and asks the program under test, which is elsewhere, by values.

The verdict is this process's: nothing of the program ever runs here, and what comes from it is decoded to plain data, or is
the number of an object that stays there. Such an object is asked, by name, to do something; what it is asked never holds what
the tests expect, but where the tests themselves hand that over.
"""

import _weakref


class ProgramError(Exception):
    """The program under test raised what has no name here, or sent what is no value."""


class ProgramEnd(BaseException):
    """The program raised what is no `Exception`, and has no name here: what catches those does not catch this."""


class Lent:
    """A list or its like that an attribute or an item of the program's is, to see whether the tests change it."""

    def __init__(self, owner, question, value, graph):
        # The owner stays as long as there may be something to tell it.
        self.owner = owner
        self.question = question
        self.value = value
        self.graph = graph
        graph.remember()

    def size(self):
        return sum(map(len, self.graph.before))

    def is_changed(self):
        return any(True for _ in self.graph.changed())


# Of what is larger, and of more of them, nobody looks whether it is changed, for that takes time with each question.
MOST_LENT = 1 << 9
LENT = 64

# References to a value while it is looked at: of what is kept of it, and of the question how many there are.
OF_LENT = 3


class Tests(Side):
    """What the tests did, and their side of each call."""

    def __init__(self, channel, names):
        self.channel = channel
        self.names = names
        self.calls = 0
        self.fault = None
        self.compared = None
        # Names that the tests take for classes, and those of which objects that methods give are theirs to calculate with.
        self.classes = set()
        self.giving = set()
        # Exceptions that stand for the program's of that name, and of which no bases are known yet.
        self.stand_ins = set()
        self.released = []
        self.lent = []
        # What is being asked, and of whom.
        self.deed = None
        self.target = None
        # Classes of which the program's side knows what they have, and what is to be told of others.
        self.told = set()
        self.to_tell = []
        self.remotes = {}
        self.unshared = None
        self.patched = []
        self.failed_case = None
        # The tests' syntax tree.
        self.tree = None
        # Cases of unittest that were begun.
        self.cases = 0
        self.stdin = sys.stdin
        self.input = builtins.input
        self.stderr = sys.stderr
        # Libraries set variables of their own.
        self.environment = None

    def named(self, name):
        kind = self.names.get(name)
        return kind if isinstance(kind, type) and kind.__module__ == "tests" else None

    def is_shared(self, kind):
        return kind.__module__ == "tests"

    def made(self, name):
        if name not in self.shared():
            raise ValueError("an object of a class that the tests do not have")
        return object.__new__(self.names[name])

    def shared(self):
        """Names of the tests' classes whose objects may come by value: made of attributes, with none but Python's own methods."""
        return tuple(name for name, kind in self.names.items() if isinstance(kind, type) and is_data(kind))

    def write_other(self, writer, value):
        if getattr(value, "gi_code", None) is lazily.__code__:
            raise ProgramError("the program's iterator has more than %d values" % MOST_TAKEN)
        raise Unpassable("an object of type %s" % type(value).__name__)

    def enumeration(self, name, base, mixed, members):
        kind = self.names.get(name)
        if not isinstance(kind, type) or name not in self.shared() or not hasattr(kind, "__members__"):
            raise ValueError("a member of an enumeration that the tests do not have")
        return kind

    def factory(self, factory):
        """What a function of the tests' gives, which is plain data or cannot be told."""
        try:
            return encode(factory())
        except Exception:
            return None

    def lazily(self, target):
        if not isinstance(target, Remote):
            raise ValueError("no iterator")
        return lazily(target)

    def cannot(self, why):
        """The tests do what cannot be done from here, so what comes of them is no verdict."""
        self.fault = why
        raise Unpassable(why)

    def wrote(self, writer, value, depth):
        # Its own iterator that has given nothing ahead is where it was.
        frame = getattr(value, "gi_frame", None) if getattr(value, "gi_code", None) is lazily.__code__ else None
        if frame is not None and not frame.f_locals.get("ahead"):
            value = frame.f_locals["iterator"]
        if isinstance(value, Remote):
            writer.out.append(b"h")
            for part in (target_of(value), "", 0):
                writer.value(part)
            return True
        if type(value).__module__ == "tests" and not isinstance(value, type):
            self.describe(type(value))
        return super().wrote(writer, value, depth)

    def describe(self, kind):
        """Has it told what a class has, before the first of its objects comes; one that would lose what it has cannot come."""
        if kind in self.told or issubclass(kind, tuple) or type(kind).__name__ in ("EnumType", "EnumMeta"):
            return
        if not is_plain_class(kind):
            own_code = self.own_code(kind)
            if own_code:
                raise Unpassable("an object of type %s with %s of its own" % (kind.__name__, own_code[0]))
            return
        self.told.add(kind)
        self.to_tell.append((kind.__name__, *description(kind)))

    def own_code(self, kind):
        """Names of functions that the tests wrote into a class."""
        return tuple(name for name, content in contents_of(kind).items() if file_of(content) in ("prelude", "tests"))

    def read_kept(self, parts):
        number, name, traits = parts
        if type(number) is not int or type(name) is not str or type(traits) is not int:
            raise ValueError("no object")
        known = self.remotes.get(number)
        remote = None if known is None else known()
        if remote is None:
            remote = remote_kind(name, traits)(self, number, name)
            self.remotes[number] = _weakref.ref(remote)
            if number in self.released:
                self.released.remove(number)
            # What the tests make themselves comes of the class.
            if name in self.giving and self.target not in self.classes:
                mark(remote, "_is_given", True)
        elif remote._is_made and self.deed not in SAME:
            mark(remote, "_is_given", True)
        return remote

    def release(self, number):
        self.remotes.pop(number, None)
        self.released.append(number)

    def ask(self, deed, target, arguments=(), named=()):
        """Has the program's side do something, and gives what comes of it."""
        self.look_around()
        self.give_back()
        graph = Graph(self)
        released = tuple(self.released)
        del self.released[: len(released)]
        try:
            frame = graph.message((deed, target, tuple(arguments), tuple(named), released, self.shared()))
        except Unpassable as error:
            name = target if isinstance(target, str) else deed
            self.fault = "the tests pass %s to %s, and only plain values can be passed" % (error, name)
            raise
        if self.to_tell:
            classes = tuple(self.to_tell)
            self.to_tell.clear()
            told = Graph(self)
            self.result(told, self.replied(told.message(("classes", "", classes, (), (), ()))))
        self.calls += 1
        self.deed, self.target = deed, target
        value = self.result(graph, self.replied(frame))
        if deed in ("getattr", "getitem") and id(value) in graph.numbers:
            owner = self.remotes.get(target)
            lent = Lent(owner and owner(), (deed, target, tuple(arguments)), value, graph)
            if lent.size() <= MOST_LENT:
                self.lent.append(lent)
        return value

    def give_back(self):
        """Tells the program what the tests have changed of what its objects hold, as if both held the same."""
        lent, self.lent = self.lent, []
        for one in lent:
            if one.is_changed():
                deed, target, arguments = one.question
                self.ask("refill", target, (deed, arguments, one.value))
                one.graph.remember()
        self.lent = [one for one in lent if sys.getrefcount(one.value) > OF_LENT][-LENT:]

    def replied(self, frame):
        self.channel.send(b"C" + frame)
        reply = self.channel.receive()
        if reply is None:
            os._exit(3)
        return reply

    def look_around(self):
        """Whether the tests rely on what both would share in one process: what cannot be right is no verdict, and what may be
        right all the same is none if it fails."""
        if sys.stdin is not self.stdin or builtins.input is not self.input:
            self.cannot("the tests put something in the place of standard input, which does not reach the program")
        if self.patched:
            self.cannot("the tests put something in the place of %s, which does not reach the program" % self.patched[-1])
        if self.environment is not None and dict(os.environ) != self.environment:
            self.cannot("the tests set variables of the environment, which do not reach the program")
        if sys.stderr is not self.stderr:
            self.unshared = "the tests put something in the place of standard error, where the program's messages do not come"
        if not all(name.startswith(OF_LIBRARIES) for name in os.listdir("/tmp")):
            self.unshared = "the tests made files in /tmp, which the program has not"

    def result(self, graph, reply):
        try:
            if reply[:1] != b"V":
                raise ValueError("the program sent what is no answer")
            is_value, value, printed, used = graph.read(reply[1:])
            if printed:
                sys.stdout.write(printed)
            error = None if is_value is True else self.exception(*value)
        except Exception as error:
            raise ProgramError("the program sent what is no value: %r" % error) from None
        if used is not None:
            self.cannot(str(used))
        if error is not None:
            raise error
        return value

    def exception(self, kind, bases, said, arguments, line, held, cause):
        """The program's exception, with what it has and its cause."""
        error = self.named_exception(kind, bases, said, arguments)
        for name, value in held:
            if type(name) is str and name[:2] != "__" and name not in ("args", "program_line", "with_traceback", "add_note"):
                try:
                    setattr(error, name, value)
                except Exception:
                    continue
        error.program_line = line
        if cause is not None:
            error.__cause__ = self.exception(*cause)
        return error

    def named_exception(self, kind, bases, said, arguments):
        """An exception under all names of its classes that are known here; those that steer a program stay errors.

        `StopIteration` would end a loop over the program's answers as if all had been looked at.
        """
        names, known = [], []
        for module, name in bases:
            found = self.known_exception(module, name)
            if found is not None and issubclass(found, (StopIteration, StopAsyncIteration)):
                break
            if found is not None and found not in known:
                names.append(name)
                known.append(found)
        if not known:
            return (ProgramError if ("builtins", "Exception") in bases else ProgramEnd)("%s: %s" % (kind, said))
        if issubclass(known[0], GROUPS):
            return known[0](arguments[0], [self.exception(*part) for part in arguments[1]])
        is_itself = names[0] == kind
        if is_itself and known[0] in self.stand_ins:
            self.stand_ins.discard(known[0])
            rebase(known[0], least(known[1:]))
        return exception_of(least(known), is_itself, kind, said, arguments)

    def known_exception(self, module, name):
        if module == "program":
            known = self.names.get(name)
            if not is_of_tests(known):
                return None
        elif module == "builtins" or module in EXCEPTIONS:
            known = getattr(sys.modules.get(module), name, None)
        else:
            return None
        return known if isinstance(known, type) and issubclass(known, STEERING) else None


# The one that ends a program may be expected, and ends the tests where it is not.
STEERING = (Exception, SystemExit, KeyboardInterrupt, *((GROUPS,) if GROUPS else ()))


def least(kinds):
    """Of classes those from which no other of them derives."""
    return tuple(kind for kind in kinds if not any(other is not kind and issubclass(other, kind) for other in kinds))


def rebase(kind, bases):
    """Gives an exception its bases; one that is laid out in another way is made anew of all of them each time."""
    try:
        kind.__bases__ = bases or (BaseException,)
    except TypeError:
        return


def is_of_tests(known):
    """A class that the tests define, on nothing but classes that mean themselves: one of a library may steer the tests."""
    if not isinstance(known, type) or known.__module__ not in ("tests", "program"):
        return False
    return all(kind.__module__ in ("tests", "program", "builtins") or kind.__module__ in EXCEPTIONS for kind in known.__mro__)


# Files that libraries make when they are loaded.
OF_LIBRARIES = (".", "matplotlib-", "pymp-")

# Modules whose exceptions mean nothing but themselves: one of a library of tests might mean that a test is left out.
EXCEPTIONS = frozenset(
    "json.decoder decimal re sre_constants _queue queue statistics binascii zlib _struct struct dataclasses asyncio.exceptions "
    "concurrent.futures._base graphlib csv _csv sqlite3 zoneinfo._common copy configparser subprocess".split()
)


def exception_of(known, is_itself, kind, said, arguments):
    """An exception of these classes, itself where it is the only one and its arguments make it."""
    if is_itself and len(known) == 1:
        try:
            error = known[0](*arguments)
            if str(error)[:500] == said:
                return error
        except Exception:
            pass
    contents = {"__init__": lambda error, *_: None, "__str__": lambda error: said, "__module__": "program"}
    try:
        shown = type(kind, known, contents)
    except TypeError:
        shown = type(kind, known[:1], contents)
    error = shown.__new__(shown)
    error.args = arguments
    return error


def is_data(kind):
    if kind.__module__ != "tests":
        return False
    if issubclass(kind, tuple) or type(kind).__name__ == "EnumType" or type(kind).__name__ == "EnumMeta":
        return True
    return is_plain_class(kind) and not any(
        callable(content) and not name.startswith("__") for base in kind.__mro__[:-1] for name, content in vars(base).items()
    )


def place(error, source):
    """Which line of the tests was running, and which of the program, where it failed."""
    import traceback

    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "tests"]
    if not lines:
        return ""
    text = source.split("\n")[lines[-1] - 1].strip()[:200]
    there = getattr(error, "program_line", 0)
    where = ", line %d of the program" % there if isinstance(there, int) and there else ""
    return " (line %d of the tests: %s%s)" % (lines[-1], text, where)


def said(error):
    """What it says; a number of thousands of digits, for one, does not become a text."""
    try:
        return str(error)[:500]
    except Exception as second:
        return "what cannot be shown: %s" % type(second).__name__


def ends_well(error):
    """Whether the tests ended themselves as what is well ends; the program's end is none of theirs."""
    if hasattr(error, "program_line"):
        return False
    return error.code is None or error.code in (0, False)


def ran_nothing(error):
    """Whether unittest ended the tests without having run one."""
    trace = getattr(error, "__traceback__", None)
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_globals.get("__name__") == "unittest.main":
            result = getattr(frame.f_locals.get("self"), "result", None)
            if getattr(result, "testsRun", None) == 0:
                return True
        trace = trace.tb_next
    return False


# Functions that look at what a function, a class or an object is made of.
LOOKING = {
    "dataclasses": "asdict astuple fields replace is_dataclass",
    "inspect": "isclass isfunction ismethod iscoroutinefunction isgeneratorfunction isroutine iscoroutine getsource getmembers",
}


def watch_looks(tests, module):
    """What the tests ask of a function or an object as it is made, which stays with the program, has no right answer here."""
    looked = sys.modules.get(module) or __import__(module)

    def watch(name):
        there = getattr(looked, name)

        def looking(value, *arguments, **named):
            if isinstance(value, Remote):
                tests.cannot("the tests ask %s.%s of %s, which stays with the program" % (module, name, name_of(value)))
            return there(value, *arguments, **named)

        setattr(looked, name, looking)

    for name in LOOKING[module].split():
        watch(name)


def watch_cases(tests):
    """A case that fails is a failure, whether the tests look at what unittest says or not."""
    import unittest

    def watch(name):
        there = getattr(unittest.TestResult, name)

        def noting(result, case, *error):
            if error[-1] is not None and tests.failed_case is None:
                tests.failed_case = error[-1][1]
            return there(result, case, *error)

        setattr(unittest.TestResult, name, noting)

    for name in ("addError", "addFailure", "addSubTest"):
        watch(name)
    start = unittest.TestResult.startTest

    def starting(result, case):
        tests.cases += 1
        return start(result, case)

    unittest.TestResult.startTest = starting


def watch_patches(tests):
    """Notes what the tests have replaced; what is printed, and what is of the tests' own, is theirs to replace."""
    from unittest import mock

    def watch(kind, shown):
        enter, leave = kind.__enter__, kind.__exit__

        def entering(patch):
            given = enter(patch)
            name = shown(patch)
            if name is not None:
                tests.patched.append(name)
            return given

        def leaving(patch, *error):
            name = shown(patch)
            if name in tests.patched:
                tests.patched.remove(name)
            return leave(patch, *error)

        kind.__enter__, kind.__exit__ = entering, leaving

    def attribute(patch):
        if patch.attribute == "stdout" or vars(patch.getter()) is tests.names:
            return None
        return patch.attribute

    watch(mock._patch, attribute)


def run(tests, job):
    names = tests.names
    both = job["prelude"] + job["tests"]
    try:
        if "environ" in both:
            tests.environment = dict(os.environ)
        if "unittest" in both:
            watch_cases(tests)
        if "mock" in both:
            watch_patches(tests)
        for module in LOOKING:
            if module in both:
                watch_looks(tests, module)
        exec(compile(job["prelude"], "prelude", "exec"), names)
        tree = as_main(compile(job["tests"], "tests", "exec", 0x400))  # The tree alone.
        tests.tree = tree
        code = compile(tree, "tests", "exec")
    except BaseException as error:
        return b"B", "the tests do not load: %s: %s" % (type(error).__name__, error)
    for name in job["entry_points"]:
        uses = Uses(name, tree)
        if uses.is_class(names.get(name)):
            tests.classes.add(name)
            if uses.is_giving():
                tests.giving.add(name)
        names[name] = entry_point(tests, name, names.get(name), job["tests"])
    error = ended(tests, code, tree)
    if tests.failed_case is None and ran_nothing(error):
        return b"B", "unittest finds no tests"
    error = tests.failed_case or error
    failed = None if error is None or is_end(error) and ends_well(error) else told(error, job)
    if tests.fault is not None:
        return b"B", tests.fault
    if failed is not None and not hasattr(error, "program_line"):
        fault = fault_of(tests, error)
        if fault is not None:
            return b"B", "%s: %s" % (fault, failed)
        if isinstance(error, FileNotFoundError):
            tests.unshared = "the tests look for the file %r, and the program's files are not here" % (error.filename,)
    if failed is not None and tests.unshared is not None:
        return b"B", "%s; %s" % (tests.unshared, failed)
    if failed is not None:
        return b"F", failed + ("" if tests.compared is None else "; " + tests.compared)
    if not tests.calls:
        return b"B", "the tests call nothing of the program: entry points are %s" % ", ".join(job["entry_points"])
    return b"P", "passed %d calls" % tests.calls


def ended(tests, code, tree):
    """What ended the tests, with those that are defined and that nothing runs; nothing where they came to their end."""
    try:
        exec(code, tests.names)
        run_left(tests, tree)
    except BaseException as error:
        return error
    return None


def run_left(tests, tree):
    """Runs cases of unittest where none was begun, and functions `test_...` without arguments that nothing calls."""
    import types

    unittest = sys.modules.get("unittest")
    own = [known for known in tests.names.values() if getattr(known, "__module__", None) == "tests"]
    if unittest is not None and not tests.cases and any(isinstance(kind, type) and issubclass(kind, unittest.TestCase) for kind in own):
        suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["tests"])
        unittest.TextTestRunner().run(suite)
    words = [node for node in nodes(tree) if type(node).__name__ in ("Name", "Constant")]
    named = {getattr(node, "id", None) or getattr(node, "value", None) for node in words}
    if named & {"globals", "locals", "vars", "dir"}:
        return
    for statement in tree.body:
        name = getattr(statement, "name", "")
        function = tests.names.get(name)
        if type(statement).__name__ == "FunctionDef" and name.startswith("test") and name not in named:
            if isinstance(function, types.FunctionType) and not (function.__code__.co_argcount or function.__code__.co_kwonlyargcount):
                function()


def as_main(tree):
    """The tests as they are when they are run by themselves: what stands under `__name__ == "__main__"` runs."""
    for node in nodes(tree):
        if type(node).__name__ == "If" and type(node.test).__name__ == "Compare" and len(node.test.ops) == 1:
            sides = [getattr(side, "id", None) or getattr(side, "value", None) for side in (node.test.left, *node.test.comparators)]
            if type(node.test.ops[0]).__name__ == "Eq" and set(map(str, sides)) == {"__name__", "__main__"}:
                line, column = node.test.lineno, node.test.col_offset
                node.test = compile("True", "tests", "eval", 0x400).body
                node.test.lineno = node.test.end_lineno = line
                node.test.col_offset = node.test.end_col_offset = column
    return tree


def is_end(error):
    return isinstance(error, SystemExit)


def fault_of(tests, error):
    """Why what ended the tests, which is none of the program's, says nothing of the program; nothing where it may."""
    if isinstance(error, ImportError):
        return "the tests do not load"
    if not tests.calls:
        return "the tests fail before they call anything of the program"
    if isinstance(error, TypeError) and said(error).startswith(NOT_CAUGHT):
        return "the tests catch what is no exception here, for its class stays with the program"
    return None


# What Python and unittest say of a class of exceptions that is none.
NOT_CAUGHT = ("catching classes that do not inherit from BaseException", "assertRaises() arg 1", "assertRaisesRegex() arg 1")


def told(error, job):
    if isinstance(error, SystemExit) and not hasattr(error, "program_line"):
        return "the tests ended with %r" % (error.code,)
    what = "%s: %s%s" % (type(error).__name__, said(error), place(error, job["tests"]))
    if isinstance(error, ModuleNotFoundError) and hasattr(error, "program_line"):
        what += "; the module is not installed where programs run"
    return what


def main():
    import types

    channel = moved_channel()
    channel.send(b"R")
    job = start(channel)
    builtins.exit = builtins.quit = sys.exit
    # Where unittest looks for tests.
    module = types.ModuleType("tests")
    module.__dict__["__builtins__"] = builtins
    sys.modules["launcher"] = sys.modules["__main__"]
    sys.modules["__main__"] = sys.modules["tests"] = module
    kind, said = run(Tests(channel, module.__dict__), job)
    channel.send(kind + said.encode("utf-8", "backslashreplace"))


main()

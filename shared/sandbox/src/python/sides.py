

# Exceptions of several, where Python has them.
GROUPS = getattr(builtins, "BaseExceptionGroup", ())

# What an object of the program's can do, by which the tests' side knows how it may be used; a number has a bit for each.
IN_PLACE = ["i" + name for name in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()]
BINARY = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift divmod".split()
ORDERS = "lt le gt ge".split()
OPERATORS = ORDERS + BINARY + ["r" + name for name in BINARY]
TRAITS = "call iter next len getitem contains await reversed enter aiter anext aenter".split() + IN_PLACE + OPERATORS


class Side:
    """What the two sides of a call have in common: objects that are known by name on both, or that stay where they are."""

    # Iterators stay where they are, and give their values when they are asked.
    keeps_iterators = False
    # What came from the program is within what may go back to it.
    deepest = DEPTH

    def named(self, name):
        """The class of that name of this side."""
        raise NotImplementedError

    def enumeration(self, name, base, mixed, members):
        """The enumeration of that name of this side."""
        raise NotImplementedError

    def factory(self, factory):
        """What is sent of a function that gives a defaultdict's missing values."""
        raise NotImplementedError

    def lazily(self, _target):
        """The values of an iterator of the other side, when they are asked for."""
        raise ValueError("an iterator from where none comes")

    def wrote(self, writer, value, depth):
        """Writes what goes another way than its base would; whether it did."""
        if isinstance(value, tuple) and isinstance(getattr(type(value), "_fields", None), tuple):
            writer.text(b"n", type(value).__name__)
            writer.items(b"t", type(value)._fields, depth)
            writer.items(b"t", self.own_code(type(value)), depth)
            writer.items(b"t", list(tuple.__iter__(value)), depth)
            return True
        enum = sys.modules.get("enum")
        if enum is not None and isinstance(value, enum.Enum) and self.is_shared(type(value)):
            kind = writer.graph.number("enumeration", type(value))
            if value.name in type(value).__members__:
                writer.count(b"m", kind)
                writer.text(b"s", value.name)
            else:
                # Several flags in one.
                writer.count(b"M", kind)
                writer.value(value.value, depth)
            return True
        if enum is not None and isinstance(value, type(enum.Enum)) and self.is_shared(value):
            writer.count(b"@", writer.graph.number("enumeration", value))
            return True
        if self.is_shared(type(value)) and is_plain_class(type(value)):
            writer.count(b"@", writer.graph.number("object", value))
            return True
        return False

    def read(self, reader, letter, depth):
        if letter == b"n":
            return self.tuple_of(reader.text(), *reader.values(depth, 3))
        if letter in (b"m", b"M"):
            number = reader.size_of_table()
            if reader.graph.kinds[number] != "enumeration":
                raise ValueError("no enumeration")
            kind, value = reader.graph.objects[number], reader.value(depth + 1)
            return kind.__members__[value] if letter == b"m" else kind(value)
        if letter == b"G":
            return self.lazily(reader.value(depth + 1))
        if letter == b"h":
            return self.read_kept(reader.values(depth, 3))
        raise ValueError("an unknown letter")

    def own_code(self, _kind):
        """Names of what a class has that the other side cannot have."""
        return ()

    def untold(self, _kind, _name):
        """What stands for something that a class has on the other side alone."""
        raise ValueError("what stays with the program")

    def tuple_of(self, name, fields, own_code, values):
        """A tuple with these names: of this side's own class, or of one that has nothing else."""
        own = self.named(name)
        if isinstance(own, type) and issubclass(own, tuple) and getattr(own, "_fields", None) == fields:
            return own._make(values)
        if len(fields) != len(values) or not all(field.isidentifier() and field[0] != "_" for field in fields):
            raise ValueError("no tuple with names")
        from operator import itemgetter

        contents = {field: property(itemgetter(number)) for number, field in enumerate(fields)}
        contents["_fields"] = fields
        contents["_asdict"] = lambda value: dict(zip(fields, value))
        contents["_make"] = classmethod(lambda kind, values: tuple.__new__(kind, values))
        contents["_replace"] = replaced
        shown = lambda value: "%s(%s)" % (name, ", ".join("%s=%r" % pair for pair in zip(fields, value)))
        contents.update({"__slots__": (), "__repr__": shown}, **{one: self.untold(name, one) for one in own_code})
        return tuple.__new__(type(name, (tuple,), contents), values)


def replaced(value, /, **changes):
    """A tuple with names like this one, but for some of its values."""
    made = value._make([changes.pop(field, part) for field, part in zip(value._fields, value)])
    if changes:
        raise ValueError("Got unexpected field names: %r" % list(changes))
    return made


def is_plain_class(kind):
    """Whether its objects are made of attributes alone."""
    return kind.__new__ is object.__new__ and type(kind).__name__ in ("type", "ABCMeta")

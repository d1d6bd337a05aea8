"""What the program's side is told of the tests' classes, so that their objects are there what they are here, or it is seen."""

# What Python puts into a class, and what may not be looked at where its objects are made.
SILENT = frozenset(
    "__module__ __dict__ __weakref__ __doc__ __qualname__ __annotations__ __annotate__ __annotate_func__ __slots__ __match_args__ "
    "__dataclass_fields__ __dataclass_params__ __abstractmethods__ _abc_impl __orig_bases__ __parameters__ __static_attributes__ "
    "__firstlineno__ __del__ __getattribute__ __init_subclass__ __class_getitem__ __new__".split()
)


def contents_of(kind):
    """What a class has that is not Python's own."""
    bases = [base for base in reversed(kind.__mro__) if base.__module__ not in ("builtins", "typing", "abc")]
    contents = {name: content for base in bases for name, content in vars(base).items()}
    return {name: content for name, content in contents.items() if name not in SILENT}


def file_of(content):
    """The name of the source of a function, in whichever form it is in a class."""
    content = getattr(content, "__func__", None) or getattr(content, "fget", None) or getattr(content, "func", None) or content
    return getattr(getattr(content, "__code__", None), "co_filename", None)


def description(kind):
    """What a class of the tests' has: attributes that are data, names of all else (with `=` before what also takes values), and
    what it is as a data class."""
    is_data_class = "__dataclass_fields__" in vars(kind)
    attributes, own_code = [], []
    for name, content in contents_of(kind).items():
        file = file_of(content) or ""
        if type(content).__name__ in ("member_descriptor", "getset_descriptor"):
            continue
        if is_data_class and (file == "<string>" or file.endswith("dataclasses.py")):
            continue
        try:
            attributes.append((name, encode(content)))
        except Unpassable:
            if not is_data_class or name not in vars(kind)["__dataclass_fields__"]:
                own_code.append("=" + name if hasattr(type(content), "__set__") else name)
    data = data_of(kind, own_code) if is_data_class else None
    return tuple(attributes), tuple(own_code), data


def data_of(kind, own_code):
    """Fields of a data class, and how it was made; what makes its objects is left out where that cannot be told."""
    import dataclasses

    fields = []
    is_told = True
    for field in dataclasses.fields(kind):
        given = {"compare": field.compare, "repr": field.repr, "hash": field.hash, "init": field.init}
        if field.default is not dataclasses.MISSING:
            given["default"] = field.default
        if field.default_factory is not dataclasses.MISSING:
            given["default_factory"] = field.default_factory
        is_told = is_told and not getattr(field, "kw_only", False)
        try:
            fields.append((field.name, encode(given)))
        except Unpassable:
            is_told = False
            fields.append((field.name, encode({})))
    made = kind.__dataclass_params__
    named = {name: getattr(made, name) for name in ("init", "repr", "eq", "order", "unsafe_hash", "frozen")}
    # What the class has itself is not made anew.
    if any(name in vars(kind) and file_of(vars(kind)[name]) in ("prelude", "tests") for name in ("__lt__", "__le__", "__gt__", "__ge__")):
        named["order"] = False
    if not is_told:
        named["init"] = False
        if "__init__" not in own_code:
            own_code.append("__init__")
    return tuple(fields), tuple(named.items())

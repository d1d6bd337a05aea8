"""What the tests' source says of a name of the program's: whether it is a class, by how it is written and used.

The program does not say, or a function that is called by one of these names could give what is asked whether it is right. The
source is looked at as a whole, whatever runs first: a variable stands for all that is assigned to it anywhere.
"""


def nodes(tree):
    """A syntax tree and all below."""
    yield tree
    for field in tree._fields:
        content = getattr(tree, field, None)
        for part in content if isinstance(content, list) else (content,):
            if hasattr(part, "_fields"):
                yield from nodes(part)


def sort_of(node):
    return type(node).__name__


# What an expression may be: the class, an object that is made of it, what a method gives, and what an operator gives of one of
# the last two.
CLASS, MADE, ANSWER, SUM, SUM_OF_ANSWER = "class", "made", "answer", "sum", "sum of an answer"
SUMS = {MADE: SUM, SUM: SUM, ANSWER: SUM_OF_ANSWER, SUM_OF_ANSWER: SUM_OF_ANSWER}

# Names that numbers, texts, containers, times and arrays have too: to read one of these of a sum does not take it for an object
# of a class of the program's.
OF_VALUES = frozenset(name for kind in (int, float, complex, str, bytes, list, dict, set) for name in dir(kind))
OF_VALUES |= frozenset("T all any argmax argmin days dtype flatten max mean min ndim reshape round seconds shape size std sum".split())
OF_VALUES |= frozenset("tolist total_seconds transpose trace".split())

# What functions have as classes have it.
OF_FUNCTIONS = frozenset("__name__ __qualname__ __module__ __doc__".split())


class Uses:
    """How the tests use one name."""

    def __init__(self, name, tree):
        self.name = name
        # What variables, attributes of variables, and calls of functions may be.
        self.known = {name: {CLASS}}
        self.nodes = []
        if name[:1].isupper() and "_" not in name:
            self.nodes.extend(nodes(tree))
            self.functions = {node.name: node for node in self.nodes if sort_of(node) in ("FunctionDef", "AsyncFunctionDef")}
            while any([self.learn(node) for node in self.nodes]):
                pass

    def is_class(self, known):
        """Whether the tests take it for a class: by the prelude, else by how it is written and used."""
        if known is not None:
            return isinstance(known, type)
        return any(map(self.takes_class, self.nodes))

    def is_giving(self):
        """Whether the tests read, of what an operator gives of an answer of its methods, what no plain value has."""
        return any(self.reads_of(node, SUM_OF_ANSWER) for node in self.nodes)

    def takes_class(self, node):
        sort = sort_of(node)
        if sort == "Attribute":
            is_of_class = node.attr not in OF_FUNCTIONS and bool(self.of(node.value) & {CLASS, MADE})
            return is_of_class or self.reads_of(node, SUM)
        if sort == "Call" and getattr(node.func, "id", None) == "isinstance" and node.args:
            return getattr(node.args[-1], "id", None) == self.name
        if sort == "Compare":
            sides = [self.of(side) for side in (node.left, *node.comparators)]
            return any(MADE in side for side in sides) and any(SUM in side and MADE not in side for side in sides)
        return False

    def reads_of(self, node, wanted):
        return sort_of(node) == "Attribute" and node.attr not in OF_VALUES and wanted in self.of(node.value)

    def learn(self, node):
        """Takes what a node assigns; whether that was new."""
        sort = sort_of(node)
        if sort == "Assign":
            return any([self.assign(target, node.value) for target in node.targets])
        if sort in ("AnnAssign", "NamedExpr"):
            return self.assign(node.target, node.value)
        if sort == "AugAssign":
            return self.add(key(node.target), sums(self.of(node.target) | self.of(node.value)))
        if sort in ("For", "comprehension"):
            return any([self.assign(node.target, one) for one in getattr(node.iter, "elts", ())])
        if sort == "Call":
            return self.pass_on(node)
        if sort in ("FunctionDef", "AsyncFunctionDef"):
            given = [self.of(part.value) for part in nodes(node) if sort_of(part) == "Return"]
            return self.add(node.name + "()", set().union(*given))
        return False

    def assign(self, target, value):
        parts = getattr(target, "elts", None)
        if parts is not None:
            return any([self.assign(*pair) for pair in zip(parts, getattr(value, "elts", ()))])
        return self.add(key(target), self.of(value))

    def pass_on(self, call):
        """What a function of the tests' is called with is what its parameters are."""
        function = self.functions.get(getattr(call.func, "id", None))
        if function is None:
            return False
        names = [parameter.arg for parameter in function.args.posonlyargs + function.args.args]
        given = [*zip(names, call.args), *((one.arg, one.value) for one in call.keywords)]
        return any([self.add(name, self.of(value)) for name, value in given])

    def add(self, name, sorts):
        if name is None or sorts <= self.known.get(name, set()):
            return False
        self.known[name] = self.known.get(name, set()) | sorts
        return True

    def of(self, node):
        """What an expression may be."""
        sort = sort_of(node)
        if sort == "NamedExpr":
            return self.of(node.value)
        if sort == "BinOp":
            return sums(self.of(node.left) | self.of(node.right))
        if sort == "UnaryOp" and sort_of(node.op) != "Not":
            return sums(self.of(node.operand))
        if sort == "Call":
            return self.of_call(node)
        return self.known.get(key(node), set())

    def of_call(self, node):
        called = key(node.func)
        if called == "sum" and node.args:
            return sums(set().union(*map(self.of, getattr(node.args[0], "elts", ())), *map(self.of, node.args[1:])))
        if CLASS in self.known.get(called, ()):
            return {MADE}
        function = (called or "").removeprefix("self.") + "()"
        if function in self.known:
            return self.known[function]
        return {ANSWER} if sort_of(node.func) == "Attribute" and self.of(node.func.value) else set()


def sums(sorts):
    return {SUMS[sort] for sort in sorts if sort in SUMS}


def key(node):
    """What a variable, or an attribute of one, is known by."""
    if sort_of(node) == "Name":
        return node.id
    if sort_of(node) == "Attribute" and sort_of(node.value) == "Name":
        return "%s.%s" % (node.value.id, node.attr)
    return None

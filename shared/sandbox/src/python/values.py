"""Values as bytes, and back: plain data alone, so that what the program under test sends can be nothing but data.

A value is one letter, then its content; lengths and whole numbers are hexadecimal and end with `;`. An object of a class
that derives from one of these goes as that one: a class of the program's own cannot say that it equals everything.
"""

DEPTH = 200


class Unpassable(Exception):
    """This value is not plain data."""


def encode(value):
    out = []
    _encode(value, out, 0)
    return b"".join(out)


def _count(letter, number):
    return b"%c%x;" % (letter, number)


def _encode(value, out, depth):
    if depth > DEPTH:
        raise Unpassable("a value that is nested more than %d times" % DEPTH)
    if value is None:
        return out.append(b"N")
    kind = type(value)
    for base in kind.__mro__:
        write = _WRITERS.get(base)
        if write is not None:
            return write(value, out, depth + 1)
    module = kind.__module__
    if module == "numpy" and getattr(value, "ndim", None) == 0:
        return _encode(value.item(), out, depth + 1)
    if module == "decimal":
        return _text(b"D", str(value), out)
    if module == "fractions":
        out.append(b"Q")
        _int(value.numerator, out, depth)
        return _int(value.denominator, out, depth)
    if hasattr(kind, "__next__") or kind in _VIEWS:
        return _items(b"g"[0], _taken(value), out, depth + 1)
    raise Unpassable("an object of type %s" % kind.__name__)


def _taken(values, limit=1000000):
    taken = []
    for value in values:
        if len(taken) == limit:
            raise Unpassable("an iterator of more than %d values" % limit)
        taken.append(value)
    return taken


def _text(letter, text, out):
    data = str.encode(text, "utf-8", "surrogatepass")
    out.append(_count(letter[0], len(data)))
    out.append(data)


def _bytes(letter):
    def write(value, out, _depth):
        data = bytes(memoryview(value))
        out.append(_count(letter, len(data)))
        out.append(data)

    return write


def _int(value, out, _depth):
    out.append(b"i%s;" % format(int.__index__(value), "x").encode())


def _float(value, out, _depth):
    out.append(b"f%s;" % float.hex(value).encode())


def _complex(value, out, depth):
    out.append(b"c")
    _float(value.real, out, depth)
    _float(value.imag, out, depth)


def _items(letter, values, out, depth):
    out.append(_count(letter, len(values)))
    for value in values:
        _encode(value, out, depth)


def _sequence(letter, kind):
    return lambda value, out, depth: _items(letter, list(kind.__iter__(value)), out, depth)


def _dict(value, out, depth):
    pairs = list(dict.items(value))
    out.append(_count(b"d"[0], len(pairs)))
    for key, content in pairs:
        _encode(key, out, depth)
        _encode(content, out, depth)


def _range(value, out, depth):
    out.append(b"r")
    for part in (value.start, value.stop, value.step):
        _int(part, out, depth)


_VIEWS = (type({}.keys()), type({}.values()), type({}.items()))
_WRITERS = {
    bool: lambda value, out, _depth: out.append(b"T" if value else b"F"),
    int: _int,
    float: _float,
    complex: _complex,
    str: lambda value, out, _depth: _text(b"s", value, out),
    bytes: _bytes(b"b"[0]),
    bytearray: _bytes(b"B"[0]),
    list: _sequence(b"l"[0], list),
    tuple: _sequence(b"t"[0], tuple),
    set: _sequence(b"e"[0], set),
    frozenset: _sequence(b"z"[0], frozenset),
    dict: _dict,
    range: _range,
}


def decode(data):
    value, end = _decode(data, 0, 0)
    if end != len(data):
        raise ValueError("bytes after the value")
    return value


def _number(data, at):
    end = data.index(b";", at)
    return int(data[at:end], 16), end + 1


def _decode(data, at, depth):
    if depth > 2 * DEPTH:
        raise ValueError("nested too deeply")
    letter = data[at : at + 1]
    at += 1
    if letter in _PLAIN:
        return _PLAIN[letter], at
    if letter == b"i":
        return _number(data, at)
    if letter == b"f":
        end = data.index(b";", at)
        return float.fromhex(data[at:end].decode()), end + 1
    if letter in b"sbBD" and letter:
        size, at = _number(data, at)
        if not 0 <= size <= len(data) - at:
            raise ValueError("a length beyond the end")
        return _READERS[letter](data[at : at + size]), at + size
    if letter in b"ltezgd" and letter:
        count, at = _number(data, at)
        count *= 2 if letter == b"d" else 1
    elif letter in b"cQr" and letter:
        count = 3 if letter == b"r" else 2
    else:
        raise ValueError("an unknown letter")
    if not 0 <= count <= len(data) - at:
        raise ValueError("more values than bytes")
    parts = []
    for _ in range(count):
        part, at = _decode(data, at, depth + 1)
        parts.append(part)
    return _READERS[letter](parts), at


def _decimal(data):
    import decimal

    return decimal.Decimal(data.decode())


def _fraction(parts):
    import fractions

    return fractions.Fraction(*parts)


_PLAIN = {b"N": None, b"T": True, b"F": False}
_READERS = {
    b"s": lambda data: data.decode("utf-8", "surrogatepass"),
    b"b": bytes,
    b"B": bytearray,
    b"D": _decimal,
    b"l": list,
    b"t": tuple,
    b"e": set,
    b"z": frozenset,
    b"g": iter,
    b"d": lambda parts: dict(zip(parts[::2], parts[1::2])),
    b"c": lambda parts: complex(*parts),
    b"Q": _fraction,
    b"r": lambda parts: range(*parts),
}

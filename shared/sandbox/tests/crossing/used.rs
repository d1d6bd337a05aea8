//! What of a program crosses by value, runs when it is asked, or cannot be told from outside; rows as above.

use super::*;

#[tokio::test]
async fn enumerations_views_and_times_cross() {
    all_are(vec![
        row("a member of an enumeration of the tests'", Right, "f", r"import enum
class Color(enum.Enum): RED=1", "def f(c): return c.name", r#"assert f(Color.RED)=="RED""#),
        row("members, and the enumeration itself, come back", Right, "f", r"import enum
class Color(enum.IntEnum):
  RED=1
  B=2
  A=1", "def f(c): return c", "assert f(Color.RED) is Color.RED and f(Color)  is Color and f([Color.RED,Color.B])==[Color.RED,Color.B]"),
        row("a member that is a number", Right, "f", r"import enum
class Color(enum.IntEnum):
  RED=1
  B=2", "def f(c): return c+1", "assert f(Color.B)==3"),
        row("a member that is a text", Right, "f", r#"import enum
class Color(str,enum.Enum):
  B="x""#, "def f(c): return c.upper()", r#"assert f(Color.B)=="X""#),
        row("several flags in one", Right, "f", r"import enum
class P(enum.Flag):
  R=enum.auto()
  W=enum.auto()", "def f(c): return c", "assert f(P.R|P.W)==P.R|P.W"),
        row("an enumeration with methods, of both", Right, "f", r"import enum
class C(enum.Enum):
  RED=1
  def g(s): return 5", r"import enum
class C(enum.Enum):
  RED=1
  def g(s): return 5
def f(c): return c.g()", "assert f(C.RED)==5"),
        row("an enumeration with methods, of the tests alone", No("cannot be made"), "f", r"import enum
class C(enum.Enum):
  RED=1
  def g(s): return 5", "def f(c): return c.g()", "assert f(C.RED)==5"),
        row("keys of a dict", Right, "f", "", "def f(d): return d.keys()", "k=f({1:2}); assert len(k)==1 and 1 in k and 1 in k and k=={1:2}.keys() and list(k)==[1]; assert f({1:2})=={1}"),
        row("values and items of a dict", Right, "f", "", "def f(d): return [d.values(),d.items()]", "v,i=f({1:[2]}); assert list(v)==[[2]] and i=={1:[2]}.items() and (1,[2]) in i and len(v)==1"),
        row("keys of an ordered dict", Right, "f", "", r"from collections import OrderedDict
def f(): return OrderedDict(a=1).keys()", r#"assert f()=={"a"}"#),
        row("zones and times that are told twice", Right, "f", "", r#"import datetime as D,zoneinfo
def f(): return [D.datetime(2020,1,2,3,tzinfo=zoneinfo.ZoneInfo("UTC")),D.datetime(2020,1,2,3,fold=1),D.timezone(D.timedelta(hours=1),"X"),D.time(1,fold=1)]"#, r#"import datetime as D
a,b,c,d=f(); assert a.tzinfo.key=="UTC" and b.fold==1 and c.tzname(None)=="X" and d.fold==1"#),
        row("zones as arguments", Right, "f", "", r"import datetime as D
def f(x): return x", r#"import datetime as D,zoneinfo
for x in [D.datetime(2020,1,2,3,tzinfo=zoneinfo.ZoneInfo("UTC")),D.datetime(2020,1,2,3,fold=1)]: assert f(x)==x and f(x).fold==x.fold"#),
        row("a tuple with names, replaced", Right, "f", "", r"from typing import NamedTuple
class P(NamedTuple):
  x:int
  y:int
def f(): return P(1,2)", r#"p=f(); assert p._replace(x=5)==(5,2) and p._replace(x=5).x==5 and repr(p._replace(y=3))=="P(x=1, y=3)"
try: p._replace(z=1)
except ValueError: pass
else: assert 0"#),
        row("a defaultdict of a function", Right, "f", "", r"from collections import defaultdict
def f(): return defaultdict(lambda: 5,{1:2})", "d=f(); assert d=={1:2} and d[7]==5 and d=={1:2,7:5}"),
        row("a defaultdict of a function of the tests'", Right, "f", "", "def f(d): return d[9]", r"from collections import defaultdict
assert f(defaultdict(lambda: 5))==5; assert f(defaultdict(list))==[]; assert f(defaultdict(lambda: [0,0]))==[0,0]"),
    ])
    .await;
}

#[tokio::test]
async fn iterators_run_when_they_are_asked_and_no_further() {
    all_are(vec![
        row(
            "a generator that fails after its first value",
            Right,
            "f",
            "",
            r#"def f(): yield 1; raise ValueError("end")"#,
            r#"g=f(); assert next(g)==1
try: next(g)
except ValueError as e: assert str(e)=="end"
else: assert 0"#,
        ),
        row(
            "a generator that is never run further than asked",
            Right,
            "f",
            "",
            r"import itertools,time
def f():
  for i in itertools.count():
    yield i
    if i>2: time.sleep(100)",
            r"from itertools import islice
assert list(islice(f(),3))==[0,1,2]",
        ),
        row(
            "a generator that is sent something",
            Right,
            "f",
            "",
            r"def f():
  x=yield 1
  while True: x=yield x*2",
            "g=f(); assert next(g)==1 and g.send(5)==10 and g.send(6)==12",
        ),
        row(
            "a generator that is thrown something, and gives something in the end",
            Right,
            "f",
            "",
            r#"def f():
  try: yield 1
  except ValueError as e: yield "got "+str(e)
  return 7"#,
            r#"g=f(); assert next(g)==1 and g.throw(ValueError("x"))=="got x"
try: next(g)
except StopIteration as e: assert e.value==7
else: assert 0"#,
        ),
        row(
            "what a generator prints, when it prints it",
            Right,
            "f",
            "",
            r"def f(n):
  for i in range(n):
    print(i)
    yield i",
            r#"import io,contextlib
g=f(3)
b=io.StringIO()
with contextlib.redirect_stdout(b): assert next(g)==0
assert b.getvalue()=="0\n",b.getvalue()
with contextlib.redirect_stdout(b): assert list(g)==[1,2]
assert b.getvalue()=="0\n1\n2\n""#,
        ),
        row(
            "what a generator prints after many values",
            Right,
            "f",
            "",
            r"def f(n):
  for i in range(n):
    print(i)
    yield i",
            r#"import io,contextlib
g=f(100)
for i in range(40): next(g)
b=io.StringIO()
with contextlib.redirect_stdout(b): assert next(g)==40
assert b.getvalue()=="40\n",b.getvalue()"#,
        ),
        row(
            "an asynchronous generator",
            Right,
            "f",
            "",
            r"async def f(n):
  for i in range(n): yield i",
            r"import asyncio
async def m(): return [x async for x in f(3)]
assert asyncio.run(m())==[0,1,2]",
        ),
        row(
            "an asynchronous context",
            Right,
            "A",
            "",
            r"class A:
  async def __aenter__(s): s.x=1; return s
  async def __aexit__(s,*a): s.x=2",
            r"import asyncio
async def m():
  a=A()
  async with a as b: assert b.x==1
  assert a.x==2
asyncio.run(m())",
        ),
        row(
            "an iterator over many",
            Right,
            "f",
            "",
            "def f(x): return map(abs,x)",
            "assert list(f([-1]*5000))==[1]*5000; assert sum(f([1]))==1",
        ),
        row(
            "iterators of the tests'",
            Right,
            "f",
            "",
            "def f(g): return list(g)",
            "assert f(i for i in range(3))==[0,1,2]; assert f(iter([1]))==[1]",
        ),
        row(
            "a generator given back",
            Right,
            "f",
            "",
            r"def f(x=None):
  if x is None: return (i for i in range(5))
  return sum(x)",
            r"assert f(f())==10
g=f(); next(g); assert f(g)==10
assert sum(zip(f(),f()),())==(0,0,1,1,2,2,3,3,4,4)",
        ),
        row(
            "an iterator without end, given back",
            Wrong(""),
            "f",
            "",
            r"import itertools
def f(x): return itertools.count()",
            "assert f(f(1)) == 3",
        ),
        row(
            "a generator of objects",
            Wrong("AssertionError"),
            "f",
            "",
            r"class G:
  pass
def f(): return ((i,G()) for i in range(3))",
            "assert f()==5",
        ),
    ])
    .await;
}

#[tokio::test]
async fn how_tests_may_end() {
    all_are(vec![
        row(
            "an exit that is expected",
            Right,
            "f",
            "",
            "def f(): raise SystemExit(3)",
            r"try: f()
except SystemExit as e: assert e.code==3
else: assert 0",
        ),
        row(
            "an exit that is not",
            Wrong("SystemExit"),
            "f",
            "",
            "def f(): raise SystemExit(0)",
            "f()",
        ),
        row(
            "an exit within a case",
            Wrong("SystemExit"),
            "f",
            "",
            r"import sys
def f(): sys.exit()",
            r"import unittest
class T(unittest.TestCase):
  def test(self): self.assertEqual(f(),1)
unittest.main()",
        ),
        row(
            "an exception of several",
            Right,
            "f",
            "",
            r#"def f(): raise ExceptionGroup("m",[ValueError(1),KeyError("k")])"#,
            r#"got=[]
try: f()
except* ValueError as g: got.append(g.exceptions[0].args)
except* KeyError as g: got.append(g.exceptions[0].args)
assert got==[(1,),("k",)]"#,
        ),
        row(
            "the tests' own end",
            Right,
            "f",
            "",
            "def f(): return 1",
            r"assert f()==1
exit()",
        ),
        row(
            "the tests' own end with a status",
            Wrong("ended with 3"),
            "f",
            "",
            "def f(): return 1",
            r"f()
exit(3)",
        ),
        row(
            "a case that fails",
            Wrong("AssertionError"),
            "f",
            "",
            "def f(x): return 0",
            r"f(1)
import unittest
class T(unittest.TestCase):
  def test(self): self.assertEqual(f(2),4)
unittest.main()",
        ),
        row(
            "a case that passes",
            Right,
            "f",
            "",
            "def f(x): return x*2",
            r"import unittest
class T(unittest.TestCase):
  def test(self): self.assertEqual(f(2),4)
unittest.main()",
        ),
        row(
            "a case that fails, with nobody who looks",
            Wrong("AssertionError"),
            "f",
            "",
            "def f(x): return 0",
            r"import unittest
class T(unittest.TestCase):
  def test(self): self.assertEqual(f(2),4)
unittest.main(exit=False)",
        ),
        row(
            "a case in parts that fails, with nobody who looks",
            Wrong("AssertionError"),
            "f",
            "",
            "def f(x): return 0",
            r"import unittest
class T(unittest.TestCase):
  def test(self):
    for i in (1,2):
      with self.subTest(i=i): self.assertEqual(f(2),4)
unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromTestCase(T))",
        ),
        row(
            "no case at all",
            No("unittest finds no tests"),
            "f",
            "",
            "def f(x): return 0",
            r"f(1)
import unittest
unittest.main()",
        ),
        row(
            "an exception that would leave a case out",
            Wrong("SkipTest"),
            "f",
            "",
            r#"class SkipTest(Exception): pass
def f(x): raise SkipTest("s")"#,
            r"from unittest import *
class T(TestCase):
  def test(self): self.assertEqual(f(2),4)
TextTestRunner().run(defaultTestLoader.loadTestsFromTestCase(T))",
        ),
        row(
            "a mark before the source",
            Right,
            "f",
            "",
            "\u{feff}def f(): return 1",
            "assert f()==1",
        ),
        row(
            "an exception of its own among entry points",
            Right,
            "f,LowError",
            "",
            r#"class LowError(Exception): pass
def f(): raise LowError("a")"#,
            r#"try: f()
except LowError as e: assert str(e)=="a"
else: assert 0"#,
        ),
    ])
    .await;
}

#[tokio::test]
async fn what_both_would_share_in_one_process_is_no_verdict() {
    all_are(vec![
        row("a clock that is replaced", No("in the place of time"), "f", "", r"import time
def f(): return time.time()", r#"from unittest import mock
with mock.patch("time.time",return_value=5): assert f()==5"#),
        row("standard output that is replaced", Right, "f", "", r#"def f(): print("x")"#, r#"from unittest.mock import patch
import io
with patch("sys.stdout",new_callable=io.StringIO) as o: f()
assert o.getvalue()=="x\n""#),
        row("a clock that was replaced", Right, "f", "", "def f(x): return x", r#"from unittest.mock import patch
import time
with patch("time.time") as o: assert time.time() is not None
assert f(1)==1"#),
        row("a variable of the environment", No("environment"), "f", "", r#"import os
def f(): return os.environ["A"]"#, r#"import os
os.environ["A"]="1"
assert f()=="1""#),
        row("standard error", No("standard error"), "f", "", r#"import sys
def f(): print("x",file=sys.stderr)"#, r#"import io,contextlib
b=io.StringIO()
with contextlib.redirect_stderr(b): f()
assert b.getvalue()=="x\n""#),
        row("a file of the tests'", No("files in /tmp"), "f", "", "def f(p): return open(p).read()", r#"open("/tmp/a","w").write("hi")
assert f("/tmp/a")=="hi""#),
        row("a file of the program's", No("files are not here"), "f", "", r#"def f(p): open(p,"w").write("hi")"#, r#"f("/tmp/a")
assert open("/tmp/a").read()=="hi""#),
        row("what a function says of itself", Right, "f", "", r#"def f(x:int,y=3):
  "doc"
  return 1"#, r#"assert f.__doc__=="doc" and f.__annotations__=={"x":int} and f.__defaults__==(3,) and f.__name__=="f"; f(1)"#),
        row("a signature", No("__signature__"), "f", "", "def f(x): return 1", r"import inspect
assert len(inspect.signature(f).parameters)==1; f(1)"),
    ])
    .await;
}

//! What of a program's objects the tests have, and what not: each row is a program, its tests, and what must come of them.

use super::*;

mod begun;
mod classes;
mod contexts;
mod given;
mod raised;
mod used;

/// What is expected of a run.
enum Outcome {
    Right,
    /// Wrong, with this in the reason; of several bounds the host says which comes first.
    Wrong(&'static str),
    /// No verdict, with this in the fault.
    No(&'static str),
}
use Outcome::{No, Right, Wrong};

struct Row {
    name: &'static str,
    outcome: Outcome,
    check: Check,
}

/// A row; of entry points each is a word.
fn row(name: &'static str, outcome: Outcome, entry_points: &str, prelude: &str, program: &str, tests: &str) -> Row {
    let check = Check {
        program: program.to_owned(),
        prelude: prelude.to_owned(),
        tests: tests.to_owned(),
        entry_points: entry_points.split(',').map(str::to_owned).collect(),
    };
    Row { name, outcome, check }
}

async fn all_are(rows: Vec<Row>) {
    let sandbox = sandbox().await;
    let mut runs = JoinSet::new();
    for Row { name, outcome, check } in rows {
        let sandbox = sandbox.clone();
        runs.spawn(async move {
            let verdict = sandbox.check(&check, &LIMITS).await;
            let is_as_expected = match (&outcome, &verdict) {
                (Right, Ok(verdict)) => verdict.is_right,
                (Wrong(why), Ok(verdict)) => !verdict.is_right && verdict.reason.contains(why),
                (No(why), Err(fault)) => !fault.is_retryable() && fault.to_string().contains(why),
                _ => false,
            };
            (!is_as_expected).then(|| format!("{name}: {verdict:?}"))
        });
    }
    let faults: Vec<String> = runs.join_all().await.into_iter().flatten().collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[tokio::test]
async fn what_a_call_changes_is_changed_for_the_tests() {
    all_are(vec![
        row(
            "a list that is changed and should not be",
            Wrong("AssertionError"),
            "f",
            "",
            "def f(l): l.append(1)",
            "l=[1]; f(l); assert l==[1]",
        ),
        row(
            "a list that is changed",
            Right,
            "f",
            "",
            "def f(l): l.append(1)",
            "l=[1]; f(l); assert l==[1,1]",
        ),
        row(
            "parts of an argument, one of them twice",
            Right,
            "f",
            "",
            "def f(g): g[0][0]=9; g[1].append(1)",
            r"a=[1,2]; g=[a,[3],a]; f(g); assert a==[9,2] and g[0] is a and g[2] is a and g[1]==[3,1]",
        ),
        row(
            "a dict, a set and bytes",
            Right,
            "f",
            "",
            "def f(d,s,b): d['x']=[1]; s.discard(1); b[0]=65; d.pop('y')",
            r"d={'y':2}; s={1,2}; b=bytearray(b'zz'); f(d,s,b=b); assert d=={'x':[1]} and s=={2} and b==b'Az'",
        ),
        row(
            "an argument that is the answer",
            Right,
            "f",
            "",
            "def f(l): l.sort(); return l",
            "l=[2,1]; r=f(l); assert r is l and l==[1,2]",
        ),
        row(
            "a change before an exception",
            Right,
            "f",
            "",
            "def f(l): l.clear(); raise ValueError('no')",
            r"l=[2,1]
try: f(l)
except ValueError as e: assert str(e)=='no' and e.args==('no',)
else: assert 0
assert l==[]",
        ),
        row(
            "an argument that stays",
            Right,
            "f",
            "",
            "def f(l): return sum(l)",
            "l=[2,1]; assert f(l)==3 and l==[2,1]",
        ),
        row(
            "a list that holds itself",
            Right,
            "f",
            "",
            "def f(l): l.append(l); return l",
            "l=[1]; r=f(l); assert l[1] is l",
        ),
    ])
    .await;
}

#[tokio::test]
async fn what_tests_do_with_objects_is_done_by_the_program() {
    all_are(vec![
        row("a class of a method", Right, "Solution", "", "class Solution:\n  def f(s,x): return x*x", "assert Solution().f(2)==4; s=Solution(); assert s.f(3)==9"),
        row("a class of a wrong method", Wrong("AssertionError"), "Solution", "", "class Solution:\n  def f(s,x): return x", "assert Solution().f(2)==4; s=Solution(); assert s.f(3)==9"),
        row("a class that derives from a list", Right, "Stack", "", "class Stack(list):\n  def push(s,x): s.append(x)\n", r"s=Stack(); s.push(3); s.push(4); assert s.pop()==4; assert len(s)==1; assert s[0]==3; assert list(s)==[3]"),
        row("a class with operators", Right, "Vector", "", r"class Vector:
  def __init__(s,x,y): s.x,s.y=x,y
  def __add__(s,o): return Vector(s.x+o.x,s.y+o.y)
  def __mul__(s,k): return Vector(s.x*k,s.y*k)
  __rmul__=__mul__
  def __eq__(s,o): return (s.x,s.y)==(o.x,o.y)
  def __repr__(s): return 'V(%r,%r)'%(s.x,s.y)
  def __hash__(s): return hash((s.x,s.y))
  def dot(s,o): return s.x*o.x+s.y*o.y
", r"v=Vector(1,2); assert v+Vector(1,1)==Vector(2,3); assert v*2==Vector(2,4)==2*v; assert str(v)=='V(1,2)'; assert v.x==1; v.x=5; assert v.x==5; assert v.dot(Vector(1,1))==7; assert len({Vector(1,2),Vector(1,2)})==1; assert v!=Vector(0,0); assert isinstance(v,Vector); assert not isinstance(3,Vector)"),
        row("a function of a function", Right, "f", "", "def f(n): return lambda x: x+n", "assert f(1)(2)==3; g=f(5); assert g(1)==6"),
        row("an asynchronous function", Right, "f", "", "async def f(x):\n  return x*x", r"import asyncio
assert asyncio.run(f(3))==9
async def m():
  assert await f(2)==4
  assert await asyncio.gather(f(1),f(2))==[1,4]
asyncio.run(m())"),
        row("a wrong asynchronous function", Wrong("AssertionError"), "f", "", "async def f(x):\n  return x", "import asyncio\nassert asyncio.run(f(3))==9"),
        row("a deque", Right, "f", "", "from collections import *\ndef f(x): return deque([1,2],maxlen=5)", r"from collections import *
r=f(1); assert r==deque([1,2]) and r.maxlen==5; d=deque([1]); "),
        row("collections", Right, "f", "", r"from collections import *
def f(x): return [Counter('aab'),OrderedDict(b=1,a=2),defaultdict(list,{1:[2]})]", r"from collections import *
c,o,d=f(1); assert c==Counter('aab') and type(c) is Counter and c.most_common(1)==[('a',2)]; assert list(o)==['b','a'] and type(o) is OrderedDict; assert d=={1:[2]} and d[7]==[]"),
        row("values of the standard library", Right, "f", "", r"import datetime as D,decimal,fractions,array,pathlib,uuid
def f(x): return [D.date(2020,1,2),D.datetime(2020,1,2,3,4,5,6,D.timezone.utc),D.time(1,2),D.timedelta(1,2,3),decimal.Decimal('1.10'),fractions.Fraction(1,3),array.array('i',[1,2]),pathlib.Path('a/b'),uuid.UUID(int=5),1+2j,int,...,slice(1,2)]", r"import datetime as D,decimal,fractions,array,pathlib,uuid
assert f(1)==[D.date(2020,1,2),D.datetime(2020,1,2,3,4,5,6,D.timezone.utc),D.time(1,2),D.timedelta(1,2,3),decimal.Decimal('1.1'),fractions.Fraction(1,3),array.array('i',[1,2]),pathlib.Path('a/b'),uuid.UUID(int=5),1+2j,int,...,slice(1,2)]"),
        row("the same as arguments", Right, "f", "", "def f(*a): return list(a)", r"import datetime as D,decimal,fractions,array,pathlib
from collections import *
x=[D.date(2020,1,2),pathlib.Path('a'),array.array('d',[1.5]),deque([1]),Counter('a'),defaultdict(int,{1:2}),OrderedDict(a=1)]
assert f(*x)==x"),
        row("a tuple with names", Right, "f", "", r"from collections import namedtuple
P=namedtuple('P','x y')
def f(x): return P(1,2)", r"r=f(1); assert r.x==1 and r.y==2 and r==(1,2) and repr(r)=='P(x=1, y=2)' and r._asdict()=={'x':1,'y':2}"),
        row("a data class", Right, "f", "", r"from dataclasses import dataclass
@dataclass
class P:
  x:int
  y:list
def f(x): return P(1,[2])", "r=f(1); assert r.x==1 and r.y==[2]; assert repr(r)=='P(x=1, y=[2])'"),
        row("a data class of both", Right, "f", r"from dataclasses import dataclass
@dataclass
class P:
  x:int
  y:list
", r"from dataclasses import dataclass
@dataclass
class P:
  x:int
  y:list
def f(p): p.y.append(p.x); return P(p.x+1,[2])", "p=P(5,[]); assert f(p)==P(6,[2]); assert p.y==[5]"),
        row("a long list of nodes", Right, "Solution", r"class ListNode:
  def __init__(s,val=0,next=None): s.val=val; s.next=next
", r"class Solution:
  def rev(s,h):
    p=None
    while h: h.next,p,h=p,h,h.next
    return p", r"h=None
for i in range(3000): h=ListNode(i,h)
r=Solution().rev(h); o=[]
while r: o.append(r.val); r=r.next
assert o==list(range(3000)); assert h.next is None"),
        row("a member of an enumeration", Right, "f,C", "", "import enum\nclass C(enum.Enum):\n  RED=1\ndef f(x): return C.RED", "r=f(1); assert r.value==1 and r.name=='RED'; assert f(1)==C.RED"),
        row("a member of an enumeration of both", Right, "f", "import enum\nclass C(enum.Enum):\n  RED=1\n", r"import enum
class C(enum.Enum):
  RED=1
def f(x): assert x is C.RED; return C.RED", "assert f(C.RED) is C.RED"),
        row("what is printed", Right, "f", "", "def f(x): print('hi',x)", r#"import io,contextlib
b=io.StringIO()
with contextlib.redirect_stdout(b): f(3)
assert b.getvalue()=='hi 3\n'"#),
        row("what is printed wrongly", Wrong("AssertionError"), "f", "", "def f(x): print('ho',x)", r#"import io,contextlib
b=io.StringIO()
with contextlib.redirect_stdout(b): f(3)
assert b.getvalue()=='hi 3\n'"#),
        row("exceptions", Right, "f", "", r#"class Own(ZeroDivisionError): pass
def f(x):
  if x==1: raise KeyError('k')
  if x==2: raise Own('a',1)
  if x==3: raise ValueError(1)
  if x==4: open('/nonexist')
  if x==5: b'\xff'.decode()
  import json; json.loads('{')"#, r#"try: f(1)
except KeyError as e: assert e.args==('k',) and str(e)=="'k'"
try: f(2)
except ArithmeticError as e: assert e.args==('a',1) and type(e).__name__=='Own' and str(e)=="('a', 1)"
try: f(3)
except ValueError as e: assert e.args==(1,) and type(e) is ValueError
try: f(4)
except FileNotFoundError as e: assert '/nonexist' in str(e)
try: f(5)
except UnicodeDecodeError as e: assert 'decode' in str(e)
import json
try: f(6)
except json.JSONDecodeError as e: assert 'Expecting' in str(e)"#),
        row("an exception of its own", Right, "f,LowError", "", r"class TooMuch(Exception): pass
class LowError(Exception): pass
def f(x): raise LowError('low')", "try: f(1)\nexcept LowError as e: assert str(e)=='low'\nelse: assert 0"),
        row("a generator", Right, "f", "", "def f(x):\n  yield from range(x)", r"import types
g=f(3); assert isinstance(g,types.GeneratorType); assert list(g)==[0,1,2]"),
        row("a class that iterates", Right, "Count", "", r"class Count:
  def __init__(s,n): s.n=n
  def __iter__(s): return s
  def __next__(s):
    if s.n==0: raise StopIteration
    s.n-=1; return s.n", r"assert list(Count(3))==[2,1,0]; c=Count(1); assert next(c)==0
try: next(c)
except StopIteration: pass
else: assert 0"),
        row("what belongs to a class", Right, "M", "", r"class M:
  K=3
  @staticmethod
  def g(x): return x+1
  @classmethod
  def h(c): return c.K", "assert M.g(1)==2 and M.h()==3 and M.K==3"),
        row("a context", Right, "M", "", r"class M:
  def __enter__(s): s.a=1; return s
  def __exit__(s,*a): s.a=2", "m=M()\nwith m as x: assert x.a==1\nassert m.a==2"),
        row("a match", Right, "f", "", "import re\ndef f(x): return re.match('a(b)',x)", "assert f('ab'); assert f('ab').group(1)=='b'; assert f('x') is None"),
        row("nodes of a class", Right, "Node", "", r"class Node:
  def __init__(s,v): s.v=v; s.kids=[]
  def add(s,k): s.kids.append(k); return s
", r"a=Node(1); b=Node(2); assert a.add(b) is a; assert a.kids[0] is b and a.kids[0].v==2; assert len(a.kids)==1"),
        row("attributes", Right, "P", "", "class P:\n  def __init__(s): s.a=1", "assert vars(P())=={'a':1}"),
    ])
    .await;
}

#[tokio::test]
async fn objects_do_what_they_can_and_no_more() {
    all_are(vec![
        row(
            "an iterator without end",
            Right,
            "f",
            "",
            "import itertools\ndef f(x): return itertools.count(x)",
            "g = f(3)\nfor i in range(3, 3000): assert next(g) == i",
        ),
        row(
            "a generator that fails",
            Right,
            "f",
            "",
            "def f(x):\n  yield 1\n  raise ValueError('no')",
            "try: list(f(1))\nexcept ValueError as e: assert str(e) == 'no'\nelse: assert 0",
        ),
        row(
            "an object that cannot be called",
            Wrong("AssertionError"),
            "f",
            "",
            "def f(x): return object()",
            "assert callable(f(1))",
        ),
        row("a name of a type", Right, "P", "", "class P: pass", "assert type(P()).__name__ == 'P' and callable(P)"),
        row(
            "a class with items",
            Right,
            "L",
            "",
            "class L:\n  def __init__(s): s.a = [1, 2]\n  def __getitem__(s, i): return s.a[i]\n  def __len__(s): return 2\n  \
             def __contains__(s, x): return x in s.a",
            "l = L()\nassert l[0] == 1 and l[0:2] == [1, 2] and len(l) == 2 and 2 in l and 5 not in l and list(l) == [1, 2]",
        ),
        row(
            "an enumeration",
            Right,
            "C",
            "",
            "import enum\nclass C(enum.Enum):\n  A = 1\n  B = 2",
            "assert [c.name for c in C] == ['A', 'B'] and C(1).name == 'A' and C['B'].value == 2 and C(1) is C.A",
        ),
        row(
            "a property that checks",
            Right,
            "P",
            "",
            "class P:\n  _a = 1\n  @property\n  def a(s): return s._a\n  @a.setter\n  def a(s, v):\n    if v < 0: raise ValueError\n    s._a = v",
            "p = P(); p.a = 3\nassert p.a == 3 and not hasattr(p, 'b')\ntry: p.a = -1\nexcept ValueError: pass\nelse: assert 0",
        ),
        row(
            "a copy",
            Right,
            "P",
            "",
            "class P:\n  def __init__(s): s.a = [1]",
            "import copy\np = P(); q = copy.deepcopy(p); p.a = [2]\nassert q.a == [1]",
        ),
        row(
            "a standard output of its own",
            Right,
            "f",
            "",
            "import sys, io\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer)\ndef f(x): sys.stdout.buffer.write(b'a'); print('b')",
            "import io, contextlib\nb = io.StringIO()\nwith contextlib.redirect_stdout(b): f(3)\nassert b.getvalue() == 'ab\\n'",
        ),
        row(
            "a class with operators alone",
            Right,
            "Money",
            "",
            "class Money:\n  def __init__(s, n): s.n = n\n  def __mul__(s, k): return Money(s.n * k)\n  def __eq__(s, o): return s.n == o.n",
            "assert Money(2) * 3 == Money(6)\nassert not Money(2) * 3 == Money(5)",
        ),
        row("a constant of a class", Right, "M", "", "class M: K = 3", "assert M.K == 3"),
    ])
    .await;
}

#[tokio::test]
async fn what_does_not_cross_is_no_way_to_be_right() {
    all_are(vec![
        row(
            "an iterator without end, given back",
            Wrong(""),
            "f",
            "",
            "import itertools\ndef f(x): return itertools.count()",
            "assert f(f(1)) == 3",
        ),
        row(
            "equals everything, from a function in CapWords",
            Wrong("object of type Solve"),
            "Solve",
            "",
            "class Solve:\n  def __init__(s, x): pass\n  __eq__ = lambda s, o: True\n  __sub__ = lambda s, o: 0",
            "assert Solve(3) == 9",
        ),
        row(
            "equals everything, from a function of the prelude",
            Wrong("object of type Solve"),
            "Solve",
            "def Solve(x): pass",
            "class Solve:\n  def __init__(s, x): s.x = x\n  __eq__ = lambda s, o: True",
            "assert Solve(3) == 9\nassert Solve(3).x == 3",
        ),
        row(
            "a test that is left out",
            Wrong("SkipTest"),
            "f",
            "",
            "import unittest\ndef f(x): raise unittest.SkipTest",
            "import unittest\nclass T(unittest.TestCase):\n  def test(self): self.assertEqual(f(2), 4)\n\
             r = unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromTestCase(T))\nassert r.wasSuccessful()",
        ),
        row(
            "equals everything",
            Wrong("object of type A"),
            "f",
            "",
            r"class A:
  __eq__=lambda s,o:True
  __hash__=lambda s:0
  __sub__=lambda s,o:0
  __lt__=lambda s,o:True
  __abs__=lambda s:0
def f(x): return A()",
            "assert f(3)==9",
        ),
        row(
            "equals everything, on the other side",
            Wrong("AssertionError"),
            "f",
            "",
            "class A:\n  __eq__=lambda s,o:True\ndef f(x): return A()",
            "assert 9==f(3)",
        ),
        row(
            "is any distance from everything",
            No("stays with the program"),
            "f",
            "",
            r"class A:
  __eq__=lambda s,o:True
  __sub__=lambda s,o:0
def f(x): return A()",
            "assert abs(f(3)-9)<1e-6",
        ),
        row(
            "is less than everything",
            No("stays with the program"),
            "f",
            "",
            "class A:\n  __lt__=lambda s,o:True\ndef f(x): return A()",
            "assert f(3)<9",
        ),
        row(
            "can do nothing, and is to be near a number",
            Wrong("unsupported operand"),
            "f",
            "",
            "def f(x): yield 9",
            "assert abs(f(3)-9)<1e-6",
        ),
        row(
            "can do nothing, and is to be less than a number",
            Wrong("not supported between"),
            "f",
            "",
            "class A: pass\ndef f(x): return A()",
            "assert f(3)<9",
        ),
        row(
            "equals everything, from a function in CapWords whose tests add",
            Wrong("object of type Solve"),
            "Solve",
            "",
            "class Solve:\n  def __init__(s, x): pass\n  __eq__ = lambda s, o: True",
            "assert Solve(3) == 4 + 5",
        ),
        row(
            "equals everything, from a function in CapWords that says its name",
            Wrong("object of type Solve"),
            "Solve",
            "",
            "class Solve:\n  def __init__(s, x): pass\n  __eq__ = lambda s, o: True",
            "def check(candidate):\n  assert candidate(3) == 9, candidate.__name__\ncheck(Solve)",
        ),
        row(
            "holds everything",
            Wrong("AssertionError"),
            "f",
            "",
            r"class A:
  __contains__=lambda s,o:True
  __iter__=lambda s: iter([])
def f(x): return A()",
            "assert 9 in f(3)",
        ),
        row(
            "equals everything, in a list",
            Wrong("object of type A"),
            "f",
            "",
            "class A:\n  __eq__=lambda s,o:True\ndef f(x): return [A()]",
            "assert f(3)==[9]",
        ),
        row(
            "equals everything, from a method",
            Wrong("object of type A"),
            "Solution",
            "",
            r"class A:
  __eq__=lambda s,o:True
class Solution:
  def f(s,x): return A()",
            "assert Solution().f(3)==9",
        ),
        row(
            "ends loops",
            Wrong("StopIteration"),
            "f",
            "",
            "def f(x): raise StopIteration",
            "for i in range(2): assert f(3)==9",
        ),
        row(
            "exits",
            Wrong("SystemExit"),
            "f",
            "",
            "def f(x): raise SystemExit(0)",
            "assert f(3)==9",
        ),
        row(
            "a function as an argument",
            No("only plain values"),
            "f",
            "",
            "def f(g): return g(1)",
            "assert f(lambda a:a)==1",
        ),
        row(
            "a standard input",
            No("standard input"),
            "f",
            "",
            "def f(): return input()",
            "import sys,io\nsys.stdin=io.StringIO('a')\nassert f()=='a'",
        ),
        row(
            "an odd object",
            Wrong("AssertionError"),
            "f",
            "",
            "import io\ndef f(x): return io.StringIO()",
            "assert f(3)==9",
        ),
        row(
            "a coroutine given back",
            Wrong("AssertionError"),
            "f",
            "",
            "async def f(x): return x",
            "assert f(f(3))==9",
        ),
        row(
            "nothing",
            Wrong("defines no f"),
            "f",
            "",
            "def g(x): return 1",
            "assert f(1)==1",
        ),
        row(
            "an object of a class that nobody has",
            Wrong("sent what is no value"),
            "f",
            "",
            r"import sys
m=sys.modules['__main__']
o=m.Graph.message
m.Graph.message=lambda *a: b'1;6;objectNff0;T'
def f(x): return 0",
            "assert f(3)==9",
        ),
    ])
    .await;
}

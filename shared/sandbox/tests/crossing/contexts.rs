//! Files in memory, iterators that are shared, and contexts that let an exception pass; rows as above.

use super::*;

fn of(tests: &'static str, outcome: Outcome, program: &str) -> Row {
    row(tests, outcome, "f", "", program, tests)
}

#[tokio::test]
async fn files_in_memory_cross_and_others_stay() {
    let opened = "def f():\n  h=open('/tmp/x','w+'); h.write('a\\nb'); h.seek(0); return h";
    all_are(vec![
        of(
            "import io\ns=io.StringIO('abc'); assert f(s)=='abc' and s.read()==''",
            Right,
            "def f(s): return s.read()",
        ),
        of(
            "import io\nassert f(io.StringIO('a\\nb'))==['a\\n','b']",
            Right,
            "def f(s): return list(s)",
        ),
        of(
            "import io\ns=io.StringIO('q'); f(s); assert s.getvalue()=='xy'",
            Right,
            "def f(s): s.write('xy')",
        ),
        of(
            "import io\nassert f(io.BytesIO(b'abc'))==b'abc'",
            Right,
            "def f(s): return s.read()",
        ),
        of(
            "import io\ns=io.StringIO('q'); f(s); assert s.closed",
            Right,
            "def f(s): s.close()",
        ),
        of(
            "assert f().read()=='q'",
            Right,
            "import io\ndef f(): return io.StringIO('q')",
        ),
        of("h=f(); assert h.readline()=='a\\n' and list(h)==['b']", Right, opened),
        of("with f() as h: assert h.read()=='a\\nb'", Right, opened),
        of(
            "assert f(open('/dev/null'))==''",
            No("only plain values"),
            "def f(h): return h.read()",
        ),
    ])
    .await;
}

#[tokio::test]
async fn iterators_go_on_where_the_program_left_them() {
    let next = "def f(i): return next(i)";
    all_are(vec![
        of(
            "i=iter([1,2,3]); assert f(i)==1 and next(i)==2 and f(i)==3",
            Right,
            next,
        ),
        of("i=iter('abc'); assert f(i)=='a' and next(i)=='b'", Right, next),
        of("i=iter({1:2,3:4}); assert f(i)==1 and next(i)==3", Right, next),
        of(
            "assert f(iter({5}))==5 and f(iter(range(3,5)))==3 and f(iter((1,)))==1",
            Right,
            next,
        ),
        of(
            "i=iter([1,2,3]); assert f(i)==6 and list(i)==[] and f(i)==0",
            Right,
            "def f(i): return sum(i)",
        ),
        of(
            "i=f(); assert next(i)==1 and next(i)==[2] and list(i)==[]",
            Right,
            "def f(): return iter([1,[2]])",
        ),
        of(
            "i=iter([1,2]); assert f(i) is i and next(i)==1",
            Right,
            "def f(i): return i",
        ),
        of(
            "l=[]; assert f(iter(l))==l",
            Wrong("goes back"),
            "def f(i): i.__reduce__()[1][0].append(7); return [7]",
        ),
        of(
            "c=f(); assert list(c)==[1,2,3]; c.reset(); assert next(c)==1",
            Right,
            "class C:\n  def __init__(s): s.n=0\n  def __iter__(s): return s\n  def __next__(s):\n    s.n+=1\n    \
             if s.n>3: raise StopIteration\n    return s.n\n  def reset(s): s.n=0\ndef f(): return C()",
        ),
    ])
    .await;
}

const CONTEXTS: &str = "
import contextlib
class C:
  def __enter__(s): return s
  def __exit__(s,k,e,t):
    s.seen=(k and k.__name__, str(e))
    return k is not None and issubclass(k,ValueError)
  def f(s): raise ValueError('p')
  def g(s): return object()
got=[]
@contextlib.contextmanager
def f():
  try: yield 1
  except ValueError as e: got.append(str(e))
def g(): return got
def h(*a): return contextlib.suppress(*a)
class A:
  async def __aenter__(s): return s
  async def __aexit__(s,k,e,t): return k is ValueError
";

#[tokio::test]
async fn contexts_see_exceptions_and_let_none_pass_that_says_they_are_wrong() {
    let with = |tests: &'static str, outcome| row(tests, outcome, "C,f,g,h,A", "", CONTEXTS, tests);
    all_are(vec![
        with("c=C()\nwith c: raise ValueError('x')\nassert c.seen==('ValueError','x')", Right),
        with("c=C()\nwith c: int('x')\nassert c.seen[0]=='ValueError'", Right),
        with("c=C()\nwith c: pass\nassert c.seen==(None,'None')", Right),
        with("c=C()\ntry:\n  with c: raise KeyError('x')\nexcept KeyError: pass\nelse: assert 0\nassert c.seen[0]=='KeyError'", Right),
        with("with f(): raise ValueError('x')\nassert g()==['x']", Right),
        with("with h(ValueError): raise ValueError", Right),
        with("import asyncio\nasync def m():\n  async with A(): raise ValueError\nasyncio.run(m())", Right),
        with("with C() as c: assert c.g()==9", Wrong("AssertionError")),
        with("with C() as c: c.f()", No("lets ValueError pass")),
        with("with C() as c:\n  if c.g()!=9: raise ValueError('wrong')", No("lets ValueError pass")),
    ])
    .await;
}

//! What an object that the program gave may see of what is expected, and which objects are the tests' own making.

use super::*;

const EQUAL: &str = "class Z:\n  def __init__(s,*a): pass\n  __eq__ = __lt__ = __contains__ = lambda s,o: True\n  \
                     __sub__ = __mod__ = lambda s,o: 0\n  __abs__ = lambda s: 0\n";

/// A class of vectors of which an operator or a method gives this.
fn vectors(given: &str) -> String {
    format!(
        "{EQUAL}class V:\n  def __init__(s,x): s.x=x\n  __mul__ = __add__ = __neg__ = dot = lambda s,o=0: {given}\n  \
         __eq__ = __lt__ = lambda s,o: True\n  __sub__ = __isub__ = lambda s,o: 0\n"
    )
}

#[tokio::test]
async fn what_an_operator_gives_equals_no_value_of_the_tests() {
    let equal = |tests| row(tests, Wrong("equals no value"), "V", "", &vectors("Z()"), tests);
    let of_its_class = |tests| row(tests, Wrong(""), "V", "", &vectors("V(0)"), tests);
    let of_its_class_ordered = |tests| row(tests, No("which the program gave"), "V", "", &vectors("V(0)"), tests);
    let itself = |tests| row(tests, No("which the program gave"), "V", "", &vectors("s"), tests);
    all_are(vec![
        equal("assert V(1).x==1; assert V(1)*V(2)==11"),
        equal("assert V(1).x==1; assert V(1)+5==11"),
        equal("assert V(1).x==1; assert V(1)+V(2)==[3]"),
        equal("assert V(1).x==1; assert -V(1)==11"),
        of_its_class("assert V(1).x==1; assert V(1)*V(2)==11"),
        of_its_class_ordered("assert V(1).x==1; assert V(1)*V(2)<11"),
        itself("assert V(1).x==1; a=V(1); assert a*V(2)==11"),
        itself("assert V(1).x==1; a=V(1); assert a.dot(V(2))==11"),
        itself("assert V(1).x==1; a=V(1); assert abs(a.dot(V(2))-11)<1e-6"),
        itself("assert V(1).x==1; a=V(1); b=a.dot(V(2)); b-=11; assert b==0"),
        row(
            "a difference of what an operator gave",
            No("which the program gave"),
            "V",
            "",
            &vectors("Z()"),
            "assert V(1).x==1; assert abs(V(1)*V(2)-11)<1e-6",
        ),
        row(
            "operators upon operators",
            Right,
            "V",
            "",
            "class V:\n  def __init__(s,x): s.x=x\n  def __add__(s,o): return V(s.x+o.x)\n  def __mul__(s,k): return V(s.x*k)\n  \
             __rmul__=__mul__\n  def __neg__(s): return V(-s.x)\n  def __eq__(s,o): return s.x==o.x\n",
            "assert V(1).x==1; assert (V(1)+V(2))*2==V(6); assert (2*(V(1)+V(2))*3).x==18; assert -V(1)*2==V(-2); assert V(1)==V(1)",
        ),
        row(
            "an object that is its own context and iterator",
            Right,
            "S",
            "",
            "class S:\n  def __init__(s): s.l=[1,2]\n  def __enter__(s): return s\n  def __exit__(s,*a): pass\n  \
             def __contains__(s,x): return x in s.l\n  def __iter__(s): return iter(s.l)\n  def __eq__(s,o): return s.l==o\n  \
             def __iadd__(s,x): s.l.append(x); return s\n",
            "s=S(); s.l\nwith s as t: assert 1 in t and list(t)==[1,2]\ns+=3\nassert 3 in s and s==[1,2,3] and not s==[1]",
        ),
        row(
            "an object that gives itself back",
            Right,
            "V",
            "",
            "class V:\n  def __init__(s,x): s.x=x\n  def add(s,k): s.x+=k; return s\n  def __eq__(s,o): return s.x==o.x\n",
            "v=V(1); assert v.add(2) is v and v.x==3 and v==V(3) and v!=V(4)",
        ),
    ])
    .await;
}

const VECTOR: &str = "
class Vector:
  def __init__(s,x=0,y=0): s.x=x; s.y=y
  @classmethod
  def unit(c): return c(1,1)
  def twice(s): return Vector(2*s.x,2*s.y)
  def __add__(s,k): return Vector(s.x+getattr(k,'x',k),s.y+getattr(k,'y',k))
  __radd__ = __add__
  def __mul__(s,k): return Vector(s.x*k,s.y*k)
  def __truediv__(s,k): return Vector(s.x/k,s.y/k)
  def __imul__(s,k): s.x*=k; s.y*=k; return s
  def __iter__(s): return iter([s.x,s.y])
  def __str__(s): return 'of %d' % s.x
  def __lt__(s,o): return s.x<o
  def __gt__(s,o): return s.x>o
class L(list):
  def total(s): return sum(s)
";

fn vector(tests: &'static str, outcome: Outcome) -> Row {
    row(tests, outcome, "Vector,L", "", VECTOR, tests)
}

#[tokio::test]
async fn operators_of_a_class_that_the_tests_show_to_be_one_are_asked() {
    let right = |tests| vector(tests, Right);
    all_are(vec![
        right("v=Vector(1,2)\nw=v*3\nassert w.x==3"),
        right("assert (Vector(4,2)/2).x==2.0"),
        right("v=Vector(1,2)\nv*=3\nassert v.y==6 and list(v)==[3,6]"),
        right("t=sum([Vector(1),Vector(2)])\nassert t.x==3"),
        right("a,b=Vector(1),Vector(2)\nassert (-1+(a+b)).x==2"),
        right("for v in [Vector(1),Vector(2)]: assert (v*2).x in (2,4)"),
        right("def made(): return Vector(1,2)\nassert (made()*3).y==6"),
        right(
            "import unittest\nclass T(unittest.TestCase):\n  def setUp(self): self.v=Vector(1,2)\n  def test(self):\n    w=self.v*3\n    \
             self.assertEqual(w.x,3)",
        ),
        right("def check(V):\n  v=V(1,2); w=v*3\n  assert w.x==3\ncheck(Vector)"),
        right("assert (Vector.unit()*3).x==3"),
        right("w=Vector.unit(); w*=3; assert w.x==3"),
        right("t=Vector(1,2).twice()*2; assert t.y==8"),
        right("s=L([1])\ns+=[2]\nassert s.total()==3"),
        vector("v=Vector(1,2)\nw=v*3\nassert w.x==4", Wrong("AssertionError")),
        vector("assert (Vector.unit()*3).x==4", Wrong("AssertionError")),
        row(
            "a class of the prelude",
            Right,
            "Vector",
            "class Vector: pass",
            VECTOR,
            "v=Vector(1,2)\nv*=3\nassert list(v)==[3,6] and str(v+2)=='of 5' and v<4 and Vector(5)>4",
        ),
    ])
    .await;
}

#[tokio::test]
async fn operators_of_what_may_be_no_class_are_no_verdict() {
    let unasked = |tests| vector(tests, No("which stays with the program"));
    let inverse = "class Z:\n  def __init__(s,*a): pass\n  def root(s,x): return Z()\n  __sub__ = lambda s,o: 0\n  \
                   __pow__ = __mul__ = lambda s,o: o\n  __lt__ = lambda s,o: True\n";
    let hostile = |tests| row(tests, No("which stays with the program"), "Z", "", inverse, tests);
    all_are(vec![
        vector("v=Vector(1,2)\nv*=3\nassert list(v)==[3,6]", No("`class Vector: pass`")),
        unasked("assert str(Vector(5)+5)=='of 10'"),
        unasked("assert Vector(5)<6"),
        unasked("assert 4<Vector(5)"),
        unasked("assert str(sum([Vector(1),Vector(2)]))=='of 3'"),
        unasked("s=L([1])\ns+=[2]\nassert list(s)==[1,2]"),
        unasked("m=Vector(1,2); t=m.twice()*2; assert list(t)==[4,8]"),
        vector(
            "m=Vector(5); m.x\nn=m+5\nassert n<11 and n>9",
            No("which the program gave"),
        ),
        hostile("assert abs(Z(3)-9)<1e-6"),
        hostile("assert abs(Z(2)**2-2)<1e-6"),
        hostile("assert Z(3)<9"),
        hostile("x=Z(4); x*=1; assert x==1"),
        hostile("assert abs(Z().root(2)**2-2)<1e-6"),
        hostile("assert (Z(3)*9).real==9"),
    ])
    .await;
}

#[tokio::test]
async fn no_method_of_plain_data_tells_what_is_expected() {
    let any = "class A:\n  __getattr__ = lambda s,n: lambda *a: True\ndef f(x): return A()";
    let tried = |tests| row(tests, No("what they expect"), "f", "", any, tests);
    all_are(vec![
        tried("assert f(1).startswith('abc')"),
        tried("assert f(1).issubset({1,2})"),
        row(
            "no such method",
            Wrong("no attribute"),
            "f",
            "",
            "class A: pass\ndef f(x): return A()",
            "assert f(1).startswith('abc')",
        ),
        row(
            "a class with such a method",
            Right,
            "T",
            "",
            "class T:\n  def __init__(s,w): s.w=w\n  def startswith(s,p): return s.w.startswith(p)\n",
            "assert T('abc').startswith('ab'); t=T('x'); assert not t.startswith('ab')",
        ),
    ])
    .await;
}

#[tokio::test]
async fn operators_in_place_and_hashes_are_the_programs() {
    all_are(vec![
        row(
            "a sum in place",
            Right,
            "B",
            "",
            "class B:\n  def __init__(s): s.n=0\n  def __iadd__(s,k): s.n+=k; return s\n  def __add__(s,k): raise TypeError\n",
            "b=B(); a=b; b+=3; b+=4; assert b.n==7 and a is b",
        ),
        row("a sum in place, of operators alone", Right, "B", "", "class B:\n  def __init__(s,n=0): s.n=n\n  def __add__(s,k): return B(s.n+k)\n", "b=B(); a=b; b+=3; assert b.n==3 and a.n==0"),
        row(
            "a set of its own",
            Right,
            "S",
            "",
            "class S(set):\n  def __ior__(s,o): s.update(x*10 for x in o); return s\n  def size(s): return len(s)\n",
            "s=S(); s|={1,2}; assert s.size()==2 and 10 in s and 1 not in s",
        ),
        row(
            "equal objects in a set",
            Right,
            "A",
            "",
            "class A:\n  def __init__(s,x): s._x=x\n  def __eq__(s,o): return s._x==o._x\n  def __hash__(s): return s._x\n",
            "assert len({A(1),A(1),A(2)})==2",
        ),
        row(
            "equal objects that a function gives",
            Right,
            "f",
            "",
            "class A:\n  def __eq__(s,o): return True\n  def __hash__(s): return 9\ndef f(): return A()\n",
            "assert f() in {f()} and f() not in {9}",
        ),
    ])
    .await;
}

#[tokio::test]
async fn what_only_a_class_of_this_process_has_is_no_verdict() {
    let of = |tests, why| {
        row(
            tests,
            No(why),
            "A,f",
            "",
            "class A:\n  def __init__(s,x=0): s.x=x\n  def go(s): return 1\ndef f(): return A()\n",
            tests,
        )
    };
    all_are(vec![
        of("class B(A): pass\nassert B().go()==1", "derive a class from A"),
        of(
            "class B: pass\nassert A().go()==1 and not issubclass(B,A)",
            "derives from A",
        ),
        of("assert A().go()==1 and issubclass(A,object)", "__bases__"),
        of("import inspect\nassert inspect.isclass(A)", "inspect.isclass"),
        of("import inspect\nassert inspect.isfunction(f)", "inspect.isfunction"),
        of(
            "import dataclasses\nassert dataclasses.asdict(A(1))=={'x':1}",
            "dataclasses.asdict",
        ),
        of("import pickle\nassert pickle.loads(pickle.dumps(A(1))).x==1", "pickle"),
    ])
    .await;
}

const HOLDER: &str = "
class A:
  def __init__(s,v=0): s.v=v; s.l=[]; s.d={}; s.kids=[]
  def n(s): return len(s.l)
  def total(s): return s.v+sum(k.total() for k in s.kids)
  @property
  def copy(s): return list(s.l)
  def __getitem__(s,k): return s.d.setdefault(k,[])
def f(r): return r.total()
";

#[tokio::test]
async fn what_tests_change_of_what_an_object_holds_is_changed_there() {
    let of = |tests: &'static str, outcome| row(tests, outcome, "A,f", "", HOLDER, tests);
    all_are(vec![
        of("a=A(); a.l.append(1); assert a.l==[1] and a.n()==1", Right),
        of("a=A(); a.l.append(1); assert a.l==[2]", Wrong("AssertionError")),
        of(
            "a=A(); a.d['k']=1; assert a.d=={'k':1}; a.d['k']=2; assert a.d['k']==2",
            Right,
        ),
        of("a=A(); a.d['k']=[]; a.d['k'].append(3); assert a.d=={'k':[3]}", Right),
        of("r=A(1); r.kids.append(A(2)); assert f(r)==3", Right),
        of(
            "a=A(); l=a.l; l.append(1); assert a.n()==1; l.append(2); assert a.n()==2 and a.l==[1,2]",
            Right,
        ),
        of("a=A(); c=a.copy; c.append(1); assert a.n()==0", Right),
        of("a=A(); a['x'].append(1); assert a['x']==[1]", Right),
        of("A().l.append(1); a=A(); assert a.n()==0", Right),
        of("a=A(); a.l.append(lambda: 1); a.n()", No("only plain values")),
        of(
            "t=A()._of_tests\nfor i in range(99): a=A(); a.l.append(1); a.n()\nassert len(t.lent)<9",
            Right,
        ),
    ])
    .await;
}

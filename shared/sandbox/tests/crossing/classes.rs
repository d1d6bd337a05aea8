//! Objects of the tests' own classes, and what the program may do with them; rows as above.

use super::*;

const SQUARE: &str = "
class Sq:
  w = 2
  def __init__(s,x): s.x=x
  def area(s): return s.x**2
  @property
  def half(s): return s.x/2
  @property
  def c(s): return s._c
  @c.setter
  def c(s,v): s._c=v
  def __len__(s): return 3
  def __str__(s): return 'sq'
  def __lt__(s,o): return s.x<o.x
  def __iter__(s): return iter([1])
  def __enter__(s): return s
  def __exit__(s,*a): pass
  def __eq__(s,o): return s.x==o.x
  def __hash__(s): return s.x
";

fn of(tests: &'static str, outcome: Outcome, program: &str) -> Row {
    row(tests, outcome, "f", SQUARE, program, tests)
}

#[tokio::test]
async fn what_a_class_of_the_tests_has_of_its_own_is_no_verdict_where_it_is_used() {
    let used = |body: &'static str, name: &'static str| {
        row(
            body,
            No(name),
            "f",
            SQUARE,
            &format!("def f(o):\n  y={body}\n  return 1"),
            "assert f(Sq(3))==1",
        )
    };
    all_are(vec![
        used("o.area()", "uses area of Sq"),
        used("o.half", "uses half of Sq"),
        used("setattr(o,'c',3)", "uses c of Sq"),
        used("len(o)", "__len__"),
        used("bool(o)", "__len__"),
        used("str(o)", "__str__"),
        used("sorted([o,o])", "__lt__"),
        used("list(o)", "__iter__"),
        used("{o}", "__hash__"),
        used("o==1", "__eq__"),
        used("o.__class__(1)", "__init__"),
        of(
            "assert f(Sq(3))==1",
            No("area"),
            "def f(o):\n  try: o.area()\n  except Exception: return 1",
        ),
        of("assert f(Sq(3))==2", No("__enter__"), "def f(o):\n  with o: return 2"),
        of(
            "assert f(Sq(3))==Sq(3)",
            No("their class Sq"),
            &format!("{SQUARE}def f(o): return Sq(o.x)"),
        ),
        of(
            "assert f(Sq(3))==4",
            Wrong("AttributeError"),
            "def f(o): return o.nothing",
        ),
        of(
            "a=Sq(3); assert f(a) is a and a.x==5",
            Right,
            "def f(o):\n  o.x+=o.w\n  return o",
        ),
        of(
            "assert f(Sq(3))==9",
            Right,
            &format!("{SQUARE}def f(o): return o.area()"),
        ),
        row(
            "an object that is kept",
            Right,
            "f",
            SQUARE,
            "K=[]\ndef f(o):\n  K.append(o); return K[0]",
            "f(Sq(1)); assert f(Sq(2)).x==1",
        ),
    ])
    .await;
}

#[tokio::test]
async fn what_derives_from_plain_data_loses_nothing() {
    let refused = |base: &str| {
        row(
            "methods of its own",
            No("of its own"),
            "f",
            "",
            "def f(o): return 9",
            &format!("class L({base}):\n  def go(s): return 9\nassert f(L())==9"),
        )
    };
    let tuple = "from typing import NamedTuple\nclass N(NamedTuple):\n  x:int\n  def go(s): return s.x\n";
    all_are(vec![
        refused("list"),
        refused("dict"),
        refused("int"),
        refused("str"),
        row("a name alone", Right, "f", "", "def f(o): return o", "class L(list): pass\nassert f(L([1]))==[1]"),
        row("a method of a tuple with names", No("uses go of N"), "f", tuple, "def f(p): return p.go()", "assert f(N(1))==1"),
        row("a tuple with names and a method", Right, "f", tuple, "def f(p): return p.x", "assert f(N(1))==1"),
        row("all of an order", No("__le__"), "f", "from functools import total_ordering\n@total_ordering\nclass T:\n  def __init__(s,x): s.x=x\n  def __eq__(s,o): return s.x==o.x\n  def __lt__(s,o): return s.x<o.x\n", "def f(a,b): return a>=b", "assert f(T(1),T(1))"),
        row("an iterator of its own", No("__iter__"), "f", "class I:\n  def __iter__(s): return s\n  def __next__(s): raise StopIteration\n", "def f(p): return list(p)", "assert f(I())==[]"),
    ])
    .await;
}

#[tokio::test]
async fn data_classes_of_the_tests_are_data_classes_there() {
    let prelude = "from dataclasses import dataclass,field\n@dataclass(order=True)\nclass P:\n  x:int\n  y:int=2\n\
                   @dataclass(frozen=True)\nclass Z:\n  x:int\n@dataclass\nclass W:\n  l:list=field(default_factory=list)\n\
                   @dataclass\nclass V:\n  l:list=field(default_factory=lambda: [1])\n  def go(s): return 1\n";
    let of = |tests: &'static str, outcome, program: &str| row(tests, outcome, "f", prelude, program, tests);
    all_are(vec![
        of("assert f([P(3),P(1)])==1", Right, "def f(l): return sorted(l)[0].x"),
        of("assert f([Z(1),Z(1),Z(2)])==2", Right, "def f(l): return len(set(l))"),
        of("assert f(P(1))=='P(x=1, y=2)'", Right, "def f(p): return str(p)"),
        of("assert f(P(5))==P(1)", Right, "def f(p): return p.__class__(1)"),
        of(
            "assert f(P(5))==P(1)  # Not so.",
            Wrong("AssertionError"),
            "def f(p): return p.__class__(2)",
        ),
        of(
            "assert f(Z(1))=='FrozenInstanceError'",
            Right,
            "def f(p):\n  try: p.x=1\n  except Exception as e: return type(e).__name__",
        ),
        of("assert f(W())==W([1])", Right, "def f(p): p.l.append(1); return p"),
        of("assert f(W([5]))==W()", Right, "def f(p): return type(p)()"),
        of("assert f(V())==V([1,2])", Right, "def f(p): p.l.append(2); return p"),
        of("assert f(V())==V()", No("__init__"), "def f(p): return type(p)()"),
        of("assert f(V())==1", No("uses go of V"), "def f(p): return p.go()"),
    ])
    .await;
}

//! What the program raises is caught by all names of its classes that the tests know, and by no other; rows as above.

use super::*;

const PROGRAM: &str = r#"
class MyError(ValueError): pass
class NotFoundError(KeyError): pass
class AppError(Exception):
  level = 4
  def __init__(s, code=1, msg="m"): super().__init__(msg); s.code=code
  def describe(s): return "d%d" % s.code
  @property
  def twice(s): return s.code*2
class SubError(AppError): pass
class InsufficientFunds(Exception): pass
class Stop(BaseException): pass
class IoError(OSError): pass
def f(what):
  if what=="chain":
    try: 1/0
    except Exception as e: raise AppError(7) from e
  if what=="open": open("/nope")
  if what=="json":
    import json; json.loads("{,")
  raise {"my": MyError("a"), "key": NotFoundError("k"), "sub": SubError(5,"x"), "funds": InsufficientFunds("no"), "stop": Stop("s"),
         "interrupt": KeyboardInterrupt(), "exit": GeneratorExit(), "io": IoError(5,"io"), "app": AppError()}[what]
"#;

/// Tests that catch this, and then look at it.
fn caught(entry_points: &str, outcome: Outcome, what: &str, by: &'static str, then: &str) -> Row {
    let tests = format!("import json\ntry: f('{what}')\nexcept {by} as e: {then}\nelse: assert 0");
    row(by, outcome, entry_points, "", PROGRAM, &tests)
}

#[tokio::test]
async fn exceptions_are_caught_by_all_their_names() {
    let case =
        |with: &str| format!("import unittest\nclass T(unittest.TestCase):\n  def test(s): {with}\nunittest.main()");
    all_are(vec![
        caught(
            "f,MyError",
            Right,
            "my",
            "ValueError",
            "assert str(e)=='a' and e.args==('a',)",
        ),
        caught(
            "f,MyError",
            Right,
            "my",
            "MyError",
            "assert type(e) is MyError and isinstance(e, ValueError)",
        ),
        caught("f,MyError", Wrong("MyError: a"), "my", "KeyError", "pass"),
        caught(
            "f,AppError",
            Right,
            "sub",
            "AppError",
            "assert e.code==5 and str(e)=='x'",
        ),
        caught(
            "f,AppError,SubError",
            Right,
            "sub",
            "SubError",
            "assert isinstance(e, AppError)",
        ),
        caught("f,InsufficientFunds", Right, "funds", "InsufficientFunds", "pass"),
        caught(
            "f,InsufficientFunds",
            Right,
            "funds",
            "(KeyError, InsufficientFunds)",
            "pass",
        ),
        row(
            "a case of unittest",
            Right,
            "f,NotFoundError",
            "",
            PROGRAM,
            &case("s.assertRaises(KeyError, f, 'key'); s.assertRaises(NotFoundError, f, 'key')"),
        ),
        row(
            "a case of unittest by another name",
            Right,
            "f,InsufficientFunds",
            "",
            PROGRAM,
            &case("s.assertRaises(InsufficientFunds, f, 'funds')"),
        ),
    ])
    .await;
}

#[tokio::test]
async fn what_is_no_exception_is_not_caught_as_one() {
    all_are(vec![
        caught("f", Wrong("Stop: s"), "stop", "Exception", "pass"),
        caught("f,Stop", Wrong("Stop: s"), "stop", "Exception", "pass"),
        row(
            "its own name",
            Right,
            "f,Stop",
            "",
            PROGRAM,
            "try: f('stop')\nexcept Stop as e: assert str(e)=='s'\nelse: assert 0",
        ),
        caught("f", Wrong("KeyboardInterrupt"), "interrupt", "Exception", "pass"),
        caught("f", Right, "interrupt", "KeyboardInterrupt", "pass"),
        caught("f", Wrong("GeneratorExit"), "exit", "Exception", "pass"),
    ])
    .await;
}

#[tokio::test]
async fn exceptions_have_what_they_have_there() {
    all_are(vec![
        caught("f,AppError", Right, "app", "AppError", "assert (e.code, e.level, e.twice, e.describe())==(1, 4, 2, 'd1')"),
        caught("f,AppError", Wrong("no attribute 'nothing'"), "app", "AppError", "assert e.nothing==1"),
        caught("f", Right, "app", "Exception", "assert e.code==1"),
        caught("f", Right, "open", "OSError", "assert e.errno==2 and e.filename=='/nope' and e.strerror"),
        caught("f,IoError", Right, "io", "IoError", "assert e.errno==5 and isinstance(e, OSError)"),
        caught("f", Right, "json", "json.JSONDecodeError", "assert (e.pos, e.lineno, e.doc)==(1, 1, '{,') and 'Expecting' in e.msg"),
        caught("f", Right, "chain", "Exception", "assert isinstance(e.__cause__, ZeroDivisionError) and e.code==7"),
        caught("f,AppError", No("make an exception AppError"), "app", "Exception", "assert AppError(5, 'x').code==5"),
        row(
            "an exception of the prelude",
            Right,
            "f,AppError",
            "class AppError(Exception):\n  def __init__(s, code): super().__init__('z%d' % code); s.code=code\n",
            PROGRAM,
            "try: f('app')\nexcept AppError as e: assert e.code==1 and str(e)=='m'\nelse: assert 0\nassert AppError(5).code==5",
        ),
    ])
    .await;
}

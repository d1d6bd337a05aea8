//! Tests that fail by themselves, and those that nobody begins; rows as above.

use super::*;

const SAME: &str = "def f(x): return x";

fn of(name: &'static str, outcome: Outcome, tests: &str) -> Row {
    row(name, outcome, "f", "", SAME, tests)
}

#[tokio::test]
async fn tests_that_fail_whatever_the_program_does_are_no_verdict() {
    all_are(vec![
        of("lack a module", No("do not load: ModuleNotFoundError"), "import no_module as np\nassert f(1)==1"),
        of("lack a module after a call", No("do not load"), "f(1)\nimport no_module"),
        of("lack a module in a case", No("do not load"), "import unittest\nclass T(unittest.TestCase):\n  def test(self):\n    f(1)\n    import no_module\nunittest.main()"),
        row("lack a module as the program does", No("do not load"), "f", "", "import no_module\ndef f(x): return x", "import no_module\nassert f(1)==1"),
        row("have what the program lacks", Wrong("not installed where programs run"), "f", "", "import no_module\ndef f(x): return x", "assert f(1)==1"),
        row("have what a call lacks", Wrong("not installed where programs run"), "f", "", "def f(x): import no_module", "assert f(1)==1"),
        row("an error as of a module", Wrong("ImportError"), "f", "", "def f(x): raise ImportError('a')", "assert f(1)==1"),
        of("fail before a call", No("before they call"), "assert False\nf(1)"),
        of("end before a call", No("before they call"), "exit(3)"),
        of("loop before a call", No("called nothing"), "while True: pass"),
        row("catch a class that stays", No("is no exception here"), "C", "", "class C:\n  class E(Exception): pass\n  def f(s): raise C.E()", "try: C().f()\nexcept C.E: pass"),
    ])
    .await;
}

#[tokio::test]
async fn tests_that_nobody_begins_are_begun() {
    let case = |body: &str| format!("import unittest\nclass T(unittest.TestCase):\n  def test(self): {body}\n");
    let class = |body: &str| {
        format!(
            "import unittest\nclass T(unittest.TestCase):\n  @classmethod\n  def setUpClass(c): {body}\n  def test(self): pass\nunittest.main()"
        )
    };
    all_are(vec![
        of("a function", Wrong("AssertionError"), "f(1)\ndef test_a(): assert f(1)==2"),
        of("a function that holds", Right, "def test_a(): assert f(1)==1"),
        of("a function that is called", Right, "n=[]\ndef test_a():\n  n.append(1)\n  assert f(1)==1 and n==[1]\ntest_a()"),
        of("a case", Wrong("1 != 2"), &format!("f(1)\n{}", case("self.assertEqual(f(1), 2)"))),
        of("a case that holds", Right, &case("self.assertEqual(f(1), 1)")),
        of("a case under a condition", Wrong("1 != 2"), &format!("{}if __name__ == '__main__':\n  unittest.main()", case("self.assertEqual(f(1), 2)"))),
        of("a case under a condition that holds", Right, &format!("{}if __name__ == '__main__': unittest.main()", case("self.assertEqual(f(1), 1)"))),
        of("what comes before a class of cases", Wrong("AssertionError"), &class("assert f(1) == 2")),
        of("what comes before, without the program", No("before they call"), &class("raise ValueError")),
        row("a program that fails before a class of cases", Wrong("ValueError"), "f", "", "def f(x): raise ValueError", &class("f(1)")),
        of("what comes before a module", Wrong("AssertionError"), "import unittest\ndef setUpModule(): assert f(1)==2\nclass T(unittest.TestCase):\n  def test(self): pass\nunittest.main()"),
    ])
    .await;
}

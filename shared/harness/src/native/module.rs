//! The text of a Python module, cut into its statements.
//!
//! Nothing is run and little is understood: strings, brackets, comments and indentation, so that a statement can be compared
//! with a shape from its first letter to its last, and so that it shows what else in the module gives a name another meaning.

use std::path::Path;

use super::{captures, occurs};

/// A module beside a task file.
pub(super) struct Module {
    statements: Vec<Statement>,
}

/// A statement at the left margin with all that is indented below it.
#[derive(Default)]
struct Statement {
    /// Lines as they are written, with four spaces for each level of indentation; outside of strings comments are gone and white
    /// space within a line is one space, as line breaks in brackets are.
    text: String,
    /// The same, strings emptied.
    code: String,
    /// What stands before the equals signs of assignments, a line each.
    targets: String,
}

/// What can give any name another meaning, called here or under another name.
const DYNAMIC: &str = r"(?<![.\w])(?:globals|locals|vars|exec|eval|setattr|delattr|__import__)\b|__dict__|__getattr__|sys\.modules|\bimport \*";

/// Without one of these there is nothing of the kind: most statements are known for it at once.
const DYNAMIC_WORDS: [&str; 12] = [
    "globals",
    "locals",
    "vars",
    "exec",
    "eval",
    "setattr",
    "delattr",
    "__import__",
    "__dict__",
    "__getattr__",
    "sys.modules",
    "import *",
];

/// A comment in the first two lines that says how Python reads the file, unless it says UTF-8.
const CODING: &str = r"^[ \t\f]*#.*?coding[:=][ \t]*(?!(?i:utf-?8|utf_8)(?![-\w.]))[-\w.]+";

impl Module {
    /// The module that a `!function` names, and the name in it; nothing where there is none, or where brackets, strings or tabs
    /// in it are not understood.
    pub(super) fn beside(file: &Path, function: &str) -> Option<(Self, String)> {
        let (path, name) = function.rsplit_once('.')?;
        let module = Self::read(&file.parent()?.join(format!("{}.py", path.replace('.', "/"))))?;
        Some((module, name.to_owned()))
    }

    pub(super) fn read(path: &Path) -> Option<Self> {
        Self::of(&std::fs::read_to_string(path).ok()?)
    }

    fn of(text: &str) -> Option<Self> {
        let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
        if text.lines().take(2).any(|line| occurs(CODING, line)) {
            return None;
        }
        let statements = Cutter::new(&text).cut()?;
        Some(Self { statements })
    }

    /// The one statement that binds a name; nothing where several do, or where something could behind its back. `idioms` are
    /// statements that are known not to.
    pub(super) fn bound(&self, name: &str, idioms: &[&str]) -> Option<&str> {
        let mut binding = self.statements.iter().filter(|statement| statement.binds(name));
        let only = binding.next()?;
        let is_free = |statement: &Statement| {
            let has_word = DYNAMIC_WORDS.iter().any(|word| statement.code.contains(word));
            !has_word || !occurs(DYNAMIC, &statement.code)
        };
        let is_known = |statement: &Statement| idioms.contains(&statement.text.as_str());
        let is_plain = self
            .statements
            .iter()
            .all(|statement| is_free(statement) || is_known(statement));
        (binding.next().is_none() && is_plain).then_some(only.text.as_str())
    }

    /// Whether nothing in the module gives a name of Python's own another meaning.
    pub(super) fn leaves(&self, name: &str) -> bool {
        !self.statements.iter().any(|statement| statement.binds(name))
    }

    /// Whether the one statement that binds a name is this shape.
    pub(super) fn binds_as(&self, name: &str, idioms: &[&str], shape: &str) -> bool {
        self.bound(name, idioms)
            .is_some_and(|statement| captures(shape, statement).is_some())
    }

    /// How many statements speak of a name.
    pub(super) fn mentions(&self, name: &str) -> usize {
        let speaks = |statement: &&Statement| mentions(&statement.code, name);
        self.statements.iter().filter(speaks).count()
    }

    /// Whether a statement stands in the module exactly once.
    pub(super) fn has(&self, text: &str) -> bool {
        self.statements
            .iter()
            .filter(|statement| statement.text == text)
            .count()
            == 1
    }
}

/// Words behind which a line binds names.
const BINDING: [&str; 5] = ["import", "global", "nonlocal", "del", "case"];

impl Statement {
    /// Whether it may bind a name, or change what the name stands for, in any scope.
    fn binds(&self, name: &str) -> bool {
        let binds = |line: &str| {
            let line = line.trim_start();
            let line = line.strip_prefix("async ").unwrap_or(line);
            let mut loops = line.split("for ").skip(1);
            let mut aliases = line.split(" as ").skip(1);
            let is_named = |keyword: &str| {
                line.strip_prefix(keyword)
                    .is_some_and(|rest| occurrences(rest, name).any(|at| at == 0))
            };
            is_named("def ")
                || is_named("class ")
                || BINDING.iter().any(|word| mentions(line, word))
                || aliases.any(|rest| mentions(rest, name))
                || loops.any(|rest| mentions(rest.split(" in ").next().unwrap_or(rest), name))
                || occurrences(line, name).any(|at| line[at + name.len()..].trim_start().starts_with(":="))
        };
        let is_line = |line: &&str| mentions(line, name);
        mentions(&self.targets, name) || self.code.lines().filter(is_line).any(binds)
    }
}

fn mentions(code: &str, name: &str) -> bool {
    occurrences(code, name).next().is_some()
}

/// Where a name stands as a word that is no attribute.
fn occurrences<'t>(code: &'t str, name: &'t str) -> impl Iterator<Item = usize> + 't {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let places = code.match_indices(name).map(|(at, _)| at);
    places.filter(move |at| {
        let before = code[..*at].chars().next_back();
        let after = code[at + name.len()..].chars().next();
        !before.is_some_and(|letter| is_word(letter) || letter == '.') && !after.is_some_and(is_word)
    })
}

/// Cuts a text into statements.
struct Cutter<'t> {
    rest: &'t str,
    statements: Vec<Statement>,
    /// Indentation of the blocks that are open.
    levels: Vec<usize>,
    /// Brackets that are open.
    depth: usize,
}

impl<'t> Cutter<'t> {
    fn new(text: &'t str) -> Self {
        Self {
            rest: text,
            statements: Vec::new(),
            levels: Vec::new(),
            depth: 0,
        }
    }

    fn cut(mut self) -> Option<Vec<Statement>> {
        while self.start_line()? {
            self.line()?;
        }
        Some(self.statements)
    }

    /// Takes indentation and empty lines; whether there is a line.
    fn start_line(&mut self) -> Option<bool> {
        loop {
            let indent = self.rest.len() - self.rest.trim_start_matches(' ').len();
            self.rest = &self.rest[indent..];
            match self.rest.chars().next() {
                None => return Some(false),
                Some('#') => self.skip_comment(),
                Some('\n') => {}
                Some('\t' | '\u{c}' | '\r') => return None,
                Some(_) => {
                    self.begin(indent);
                    return Some(true);
                }
            }
            self.rest = self.rest.strip_prefix('\n').unwrap_or(self.rest);
        }
    }

    fn skip_comment(&mut self) {
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        self.rest = &self.rest[end..];
    }

    /// Begins a line: of a new statement at the margin, unless a decorator stands above it.
    fn begin(&mut self, indent: usize) {
        while self.levels.last().is_some_and(|level| *level > indent) {
            self.levels.pop();
        }
        if indent > self.levels.last().copied().unwrap_or(0) {
            self.levels.push(indent);
        }
        let is_decorated = |statement: &Statement| {
            let last = statement.code.rsplit('\n').next();
            last.is_some_and(|line| line.starts_with('@'))
        };
        match self.statements.last_mut() {
            Some(statement) if indent > 0 || is_decorated(statement) => {
                let start = format!("\n{}", "    ".repeat(self.levels.len()));
                statement.text.push_str(&start);
                statement.code.push_str(&start);
            }
            _ => self.statements.push(Statement::default()),
        }
    }

    /// Takes a line with all that brackets hold together.
    fn line(&mut self) -> Option<()> {
        while let Some(letter) = self.rest.chars().next() {
            match letter {
                '#' => {
                    self.skip_comment();
                    continue;
                }
                '"' | '\'' => {
                    self.string()?;
                    continue;
                }
                '\n' if self.depth == 0 => break,
                '\\' => {
                    self.space();
                    self.rest = self.rest.strip_prefix("\\\n")?;
                    continue;
                }
                ' ' | '\t' | '\n' => self.space(),
                '(' | '[' | '{' => {
                    self.depth += 1;
                    self.put(letter);
                }
                ')' | ']' | '}' => {
                    self.depth = self.depth.checked_sub(1)?;
                    self.put(letter);
                }
                letter if letter.is_control() => return None,
                '=' => self.equals(),
                letter => self.put(letter),
            }
            self.rest = &self.rest[letter.len_utf8()..];
        }
        if self.depth > 0 {
            return None;
        }
        self.trim();
        Some(())
    }

    /// Takes an equals sign, and notes what stands before it where it assigns.
    fn equals(&mut self) {
        if let Some(statement) = self.statements.last_mut().filter(|_| self.depth == 0) {
            let line = statement.code.rsplit('\n').next().unwrap_or_default();
            let is_comparison = line.ends_with(['=', '!', '<', '>']) && !line.ends_with("<<") && !line.ends_with(">>");
            if !is_comparison && !self.rest.starts_with("==") {
                let target = format!("{line}\n");
                statement.targets.push_str(&target);
            }
        }
        self.put('=');
    }

    fn put(&mut self, letter: char) {
        if let Some(statement) = self.statements.last_mut() {
            statement.text.push(letter);
            statement.code.push(letter);
        }
    }

    fn space(&mut self) {
        let is_spaced = |text: &str| text.is_empty() || text.ends_with([' ', '\n']);
        if self
            .statements
            .last()
            .is_some_and(|statement| !is_spaced(&statement.code))
        {
            self.put(' ');
        }
    }

    fn trim(&mut self) {
        if let Some(statement) = self.statements.last_mut() {
            for text in [&mut statement.text, &mut statement.code] {
                text.truncate(text.trim_end_matches(' ').len());
            }
        }
    }

    /// Takes a string with its quotes.
    fn string(&mut self) -> Option<()> {
        let quote = &self.rest[..1];
        let triple = quote.repeat(3);
        let mark = if self.rest.starts_with(&triple) {
            triple.as_str()
        } else {
            quote
        };
        let mut at = mark.len();
        while !self.rest[at..].starts_with(mark) {
            let letter = self.rest[at..].chars().next()?;
            if letter == '\n' && mark.len() == 1 {
                return None;
            }
            at += letter.len_utf8();
            if letter == '\\' {
                at += self.rest[at..].chars().next()?.len_utf8();
            }
        }
        let end = at + mark.len();
        let statement = self.statements.last_mut()?;
        statement.text.push_str(&self.rest[..end]);
        statement.code.push_str("\"\"");
        self.rest = &self.rest[end..];
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(module: &str) -> Option<Vec<String>> {
        let module = Module::of(module)?;
        Some(module.statements.into_iter().map(|statement| statement.text).collect())
    }

    #[test]
    fn statements_keep_indentation_and_strings_and_lose_comments_and_other_space() {
        let text = "import  a  # b\n\n@d(1)\ndef f(\n    x,  y\n):\n  # no\n  if x:\n        return 'a  # b'\n  return \"\"\"c\n\n d\"\"\"\nz = 1 \\\n + 2\n";
        let expected = [
            "import a",
            "@d(1)\ndef f( x, y ):\n    if x:\n        return 'a  # b'\n    return \"\"\"c\n\n d\"\"\"",
            "z = 1 + 2",
        ];
        assert_eq!(texts(text).unwrap(), expected);
        for broken in [
            "a = (1\n",
            "a = 'b\n",
            "a = \"\"\"b\n",
            "def f():\n\treturn 1\n",
            "a)\n",
        ] {
            assert_eq!(texts(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_module_in_another_encoding_is_not_read() {
        for line in [
            "# -*- coding: latin-1 -*-",
            "#!/bin/python\n# vim: fileencoding=cp1252",
            "#coding=utf-16",
        ] {
            assert_eq!(texts(&format!("{line}\na = 1\n")), None, "{line}");
        }
        for line in [
            "# -*- coding: utf-8 -*-",
            "# coding=UTF8",
            "# b\n# c\n# coding: latin-1",
            "# encoding is fun",
        ] {
            assert_eq!(texts(&format!("{line}\na = 1\n")).unwrap(), ["a = 1"], "{line}");
        }
    }

    #[test]
    fn a_name_that_may_stand_for_something_else_has_no_one_statement() {
        let base = "def f(doc):\n    return g(doc)\n\n\nh = partial(f, a=1)\nprint(f == 2, f)\n";
        let bound = |more: &str| {
            let module = Module::of(&format!("{base}{more}\n")).unwrap();
            module.bound("f", &["known(globals())"]).map(str::to_owned)
        };
        assert_eq!(bound("").unwrap(), "def f(doc):\n    return g(doc)");
        assert!(bound("x.f = 1\ng(\"f = 2\")  # f = 3\nknown(globals())").is_some());
        for more in [
            "f = h",
            "f: object = h",
            "def f(doc):\n    return 2",
            "if x:\n    f = h",
            "class f:\n    pass",
            "from x import y, f",
            "from x import (\n    y,\n    f,\n)",
            "import x as f",
            "from x import *",
            "for f in x:\n    pass",
            "f, g = x",
            "(g, f) = x",
            "g(f := 2)",
            "f.__code__ = h",
            "f[1] = h",
            "f += 1",
            "del f",
            "globals()[\"f\"] = h",
            "setattr(x, \"f\", h)",
            "exec(x)",
            "g = globals\ng()[\"f\"] = h",
            "g = setattr",
        ] {
            assert_eq!(bound(more), None, "{more}");
        }
    }
}

//! Values as the processes in the sandbox read them; the other side is `python/values.py`.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Bool(bool),
    Int(u64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Value>),
    Dict(Vec<(String, Value)>),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Int(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl Value {
    pub(crate) fn dict<'a>(pairs: impl IntoIterator<Item = (&'a str, Self)>) -> Self {
        Self::Dict(
            pairs
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        )
    }

    pub(crate) fn texts<T: AsRef<str>>(texts: &[T]) -> Self {
        Self::List(texts.iter().map(|text| Self::from(text.as_ref())).collect())
    }

    pub(crate) fn encoded(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Bool(value) => out.push(if *value { b'T' } else { b'F' }),
            Self::Int(value) => out.extend(format!("i{value:x};").bytes()),
            Self::Text(text) => write_bytes(b's', text.as_bytes(), out),
            Self::Bytes(bytes) => write_bytes(b'b', bytes, out),
            Self::List(values) => {
                out.extend(format!("l{:x};", values.len()).bytes());
                values.iter().for_each(|value| value.write(out));
            }
            Self::Dict(pairs) => {
                out.extend(format!("d{:x};", pairs.len()).bytes());
                for (name, value) in pairs {
                    write_bytes(b's', name.as_bytes(), out);
                    value.write(out);
                }
            }
        }
    }
}

fn write_bytes(letter: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(letter);
    out.extend(format!("{:x};", bytes.len()).bytes());
    out.extend(bytes);
}

/// What the program's process says of an exception: its type, and its text with the line.
pub(crate) fn described(data: &[u8]) -> Option<String> {
    let mut at = data.strip_prefix(b"t4;")?;
    let kind = text(&mut at)?;
    let count = number(&mut at, b'l')?;
    for _ in 0..count.min(64) {
        text(&mut at)?;
    }
    let said = text(&mut at)?;
    let line = number(&mut at, b'i')?;
    let place = if line == 0 {
        String::new()
    } else {
        format!(" (line {line} of the program)")
    };
    let joint = if said.is_empty() { "" } else { ": " };
    Some(format!("{kind}{joint}{said}{place}"))
}

fn number(at: &mut &[u8], letter: u8) -> Option<usize> {
    let rest = at.strip_prefix(&[letter])?;
    let end = rest.iter().position(|byte| *byte == b';')?;
    let digits = std::str::from_utf8(rest.get(..end)?).ok()?;
    *at = rest.get(end + 1..)?;
    usize::from_str_radix(digits, 16).ok()
}

fn text(at: &mut &[u8]) -> Option<String> {
    let size = number(at, b's')?;
    let data = at.get(..size)?;
    *at = at.get(size..)?;
    Some(String::from_utf8_lossy(data).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_letters_lengths_and_contents() {
        let value = Value::dict([
            ("a", Value::from(255)),
            ("b", Value::texts(&["é"])),
            ("c", Value::Bool(true)),
            ("d", Value::Bytes(vec![0, 1])),
        ]);
        assert_eq!(value.encoded(), b"d4;s1;aiff;s1;bl1;s2;\xc3\xa9s1;cTs1;db2;\x00\x01");
    }

    #[test]
    fn an_exception_is_described_and_what_is_none_is_not() {
        let sent = b"t4;sa;ValueErrorl1;s9;Exceptions3;badi1f;";
        assert_eq!(
            described(sent).as_deref(),
            Some("ValueError: bad (line 31 of the program)")
        );
        let without = b"t4;sa;ValueErrorl0;s0;i0;";
        assert_eq!(described(without).as_deref(), Some("ValueError"));
        for damaged in [
            &b""[..],
            b"t4;",
            b"t4;sff;x",
            b"t4;sa;ValueErrorlffffffffffffffff;",
            b"N",
        ] {
            assert_eq!(described(damaged), None, "{damaged:?}");
        }
    }
}

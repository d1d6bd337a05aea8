//! What Python prints by its name: `range(0, 3)`, `dict_keys(['a'])`.

use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr, Tuple, ValueKind};
use minijinja::{Error, ErrorKind, Value};

/// A range makes at most so many numbers.
const MAX_RANGE: i64 = 100_000;

/// Values behind a name.
#[derive(Debug)]
pub(super) struct View {
    /// The name; that of a range has its bounds behind it.
    name: String,
    values: Vec<Value>,
    is_range: bool,
}

impl Object for View {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        match self.is_range {
            true => ObjectRepr::Seq,
            false => ObjectRepr::Iterable,
        }
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let at = key.as_usize().filter(|_| self.is_range)?;
        self.values.get(at).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        match self.is_range {
            true => Enumerator::Seq(self.values.len()),
            false => Enumerator::Values(self.values.clone()),
        }
    }
}

impl View {
    /// The view as it is printed, its elements by `repr`.
    pub(super) fn shown(&self, repr: impl Fn(&Value) -> String) -> String {
        match self.is_range {
            true => self.name.clone(),
            false => {
                let elements: Vec<String> = self.values.iter().map(repr).collect();
                format!("{}([{}])", self.name, elements.join(", "))
            }
        }
    }
}

/// Whether a value is one.
pub(super) fn is_view(value: &Value) -> bool {
    value.downcast_object_ref::<View>().is_some()
}

/// `keys()`, `values()` and `items()` of a mapping; nothing for other methods.
pub(super) fn of_map(map: &Value, method: &str) -> Option<Value> {
    if map.kind() != ValueKind::Map {
        return None;
    }
    let of = |key: Value| {
        let value = map.get_item(&key).unwrap_or_default();
        match method {
            "keys" => Some(key),
            "values" => Some(value),
            "items" => Some(Value::from(Tuple::from([key, value]))),
            _ => None,
        }
    };
    let values = map.try_iter().ok()?.map(of).collect::<Option<Vec<_>>>()?;
    matches!(method, "keys" | "values" | "items").then(|| {
        Value::from_object(View {
            name: format!("dict_{method}"),
            values,
            is_range: false,
        })
    })
}

/// `range(stop)`, `range(start, stop)` and `range(start, stop, step)`.
///
/// # Errors
/// The step is 0, or there are too many numbers.
pub(super) fn range(first: i64, second: Option<i64>, step: Option<i64>) -> Result<Value, Error> {
    let invalid = |reason| Error::new(ErrorKind::InvalidOperation, reason);
    let (start, stop) = second.map_or((0, first), |stop| (first, stop));
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err(invalid("range() has a step of 0"));
    }
    let goes_on = |at: i64| if step > 0 { at < stop } else { at > stop };
    let numbers = std::iter::successors(Some(start), |at| at.checked_add(step));
    let mut values = Vec::new();
    for number in numbers.take_while(|at| goes_on(*at)) {
        if values.len() as i64 == MAX_RANGE {
            return Err(invalid("range() has more than 100000 numbers"));
        }
        values.push(Value::from(number));
    }
    let step = if step == 1 { String::new() } else { format!(", {step}") };
    Ok(Value::from_object(View {
        name: format!("range({start}, {stop}{step})"),
        values,
        is_range: true,
    }))
}

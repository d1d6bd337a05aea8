//! Filters of the engine that take null for an empty list, where the harness stops, or print values otherwise than Python.

use minijinja::value::{Kwargs, StringInput};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters};

use super::shown;

/// Has them stop.
pub(super) fn add(environment: &mut Environment<'_>) {
    environment.add_filter("list", |state: &State<'_, '_>, value: Value| {
        filters::list(state, some(value)?)
    });
    environment.add_filter("string", string);
    environment.add_filter("replace", replace);
    environment.add_filter("join", join);
    environment.add_filter("sort", |state: &State<'_, '_>, value: Value, options: Kwargs| {
        filters::sort(state, some(value)?, options)
    });
    environment.add_filter("unique", |state: &State<'_, '_>, value: Value, options: Kwargs| {
        filters::unique(state, some(value)?, options)
    });
    environment.add_filter("sum", sum);
    environment.add_filter(
        "groupby",
        |value: Value, attribute: Option<&str>, options: Kwargs| match value.is_undefined() {
            true => Err(Error::from(ErrorKind::UndefinedError)),
            false => filters::groupby(some(value)?, attribute, options),
        },
    );
    environment.add_filter(
        "slice",
        |state: &State<'_, '_>, value: Value, count: usize, fill: Option<Value>| {
            filters::slice(state, some(value)?, count, fill)
        },
    );
    environment.add_filter(
        "batch",
        |state: &State<'_, '_>, value: Value, count: usize, fill: Option<Value>| {
            filters::batch(state, some(value)?, count, fill)
        },
    );
}

fn join(
    state: &mut State<'_, '_>,
    value: Value,
    joiner: Option<StringInput<'_>>,
    attribute: Option<&str>,
    options: Kwargs,
) -> Result<Value, Error> {
    if value.is_undefined() {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    let value = some(value)?;
    if attribute.is_some() || value.as_str().is_some() || options.args().next().is_some() {
        return filters::join(state, &value, joiner, attribute, options);
    }
    let texts = value.try_iter()?.map(|element| string(&element));
    let texts: Vec<Value> = texts.collect::<Result<_, Error>>()?;
    filters::join(state, &Value::from(texts), joiner, attribute, options)
}

/// `str(value)`, which is nothing where the value is not defined.
fn string(value: &Value) -> Result<Value, Error> {
    match (value.is_undefined(), value.as_str()) {
        (true, _) => Err(Error::from(ErrorKind::UndefinedError)),
        // What is safe HTML stays so.
        (_, Some(_)) => Ok(value.clone()),
        _ => Ok(Value::from(shown::str(value))),
    }
}

/// All of them, or the first `count`. The engine's own limits the work.
fn replace(
    state: &mut State<'_, '_>,
    value: Value,
    old: Value,
    new: Value,
    count: Option<i64>,
) -> Result<String, Error> {
    let [value, old, new] = [string(&value)?, string(&old)?, string(&new)?];
    let whole = shown::str(&value);
    let count = count.and_then(|count| usize::try_from(count).ok());
    let rest_at = count.and_then(|count| whole.match_indices(&shown::str(&old)).nth(count));
    let (begin, rest) = whole.split_at(rest_at.map_or(whole.len(), |(at, _)| at));
    let begin = Value::from(begin);
    let inputs = (
        StringInput::new(state, &begin)?,
        StringInput::new(state, &old)?,
        StringInput::new(state, &new)?,
    );
    let replaced = filters::replace(state, inputs.0, inputs.1, inputs.2)?;
    Ok(shown::str(&replaced) + rest)
}

fn sum(
    state: &State<'_, '_>,
    value: Value,
    attribute: Option<&str>,
    start: Option<Value>,
    options: Kwargs,
) -> Result<Value, Error> {
    filters::sum(state, some(value)?, attribute, start, options)
}

/// The value, unless it is null.
pub(super) fn some(value: Value) -> Result<Value, Error> {
    match value.is_none() {
        true => Err(Error::new(
            ErrorKind::InvalidOperation,
            "null is nothing that a loop or a filter can go over",
        )),
        false => Ok(value),
    }
}

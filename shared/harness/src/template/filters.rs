//! Filters of the engine that take null for an empty list, where the harness stops.

use minijinja::value::{Kwargs, StringInput};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters};

/// Has them stop.
pub(super) fn add(environment: &mut Environment<'_>) {
    environment.add_filter("list", |state: &State<'_, '_>, value: Value| {
        filters::list(state, some(value)?)
    });
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
    filters::join(state, &some(value)?, joiner, attribute, options)
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

//! The template engine's filters and tests, made to stop at what is undefined, which they would take for an empty text, a 0 or a
//! false; and its loops, which would go over null as over nothing.
//!
//! An `if` without an `else` gives something undefined that stops nothing, as in Jinja.

pub mod loops;

use minijinja::value::{Kwargs, Rest, StringInput, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters, tests};

/// What may be wrong with the arguments of a filter or a test, the value that it is applied to first.
pub type Look = fn(&State<'_, '_>, &[Value]) -> Result<(), Error>;

/// The engine's filters that stop at nothing undefined, or not at all of it, and what to look for.
///
/// `default` and `map` are not among them: the first is there for what is undefined, the second leaves it to the filter that it
/// applies.
pub fn filters() -> Vec<(&'static str, Value, Look)> {
    vec![
        ("abs", Value::from_function(filters::abs), defined),
        ("attr", Value::from_function(filters::attr), defined),
        ("batch", Value::from_function(filters::batch), defined),
        ("bool", Value::from_function(filters::bool), defined),
        ("capitalize", Value::from_function(filters::capitalize), defined),
        ("count", Value::from_function(filters::length), defined),
        ("dictsort", Value::from_function(filters::dictsort), defined),
        ("e", Value::from_function(filters::escape), defined),
        ("escape", Value::from_function(filters::escape), defined),
        ("first", Value::from_function(filters::first), defined),
        ("float", Value::from_function(filters::float), defined),
        ("format", Value::from_function(filters::format), defined),
        ("groupby", Value::from_function(filters::groupby), second_of_each),
        ("indent", Value::from_function(filters::indent), defined),
        ("int", Value::from_function(filters::int), defined),
        ("join", Value::from_function(filters::join), third_of_each),
        ("last", Value::from_function(filters::last), defined),
        ("length", Value::from_function(filters::length), defined),
        ("list", Value::from_function(filters::list), defined),
        ("lower", Value::from_function(filters::lower), defined),
        ("max", Value::from_function(filters::max), each),
        ("min", Value::from_function(filters::min), each),
        ("reject", Value::from_function(filters::reject), chosen),
        ("rejectattr", Value::from_function(filters::rejectattr), chosen_by),
        ("reverse", Value::from_function(filters::reverse), defined),
        ("round", Value::from_function(filters::round), defined),
        ("safe", Value::from_function(filters::safe), defined),
        ("select", Value::from_function(filters::select), chosen),
        ("selectattr", Value::from_function(filters::selectattr), chosen_by),
        ("slice", Value::from_function(filters::slice), defined),
        ("sort", Value::from_function(filters::sort), each),
        ("string", Value::from_function(filters::string), defined),
        ("sum", Value::from_function(filters::sum), second_of_each),
        ("title", Value::from_function(filters::title), defined),
        ("tojson", Value::from_function(filters::tojson), defined),
        ("trim", Value::from_function(filters::trim), defined),
        ("unique", Value::from_function(filters::unique), each),
        ("upper", Value::from_function(filters::upper), defined),
    ]
}

/// The engine's tests that say something of what is undefined where Jinja stops.
fn all_tests() -> Vec<(&'static str, Value)> {
    let several = [
        (&["eq", "equalto", "=="][..], Value::from_function(tests::is_eq)),
        (&["ne", "!="], Value::from_function(tests::is_ne)),
        (&["lt", "lessthan", "<"], Value::from_function(tests::is_lt)),
        (&["le", "<="], Value::from_function(tests::is_le)),
        (&["gt", "greaterthan", ">"], Value::from_function(tests::is_gt)),
        (&["ge", ">="], Value::from_function(tests::is_ge)),
        (&["in"], Value::from_function(tests::is_in)),
        (&["divisibleby"], Value::from_function(is_divisible)),
        (&["odd"], Value::from_function(tests::is_odd)),
        (&["even"], Value::from_function(tests::is_even)),
        (&["iterable"], Value::from_function(tests::is_iterable)),
        (&["lower"], Value::from_function(tests::is_lower)),
        (&["upper"], Value::from_function(tests::is_upper)),
    ];
    let named = several.into_iter();
    named
        .flat_map(|(names, test)| names.iter().map(move |name| (*name, test.clone())))
        .collect()
}

/// # Errors
/// The divisor is 0.
fn is_divisible(value: &Value, by: &Value) -> Result<bool, Error> {
    if by.kind() == ValueKind::Number && !by.is_true() {
        return Err(Error::new(ErrorKind::InvalidOperation, "division by zero"));
    }
    Ok(tests::is_divisibleby(value, by))
}

/// Adds a filter that is called where its arguments pass the look.
pub fn add_filter<L>(environment: &mut Environment<'_>, name: &'static str, filter: Value, look: L)
where
    L: Fn(&State<'_, '_>, &[Value]) -> Result<(), Error> + Send + Sync + 'static,
{
    environment.add_filter(
        name,
        move |state: &mut State<'_, '_>, arguments: Rest<ValueOrKwargs>| {
            let arguments = arguments.into_values();
            look(state, &arguments)?;
            call(state, &filter, &arguments)
        },
    );
}

/// Has the engine's tests stop at what is undefined.
pub fn add_tests(environment: &mut Environment<'_>) {
    for (name, test) in all_tests() {
        environment.add_test(
            name,
            move |state: &mut State<'_, '_>, arguments: Rest<ValueOrKwargs>| {
                let arguments = arguments.into_values();
                defined(state, &arguments)?;
                call(state, &test, &arguments).map(|value| value.is_true())
            },
        );
    }
}

fn call(state: &mut State<'_, '_>, function: &Value, arguments: &[Value]) -> Result<Value, Error> {
    // A text is paid for by the engine.
    let collection = arguments.first().filter(|value| value.as_object().is_some());
    if let Some(length) = collection.and_then(Value::len) {
        state.consume_fuel(length as u64)?;
    }
    function.call(state, arguments)
}

/// No argument is undefined.
///
/// # Errors
/// One is; it is named.
pub fn defined(state: &State<'_, '_>, arguments: &[Value]) -> Result<(), Error> {
    arguments.iter().try_for_each(|argument| match argument.is_kwargs() {
        true => values(argument).try_for_each(|value| is_defined(state, &value)),
        false => is_defined(state, argument),
    })
}

/// # Errors
/// It is undefined; it is named.
pub fn is_defined(state: &State<'_, '_>, value: &Value) -> Result<(), Error> {
    match value.is_undefined() {
        // The engine's own conversion knows what an `if` without `else` gave from what has no name.
        true => StringInput::new(state, value).map(|_| ()),
        false => Ok(()),
    }
}

/// Whether something undefined is in a list or a mapping, however deep.
pub fn holds_undefined(value: &Value) -> bool {
    let is_or_holds = |value: &Value| value.is_undefined() || holds_undefined(value);
    match value.kind() {
        ValueKind::Map => values(value).any(|value| is_or_holds(&value)),
        ValueKind::Seq | ValueKind::Iterable => elements(value).any(|element| is_or_holds(&element)),
        _ => false,
    }
}

/// No argument is undefined, and of the first no element, or what `attribute` names of each.
///
/// # Errors
/// One is; it is named.
pub fn each(state: &State<'_, '_>, arguments: &[Value]) -> Result<(), Error> {
    each_by(state, arguments, None)
}

/// As [`each`], where the attribute may also be the second argument.
///
/// # Errors
/// As [`each`].
pub fn second_of_each(state: &State<'_, '_>, arguments: &[Value]) -> Result<(), Error> {
    each_by(state, arguments, arguments.get(1))
}

/// As [`each`], where the attribute may also be the third argument.
///
/// # Errors
/// As [`each`].
pub fn third_of_each(state: &State<'_, '_>, arguments: &[Value]) -> Result<(), Error> {
    each_by(state, arguments, arguments.get(2))
}

fn each_by(state: &State<'_, '_>, arguments: &[Value], attribute: Option<&Value>) -> Result<(), Error> {
    defined(state, arguments)?;
    let Some(first) = arguments.first() else {
        return Ok(());
    };
    let options = arguments.last().and_then(|last| Kwargs::try_from(last.clone()).ok());
    let named = options
        .as_ref()
        .and_then(|options| options.get::<&str>("attribute").ok());
    if options.as_ref().is_some_and(|options| options.has("default")) {
        return Ok(());
    }
    match named.or_else(|| attribute?.as_str()) {
        None => elements(first).try_for_each(|element| is_defined(state, &element)),
        Some(paths) => paths
            .split(',')
            .try_for_each(|path| has_each(state, first, path.trim())),
    }
}

fn has_each(state: &State<'_, '_>, list: &Value, path: &str) -> Result<(), Error> {
    elements(list).try_for_each(|element| is_defined(state, &at(&element, path)?))
}

/// What a path of names and places, with points between them, leads to.
///
/// # Errors
/// Something on the way is undefined.
pub fn at(value: &Value, path: &str) -> Result<Value, Error> {
    path.split('.')
        .try_fold(value.clone(), |value, part| match part.parse() {
            Ok(place) => value.get_item_by_index(place),
            Err(_) => value.get_attr(part),
        })
}

/// Elements that are chosen without a test, by whether they are true, are defined.
fn chosen(state: &State<'_, '_>, arguments: &[Value]) -> Result<(), Error> {
    defined(state, arguments.get(..2).unwrap_or(arguments))?;
    match arguments {
        [list] => elements(list).try_for_each(|element| is_defined(state, &element)),
        _ => Ok(()),
    }
}

/// As [`chosen`], of what the second argument names of each.
fn chosen_by(state: &State<'_, '_>, arguments: &[Value]) -> Result<(), Error> {
    defined(state, arguments.get(..3).unwrap_or(arguments))?;
    match arguments {
        [list, path] => path.as_str().map_or(Ok(()), |path| has_each(state, list, path)),
        _ => Ok(()),
    }
}

fn elements(value: &Value) -> impl Iterator<Item = Value> {
    let is_text = value.kind() == ValueKind::String;
    let elements = (!is_text).then(|| value.try_iter().ok()).flatten();
    elements.into_iter().flatten()
}

fn values(map: &Value) -> impl Iterator<Item = Value> {
    elements(map).map(|key| map.get_item(&key).unwrap_or_default())
}

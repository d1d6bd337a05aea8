//! Suites from file to manifest: what is refused and in which words, what items come out, and the published schema.

#[cfg(test)]
mod code;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod judge;
#[cfg(test)]
mod options;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod rendering;
#[cfg(test)]
mod schema;
#[cfg(test)]
mod streaming;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tasks;

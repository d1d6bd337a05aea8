//! Real processes on a real broker, disturbed on purpose, compared with the undisturbed run of the same work.
//!
//! [`Scenario`] says what is done to a pipeline and when, all from a seed; [`run()`] does it and looks at what is left:
//! streams, report, and the journal of the engine. [`Table`] adds runs up. `tidemill-chaos` runs any number; the test
//! `chaos` runs a short set.

mod evidence;
mod outcome;
mod pipeline;
mod random;
mod resume;
mod run;
mod scenario;
mod surroundings;
mod table;
mod work;

pub use outcome::Outcome;
pub use resume::{Resumed, resume};
pub use run::{Expected, expect, run, run_all};
pub use scenario::{Action, Fault, Network, Role, Scenario, Step, long, short, standard};
pub use table::Table;
pub use work::Work;

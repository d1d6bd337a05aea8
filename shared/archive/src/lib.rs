//! The items of evaluations, wherever they are: in the broker while an evaluation is young, in the object store later.
//!
//! An archive is a folder of Parquet files for analysts; the messages themselves stand in two columns of them, so that what
//! is read back is what was written, byte for byte, whatever version wrote it. Which folder counts is said by a record in
//! the bucket `tm_archive`, written by compare and set: the files come first, the record is the commit. Nothing is purged
//! from the broker that a committed archive does not hold, and a purge never reaches past the place in the stream up to
//! which the archive was made, so that a late or repeated one removes nothing newer.
//!
//! Who wants items opens [`Samples`], which reads the archive or the streams and goes over from these to that when they are
//! purged meanwhile. When an evaluation is archived is decided by the aggregator, not here.

mod columns;
mod declared;
mod error;
mod index;
mod live;
mod purge;
mod reader;
mod record;
mod restore;
mod retract;
mod row;
mod samples;
mod shown;
mod writer;

pub use declared::{Layout, item};
pub use error::Error;
pub use index::{Entry, Index, folder, read_index, verify};
pub use live::Live;
pub use purge::purge;
pub use record::{Known, Record, Records, State, Stored};
pub use restore::{completions, grade_again, restore};
pub use retract::{is_fault_of_grading, is_fault_of_serving, retract_failures, retract_grades};
pub use row::{Completed, Graded, Row};
pub use samples::{Sample, Samples};
pub use writer::{Limits, Writer, Written};

//! What happened in a run, or in many.

use std::fmt;
use std::ops::AddAssign;

macro_rules! summary {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counts of what happened.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Summary {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl AddAssign for Summary {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
            }
        }

        impl fmt::Display for Summary {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut before = "";
                $(
                    write!(formatter, "{before}{} {}", self.$name, stringify!($name).replace('_', " "))?;
                    before = ", ";
                )*
                Ok(())
            }
        }
    };
}

summary! {
    /// Declared (item, sample)s.
    items,
    /// Requests to the engine, those that the same asking repeated aside.
    asked,
    /// Messages between processes and broker, both ways.
    messages,
    /// Messages that were lost.
    lost,
    /// Messages that took long and were overtaken.
    delayed,
    /// Deliveries of what was delivered before.
    redelivered,
    /// Processes that were killed.
    kills,
    /// Processes that were suspended.
    suspensions,
    /// Processes that drained.
    drains,
    /// Generators that joined.
    joins,
    /// Handlers that panicked.
    panics,
    /// The broker was killed.
    broker_kills,
    /// The broker forgot what its consumers had.
    forgotten,
    /// The broker could not be reached.
    cuts,
    /// Streams refused to store.
    full,
    /// Leases expired before their time.
    expired,
    /// Releases that vanished.
    lost_releases,
    /// Requests that an engine failed.
    engine_failures,
    /// Requests in flight when their process ended.
    lost_requests,
    /// Requests for what another process was finishing at the same time.
    raced,
    /// Second writes of a completion or grade, refused.
    refused_writes,
    /// Second releases, refused.
    refused_releases,
    /// Acknowledgements by whoever had the message before.
    late_acks,
    /// Dead letters.
    dead,
    /// Seconds of virtual time.
    seconds,
}

impl Summary {
    /// Too little happened for the run to prove anything: too few messages, or hardly a fault.
    #[must_use]
    pub fn did_nothing(&self) -> bool {
        let of_processes = self.kills + self.suspensions + self.drains + self.panics;
        let faults = of_processes + self.broker_kills + self.cuts + self.full + self.expired;
        let disorder = self.lost + self.delayed + self.redelivered + self.joins + self.lost_releases;
        self.messages < 200 || self.asked < self.items || faults < 2 || faults + disorder < 5
    }
}

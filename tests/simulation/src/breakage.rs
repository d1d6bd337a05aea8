//! Deliberate breakages, to prove that the simulation finds them. They exist here alone: each is a wrapper around a real
//! step, or around what the broker is asked.

/// A rule that is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breakage {
    /// The generator acknowledges a release when it has the answer, and publishes after.
    AckBeforePublish,
    /// The generator counts a completion as stored without waiting for the broker's word.
    PublishUnawaited,
    /// Completions are published without "only if the subject is empty".
    Overwrite,
    /// The generator asks without looking.
    SkipLook,
    /// The generator looks only where the delivery hints at a repeat.
    LookOnHint,
    /// The generator believes what it knew before it was suspended.
    BelieveOldLook,
    /// The look is answered by a replica of the stream that lags.
    LaggingReplica,
    /// A redelivery to the process that has the item in flight is worked on at once.
    IgnoreOwnItems,
    /// The dispatcher counts an item as done when its release is stored.
    TrustDelivery,
    /// The dispatcher never releases again what stays out.
    NeverAgain,
    /// The grader acknowledges a completion before its grade is stored.
    AckBeforeGrade,
    /// The aggregator counts a grade as often as it comes.
    CountRepeats,
    /// A lease that was taken once is believed for ever.
    BelieveLease,
    /// A failure that may pass ends in an acknowledgement.
    AckFailure,
}

impl Breakage {
    /// Every breakage.
    pub const ALL: [Self; 14] = [
        Self::AckBeforePublish,
        Self::PublishUnawaited,
        Self::Overwrite,
        Self::SkipLook,
        Self::LookOnHint,
        Self::BelieveOldLook,
        Self::LaggingReplica,
        Self::IgnoreOwnItems,
        Self::TrustDelivery,
        Self::NeverAgain,
        Self::AckBeforeGrade,
        Self::CountRepeats,
        Self::BelieveLease,
        Self::AckFailure,
    ];
}

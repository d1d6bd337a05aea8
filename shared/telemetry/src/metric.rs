//! The name of every metric: `tidemill_<name>_<unit>[_total]`, base units.

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Deliveries taken from a stream, by `stage`.
    Deliveries,
    /// Deliveries that had been made before, by `stage`.
    Redeliveries,
    /// What deliveries ended as, by `stage` and `class` (done, transient, permanent, cancelled, bug).
    Settled,
    /// Messages given up, by `stage`.
    DeadLetters,
    /// Publishes that were refused because the first write had won, by `stream`.
    AlreadyThere,
    /// Publishes tried again, by `stream`.
    PublishRetries,
    /// Seconds for which nothing has passed what this process waits for, by `on` (a stream, `object_store`, `grading`); 0
    /// while it waits for nothing.
    StalledSeconds,
    /// Items released, by `again` (false, true).
    Released,
    /// Server groups held by this loader.
    Groups,
    /// Starts of engines, by `result` (ready, failed).
    EngineStarts,
    /// Seconds of a start-up phase, by `phase`.
    StartupSeconds,
    /// Requests sent to engines, by `ending`.
    Requests,
    /// Seconds from a request to its ending.
    RequestSeconds,
    /// Items that entered the generator; in flight is entered minus left.
    ItemsEntered,
    /// Items that left the generator.
    ItemsLeft,
    /// Prompt tokens of requests, as engines counted them.
    PromptTokens,
    /// Tokens that engines generated.
    CompletionTokens,
    /// Requests that engines are to have at once at present, of this process.
    EngineAllowed,
    /// Requests that this process has in flight at engines.
    EngineInFlight,
    /// Requests that wait in engines, of all their clients, where they say.
    EngineWaiting,
    /// Share of the key-value cache in use, of the fullest engine, where they say; 0 to 1.
    EngineKvUse,
    /// Sequences that engines put back for want of room, as they count them.
    EnginePreemptions,
    /// Replicas that are sent nothing because they are away.
    EnginesAway,
    /// Prompt tokens that engines had in their prefix cache.
    PrefixHitTokens,
    /// Prompt tokens that had been sent to some replica of the group before, of prompts whose beginning others share; estimated by bytes.
    PrefixPossibleTokens,
    /// Looks into the generation cache, by `result` (hit, miss, evicted, damaged, failed). Evicted is a miss of what was known.
    CacheLookups,
    /// Generations offered to the cache, by `result` (stored, failed).
    CacheStores,
    /// Bytes of the generations stored in the cache.
    CacheStoredBytes,
    /// Bytes that the broker holds of the cache, as seen when a server group began.
    CacheBytes,
    /// Partial answers of interrupted or long generations, by `result` (saved, found, useless, failed).
    Parked,
    /// Bodies removed from the object store because no message names them.
    OrphansCollected,
    /// Their bytes.
    OrphanBytesCollected,
    /// Grades, by `outcome` and `family`.
    Grades,
    /// Requests sent to judges, by `ending`, as those to engines.
    JudgeRequests,
    /// Verdicts of judges, by `result` (asked, cached, unreadable, not_kept).
    JudgeVerdicts,
    /// Tokens that judges counted, by `of` (prompt, reply).
    JudgeTokens,
    /// Seconds from a completion to its grade, by `family`.
    GradeLatencySeconds,
    /// Completions without a grade, by `place` (stream: not delivered to a grader yet; graders: delivered).
    GradeBacklog,
    /// Seconds since the oldest completion without a grade was stored; 0 when grading keeps up.
    GradeBacklogAgeSeconds,
    /// Completions that a grader has delivered and does not grade in place, by `family` and `state` (running, waiting for
    /// their turn, or given back to the broker to come again).
    GradesHeld,
    /// Seconds since the oldest completion was generated that a grader holds, by `family`.
    GradesHeldAgeSeconds,
    /// Deliveries that a grader gave back because its family's lane was full, by `family`.
    GradesGivenBack,
    /// Result messages, by `kind` (provisional, final).
    Results,
    /// Seconds from a checkpoint's writing to its visible result, by `tier`: the objective.
    WrittenToVisibleSeconds,
    /// What became of evaluations that ended, by `step` (archived, purged, failed).
    Archived,
    /// Rows written to archives.
    ArchivedRows,
    /// Bytes written to archives.
    ArchivedBytes,
    /// Messages purged from the broker because an archive has them, by `stream`.
    Purged,
    /// Evaluations that ended and are not archived yet.
    ArchiveBacklog,
}

impl Metric {
    /// Every metric.
    pub const ALL: [Self; 49] = [
        Self::Deliveries,
        Self::Redeliveries,
        Self::Settled,
        Self::DeadLetters,
        Self::AlreadyThere,
        Self::PublishRetries,
        Self::StalledSeconds,
        Self::Released,
        Self::Groups,
        Self::EngineStarts,
        Self::StartupSeconds,
        Self::Requests,
        Self::RequestSeconds,
        Self::ItemsEntered,
        Self::ItemsLeft,
        Self::PromptTokens,
        Self::CompletionTokens,
        Self::EngineAllowed,
        Self::EngineInFlight,
        Self::EngineWaiting,
        Self::EngineKvUse,
        Self::EnginePreemptions,
        Self::EnginesAway,
        Self::PrefixHitTokens,
        Self::PrefixPossibleTokens,
        Self::CacheLookups,
        Self::CacheStores,
        Self::CacheStoredBytes,
        Self::CacheBytes,
        Self::Parked,
        Self::OrphansCollected,
        Self::OrphanBytesCollected,
        Self::Grades,
        Self::JudgeRequests,
        Self::JudgeVerdicts,
        Self::JudgeTokens,
        Self::GradeLatencySeconds,
        Self::GradeBacklog,
        Self::GradeBacklogAgeSeconds,
        Self::GradesHeld,
        Self::GradesHeldAgeSeconds,
        Self::GradesGivenBack,
        Self::Results,
        Self::WrittenToVisibleSeconds,
        Self::Archived,
        Self::ArchivedRows,
        Self::ArchivedBytes,
        Self::Purged,
        Self::ArchiveBacklog,
    ];

    /// The name that is exported.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deliveries => "tidemill_deliveries_total",
            Self::Redeliveries => "tidemill_redeliveries_total",
            Self::Settled => "tidemill_settled_total",
            Self::DeadLetters => "tidemill_dead_letters_total",
            Self::AlreadyThere => "tidemill_already_there_total",
            Self::PublishRetries => "tidemill_publish_retries_total",
            Self::StalledSeconds => "tidemill_stalled_seconds",
            Self::Released => "tidemill_released_total",
            Self::Groups => "tidemill_groups",
            Self::EngineStarts => "tidemill_engine_starts_total",
            Self::StartupSeconds => "tidemill_startup_seconds",
            Self::Requests => "tidemill_requests_total",
            Self::RequestSeconds => "tidemill_request_seconds",
            Self::ItemsEntered => "tidemill_items_entered_total",
            Self::ItemsLeft => "tidemill_items_left_total",
            Self::PromptTokens => "tidemill_prompt_tokens_total",
            Self::CompletionTokens => "tidemill_completion_tokens_total",
            Self::EngineAllowed => "tidemill_engine_allowed",
            Self::EngineInFlight => "tidemill_engine_in_flight",
            Self::EngineWaiting => "tidemill_engine_waiting",
            Self::EngineKvUse => "tidemill_engine_kv_use_ratio",
            Self::EnginePreemptions => "tidemill_engine_preemptions_total",
            Self::EnginesAway => "tidemill_engines_away",
            Self::PrefixHitTokens => "tidemill_prefix_hit_tokens_total",
            Self::PrefixPossibleTokens => "tidemill_prefix_possible_tokens_total",
            Self::CacheLookups => "tidemill_cache_lookups_total",
            Self::CacheStores => "tidemill_cache_stores_total",
            Self::CacheStoredBytes => "tidemill_cache_stored_bytes_total",
            Self::CacheBytes => "tidemill_cache_bytes",
            Self::Parked => "tidemill_parked_total",
            Self::OrphansCollected => "tidemill_orphans_collected_total",
            Self::OrphanBytesCollected => "tidemill_orphans_collected_bytes_total",
            Self::Grades => "tidemill_grades_total",
            Self::JudgeRequests => "tidemill_judge_requests_total",
            Self::JudgeVerdicts => "tidemill_judge_verdicts_total",
            Self::JudgeTokens => "tidemill_judge_tokens_total",
            Self::GradeLatencySeconds => "tidemill_grade_latency_seconds",
            Self::GradeBacklog => "tidemill_grade_backlog",
            Self::GradeBacklogAgeSeconds => "tidemill_grade_backlog_age_seconds",
            Self::GradesHeld => "tidemill_grades_held",
            Self::GradesHeldAgeSeconds => "tidemill_grades_held_age_seconds",
            Self::GradesGivenBack => "tidemill_grades_given_back_total",
            Self::Results => "tidemill_results_total",
            Self::WrittenToVisibleSeconds => "tidemill_written_to_visible_seconds",
            Self::Archived => "tidemill_archived_total",
            Self::ArchivedRows => "tidemill_archived_rows_total",
            Self::ArchivedBytes => "tidemill_archived_bytes_total",
            Self::Purged => "tidemill_purged_total",
            Self::ArchiveBacklog => "tidemill_archive_backlog",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_in_form() {
        let mut names: Vec<_> = Metric::ALL.iter().map(|metric| metric.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Metric::ALL.len());
        assert!(names.iter().all(|name| name.starts_with("tidemill_")));
    }
}

//! What one run may use.

use std::fmt;
use std::time::Duration;

use crate::value::Value;

/// The limits of one run. Each process of a check, the program's and the tests', has all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// From start to end; generous, for a program may have to wait for a CPU.
    pub wall: Duration,
    /// CPU time of all processes of the tree; counted in whole seconds.
    pub cpu: Duration,
    /// Resident bytes of all processes of the tree.
    pub memory_bytes: u64,
    /// Processes and threads at a time.
    pub processes: u32,
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Bytes of all files.
    pub disk_bytes: u64,
    /// Files and directories.
    pub files: u64,
    /// Bytes of what is printed, and of one value; more is dropped, or ends the run where it is what is compared.
    pub output_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            wall: Duration::from_secs(60),
            cpu: Duration::from_secs(10),
            memory_bytes: 1 << 30,
            processes: 32,
            file_bytes: 64 << 20,
            disk_bytes: 128 << 20,
            files: 10_000,
            output_bytes: 4 << 20,
        }
    }
}

impl Limits {
    /// CPU seconds, at least one.
    pub(crate) fn cpu_seconds(&self) -> u64 {
        self.cpu.as_secs() + u64::from(self.cpu.subsec_nanos() > 0 || self.cpu.is_zero())
    }

    /// What a process sets for itself before the guest's first instruction.
    pub(crate) fn of_process(&self) -> Value {
        // Interpreters and number libraries reserve far more than they use.
        let address_space = self.memory_bytes.saturating_mul(2).saturating_add(1 << 30);
        let limits = [
            ("RLIMIT_CPU", self.cpu_seconds()),
            ("RLIMIT_AS", address_space),
            ("RLIMIT_NPROC", u64::from(self.processes)),
            ("RLIMIT_FSIZE", self.file_bytes),
            ("RLIMIT_NOFILE", 256),
            ("RLIMIT_CORE", 0),
            ("RLIMIT_MSGQUEUE", 0),
            ("RLIMIT_MEMLOCK", 64 << 10),
        ];
        Value::dict(limits.map(|(name, value)| (name, Value::from(value))))
    }
}

/// The limit that a run went over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// CPU time.
    Cpu,
    /// Memory.
    Memory,
    /// Number of files, or the size of one.
    Files,
    /// Bytes printed or answered.
    Output,
    /// Time, without want of a CPU: it waited for something else.
    Time,
}

impl fmt::Display for Limit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Cpu => "cpu_limit",
            Self::Memory => "memory_limit",
            Self::Files => "file_limit",
            Self::Output => "output_limit",
            Self::Time => "time_limit",
        })
    }
}

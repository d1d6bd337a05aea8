//! How well a sandbox contains.

use std::fmt;

/// What holds a guest, weakest first; each has all of those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Namespaces of its own (user, process, network, mount, message, host name, control group), no capability, a list of allowed
    /// system calls, resource limits of each process, and a watch over the tree's memory, CPU time and files.
    Namespaces,
    /// Also Landlock: a second bound of the kernel on files, ports and signals.
    Landlock,
    /// Also a control group: memory, swap and processes of the whole tree are bounded by the kernel.
    Cgroup,
}

impl Level {
    /// The level's name in configuration and grades.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Landlock => "landlock",
            Self::Cgroup => "cgroup",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.label())
    }
}

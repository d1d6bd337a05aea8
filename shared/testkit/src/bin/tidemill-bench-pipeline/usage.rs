//! CPU seconds of processes, from the kernel's own count.

/// The kernel counts in hundredths of a second on every platform that Rust knows Linux on.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU seconds of this process.
pub(crate) fn own() -> f64 {
    seconds("self", [13, 14])
}

/// CPU seconds of the children that have ended.
pub(crate) fn ended_children() -> f64 {
    seconds("self", [15, 16])
}

/// CPU seconds of another process; 0 when it is gone.
pub(crate) fn of(pid: u32) -> f64 {
    seconds(&pid.to_string(), [13, 14])
}

/// The sum of fields of `/proc/PROCESS/stat`, counted from 0.
fn seconds(process: &str, fields: [usize; 2]) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The second field is the program's name in parentheses, which may hold spaces.
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let after_name: Vec<&str> = rest.split_whitespace().collect();
    let ticks = fields.map(|field| after_name.get(field - 2).and_then(|ticks| ticks.parse::<f64>().ok()));
    ticks.into_iter().flatten().sum::<f64>() / TICKS_PER_SECOND
}

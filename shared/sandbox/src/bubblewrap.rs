//! What bubblewrap is told. Its policy is the caller's: this is ours.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use crate::Limits;
use crate::host::{Host, INSIDE, Role, SYSTEM};

/// The descriptor under which it finds the filter of system calls.
pub(crate) const FILTER: i32 = 500;

/// The user and group that a guest believes to be.
pub(crate) const NOBODY: u32 = 65_534;

/// The whole environment of a guest.
pub(crate) const ENVIRONMENT: [(&str, &str); 7] = [
    ("PATH", "/usr/local/bin:/usr/bin:/bin"),
    ("HOME", "/tmp"),
    ("LANG", "C.UTF-8"),
    // A guest has one core's time; threads of number libraries would count against its processes.
    ("OMP_NUM_THREADS", "1"),
    ("OPENBLAS_NUM_THREADS", "1"),
    ("MKL_NUM_THREADS", "1"),
    ("NUMEXPR_NUM_THREADS", "1"),
];

/// Bytes of shared memory, for semaphores.
const SHARED_MEMORY: u64 = 16 << 20;

/// What a guest reads of the host's configuration, where it exists.
const SETTINGS: [&str; 3] = ["/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime"];

#[derive(Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
    fn add<const N: usize>(&mut self, arguments: [&str; N]) {
        self.0.extend(arguments.map(OsString::from));
    }

    fn bind(&mut self, option: &str, path: &Path, inside: &Path) {
        self.add([option]);
        self.0.extend([path.into(), inside.into()]);
    }
}

/// The arguments that run a role's script in a sandbox of its own.
pub(crate) fn arguments(host: &Host, role: Role, limits: &Limits) -> Vec<OsString> {
    let mut arguments = Arguments::default();
    let nobody = NOBODY.to_string();
    arguments.add([
        "--unshare-user",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-ipc",
        "--unshare-uts",
    ]);
    arguments.add([
        "--unshare-cgroup-try",
        "--hostname",
        "sandbox",
        "--uid",
        &nobody,
        "--gid",
        &nobody,
    ]);
    if host.can_forbid_namespaces {
        arguments.add(["--disable-userns"]);
    }
    arguments.add(["--cap-drop", "ALL", "--new-session", "--die-with-parent"]);
    // Before what is bound, some of which may lie below it.
    arguments.add(["--size", &limits.disk_bytes.to_string(), "--tmpfs", "/tmp"]);
    for path in &host.readable {
        arguments.bind("--ro-bind", path, path);
    }
    SYSTEM.iter().for_each(|path| system(&mut arguments, path));
    for path in SETTINGS.map(Path::new) {
        arguments.bind("--ro-bind-try", path, path);
    }
    arguments.bind("--ro-bind", host.files(), Path::new(INSIDE));
    // Every place that can be written has a size: also the roots that bubblewrap makes, which are closed once all is there.
    arguments.add(["--proc", "/proc", "--dev", "/dev"]);
    arguments.add(["--size", &SHARED_MEMORY.to_string(), "--tmpfs", "/dev/shm"]);
    arguments.add(["--remount-ro", "/dev", "--remount-ro", "/"]);
    arguments.add(["--chdir", "/tmp", "--seccomp", &FILTER.to_string(), "--"]);
    arguments.0.push(host.python.clone().into());
    arguments.add(["-I", "-S", "-B", &format!("{INSIDE}/{}.pyc", role.script())]);
    arguments.0
}

/// A folder of the system as it is here: a link, or the folder, or none.
fn system(arguments: &mut Arguments, path: &str) {
    match fs::read_link(path) {
        Ok(target) => {
            arguments.add(["--symlink"]);
            arguments.0.extend([target.into(), path.into()]);
        }
        Err(_) => arguments.bind("--ro-bind-try", Path::new(path), Path::new(path)),
    }
}

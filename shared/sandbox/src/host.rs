//! What this machine has to run a sandbox with: programs, folders, and the files that go into each sandbox.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio::process::Command;

use crate::cgroup::Cgroups;
use crate::{Settings, Unavailable, seccomp};

/// Where a sandbox sees the files of [`Host::files`].
pub(crate) const INSIDE: &str = "/run/tidemill";

const INSTALL: &str = "install bubblewrap 0.8 or newer (Debian: apt-get install bubblewrap)";
const INSTALL_PYTHON: &str = "install Python 3 (Debian: apt-get install python3) or name one by sandbox.python";

/// What a sandboxed process is for; its script has the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Guest,
    Tester,
    Command,
    Probe,
}

impl Role {
    const ALL: [Self; 4] = [Self::Guest, Self::Tester, Self::Command, Self::Probe];

    pub(crate) const fn script(self) -> &'static str {
        match self {
            Self::Guest => "guest",
            Self::Tester => "tester",
            Self::Command => "command",
            Self::Probe => "probe",
        }
    }

    /// The parts of its script, in their order.
    const fn source(self) -> &'static [&'static str] {
        match self {
            Self::Guest => &[include_str!("python/sides.py"), include_str!("python/guest.py")],
            Self::Tester => &[
                include_str!("python/sides.py"),
                include_str!("python/uses.py"),
                include_str!("python/remote.py"),
                include_str!("python/classes.py"),
                include_str!("python/tester.py"),
            ],
            Self::Command => &[include_str!("python/command.py")],
            Self::Probe => &[include_str!("python/probe.py")],
        }
    }
}

#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) bubblewrap: PathBuf,
    pub(crate) python: PathBuf,
    /// Folders of the interpreter's packages, which it would find by itself if it started slower.
    pub(crate) packages: Vec<String>,
    /// Folders that a guest may read, and nothing else of the host.
    pub(crate) readable: Vec<PathBuf>,
    /// Whom to become before anything else; nobody when this is no superuser.
    pub(crate) user: Option<u32>,
    /// Whether namespaces inside can be forbidden by count too.
    pub(crate) can_forbid_namespaces: bool,
    pub(crate) cgroups: Option<Cgroups>,
    /// The probe found that a guest can confine itself.
    pub(crate) has_landlock: bool,
    files: TempDir,
}

impl Host {
    pub(crate) async fn find(settings: &Settings) -> Result<Self, Unavailable> {
        let bubblewrap = program(settings.bubblewrap.as_deref(), "bwrap", INSTALL)?;
        let help = said(Command::new(&bubblewrap).arg("--help"), INSTALL).await?;
        if !help.contains("--size") {
            let reason = format!("{} cannot bound the size of a file system", bubblewrap.display());
            return Err(Unavailable::new(reason, INSTALL));
        }
        let python = program(settings.python.as_deref(), "python3", INSTALL_PYTHON)?;
        let (readable, packages) = folders(&python, settings).await?;
        let files = files().map_err(|error| unwritable(&error))?;
        let host = Self {
            bubblewrap,
            python,
            packages,
            readable,
            user: rustix::process::geteuid().is_root().then_some(settings.user),
            can_forbid_namespaces: help.contains("--disable-userns"),
            cgroups: settings.cgroup.as_deref().map(Cgroups::open).transpose()?,
            has_landlock: false,
            files,
        };
        host.compile().await?;
        Ok(host)
    }

    pub(crate) fn files(&self) -> &Path {
        self.files.path()
    }

    /// The filter of system calls, opened anew: who reads it moves its place.
    pub(crate) fn filter(&self) -> io::Result<fs::File> {
        fs::File::open(self.files.path().join("filter"))
    }

    /// Interpreters start faster from what is compiled.
    async fn compile(&self) -> Result<(), Unavailable> {
        let mut command = Command::new(&self.python);
        command.args(["-I", "-c"]).arg(
            "import py_compile, sys\n\
             for path in sys.argv[1:]: py_compile.compile(path, path + 'c', doraise=True)",
        );
        for role in Role::ALL {
            command.arg(self.files.path().join(format!("{}.py", role.script())));
        }
        said(&mut command, INSTALL_PYTHON).await.map(drop)
    }
}

fn unwritable(error: &io::Error) -> Unavailable {
    Unavailable::new(
        format!("cannot write the files that go into a sandbox: {error}"),
        "make the folder for temporary files (TMPDIR) writable and readable",
    )
}

/// The scripts and the filter, readable by whoever the sandbox runs as.
fn files() -> io::Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("tidemill-sandbox-").tempdir()?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
    let common = [include_str!("python/values.py"), include_str!("python/launch.py")];
    for role in Role::ALL {
        let script = [&common, role.source()].concat().join("\n\n");
        fs::write(folder.path().join(format!("{}.py", role.script())), script)?;
    }
    fs::write(
        folder.path().join("filter"),
        seccomp::filter().map_err(io::Error::other)?,
    )?;
    Ok(folder)
}

/// The program of that name: the one that is configured, or where systems have it, before what a user's shell would find.
fn program(configured: Option<&Path>, name: &str, remedy: &str) -> Result<PathBuf, Unavailable> {
    if let Some(path) = configured {
        return if path.is_absolute() && path.is_file() {
            Ok(path.to_owned())
        } else {
            Err(Unavailable::new(format!("{} is no program", path.display()), remedy))
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/bin", "/usr/local/bin", "/bin"].map(PathBuf::from);
    let mut folders = usual.into_iter().chain(std::env::split_paths(&path));
    let found = folders.find_map(|folder| Some(folder.join(name)).filter(|path| path.is_file()));
    found.ok_or_else(|| Unavailable::new(format!("there is no program {name}"), remedy))
}

/// What a program prints.
async fn said(command: &mut Command, remedy: &str) -> Result<String, Unavailable> {
    let name = command.as_std().get_program().to_string_lossy().into_owned();
    let output = command.stdin(std::process::Stdio::null()).output().await;
    let output = output.map_err(|error| Unavailable::new(format!("{name} does not start: {error}"), remedy))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    let why = why.trim().lines().last().unwrap_or_default();
    Err(Unavailable::new(
        format!("{name} fails ({}): {why}", output.status),
        remedy,
    ))
}

/// The folders that a guest reads, and where the interpreter has packages.
async fn folders(python: &Path, settings: &Settings) -> Result<(Vec<PathBuf>, Vec<String>), Unavailable> {
    let mut command = Command::new(python);
    command.args(["-I", "-c"]).arg(
        "import site, sys\nprint(sys.base_prefix, sys.prefix, sys.executable, *site.getsitepackages(), sep='\\n')",
    );
    let lines = said(&mut command, INSTALL_PYTHON).await?;
    let mut lines = lines.lines().map(str::to_owned);
    let prefixes: Vec<PathBuf> = lines.by_ref().take(2).map(PathBuf::from).collect();
    let executable = lines.next().map(PathBuf::from).unwrap_or_default();
    let packages: Vec<String> = lines.filter(|path| Path::new(path).is_dir()).collect();
    if executable.parent().is_none() || !python.exists() {
        return Err(Unavailable::new(
            format!("{} is no interpreter", python.display()),
            INSTALL_PYTHON,
        ));
    }
    let mut readable = vec![PathBuf::from("/usr")];
    let folder_of_program = python.parent().map(Path::to_owned);
    let wanted = prefixes
        .into_iter()
        .chain(folder_of_program)
        .chain(settings.readable.iter().cloned());
    for path in wanted {
        let is_there = readable.iter().any(|known| path.starts_with(known));
        // Of the root itself, which is the prefix where the interpreter is `/bin/python3`, only what every guest sees.
        if !is_there && path.parent().is_some() && !is_of_the_system(&path) {
            readable.push(path);
        }
    }
    Ok((readable, packages))
}

/// Links into /usr, or what older systems have in their place; a sandbox has them anyway.
pub(crate) const SYSTEM: [&str; 5] = ["/bin", "/sbin", "/lib", "/lib32", "/lib64"];

fn is_of_the_system(path: &Path) -> bool {
    SYSTEM.iter().any(|folder| path.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_is_missed_by_name() {
        let missing = program(Some(Path::new("/nowhere/bwrap")), "bwrap", INSTALL).unwrap_err();
        assert_eq!(
            missing.to_string(),
            format!("no sandbox: /nowhere/bwrap is no program; {INSTALL}")
        );
        let missing = program(None, "no-such-program", INSTALL).unwrap_err();
        assert!(missing.reason.contains("no-such-program"), "{missing}");
        assert!(
            program(Some(Path::new("usr/bin/env")), "env", INSTALL).is_err(),
            "a relative path"
        );
    }
}

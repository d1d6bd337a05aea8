//! What a sandbox looks like from inside, compared with what it should.

use std::collections::BTreeMap;

use crate::bubblewrap::{ENVIRONMENT, NOBODY};
use crate::channel::Received;
use crate::confined::Confined;
use crate::host::{Host, Role};
use crate::{Fault, Limits, Unavailable};

/// What a guest may write to: sized file systems, its own processes, and devices that keep nothing.
const WRITABLE: [&str; 11] = [
    "/tmp",
    "/dev/shm",
    "/proc",
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/pts",
    "/dev/console",
];

/// Set by the interpreter or by bubblewrap.
const HARMLESS: [&str; 2] = ["PWD", "LC_CTYPE"];

const REMEDY: &str = "allow this user namespaces: user.max_user_namespaces above 0 and, where the kernel has them, \
                      kernel.unprivileged_userns_clone=1 and an AppArmor profile with `userns,` for bwrap; in a container also \
                      an unmasked /proc";

/// What the probe found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Of the interpreter.
    pub(crate) python: String,
    /// Of Landlock; 0 without.
    pub(crate) landlock: u32,
}

pub(crate) async fn probe(host: &Host, limits: &Limits) -> Result<Seen, Unavailable> {
    let text = report(host, limits)
        .await
        .map_err(|fault| Unavailable::new(fault.to_string(), REMEDY))?;
    examined(&text).map_err(|why| Unavailable::new(format!("a sandbox does not contain: {why}"), REMEDY))
}

async fn report(host: &Host, limits: &Limits) -> Result<String, Fault> {
    let mut confined = Confined::start(host, Role::Probe, limits, Vec::new()).await?;
    let received = tokio::time::timeout(limits.wall, confined.channel.receive()).await;
    let end = confined.end(received.is_err()).await?;
    match received {
        Ok(Received::Frame(frame)) if frame.first() == Some(&b'P') => Ok(String::from_utf8_lossy(&frame).into_owned()),
        _ => Err(Fault::SetUp(format!("the probe said nothing: {}", end.printed.trim()))),
    }
}

/// Holds a report against what must be: pure.
fn examined(report: &str) -> Result<Seen, String> {
    let mut seen: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let report = report.strip_prefix('P').unwrap_or(report);
    for (name, value) in report.lines().filter_map(|line| line.split_once('=')) {
        seen.entry(name).or_default().push(value);
    }
    let all = |name: &str| seen.get(name).cloned().unwrap_or_default();
    let one = |name: &str| {
        all(name)
            .first()
            .copied()
            .ok_or_else(|| format!("the probe does not say {name}"))
    };
    let number = |name: &str| one(name)?.parse::<u32>().map_err(|error| format!("{name}: {error}"));
    let no_capability = |name: &str| one(name).map(|set| set.bytes().all(|digit| digit == b'0'));
    let claims = [
        (number("uid")? == NOBODY, "the guest is another user"),
        (number("pid")? < 10, "the guest sees the host's processes"),
        (number("socket")? != 0, "the guest can open a network socket"),
        (number("write")? != 0, "the guest can write to the system's folders"),
        (number("descriptors")? == 5, "the guest has open files of the host"),
        (number("status.Seccomp")? == 2, "system calls are not filtered"),
        (number("status.NoNewPrivs")? == 1, "the guest can gain privileges"),
        (no_capability("status.CapEff")?, "the guest has capabilities"),
        (no_capability("status.CapPrm")?, "the guest may have capabilities"),
        (
            all("interface").iter().all(|name| *name == "lo"),
            "the guest has a network",
        ),
    ];
    if let Some((_, what)) = claims.iter().find(|(holds, _)| !holds) {
        return Err((*what).to_owned());
    }
    let known = |name: &&str| ENVIRONMENT.iter().any(|(known, _)| known == name) || HARMLESS.contains(name);
    if let Some(name) = all("environment").iter().find(|name| !known(name)) {
        return Err(format!("the guest reads {name} from the environment"));
    }
    let mounts = all("mount");
    if mounts.is_empty() {
        return Err("the probe does not say what can be written".to_owned());
    }
    if let Some(place) = mounts.iter().find(|place| !WRITABLE.contains(place)) {
        return Err(format!("the guest can write to {place}"));
    }
    Ok(Seen {
        python: one("python")?.to_owned(),
        landlock: number("landlock")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "Plandlock=7\npid=2\nuid=65534\nsocket=38\nwrite=30\ndescriptors=5\npython=3.11.2\nmount=/tmp\nmount=/proc\n\
                        interface=lo\nstatus.Seccomp=2\nstatus.NoNewPrivs=1\nstatus.CapEff=0000\nstatus.CapPrm=0000\n\
                        environment=HOME";

    #[test]
    fn a_sandbox_that_contains_is_taken_and_each_hole_is_named() {
        let seen = examined(GOOD).unwrap();
        assert_eq!((seen.landlock, seen.python.as_str()), (7, "3.11.2"));
        for (from, to, hole) in [
            ("uid=65534", "uid=0", "another user"),
            ("pid=2", "pid=4711", "processes"),
            ("socket=38", "socket=0", "socket"),
            ("write=30", "write=0", "system's folders"),
            ("descriptors=5", "descriptors=6", "open files"),
            ("Seccomp=2", "Seccomp=0", "not filtered"),
            ("NoNewPrivs=1", "NoNewPrivs=0", "privileges"),
            ("CapEff=0000", "CapEff=0100", "has capabilities"),
            ("CapPrm=0000", "CapPrm=0001", "may have capabilities"),
            ("interface=lo", "interface=eth0", "network"),
            ("environment=HOME", "environment=NATS_URL", "NATS_URL"),
            ("mount=/proc", "mount=/", "write to /"),
            ("status.Seccomp=2\n", "", "does not say status.Seccomp"),
        ] {
            let report = GOOD.replace(from, to);
            assert_ne!(report, GOOD, "{from}");
            let why = examined(&report).unwrap_err();
            assert!(why.contains(hole), "{to}: {why}");
        }
        assert!(examined("").is_err());
    }
}

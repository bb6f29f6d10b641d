//! The description of the machine and of the versions, and the processors of servers and clients.

use std::process::Command;
use std::sync::OnceLock;

use chrono::Utc;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::race::Race;

impl Race {
    /// Adds the versions of the system, the compiler and the crates. Returns the machine and all versions as one
    /// paragraph.
    pub(crate) fn describe(&mut self) -> String {
        self.version("Linux", &said_by("uname", &["-r"]));
        self.version("rustc", &said_by("rustc", &["--version"]));
        for name in ["clokwerk", "cron", "mysql", "postgres", "redis", "tokio-cron-scheduler"] {
            let entry = format!("name = \"{name}\"\nversion = \"");
            let (_, version) = include_str!("../../Cargo.lock").split_once(&entry).expect("it is used");
            self.version(&format!("`{name}`"), version.split('"').next().unwrap_or_default());
        }
        let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let mut models = cpus.lines().filter_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
        let model = models.next().unwrap_or("unknown");
        format!(
            "Measured on {} at commit {} by `benches/run --peers`, on {} processors ({model}): one half for the servers, the other \
             half for the clients. Versions: {}.",
            Utc::now().format("%Y-%m-%d"),
            said_by("git", &["describe", "--always", "--dirty", "--abbrev=7"]),
            models.count() + 1,
            self.versions.join(", ")
        )
    }
}

/// Starts a server on one half of the processors, and moves this thread and its children to the other half. So client
/// and server never share a processor, as on two machines. Otherwise the system would choose their processors, and a
/// client that shares a processor with its server needs only a third of the time.
pub(crate) fn apart<S>(start: impl FnOnce() -> S) -> S {
    let all = processors();
    let (clients, servers) = all.split_at(all.len() / 2);
    stay_on(servers);
    let server = start();
    stay_on(if clients.is_empty() { all } else { clients });
    server
}

/// Lets this thread use all processors again.
pub(crate) fn together() {
    stay_on(processors());
}

/// Returns the processors that this process may use.
fn processors() -> &'static [usize] {
    static PROCESSORS: OnceLock<Vec<usize>> = OnceLock::new();
    PROCESSORS.get_or_init(|| {
        let all = sched_getaffinity(None).expect("Linux has this call");
        (0..CpuSet::MAX_CPU).filter(|processor| all.is_set(*processor)).collect()
    })
}

fn stay_on(processors: &[usize]) {
    let mut set = CpuSet::new();
    for processor in processors {
        set.set(*processor);
    }
    sched_setaffinity(None, &set).expect("this process may use them");
}

fn said_by(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).trim().to_owned()
}

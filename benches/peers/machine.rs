//! On what it was measured, and of which versions.

use std::process::Command;

use chrono::Utc;

use crate::race::Race;

impl Race {
    /// Notes the versions of what is the same for all, and tells everything in one paragraph.
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
            "Measured on {} at commit {} by `benches/run --peers`, on {} processors ({model}): {}.",
            Utc::now().format("%Y-%m-%d"),
            said_by("git", &["describe", "--always", "--dirty", "--abbrev=7"]),
            models.count() + 1,
            self.versions.join(", ")
        )
    }
}

fn said_by(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).trim().to_owned()
}

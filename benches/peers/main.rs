//! Compares soloist with its peers, which are other schedulers, and with its floors, which are minimal programs that do
//! only a part of the work. `benches/run --peers` measures all [`KINDS`], and writes the table and the picture of the
//! book. With names of kinds, it measures only these kinds, and prints the results.

use std::path::Path;

mod alternate;
mod file;
mod idle;
mod losers;
mod machine;
mod memory;
mod plot;
mod process;
mod race;
mod raw_redis;
mod redis;
mod resident;
mod sql;
mod table;
mod ticks;

/// The modules of the tests that start real servers.
#[allow(dead_code, unexpected_cfgs)]
#[path = "../../tests/it/servers"]
mod servers {
    mod account;
    pub(crate) mod clock;
    pub(crate) mod mariadb;
    pub(crate) mod postgres;
    mod process;
    pub(crate) mod redis;
    pub(crate) mod resp;
    mod template;
    mod tls;
}

use race::Race;

type Kind = (&'static str, fn(&mut Race));

const KINDS: [Kind; 8] = [
    ("memory", memory::race),
    ("idle", idle::race),
    ("process", process::race),
    ("file", file::race),
    ("redis", redis::race),
    ("losers", losers::race),
    ("sql", sql::race),
    ("resident", resident::race),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["loser", url] => losers::be_one(url),
        ["resident", scheduler, events] => resident::be_one(scheduler, events),
        arguments => measure(arguments),
    }
}

fn measure(arguments: &[&str]) {
    let names: Vec<&str> = arguments.iter().copied().filter(|argument| !argument.starts_with("--")).collect();
    let is_full = arguments.contains(&"--bench");
    let mut race = Race::new(is_full);
    for (_, kind) in KINDS.iter().filter(|(name, _)| names.is_empty() || names.contains(name)) {
        kind(&mut race);
        machine::together();
    }
    let page = table::page(&race.describe(), &race.measured);
    let plot = plot::draw(&race.measured);
    assert!(!plot.contains("\n\n"), "in Markdown, HTML ends at an empty line");
    if is_full && names.is_empty() {
        let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide");
        std::fs::write(guide.join("measured.md"), page).expect("the page can be written");
        std::fs::write(guide.join("measured.svg"), plot).expect("the picture can be written");
    }
}

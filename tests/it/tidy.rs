//! The rules of the house, held against its source.

use std::fs;
use std::path::{Path, PathBuf};

mod house;
mod words;

/// Returns the Rust files under a folder, with their text.
pub(crate) fn sources(under: &str) -> Vec<(PathBuf, String)> {
    files(under, "rs")
}

/// Returns the files of a kind under a folder, with their text.
fn files(under: &str, extension: &str) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let mut folders = vec![root.join(under)];
    while let Some(folder) = folders.pop() {
        for item in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = item.expect("the folder is readable").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == extension) {
                let text = fs::read_to_string(&path).expect("source is text");
                found.push((path.strip_prefix(root).expect("it lies under the root").to_owned(), text));
            }
        }
    }
    assert!(!found.is_empty(), "no .{extension} under {under}");
    found
}

/// Returns the numbered lines of code: no comments, nothing from the unit tests on.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    lines
        .take_while(|(_, line)| !line.starts_with("#[cfg(test)]") && !line.starts_with("#[cfg(all(test"))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
}

#[track_caller]
fn nowhere(what: &str, allowed: impl Fn(&Path) -> bool, wrong: impl Fn(&str) -> bool) {
    for (path, text) in sources("src") {
        for (number, line) in code(&text) {
            assert!(allowed(&path) || !wrong(line), "{what}: {}:{number}: {}", path.display(), line.trim());
        }
    }
}

#[test]
fn only_one_file_reads_a_clock() {
    let reads = ["Utc::now()", "Local::now()", "SystemTime::now()", "Instant::now", "clock_gettime"];
    nowhere(
        "a clock is read",
        |path| path.ends_with("src/time/clock.rs"),
        |line| reads.iter().any(|read| line.contains(read)),
    );
}

#[test]
fn only_one_file_has_unsafe_code() {
    nowhere("unsafe code", |path| path.ends_with("src/base/system.rs"), |line| line.contains("unsafe"));
}

#[test]
fn no_driver_is_named_outside_the_stores() {
    let drivers = ["redis::", "mysql::", "mysql_async", "postgres::", "rustix::fs"];
    nowhere(
        "a driver is named",
        |path| path.starts_with("src/store"),
        // Our own rooms are called after them.
        |line| drivers.iter().any(|driver| line.replace(&format!("store::{driver}"), "").contains(driver)),
    );
}

/// Allows other files to say only that an item needs the feature.
#[test]
fn no_runtime_is_named_outside_the_stores_and_the_files_for_futures() {
    let files = ["task/runtime.rs", "service/as_futures.rs", "renewal_thread/call_permits.rs", "cancellation_token.rs"];
    nowhere(
        "a runtime is named",
        |path| path.starts_with("src/store") || files.iter().any(|file| path.ends_with(file)),
        |line| line.replace("feature = \"tokio\"", "").replace("`tokio`", "").contains("tokio"),
    );
}

#[test]
fn only_one_file_names_tracing() {
    let names = |line: &str| line.contains("tracing::") || line.contains("use tracing");
    nowhere("`tracing` is named", |path| path.ends_with("src/observe/tell/trace.rs"), names);
}

#[test]
fn a_store_sees_names_and_terms_and_never_an_event() {
    let elsewhere = |path: &Path| !path.starts_with("src/store") && !path.starts_with("src/contract");
    // The last is the list of the suite's cases, a macro, which lives at the root of its crate.
    let allowed = ["store", "observe", "outcome", "lease", "time", "base", "contract", "__contract_cases"];
    nowhere("a store imports a room that is not its own", elsewhere, |line| {
        line.replace("$crate::", "")
            .split("crate::")
            .skip(1)
            .any(|rest| !allowed.iter().any(|room| rest.starts_with(room)))
    });
}

#[test]
fn nothing_is_left_undone_or_unwrapped() {
    let marks = ["todo!(", "unimplemented!(", "dbg!(", ".unwrap()", "#[ignore"];
    nowhere("not in code that is shipped", |_| false, |line| marks.iter().any(|mark| line.contains(mark)));
}

/// Searches for `println!` and its like, which panic if standard output or standard error is closed.
#[test]
fn nothing_that_prints_can_panic() {
    // These print for the standard output of tests alone.
    let in_tests = |path: &Path| path.ends_with("contract/check.rs") || path.ends_with("tests.rs");
    let prints = |line: &str| line.contains("print!(") || line.contains("println!(");
    nowhere("it panics if nobody can read it", in_tests, prints);
    for (path, text) in sources("examples") {
        for (number, line) in code(&text) {
            assert!(!line.contains("eprint"), "a failure is told: {}:{number}: {}", path.display(), line.trim());
        }
    }
}

/// Requires an example for a type or one of its methods.
#[test]
fn every_public_type_function_and_macro_has_an_example() {
    let heads = ["pub fn ", "pub const fn ", "pub struct ", "pub enum ", "pub trait ", "pub type ", "macro_rules! "];
    let mut without = Vec::new();
    for (path, text) in sources("src") {
        let mut documentation = String::new();
        let mut macro_is_public = false;
        for (number, line) in text.lines().enumerate().take_while(|(_, line)| *line != "#[cfg(test)]") {
            // Methods are written further to the right.
            if line.starts_with(' ') {
                continue;
            }
            if line.starts_with("///") {
                documentation.push_str(line);
            } else if line.starts_with("#[") || line.starts_with("#![") {
                macro_is_public |= line.contains("macro_export");
                if line.contains("doc(hidden)") {
                    documentation.clear();
                    macro_is_public = false;
                }
            } else {
                let public = heads.iter().any(|head| line.starts_with(head));
                let public = public && (macro_is_public || !line.starts_with("macro_rules!"));
                if public && !documentation.is_empty() && !documentation.contains("```") {
                    without.push(format!("{}:{}: {line}", path.display(), number + 1));
                }
                documentation.clear();
                macro_is_public = false;
            }
        }
    }
    assert!(without.is_empty(), "no example:\n{}", without.join("\n"));
}

#[test]
fn no_example_is_ignored() {
    for (path, text) in sources("src") {
        for (number, line) in text.lines().enumerate() {
            let ignored = line.contains("```ignore") || line.contains("```text,ignore");
            assert!(!ignored, "{}:{}", path.display(), number + 1);
        }
    }
}

/// Which module of these tests holds a store against the behaviour suite.
const SUITES: [(&str, &str); 5] = [
    ("MemoryMutex", "contract::memory"),
    ("FileMutex", "contract::file"),
    ("RedisMutex", "redis::contract::on_a_server"),
    ("MysqlMutex", "sql::contract::on_mariadb"),
    ("PostgresMutex", "sql::contract::on_postgres"),
];

#[cfg(all(feature = "redis", feature = "mysql", feature = "postgres"))]
#[test]
fn every_store_passes_the_whole_suite() {
    let list = std::env::current_exe().and_then(|tests| std::process::Command::new(tests).arg("--list").output());
    let list = String::from_utf8(list.expect("the tests can be listed").stdout).expect("names are text");
    let cases = |suite: &str| -> std::collections::BTreeSet<&str> {
        let cases =
            list.lines().filter_map(|line| line.strip_suffix(": test")?.strip_prefix(suite)?.strip_prefix("::"));
        cases.collect()
    };
    let whole = cases("contract::memory");
    assert!(whole.contains("tokens_rise_over_expiry"), "the suite has other cases than it had: {whole:?}");
    let mut stores = 0;
    for (path, text) in sources("src/store") {
        for (_, line) in code(&text) {
            let Some((_, rest)) = line.split_once("EventMutex for ") else { continue };
            let name: String = rest.chars().take_while(|char| char.is_alphanumeric()).collect();
            // Handles and parts that several stores share are generic or have other names.
            if !name.ends_with("Mutex") || rest[name.len()..].starts_with('<') {
                continue;
            }
            let suite = SUITES.iter().find(|(store, _)| *store == name);
            let (_, suite) = suite.unwrap_or_else(|| panic!("{name} in {} has no suite", path.display()));
            assert_eq!(cases(suite), whole, "the suite of {name}");
            stores += 1;
        }
    }
    assert_eq!(stores, SUITES.len(), "a store that has a suite was not found");
}

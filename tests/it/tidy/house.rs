//! Floors, circles and names: the order of `src` that a newcomer relies on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{code, sources};

/// From the top down. A file imports its own floor and those below it.
const FLOORS: [&str; 13] = [
    "cli", "testing", "schedule", "event", "task", "hold", "contract", "store", "observe", "outcome", "lease", "time",
    "base",
];

/// A file by its module, such as `time::clock`, and the modules of the files that it imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// Returns the module of a file: `src/time/clock.rs` is `time::clock`, and so is `src/time/clock/mod.rs`. `lib.rs`
/// is the empty name.
fn module(path: &Path) -> String {
    let path = path.with_extension("");
    let parts = path.iter().skip(1).filter_map(|part| part.to_str()).filter(|part| !["mod", "lib"].contains(part));
    parts.collect::<Vec<_>>().join("::")
}

/// Returns the line without strings, the part after `//`, and visibilities, which are paths too.
fn bare(line: &str) -> String {
    let line = line.split("//").next().unwrap_or(line).replace("\\\"", "");
    let line = line.split('"').step_by(2).collect::<Vec<_>>().join("\"\"");
    match line.split_once("pub(in ") {
        Some((before, after)) => format!("{before}{}", after.split_once(')').map_or("", |(_, rest)| rest)),
        None => line,
    }
}

/// Returns every path in `text` that begins with one of `heads`, with the braces of a `use` taken apart.
fn paths(text: &str, heads: &BTreeSet<String>) -> Vec<Vec<String>> {
    let is_name = |char: char| char.is_alphanumeric() || char == '_' || char == '$';
    let mut found = Vec::new();
    let (mut rest, mut before) = (text, ' ');
    while let Some(start) = rest.find(is_name) {
        if start > 0 {
            before = rest[..start].chars().next_back().unwrap_or(' ');
        }
        rest = &rest[start..];
        let end = rest.find(|char| !is_name(char)).unwrap_or(rest.len());
        let is_head = heads.contains(&rest[..end]) && before != ':' && rest[end..].starts_with("::");
        if is_head {
            let mut path = vec![rest[..end].to_owned()];
            tree(&rest[end..], &mut path, &mut found);
        }
        before = rest[..end].chars().next_back().unwrap_or(' ');
        rest = &rest[end..];
    }
    found
}

/// Reads `::name`, `::*` or `::{…}` onto `path`, and the paths that end there into `found`. Returns the rest of
/// the text.
fn tree<'a>(text: &'a str, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) -> &'a str {
    let Some(text) = text.strip_prefix("::") else {
        found.push(path.clone());
        return text;
    };
    if let Some(mut text) = text.strip_prefix('{') {
        loop {
            text = text.trim_start_matches(|char: char| char.is_whitespace() || char == ',');
            if let Some(after) = text.strip_prefix('}') {
                return after;
            }
            let end = text.find(|char: char| !char.is_alphanumeric() && char != '_').unwrap_or(text.len());
            path.push(text[..end].to_owned());
            text = tree(&text[end..], path, found);
            path.pop();
            // `as` and a name.
            text = text.find([',', '}']).map_or("", |next| &text[next..]);
        }
    }
    let end = text.find(|char: char| !char.is_alphanumeric() && char != '_').unwrap_or(text.len());
    path.push(text[..end].to_owned());
    let left = tree(&text[end..], path, found);
    path.pop();
    left
}

/// Returns the text of a file without its `pub use` lines, if it is the `mod.rs` of a floor: they hand names out to users.
fn without_public_names(module: &str, text: &str) -> String {
    let parts = text.split("\npub use ").enumerate();
    let rest = parts.map(|(at, part)| part.split_once(';').filter(|_| at > 0).map_or(part, |(_, rest)| rest));
    if module.contains("::") { text.to_owned() } else { rest.collect() }
}

/// Returns the imports of each module. `lib.rs` re-exports names, and has no imports that count.
fn imports(files: &[(String, String)]) -> Imports {
    let modules: BTreeSet<&str> = files.iter().map(|(module, _)| module.as_str()).collect();
    let mut imports = Imports::new();
    for (module, text) in files.iter().filter(|(module, _)| !module.is_empty()) {
        let text = without_public_names(module, text);
        let text: String = code(&text).map(|(_, line)| bare(line) + "\n").collect();
        let children = modules.iter().filter_map(|other| other.strip_prefix(module.as_str())?.strip_prefix("::"));
        let children = children.filter(|child| !child.contains("::")).map(ToOwned::to_owned);
        let heads: BTreeSet<String> = children.chain(["crate", "super", "self"].map(ToOwned::to_owned)).collect();
        let to = imports.entry(module.clone()).or_default();
        for path in paths(&text, &heads) {
            let mut from: Vec<&str> = module.split("::").collect();
            let mut names = path.iter().map(String::as_str).peekable();
            match names.peek() {
                Some(&"crate") => {
                    names.next();
                    from.clear();
                }
                Some(&"self") => {
                    names.next();
                }
                _ => {}
            }
            while names.next_if_eq(&"super").is_some() {
                from.pop();
            }
            from.extend(names);
            // The longest part of the path that is a file.
            let file = (0..=from.len()).rev().map(|count| from[..count].join("::"));
            let file = file.into_iter().find(|file| modules.contains(file.as_str())).unwrap_or_default();
            if file != *module {
                to.insert(file);
            }
        }
    }
    imports
}

fn floor(module: &str) -> Option<usize> {
    let first = module.split("::").next()?;
    FLOORS.iter().position(|floor| *floor == first)
}

fn arrows_up(imports: &Imports) -> Vec<String> {
    let arrows = imports.iter().flat_map(|(from, to)| to.iter().map(move |to| (from, to)));
    let up = arrows.filter(|(from, to)| to.is_empty() || floor(to) < floor(from));
    up.map(|(from, to)| format!("{from} imports {}", if to.is_empty() { "lib.rs" } else { to })).collect()
}

/// Returns the imports among files that import each other in a loop.
fn circles(imports: &Imports) -> Vec<String> {
    let mut found = Vec::new();
    for (from, to) in imports.iter().flat_map(|(from, to)| to.iter().map(move |to| (from, to))) {
        let (mut reached, mut next) = (BTreeSet::new(), vec![to]);
        while let Some(file) = next.pop() {
            if reached.insert(file) {
                next.extend(imports.get(file).into_iter().flatten());
            }
        }
        if reached.contains(from) {
            found.push(format!("{from} imports {to}"));
        }
    }
    found
}

/// Returns the files that are compiled into the library.
fn shipped() -> Vec<(PathBuf, String)> {
    sources("src")
        .into_iter()
        .filter(|(path, _)| !path.ends_with("tests.rs") && !path.ends_with("loom_tests.rs"))
        .collect()
}

fn house() -> Vec<(String, String)> {
    let files = shipped().into_iter();
    files.map(|(path, text)| (module(&path), text)).collect()
}

fn none(found: &[String], what: &str) {
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

#[test]
fn every_file_stands_on_a_floor_and_imports_nothing_from_above() {
    let imports = imports(&house());
    let arrows: usize = imports.values().map(BTreeSet::len).sum();
    assert!(imports.len() > 100 && arrows > 400, "{} files and {arrows} imports were found", imports.len());
    let homeless: Vec<String> = imports.keys().filter(|module| floor(module).is_none()).cloned().collect();
    none(&homeless, "on no floor");
    none(&arrows_up(&imports), "up");
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    none(&circles(&imports(&house())), "circles");
}

#[test]
fn circles_and_arrows_up_are_found() {
    let file = |module: &str, text: &str| (module.to_owned(), text.to_owned());
    let found = |files: &[(String, String)]| {
        let imports = imports(files);
        (arrows_up(&imports), circles(&imports))
    };
    let clock = file("time::clock", "mod manual;\nuse manual::ManualClock;\nuse std::time::Duration;\n");
    let zone = file("time::zone", "// use crate::task::run::Run;\nconst A: &str = \"crate::task::run::Run\";\n");
    let run = file(
        "task::run",
        "use crate::time::{clock::{Clock, Moment}, zone::Zone as Z};\n#[cfg(test)]\nuse crate::Event;\n",
    );
    let below =
        [clock.clone(), zone.clone(), file("time::clock::manual", "use crate::time::zone::Zone;\n"), run.clone()];
    assert_eq!(found(&below), (vec![], vec![]));
    assert_eq!(imports(&below)["task::run"], BTreeSet::from(["time::clock".to_owned(), "time::zone".to_owned()]));
    assert_eq!(imports(&below)["time::clock"], BTreeSet::from(["time::clock::manual".to_owned()]));

    let manual = file("time::clock::manual", "fn at() -> super::Clock {\n");
    let both = ["time::clock imports time::clock::manual", "time::clock::manual imports time::clock"];
    assert_eq!(found(&[clock, zone.clone(), manual, run]), (vec![], both.map(ToOwned::to_owned).to_vec()));

    let tick = file("time::tick", "impl Tick { fn run() -> crate::task::run::Run {} }\nuse crate::Event;\n");
    let root = file("", "pub use task::run::Run;\n");
    let up = ["time::tick imports lib.rs", "time::tick imports task::run"].map(ToOwned::to_owned).to_vec();
    assert_eq!(found(&[tick, zone, file("task::run", ""), root]), (up, vec![]));
}

#[test]
fn the_root_has_the_names_that_most_programs_need() {
    let lib = sources("src").into_iter().find(|(path, _)| path == Path::new("src/lib.rs")).expect("it is there").1;
    let uses = lib.split("\npub use ").skip(1).filter_map(|rest| rest.split_once(';'));
    let count: usize = uses.map(|(names, _)| 1 + names.matches(',').count()).sum();
    assert!(count <= 33, "{count} names at the root: `store`, `observe` and `time` have room");
}

/// Returns the files in a folder, where `foo.rs` and `foo/` are one.
fn entries(folder: &Path) -> BTreeSet<String> {
    let items = std::fs::read_dir(folder).expect("the folder is there").map(|item| item.expect("it can be listed"));
    items.map(|item| item.path().file_stem().expect("a name").to_string_lossy().into_owned()).collect()
}

#[test]
fn each_folder_is_read_at_a_glance() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = sources("src");
    let at_the_top = files.iter().filter(|(path, _)| path.parent() == Some(Path::new("src"))).count();
    assert!(at_the_top <= 4, "{at_the_top} files at the top of src");
    let folders = files.iter().filter_map(|(path, _)| path.parent());
    let folders: BTreeSet<&Path> = folders.collect();
    let counts = folders.iter().map(|folder| (folder, entries(&root.join(folder)).len()));
    let full: Vec<String> = counts
        // In `src` itself: the floors and `lib.rs`.
        .filter(|(folder, count)| *count > if **folder == Path::new("src") { FLOORS.len() + 1 } else { 12 })
        .map(|(folder, count)| format!("{}: {count}", folder.display()))
        .collect();
    none(&full, "more than twelve entries");
    let lost: Vec<String> = files
        .iter()
        .filter(|(path, _)| path.ends_with("mod.rs") && path.iter().count() > 3)
        .map(|(path, _)| path.display().to_string())
        .collect();
    none(&lost, "only the folder of a floor has a mod.rs");
}

/// Returns the store that a file belongs to: these look alike on purpose.
fn sibling(path: &Path) -> Option<&str> {
    let name = path.strip_prefix("src/store").ok()?.iter().next()?.to_str()?;
    let name = name.trim_end_matches(".rs");
    ["file", "memory", "mysql", "postgres", "redis", "server", "sql"].contains(&name).then_some(name)
}

/// Names that occur twice, other than once in each of several sibling stores.
fn twice<'a>(names: impl Iterator<Item = (String, &'a Path)>) -> Vec<String> {
    let mut known: BTreeMap<String, Vec<&Path>> = BTreeMap::new();
    for (name, path) in names {
        known.entry(name).or_default().push(path);
    }
    known.retain(|_, paths| {
        let siblings: BTreeSet<Option<&str>> = paths.iter().map(|path| sibling(path)).collect();
        paths.len() > 1 && (siblings.contains(&None) || siblings.len() < paths.len())
    });
    known.iter().map(|(name, paths)| format!("{name}: {paths:?}")).collect()
}

#[test]
fn a_file_name_occurs_once() {
    let files = sources("src");
    let names = files.iter().filter_map(|(path, _)| Some((path.file_stem()?.to_str()?.to_owned(), path.as_path())));
    none(
        &twice(names.filter(|(name, _)| !["mod", "error", "tests", "loom_tests"].contains(&name.as_str()))),
        "file names",
    );
}

#[test]
fn a_type_name_occurs_once() {
    // Types of one name on Unix and elsewhere.
    const ON_OTHER_PLATFORMS: [&str; 3] = ["Directory", "Inherited", "Leader"];
    let files = shipped();
    let names = files.iter().flat_map(|(path, text)| {
        let types = code(text).filter_map(|(_, line)| {
            let line = line.strip_prefix("pub(crate) ").or(line.strip_prefix("pub(super) ")).unwrap_or(line);
            let line = line.strip_prefix("pub ").unwrap_or(line);
            let rest =
                ["struct ", "enum ", "trait ", "type ", "union "].iter().find_map(|kind| line.strip_prefix(kind))?;
            let name = rest.split(|char: char| !char.is_alphanumeric() && char != '_').next()?;
            (!ON_OTHER_PLATFORMS.contains(&name)).then_some(name)
        });
        types.map(|name| (name.to_owned(), path.as_path()))
    });
    none(&twice(names), "type names");
}

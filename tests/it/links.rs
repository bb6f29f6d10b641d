//! Links: each leads from a page to a file and its heading, or to an item of the documentation.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The documentation of the newest release, and its files.
const ITEMS: &str = "https://docs.rs/soloist/latest/soloist/";
const FILES: &str = "https://docs.rs/crate/soloist/latest/source/";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

#[track_caller]
fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the pages in a folder.
fn pages_in(folder: &str) -> Vec<PathBuf> {
    let items = fs::read_dir(root().join(folder)).expect("the folder is there").map(|item| item.unwrap().path());
    items.filter(|path| path.extension().is_some_and(|kind| kind == "md")).collect()
}

/// Returns the pages that people read.
fn pages() -> Vec<PathBuf> {
    ["", "docs/guide", "examples", "tests"].into_iter().flat_map(pages_in).collect()
}

/// Returns the text without its code blocks and comments.
fn prose(page: &Path) -> String {
    let text = read(page);
    let blocks = text.split("\n```").step_by(2).map(|block| block.split_once('\n').map_or(block, |(_, rest)| rest));
    let first_line = text.lines().next().unwrap_or_default();
    let text = format!("{first_line}\n{}", blocks.collect::<Vec<_>>().join("\n"));
    text.split("-->").map(|part| part.split("<!--").next().unwrap_or_default()).collect()
}

/// Returns the targets of the links in a text.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next())
}

/// Returns the anchors of the headings of a page, as a browser for repositories and mdBook make them.
fn anchors(page: &Path) -> BTreeSet<String> {
    let text = prose(page);
    let headings = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let of_one = |heading: &str| -> String {
        let kept = heading.chars().filter(|char| char.is_alphanumeric() || " -_".contains(*char));
        kept.map(|char| if char == ' ' { '-' } else { char.to_ascii_lowercase() }).collect()
    };
    headings.map(of_one).collect()
}

#[test]
fn every_link_between_pages_leads_to_a_file_and_its_heading() {
    let mut found = 0;
    for page in pages() {
        let text = prose(&page);
        for link in links(&text).filter(|link| !link.contains("://")) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { page.clone() } else { page.parent().unwrap().join(path) };
            assert!(target.exists(), "{} leads to {link}, which is not there", page.display());
            let is_there = anchor.is_empty() || anchors(&target).contains(anchor);
            assert!(is_there, "{} leads to {link}: no such heading", page.display());
            found += 1;
        }
    }
    assert!(found >= 100, "only {found} links were found");
}

/// Builds the documentation with all features, and returns its folder. A warning is an error.
fn document() -> PathBuf {
    let target = env::current_exe().expect("a test has a program").ancestors().nth(3).expect("a folder").to_owned();
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args(["test", "--quiet", "--doc", "--all-features"]).arg("--target-dir").arg(&target);
    cargo.env("RUSTDOC", root().join("tests/it/links/rustdoc.sh")).env("DOCUMENTATION", target.join("doc"));
    // With what cargo tells a test about its package, the build script of `ring` would run again, here and in the next
    // build, and all that depends on it would be compiled again.
    let of_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_str().is_some_and(of_package)) {
        cargo.env_remove(name);
    }
    let output = cargo.current_dir(root()).env("RUSTDOCFLAGS", "-D warnings").output().expect("cargo can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target.join("doc/soloist")
}

#[test]
fn every_link_into_the_documentation_leads_to_an_item() {
    let items = document();
    let source = crate::tidy::sources("src").into_iter().map(|(path, _)| root().join(path));
    let mut found = 0;
    for page in pages().into_iter().chain(source) {
        let text = read(&page);
        // A link with a brace is a pattern of `format!`.
        for link in links(&text).filter(|link| !link.contains('{')) {
            let wrong = if let Some(item) = link.strip_prefix(ITEMS) {
                let (file, anchor) = item.split_once('#').unwrap_or((item, ""));
                let html = fs::read_to_string(items.join(file));
                html.map_or(true, |html| !anchor.is_empty() && !html.contains(&format!("id=\"{anchor}\"")))
            } else if let Some(file) = link.strip_prefix(FILES) {
                !root().join(file).is_file()
            } else {
                continue;
            };
            assert!(!wrong, "{} leads to {link}, which is not there", page.display());
            found += 1;
        }
    }
    assert!(found >= 200, "only {found} links were found");
}

#[test]
fn the_book_has_each_page_once_and_tests_its_code() {
    let summary = read(&root().join("docs/guide/SUMMARY.md"));
    let mut chapters: Vec<&str> = links(&summary).collect();
    chapters.sort_unstable();
    let mut files: Vec<String> =
        pages_in("docs/guide").iter().map(|page| page.file_name().unwrap().to_string_lossy().into_owned()).collect();
    files.retain(|name| name != "SUMMARY.md");
    files.sort_unstable();
    assert_eq!(chapters, files);

    let library = read(&root().join("src/lib.rs"));
    let (_, tested) = library.split_once("    pages! {").expect("it lists the pages whose code is tested");
    let mut tested: Vec<String> =
        tested.split('}').next().unwrap().split_whitespace().map(|name| format!("{name}.md")).collect();
    tested.sort_unstable();
    assert_eq!(tested, files);
}

#[test]
fn every_page_of_the_book_is_complete_as_it_is_seen() {
    for page in pages_in("docs/guide") {
        let text = read(&page);
        assert!(text.starts_with("# "), "{} has no title", page.display());
        for block in text.split("\n```").skip(1).step_by(2) {
            let language = block.lines().next().unwrap_or_default();
            assert!(
                !language.is_empty() && !language.contains("ignore"),
                "{} has code as `{language}`",
                page.display()
            );
            let hidden = block.lines().find(|line| line.trim_start().starts_with("# ") || line.trim() == "#");
            assert!(!language.starts_with("rust") || hidden.is_none(), "{} hides {hidden:?}", page.display());
        }
    }
}

#[test]
fn every_message_that_is_explained_is_in_the_source() {
    let page = read(&root().join("docs/guide/troubleshooting.md"));
    // As they are printed: without the ends of lines in string literals.
    let joined = |text: &str| -> String { text.split("\\\n").map(str::trim_start).collect() };
    let source: String = crate::tidy::sources("src").iter().map(|(_, text)| joined(text)).collect();
    let messages: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("| `")?.split("` | ").next()).collect();
    assert!(messages.len() > 40, "only {} messages were found", messages.len());
    for message in messages {
        for part in message.trim_matches('`').split('…').map(str::trim).filter(|part| part.len() > 2) {
            assert!(source.contains(part), "no message has the text {part:?}");
        }
    }
}

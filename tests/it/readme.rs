//! The first page for a new user is short, and its links are valid.

use std::path::Path;

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_readme_is_one_page() {
    let lines = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).lines().count();
    assert!(lines <= 200, "{lines} lines: move something to the guide");
}

/// Reads the promises of a page: the number of each, and the words in bold letters after it.
fn promises(page: &str) -> Vec<(&str, &str)> {
    let (_, rest) = page.split_once("# Promises\n").expect("it has promises");
    let lines = rest.lines().take_while(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once(". **"))
        .filter_map(|(number, rest)| Some((number, rest.split_once("**")?.0.trim_end_matches('.'))))
        .collect()
}

#[test]
fn a_promise_has_one_number_everywhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (readme, guide) = (read(&root.join("README.md")), read(&root.join("src/guide/promises.md")));
    let listed: Vec<_> = promises(&guide).into_iter().filter(|(number, _)| number.parse::<u32>().is_ok()).collect();
    assert!(
        listed.len() > 10 && listed.iter().zip(1..).all(|((number, _), at)| *number == format!("{at}")),
        "{listed:?}"
    );
    assert_eq!(promises(&readme), listed);
}

#[test]
fn every_link_between_pages_leads_to_a_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let in_folder = |folder| std::fs::read_dir(root.join(folder)).unwrap().map(|page| page.unwrap().path());
    let guide = in_folder("src/guide").chain(in_folder("src/guide/service")).filter(|page| page.is_file());
    let pages = ["README.md", "SECURITY.md", "CHANGELOG.md"].map(|page| root.join(page)).into_iter().chain(guide);
    let mut links = 0;
    for page in pages {
        for rest in read(&page).split("](").skip(1) {
            let link = rest.split([')', '#']).next().unwrap_or_default();
            // `cargo doc` checks links to items, and links to other hosts are not checked.
            if !link.is_empty() && !link.starts_with("crate::") && !link.contains("://") {
                let target = page.parent().unwrap().join(link);
                assert!(target.exists(), "{} leads to {link}, which is not there", page.display());
                links += 1;
            }
        }
    }
    assert!(links >= 15, "only {links} links were found");
}

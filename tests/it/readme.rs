//! The first page for a new user is short, and its links are valid.

use std::path::Path;

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_readme_is_one_page() {
    let lines = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).lines().count();
    assert!(lines <= 160, "{lines} lines: move something to the guide");
}

#[test]
fn the_readme_counts_the_promises_of_the_guide() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (readme, guide) = (read(&root.join("README.md")), read(&root.join("src/guide/promises.md")));
    let (_, promises) = guide.split_once("# Promises\n").expect("it has promises");
    let lines = promises.lines().take_while(|line| !line.starts_with('#'));
    let numbers: Vec<u32> =
        lines.filter_map(|line| line.split_once(". **")).filter_map(|(number, _)| number.parse().ok()).collect();
    assert_eq!(numbers, (1..=17).collect::<Vec<_>>());
    assert!(readme.contains("Seventeen [promises](src/guide/promises.md)"), "its number of promises is another");
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

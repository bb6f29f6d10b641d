//! The first page for a new user is short, and counts the promises.

use std::path::Path;

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_readme_is_one_page() {
    let lines = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).lines().count();
    assert!(lines <= 160, "{lines} lines: move something to the book");
}

#[test]
fn the_readme_counts_the_promises_of_the_guide() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (readme, guide) = (read(&root.join("README.md")), read(&root.join("docs/guide/promises.md")));
    let (_, promises) = guide.split_once("## Promises\n").expect("it has promises");
    let lines = promises.lines().take_while(|line| !line.starts_with('#'));
    let numbers: Vec<u32> =
        lines.filter_map(|line| line.split_once(". **")).filter_map(|(number, _)| number.parse().ok()).collect();
    assert_eq!(numbers, (1..=17).collect::<Vec<_>>());
    assert!(readme.contains("Seventeen [promises](docs/guide/promises.md)"), "its number of promises is another");
}

//! Plain words: comments and pages may not become harder to read. The counts in `ceilings.txt` only fall.

use std::collections::BTreeMap;
use std::path::Path;

use super::files;

/// The first words that a function's documentation may have. Add a verb that is missing.
const VERBS: &str = include_str!("verbs.txt");

/// The first words that a type's documentation may not have.
const PRONOUNS: &str =
    "What Who Whose Whom Whether Which How Why When Where Whoever Whatever That Those This These It They One";

/// Words and phrases in the place of a noun.
const FILLERS: [&str; 6] = ["whoever", "somebody", "nobody", "what is", "one that", "of which"];

/// Words that follow `the same` if it has no noun of its own.
const AFTER_THE_SAME: &str = "and as but by for in is of on when where with";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rule {
    FunctionWithoutVerb,
    TypeWithPronoun,
    Filler,
}

use Rule::{Filler, FunctionWithoutVerb, TypeWithPronoun};

const RULES: [Rule; 3] = [FunctionWithoutVerb, TypeWithPronoun, Filler];

/// A comment, or a paragraph of a page.
struct Passage<'a> {
    line: usize,
    text: String,
    /// The line of code that the passage documents.
    item: Option<&'a str>,
}

/// Returns the comments of a Rust file.
fn comments(source: &str) -> Vec<Passage<'_>> {
    let kind = |line: &str| ["///", "//!", "//"].into_iter().find(|mark| line.starts_with(mark));
    let is_attribute = |line: &str| line.starts_with("#[") || line.ends_with(")]");
    let lines: Vec<&str> = source.lines().map(str::trim_start).collect();
    let mut found = Vec::new();
    let mut at = 0;
    for block in lines.chunk_by(|line, next| kind(line) == kind(next)) {
        let behind = &lines[at + block.len()..];
        if let Some(mark) = kind(block[0]) {
            let text = prose(block.iter().map(|line| line[mark.len()..].trim()));
            let item = behind.iter().find(|line| !is_attribute(line)).filter(|_| mark == "///").copied();
            found.push(Passage { line: at + 1, text, item });
        }
        at += block.len();
    }
    found
}

/// Returns the paragraphs of a Markdown page.
fn paragraphs(page: &str) -> Vec<Passage<'_>> {
    let lines: Vec<&str> = page.lines().collect();
    let mut in_code = false;
    let mut at = 0;
    let mut found = Vec::new();
    for block in lines.chunk_by(|line, next| {
        in_code ^= line.starts_with("```");
        in_code || !(line.is_empty() || next.is_empty())
    }) {
        found.push(Passage { line: at + 1, text: prose(block.iter().copied()), item: None });
        at += block.len();
    }
    found
}

/// Joins lines, without their code blocks and tables.
fn prose<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let mut in_code = false;
    let text = lines.filter(|line| {
        let is_fence = line.starts_with("```");
        in_code ^= is_fence;
        !(in_code || is_fence || line.starts_with('|'))
    });
    text.collect::<Vec<_>>().join(" ")
}

/// Splits prose into lower-case words and punctuation. Code in backticks is one word.
fn words(text: &str) -> Vec<String> {
    let is_mark = |char: char| !char.is_alphanumeric();
    let mut found = Vec::new();
    for (at, part) in text.split('`').enumerate() {
        if at % 2 == 1 {
            found.push("code".to_owned());
            continue;
        }
        for piece in part.split_whitespace() {
            let word = piece.trim_end_matches(is_mark);
            let mark = &piece[word.len()..];
            let texts = [word.trim_start_matches(is_mark).to_lowercase(), mark.to_owned()];
            found.extend(texts.into_iter().filter(|text| !text.is_empty()));
        }
    }
    found
}

/// Counts the fillers of a text, and each `the same` without a noun.
fn fillers(text: &str) -> usize {
    let words = words(text);
    let begins_at = |at: usize, phrase: &str| {
        phrase.split(' ').enumerate().all(|(i, part)| words.get(at + i).is_some_and(|word| word == part))
    };
    let lacks_a_noun = |at: usize| {
        let next = words.get(at + 2).map_or("", String::as_str);
        let is_word = next.starts_with(char::is_alphanumeric);
        begins_at(at, "the same") && (!is_word || AFTER_THE_SAME.split(' ').any(|word| word == next))
    };
    let phrases = (0..words.len()).map(|at| FILLERS.iter().filter(|phrase| begins_at(at, phrase)).count());
    phrases.sum::<usize>() + (0..words.len()).filter(|at| lacks_a_noun(*at)).count()
}

/// Returns whether the line of code declares one of these kinds of items.
fn declares(line: &str, kinds: &[&str]) -> bool {
    let modifiers = ["pub", "crate)", "super)", "default", "const", "async", "unsafe"];
    let mut words = line.split([' ', '(']).skip_while(|word| modifiers.contains(word) || word.ends_with(')'));
    words.next().is_some_and(|word| kinds.contains(&word))
}

/// Returns the rules that a passage breaks, a rule as often as it is broken.
fn broken_rules(passage: &Passage<'_>) -> Vec<Rule> {
    let mut words = passage.text.split(|char: char| !char.is_alphanumeric() && char != '\'');
    let first = words.find(|word| !word.is_empty()).unwrap_or_default();
    let is_in = |list: &str| list.split_whitespace().any(|word| word == first);
    let documents = |kinds: &[&str]| passage.item.is_some_and(|line| declares(line, kinds));
    let mut broken = vec![Filler; fillers(&passage.text)];
    if documents(&["fn"]) && !is_in(VERBS) {
        broken.push(FunctionWithoutVerb);
    }
    if documents(&["struct", "enum", "trait", "type", "union"]) && is_in(PRONOUNS) {
        broken.push(TypeWithPronoun);
    }
    broken
}

/// Returns each rule that a file breaks, and where.
fn findings(path: &Path, text: &str) -> Vec<(Rule, String)> {
    let is_page = path.extension().is_some_and(|kind| kind == "md");
    let passages = if is_page { paragraphs(text) } else { comments(text) };
    let found = passages.iter().flat_map(|passage| {
        let start: String = passage.text.chars().take(100).collect();
        let place = format!("{}:{}: {start}", path.display(), passage.line);
        broken_rules(passage).into_iter().map(move |rule| (rule, place.clone()))
    });
    found.collect()
}

/// Returns the room of a file, which shares its ceilings: a floor of `src`, another folder, or the pages.
fn room(path: &Path) -> String {
    let is_page = path.extension().is_some_and(|kind| kind == "md");
    let mut folders = path.parent().into_iter().flatten().filter_map(|part| part.to_str());
    match (folders.next(), folders.next()) {
        _ if is_page => "pages".to_owned(),
        (Some("src"), Some(floor)) => format!("src/{floor}"),
        (Some(folder), _) => folder.to_owned(),
        (None, _) => ".".to_owned(),
    }
}

/// Returns the findings of the whole project, by room.
fn findings_by_room() -> BTreeMap<String, Vec<(Rule, String)>> {
    let rust = ["src", "tests", "examples", "benches"].into_iter().flat_map(|folder| files(folder, "rs"));
    let pages = ["docs", "examples", "tests"].into_iter().flat_map(|folder| files(folder, "md"));
    let at_the_top = ["README.md", "CHANGELOG.md", "SECURITY.md"].map(|name| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        (name.into(), std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}")))
    });
    let mut rooms: BTreeMap<String, Vec<(Rule, String)>> = BTreeMap::new();
    for (path, text) in rust.chain(pages).chain(at_the_top) {
        rooms.entry(room(&path)).or_default().extend(findings(&path, &text));
    }
    rooms
}

/// Reads `ceilings.txt`: a line for each room, with the count that it may not exceed for each of [`RULES`].
fn ceilings() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tidy/ceilings.txt");
    std::fs::read_to_string(path).expect("the ceilings are there")
}

#[test]
fn no_text_gets_harder_to_read() {
    let ceilings = ceilings();
    let count = |(room, findings): (String, Vec<(Rule, String)>)| {
        let line = ceilings.lines().find_map(|line| line.strip_prefix(&room)?.strip_prefix(' '));
        let mut allowed = line.unwrap_or_default().split(' ').map(|count| count.parse().unwrap_or(0));
        let counts = RULES.map(|rule| {
            let places = findings.iter().filter(|(broken, _)| *broken == rule).map(|(_, place)| place.as_str());
            let places: Vec<&str> = places.collect();
            let (count, ceiling) = (places.len(), allowed.next().unwrap_or(0));
            assert!(count <= ceiling, "{room}: {count} × {rule:?}, at most {ceiling}:\n{}", places.join("\n"));
            count.to_string()
        });
        format!("{room} {}\n", counts.join(" "))
    };
    let counted: String = findings_by_room().into_iter().map(count).collect();
    assert!(ceilings == counted, "plainer than before: ceilings.txt has these counts from now on:\n{counted}");
}

#[test]
fn each_rule_finds_the_comment_that_breaks_it() {
    let source = [
        "/// Whether the thing is that of whoever asked.",
        "#[must_use]",
        "pub(crate) const fn is_own() {}",
        "/// What is held,",
        "/// and the same.",
        "struct Holding;",
        "// Of two leases, one that ended; `nobody` is a name, and the same lease has a noun.",
        "/// Returns a lease.",
        "/// ```",
        "/// // whoever",
        "/// ```",
        "fn lease() {}",
        "/// A lease.",
        "pub enum Lease {}",
    ]
    .join("\n");
    let rules = |path: &str, text: &str| -> Vec<Rule> {
        findings(Path::new(path), text).into_iter().map(|(rule, _)| rule).collect()
    };
    let expected = [Filler, FunctionWithoutVerb, Filler, Filler, TypeWithPronoun, Filler];
    assert_eq!(rules("src/hold/lease.rs", &source), expected);
    assert_eq!(
        rules("README.md", "A lease\nof\nwhich\n\n```rust\nnobody\n\nnobody\n```\n\nOne\nthat"),
        [Filler, Filler]
    );
    assert_eq!(rules("src/hold/lease.rs", "/// The lease.\nstruct Lease;\n/// Takes it.\nfn take() {}\n"), []);
}

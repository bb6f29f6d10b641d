//! Suggests known names for a mistyped name.

use super::escape::Quoted;

/// The number of characters that are compared, from the beginning of a name.
const COMPARED: usize = 100;

/// The largest number of suggestions.
const SUGGESTED: usize = 3;

/// Returns the known names that are most similar to `typed`: names that differ in few characters, or that contain
/// `typed`.
pub(crate) fn similar<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let typed = letters(typed);
    let mut near: Vec<(usize, &str)> = known
        .filter_map(|name| {
            let letters = letters(name);
            let distance = distance(&typed, &letters);
            let shorter = typed.len().min(letters.len());
            let longer = typed.len().max(letters.len());
            let is_near = distance <= longer.div_ceil(4) && distance < shorter;
            let is_part = typed.len() >= 3 && letters.windows(typed.len()).any(|part| part == typed);
            (is_near || is_part).then_some((distance, name))
        })
        .collect();
    near.sort_by_key(|(distance, _)| *distance);
    if near.first().is_some_and(|(distance, _)| *distance == 0) {
        near.truncate(1); // The best name differs only in upper and lower case.
    }
    near.into_iter().take(SUGGESTED).map(|(_, name)| name).collect()
}

/// Returns a question for the end of a message, as in ``did you mean `import`?``. Returns `None` if no known name is
/// similar.
pub(crate) fn did_you_mean<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let similar = quoted(similar(typed, known), "or");
    (!similar.is_empty()).then(|| format!("did you mean {similar}?"))
}

/// Lists names: `` `a`, `b` or `c` ``.
pub(crate) fn quoted(names: Vec<&str>, last: &str) -> String {
    list(names.into_iter().map(|name| Quoted::new(name).to_string()), last)
}

/// Lists words: `a`, `a and b`, `a, b and c`. `last` is the word in front of the last of them.
pub(crate) fn list(words: impl IntoIterator<Item = String>, last: &str) -> String {
    let mut words: Vec<String> = words.into_iter().collect();
    let end = words.pop().unwrap_or_default();
    if words.is_empty() { end } else { format!("{} {last} {end}", words.join(", ")) }
}

/// Returns whether two names differ in one letter, or in the order of their letters. Upper and lower case, and spaces
/// and underscores, make no difference.
pub(crate) fn differs_by_a_letter(one: &str, other: &str) -> bool {
    let underscored = |letter: char| if letter == ' ' { '_' } else { letter };
    let [mut one, mut other] = [one, other].map(|name| letters(name).into_iter().map(underscored).collect::<Vec<_>>());
    let is_near = distance(&one, &other) <= 1 && one.len() > 1;
    one.sort_unstable();
    other.sort_unstable();
    is_near || one == other
}

fn letters(name: &str) -> Vec<char> {
    name.chars().take(COMPARED).flat_map(char::to_lowercase).collect()
}

/// Returns how many characters must be inserted, removed or replaced to turn one name into the other.
fn distance(one: &[char], other: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (place, other) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != other);
            diagonal = row[place + 1];
            row[place + 1] = replaced.min(diagonal + 1).min(row[place] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_name_is_near_to_the_one_that_is_meant() {
        let known = ["import", "export", "db:backup", "reports:generate", "a"];
        let similar = |typed| similar(typed, known.into_iter());
        assert_eq!(similar("imprt"), ["import"]);
        assert_eq!(similar("Import"), ["import"]);
        assert_eq!(similar("ipmort"), ["import"]);
        assert_eq!(similar("backup"), ["db:backup"]);
        assert_eq!(similar("report:generate"), ["reports:generate"]);
        assert_eq!(similar("xport"), ["export", "import"]);
        assert!(["b", "clean-up", ""].into_iter().all(|typed| similar(typed).is_empty()));
    }
}

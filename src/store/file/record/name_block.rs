//! How a record begins: the block that names the format and the mutex, and what another beginning means.

use super::sealed_block::{FRAME, escaped, unescaped, unsealed, write_sealed};
use super::state::STATE_LEN;
use crate::lease::name::MutexName;

/// The format, with which every record begins.
pub(super) const MAGIC: &str = "soloist-mutex v1\n";

/// Blocks that hold a name are a multiple of this long.
const NAME_GRAIN: usize = 256;

/// The longest name block there is, and the state behind it. An escaped name has at most six bytes a character.
pub(super) const HEADER_MAX: usize =
    (MAGIC.len() + "name \n".len() + MutexName::MAX_CHARS * 6 + FRAME).next_multiple_of(NAME_GRAIN) + STATE_LEN;

/// The first block: the format and the full name, written once.
pub(super) fn name_block(name: &str) -> Vec<u8> {
    let text = format!("{MAGIC}name {}\n", escaped(name));
    let mut bytes = vec![0; (text.len() + FRAME).next_multiple_of(NAME_GRAIN)];
    write_sealed(&mut bytes, &text, b'\n');
    bytes
}

/// Whose record a file is, judged by its beginning.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NameCheck<'a> {
    /// The record of the name that was expected.
    Ours,
    /// Our name block, or the space for it, of which not all was written.
    Torn,
    /// The whole record of this other name.
    Another(&'a str),
    /// Not a record, or one of another format.
    Foreign,
}

/// Judges what was read of the first [`HEADER_MAX`] bytes of a file whose name block should be `expected`.
pub(super) fn check_name<'a>(header: &'a [u8], expected: &[u8]) -> NameCheck<'a> {
    if header.starts_with(expected) {
        return NameCheck::Ours;
    }
    let begun = &header[..header.len().min(MAGIC.len())];
    if !MAGIC.as_bytes().starts_with(begun) {
        return if header.iter().all(|byte| *byte == 0) { NameCheck::Torn } else { NameCheck::Foreign };
    }
    written_name(header).map_or(NameCheck::Torn, NameCheck::Another)
}

/// The name of the mutex whose record begins so, if its name block is whole.
pub(super) fn name_in(header: &[u8]) -> Option<MutexName> {
    MutexName::lease(unescaped(written_name(header)?)?).ok()
}

/// The name, escaped.
fn written_name(header: &[u8]) -> Option<&str> {
    let whole = (NAME_GRAIN..=header.len()).step_by(NAME_GRAIN).find_map(|len| unsealed(&header[..len]));
    whole?.strip_prefix(MAGIC)?.strip_prefix("name ")?.lines().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_says_its_name() {
        for name in ["reports", "50 %\n\u{85}reports ", "%", " \0", &"\u{85}".repeat(512)] {
            let name = MutexName::lease(name).unwrap();
            let block = name_block(name.mutex());
            assert_eq!(name_in(&[&block[..], &[b'x'; 300]].concat()), Some(name));
            assert_eq!(name_in(&block[..block.len() - 1]), None);
        }
        assert_eq!(name_in(b"root:x:0:0"), None);
    }

    #[test]
    fn the_beginning_of_a_file_tells_whose_it_is() {
        let ours = name_block("reports");
        let long = name_block(&"\u{85}".repeat(512));
        assert!(long.len() + STATE_LEN <= HEADER_MAX);
        assert_eq!(check_name(&ours, &ours), NameCheck::Ours);
        assert_eq!(check_name(&long, &ours), NameCheck::Another(&"%C2%85".repeat(512)));
        assert_eq!(check_name(&ours, &long), NameCheck::Another("reports"));
        for len in 0..ours.len() {
            assert_eq!(check_name(&ours[..len], &ours), NameCheck::Torn, "{len}");
        }
        assert_eq!(check_name(&[0; 768], &ours), NameCheck::Torn);
        assert_eq!(check_name(b"root:x:0:0", &ours), NameCheck::Foreign);
        assert_eq!(check_name(b"soloist-mutex v2\nname reports\n", &ours), NameCheck::Foreign);
        let zeros_first = [&[0; 700][..], b"an image of a disk"].concat();
        assert_eq!(check_name(&zeros_first, &ours), NameCheck::Foreign);
    }
}

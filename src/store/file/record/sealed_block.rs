//! Blocks of text with a checksum, as the parts of a record are written, and the texts of names and times in them.

use chrono::{DateTime, Datelike, SecondsFormat, Timelike, Utc};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The last line of a block: `crc32 1a2b3c4d`, over all that stands before it.
const SEAL_LEN: usize = "crc32 00000000\n".len();

/// How many bytes of a block are not for text: the seal, and one that ends the text.
pub(super) const FRAME: usize = SEAL_LEN + 1;

/// Fills a block with the text, then spaces, `end` and the seal. What does not fit is left out at the end.
pub(super) fn write_sealed(block: &mut [u8], text: &str, end: u8) {
    let (body, seal) = block.split_at_mut(block.len() - SEAL_LEN);
    let text = clipped(text, body.len() - 1);
    body.fill(b' ');
    body[..text.len()].copy_from_slice(text.as_bytes());
    body[body.len() - 1] = end;
    seal.copy_from_slice(seal_of(body).as_bytes());
}

/// The text of a block whose seal is whole.
pub(super) fn unsealed(block: &[u8]) -> Option<&str> {
    let (text, seal) = block.split_at_checked(block.len().checked_sub(SEAL_LEN)?)?;
    if seal == seal_of(text).as_bytes() { str::from_utf8(text).ok() } else { None }
}

fn seal_of(text: &[u8]) -> String {
    format!("crc32 {:08x}\n", crc32fast::hash(text))
}

/// The first characters of `text`, at most `bytes` long.
pub(super) fn clipped(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// `text` on one line: control characters and `%` become the `%XX` of their bytes.
pub(super) fn escaped(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for char in text.chars() {
        if char == '%' || char.is_control() {
            line.extend(utf8_percent_encode(char.encode_utf8(&mut [0; 4]), NON_ALPHANUMERIC));
        } else {
            line.push(char);
        }
    }
    line
}

/// The text of an [`escaped`] one.
pub(super) fn unescaped(line: &str) -> Option<String> {
    let text = percent_decode_str(line).decode_utf8().ok()?;
    // Other ways to write a text are not ours.
    (escaped(&text) == line).then(|| text.into_owned())
}

/// A time as RFC 3339 writes it, always as wide, so that texts compare as their times do.
pub(super) fn stamp(time: DateTime<Utc>) -> String {
    match time.year() {
        ..0 => "0000-01-01T00:00:00.000000000Z".to_owned(),
        10_000.. => "9999-12-31T23:59:59.999999999Z".to_owned(),
        _ => {
            // A leap second is the last of its minute.
            let nanos = time.nanosecond().min(999_999_999);
            time.with_nanosecond(nanos).unwrap_or(time).to_rfc3339_opts(SecondsFormat::Nanos, true)
        }
    }
}

/// The time, or `-`.
pub(super) fn stamp_or_none(time: Option<DateTime<Utc>>) -> String {
    time.map_or_else(|| "-".to_owned(), stamp)
}

pub(super) fn parse_stamp(text: &str) -> Option<DateTime<Utc>> {
    let time = DateTime::parse_from_rfc3339(text).ok()?.to_utc();
    // Other ways to write a time are not ours.
    (stamp(time) == text).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_back_to_the_nanosecond_and_keeps_its_width() {
        for nanos in [0, 1, 1_772_366_400_123_456_789, -1, i64::MIN, i64::MAX] {
            let time = DateTime::from_timestamp_nanos(nanos);
            let text = stamp(time);
            assert_eq!(text.len(), 30);
            assert_eq!(parse_stamp(&text), Some(time), "{text}");
        }
        assert_eq!(stamp(DateTime::<Utc>::MAX_UTC), "9999-12-31T23:59:59.999999999Z");
        assert_eq!(stamp(DateTime::<Utc>::MIN_UTC), "0000-01-01T00:00:00.000000000Z");
        let leap_second = DateTime::from_timestamp(1_483_228_799, 1_500_000_000).unwrap();
        assert_eq!(stamp(leap_second), "2016-12-31T23:59:59.999999999Z");
    }

    #[test]
    fn what_is_not_a_time_is_not_read_as_one() {
        let text = "2026-03-01T12:00:00.000000000Z";
        assert!(parse_stamp(text).is_some());
        for wrong in ["", &text[..29], &format!("{text} "), &text.replace('T', " "), &text.replacen("03", "13", 1)] {
            assert_eq!(parse_stamp(wrong), None, "{wrong}");
        }
        assert_eq!(parse_stamp(&text.replacen("12", "+2", 1)), None);
    }

    #[test]
    fn an_escaped_text_stays_on_its_line() {
        assert_eq!(escaped("db:backup {1}/é 😀"), "db:backup {1}/é 😀");
        assert_eq!(escaped("a\0b\nc%41\u{85}\x7f"), "a%00b%0Ac%2541%C2%85%7F");
        assert_eq!(unescaped("a%00b%0Ac%2541%C2%85%7F").unwrap(), "a\0b\nc%41\u{85}\x7f");
        for foreign in ["%", "%4", "%xx", "%é", "%C2"] {
            assert_eq!(unescaped(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn a_block_is_sealed_whatever_was_left_out_of_it_and_any_flipped_bit_breaks_the_seal() {
        let mut bytes = [0; 64];
        write_sealed(&mut bytes, &"é".repeat(100), b'\n');
        assert_eq!(unsealed(&bytes), Some(&*format!("{}\n", "é".repeat(24))));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(unsealed(&flipped), None, "bit {bit}");
        }
        assert_eq!(unsealed(&[]), None);
        assert_eq!(unsealed(&bytes[..SEAL_LEN]), None);
    }
}

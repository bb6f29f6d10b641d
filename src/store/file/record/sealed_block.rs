//! How things are written in a record: sealed blocks, escaped names, times of one width.

use std::borrow::Cow;
use std::fmt::{self, Write};

use chrono::{DateTime, Datelike, NaiveDate, Timelike, Utc};

/// The last line of a block: `crc32 1a2b3c4d`, over all that stands before it.
const SEAL_LEN: usize = "crc32 00000000\n".len();

/// A block of fixed length that is being written: text, then spaces, then the seal.
///
/// What does not fit is left out at the end.
pub(in crate::store::file) struct SealedBlock<'a> {
    text: &'a mut [u8],
    seal: &'a mut [u8],
    len: usize,
}

impl<'a> SealedBlock<'a> {
    /// How many bytes are not for text: the seal, and one that ends the text.
    pub(in crate::store::file) const FRAME: usize = SEAL_LEN + 1;

    pub(in crate::store::file) fn new(bytes: &'a mut [u8]) -> Self {
        let (text, seal) = bytes.split_at_mut(bytes.len() - SEAL_LEN);
        Self { text, seal, len: 0 }
    }

    /// Fills up with spaces and `end`, and seals.
    pub(in crate::store::file) fn seal(self, end: u8) {
        let Self { text, seal, len } = self;
        text[len..].fill(b' ');
        text[text.len() - 1] = end;
        seal.copy_from_slice(&seal_of(text));
    }

    pub(in crate::store::file) fn text(&mut self, text: &str) -> &mut Self {
        self.ascii(clipped(text, self.room()).as_bytes())
    }

    pub(in crate::store::file) fn number(&mut self, number: impl Into<u64>) -> &mut Self {
        let (number, mut digits) = (number.into(), [0; 20]);
        let width = number.checked_ilog10().map_or(1, |log| log as usize + 1);
        put_digits::<10>(&mut digits[..width], number);
        self.ascii(&digits[..width])
    }

    /// A number of 20 digits, so that texts compare as their numbers do.
    pub(in crate::store::file) fn wide_number(&mut self, number: u64) -> &mut Self {
        let mut digits = [0; 20];
        put_digits::<10>(&mut digits, number);
        self.ascii(&digits)
    }

    pub(in crate::store::file) fn time(&mut self, time: DateTime<Utc>) -> &mut Self {
        self.ascii(&stamp(time))
    }

    /// Text that can be cut anywhere.
    fn ascii(&mut self, text: &[u8]) -> &mut Self {
        let text = &text[..text.len().min(self.room())];
        let end = self.len + text.len();
        self.text[self.len..end].copy_from_slice(text);
        self.len = end;
        self
    }

    fn room(&self) -> usize {
        self.text.len() - 1 - self.len
    }
}

impl Write for SealedBlock<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.text(text);
        Ok(())
    }
}

/// The text of a block whose seal is whole.
pub(in crate::store::file) fn unsealed(block: &[u8]) -> Option<&str> {
    let (text, seal) = block.split_at_checked(block.len().checked_sub(SEAL_LEN)?)?;
    if *seal == seal_of(text) { std::str::from_utf8(text).ok() } else { None }
}

fn seal_of(text: &[u8]) -> [u8; SEAL_LEN] {
    let mut seal = *b"crc32 00000000\n";
    put_digits::<16>(&mut seal["crc32 ".len()..SEAL_LEN - 1], crc32fast::hash(text).into());
    seal
}

/// The first characters of `text`, at most `bytes` long.
pub(in crate::store::file) fn clipped(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// `text` on one line: control characters and `%` become the `%XX` of their bytes.
pub(in crate::store::file) fn escaped(text: &str) -> Cow<'_, str> {
    let special = |char: char| char == '%' || char.is_control();
    if !text.contains(special) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        if special(char) {
            for byte in char.encode_utf8(&mut [0; 4]).bytes() {
                let _ = write!(line, "%{byte:02X}");
            }
        } else {
            line.push(char);
        }
    }
    Cow::Owned(line)
}

/// A time as RFC 3339 writes it, always as wide, so that texts compare as their times do.
type Stamp = [u8; "2026-03-01T12:00:00.000000000Z".len()];

// WrittenClaim by hand, as two go with each grant and the formatter takes its time with padded numbers.
pub(in crate::store::file) fn stamp(time: DateTime<Utc>) -> Stamp {
    let mut text = *b"0000-01-01T00:00:00.000000000Z";
    match time.year() {
        ..0 => {}
        10_000.. => text = *b"9999-12-31T23:59:59.999999999Z",
        year => {
            let mut put = |from: usize, to: usize, number: u32| put_digits::<10>(&mut text[from..to], number.into());
            put(0, 4, year.unsigned_abs());
            put(5, 7, time.month());
            put(8, 10, time.day());
            put(11, 13, time.hour());
            put(14, 16, time.minute());
            put(17, 19, time.second());
            // A leap second is the last of its minute.
            put(20, 29, time.nanosecond().min(999_999_999));
        }
    }
    text
}

pub(in crate::store::file) fn parse_stamp(text: &str) -> Option<DateTime<Utc>> {
    let part = |from: usize, to: usize, end: u8| {
        let digits = text.get(from..to)?;
        let whole = digits.bytes().all(|byte| byte.is_ascii_digit()) && text.as_bytes().get(to) == Some(&end);
        if whole { digits.parse::<u32>().ok() } else { None }
    };
    let year = i32::try_from(part(0, 4, b'-')?).ok()?;
    let day = NaiveDate::from_ymd_opt(year, part(5, 7, b'-')?, part(8, 10, b'T')?)?;
    let nanos = part(20, 29, b'Z')?;
    let time = day.and_hms_nano_opt(part(11, 13, b':')?, part(14, 16, b':')?, part(17, 19, b'.')?, nanos)?;
    if text.len() == size_of::<Stamp>() { Some(time.and_utc()) } else { None }
}

/// Fills the columns from the right, with the digits of `number` and zeros before them.
fn put_digits<const BASE: u64>(columns: &mut [u8], mut number: u64) {
    for column in columns.iter_mut().rev() {
        // The remainder is below the base, which fits into a byte and has a digit for it.
        let digit = u8::try_from(number % BASE).unwrap_or_default();
        *column = if digit < 10 { b'0' + digit } else { b'a' + digit - 10 };
        number /= BASE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(time: DateTime<Utc>) -> String {
        String::from_utf8(stamp(time).to_vec()).unwrap()
    }

    #[test]
    fn a_time_is_read_back_to_the_nanosecond_and_keeps_its_width() {
        for nanos in [0, 1, 1_772_366_400_123_456_789, -1, i64::MIN, i64::MAX] {
            let time = DateTime::from_timestamp_nanos(nanos);
            let text = text_of(time);
            assert_eq!(text.len(), 30);
            assert_eq!(parse_stamp(&text), Some(time), "{text}");
        }
        assert_eq!(text_of(DateTime::<Utc>::MAX_UTC).len(), 30);
        assert_eq!(text_of(DateTime::<Utc>::MIN_UTC).len(), 30);
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
    fn a_number_is_as_wide_as_it_needs_or_as_all_are() {
        let mut bytes = [0; 128];
        let mut block = SealedBlock::new(&mut bytes);
        block.number(0_u32).text(" ").number(10_u32).text(" ").number(u64::MAX).text(" ").wide_number(7);
        block.seal(b'\n');
        assert_eq!(unsealed(&bytes).unwrap().trim_end(), format!("0 10 {} {:020}", u64::MAX, 7));
    }

    #[test]
    fn an_escaped_text_stays_on_its_line() {
        assert_eq!(escaped("db:backup {1}/é 😀"), "db:backup {1}/é 😀");
        assert_eq!(escaped("a\0b\nc%41\u{85}\x7f"), "a%00b%0Ac%2541%C2%85%7F");
    }

    #[test]
    fn a_block_is_sealed_whatever_was_left_out_of_it_and_any_flipped_bit_breaks_the_seal() {
        let mut bytes = [0; 64];
        let mut block = SealedBlock::new(&mut bytes);
        write!(block, "{}", "é".repeat(100)).unwrap();
        block.seal(b'\n');
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

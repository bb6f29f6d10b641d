//! How things are written in a record: sealed blocks, escaped names, times of one width.

use std::borrow::Cow;
use std::fmt::{self, Write};

use chrono::{DateTime, Datelike, NaiveDate, Timelike, Utc};

/// The last line of a block: `crc32 1a2b3c4d`, over all that stands before it.
const SEAL_LEN: usize = "crc32 00000000\n".len();

/// A block of fixed length that is being written: text, then spaces, then the seal.
///
/// What does not fit is left out at the end.
pub(super) struct Block<'a> {
    text: &'a mut [u8],
    seal: &'a mut [u8],
    len: usize,
}

impl<'a> Block<'a> {
    /// How many bytes are not for text: the seal, and one that ends the text.
    pub(super) const FRAME: usize = SEAL_LEN + 1;

    pub(super) fn new(bytes: &'a mut [u8]) -> Self {
        let (text, seal) = bytes.split_at_mut(bytes.len() - SEAL_LEN);
        Self { text, seal, len: 0 }
    }

    /// Fills up with spaces and `end`, and seals.
    pub(super) fn seal(self, end: u8) {
        let Self { text, mut seal, len } = self;
        text[len..].fill(b' ');
        text[text.len() - 1] = end;
        // A slice is refused what it has no room for, and this is as long as its room.
        let _ = std::io::Write::write_fmt(&mut seal, format_args!("crc32 {:08x}\n", crc32fast::hash(text)));
    }
}

impl Write for Block<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let text = clipped(text, self.text.len() - 1 - self.len);
        let end = self.len + text.len();
        self.text[self.len..end].copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// The text of a block whose seal is whole.
pub(super) fn unsealed(block: &[u8]) -> Option<&str> {
    let (text, seal) = block.split_at_checked(block.len().checked_sub(SEAL_LEN)?)?;
    let crc = std::str::from_utf8(seal).ok()?.strip_prefix("crc32 ")?.strip_suffix('\n')?;
    let whole = u32::from_str_radix(crc, 16) == Ok(crc32fast::hash(text));
    if whole { std::str::from_utf8(text).ok() } else { None }
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
pub(super) fn escaped(text: &str) -> Cow<'_, str> {
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

/// A time as RFC 3339 writes it, always 30 characters wide, so that texts compare as their times do.
pub(super) struct Stamp(pub(super) DateTime<Utc>);

impl Stamp {
    pub(super) const LEN: usize = "2026-03-01T12:00:00.000000000Z".len();

    pub(super) fn parse(text: &str) -> Option<DateTime<Utc>> {
        let part = |from: usize, to: usize, end: u8| {
            let digits = text.get(from..to)?;
            let whole = digits.bytes().all(|byte| byte.is_ascii_digit()) && text.as_bytes().get(to) == Some(&end);
            if whole { digits.parse::<u32>().ok() } else { None }
        };
        let year = i32::try_from(part(0, 4, b'-')?).ok()?;
        let day = NaiveDate::from_ymd_opt(year, part(5, 7, b'-')?, part(8, 10, b'T')?)?;
        let nanos = part(20, 29, b'Z')?;
        let time = day.and_hms_nano_opt(part(11, 13, b':')?, part(14, 16, b':')?, part(17, 19, b'.')?, nanos)?;
        if text.len() == Self::LEN { Some(time.and_utc()) } else { None }
    }
}

impl fmt::Display for Stamp {
    // Two are written with each grant, and the formatter takes its time with padded numbers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(time) = self;
        let mut text = *b"0000-01-01T00:00:00.000000000Z";
        match time.year() {
            ..0 => {}
            10_000.. => text = *b"9999-12-31T23:59:59.999999999Z",
            year => {
                put_digits(&mut text[..4], year.unsigned_abs());
                put_digits(&mut text[5..7], time.month());
                put_digits(&mut text[8..10], time.day());
                put_digits(&mut text[11..13], time.hour());
                put_digits(&mut text[14..16], time.minute());
                put_digits(&mut text[17..19], time.second());
                // A leap second is the last of its minute.
                put_digits(&mut text[20..29], time.nanosecond().min(999_999_999));
            }
        }
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

fn put_digits(columns: &mut [u8], mut number: u32) {
    for column in columns.iter_mut().rev() {
        // The remainder is a digit, so it is always a byte.
        *column = b'0' + u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_back_to_the_nanosecond_and_keeps_its_width() {
        for nanos in [0, 1, 1_772_366_400_123_456_789, -1, i64::MIN, i64::MAX] {
            let time = DateTime::from_timestamp_nanos(nanos);
            let text = Stamp(time).to_string();
            assert_eq!(text.len(), Stamp::LEN);
            assert_eq!(Stamp::parse(&text), Some(time), "{text}");
        }
        assert_eq!(Stamp(DateTime::<Utc>::MAX_UTC).to_string().len(), Stamp::LEN);
        assert_eq!(Stamp(DateTime::<Utc>::MIN_UTC).to_string().len(), Stamp::LEN);
    }

    #[test]
    fn what_is_not_a_time_is_not_read_as_one() {
        let text = "2026-03-01T12:00:00.000000000Z";
        assert!(Stamp::parse(text).is_some());
        for wrong in ["", &text[..29], &format!("{text} "), &text.replace('T', " "), &text.replacen("03", "13", 1)] {
            assert_eq!(Stamp::parse(wrong), None, "{wrong}");
        }
        assert_eq!(Stamp::parse(&text.replacen("12", "+2", 1)), None);
    }

    #[test]
    fn an_escaped_text_stays_on_its_line() {
        assert_eq!(escaped("db:backup {1}/é 😀"), "db:backup {1}/é 😀");
        assert_eq!(escaped("a\0b\nc%41\u{85}\x7f"), "a%00b%0Ac%2541%C2%85%7F");
    }

    #[test]
    fn a_block_is_sealed_whatever_was_left_out_of_it_and_any_flipped_bit_breaks_the_seal() {
        let mut bytes = [0; 64];
        let mut block = Block::new(&mut bytes);
        write!(block, "{}", "é".repeat(100)).unwrap();
        block.seal(b'\n');
        assert_eq!(unsealed(&bytes), Some(&*format!("{}\n", "é".repeat(24))));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            // The checksum's own digits read the same in upper case.
            let same = unsealed(&flipped).is_some() && flipped.eq_ignore_ascii_case(&bytes);
            assert!(same || unsealed(&flipped).is_none(), "bit {bit}");
        }
        assert_eq!(unsealed(&[]), None);
        assert_eq!(unsealed(&bytes[..SEAL_LEN]), None);
    }
}

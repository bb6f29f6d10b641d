//! Redis' protocol, as far as tests need it to read a server without the driver under test.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A reply of a server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Nothing,
    Number(i64),
    Text(String),
    Error(String),
    Many(Vec<Reply>),
}

impl Reply {
    #[track_caller]
    pub(crate) fn text(&self) -> &str {
        let Self::Text(text) = self else { panic!("no text: {self:?}") };
        text
    }

    #[track_caller]
    pub(crate) fn number(&self) -> i64 {
        let Self::Number(number) = self else { panic!("no number: {self:?}") };
        *number
    }
}

/// Reads the bytes of one request or reply, whole.
pub(crate) fn frame(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    append_frame(from, &mut bytes)?;
    Ok(bytes)
}

fn append_frame(from: &mut impl BufRead, bytes: &mut Vec<u8>) -> io::Result<()> {
    let begin = bytes.len();
    from.read_until(b'\n', bytes)?;
    let head = &bytes[begin..];
    if head.last() != Some(&b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let count = || String::from_utf8_lossy(&head[1..]).trim_end().parse::<i64>().ok();
    let (length, items) = match head[0] {
        b'$' | b'=' | b'!' => (count().and_then(|count| u64::try_from(count + 2).ok()).filter(|length| *length > 1), 0),
        b'*' | b'~' | b'>' => (None, count().unwrap_or(0)),
        b'%' => (None, count().unwrap_or(0) * 2),
        _ => (None, 0),
    };
    if let Some(length) = length {
        let read = from.take(length).read_to_end(bytes)?;
        if u64::try_from(read) != Ok(length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    (0..items).try_for_each(|_| append_frame(from, bytes))
}

/// Reads a whole frame; advances over it.
pub(super) fn parse(frame: &mut &[u8]) -> Reply {
    let mut head = Vec::new();
    frame.read_until(b'\n', &mut head).expect("memory is readable");
    let kind = head[0];
    let rest = String::from_utf8_lossy(&head[1..]).trim_end().to_owned();
    let count = rest.parse::<i64>().unwrap_or(-1);
    let length = usize::try_from(count).ok();
    match (kind, length) {
        (b':', _) => Reply::Number(count),
        (b'-', _) => Reply::Error(rest),
        (b'_', _) | (b'$' | b'*', None) => Reply::Nothing,
        (b'$' | b'=' | b'!', Some(length)) => {
            let (text, after) = frame.split_at(length);
            *frame = &after[2..];
            Reply::Text(String::from_utf8_lossy(text).into_owned())
        }
        (b'*' | b'~' | b'>', Some(length)) => Reply::Many((0..length).map(|_| parse(frame)).collect()),
        (b'%', Some(length)) => Reply::Many((0..length * 2).map(|_| parse(frame)).collect()),
        _ => Reply::Text(rest),
    }
}

/// Returns the words of a request.
pub(crate) fn words(request: &[u8]) -> Vec<String> {
    match parse(&mut &*request) {
        Reply::Many(words) => words.iter().map(|word| word.text().to_owned()).collect(),
        // As a person types it.
        _ => String::from_utf8_lossy(request).split_whitespace().map(str::to_owned).collect(),
    }
}

/// Returns whether this command only sets up a connection.
pub(super) fn is_set_up(command: &str) -> bool {
    ["AUTH", "HELLO", "SELECT", "CLIENT", "TIME", "SCRIPT"].iter().any(|word| word.eq_ignore_ascii_case(command))
}

/// A connection by the server's Unix socket, which distinguishes tests from stores.
pub(super) struct Raw(BufReader<UnixStream>);

impl Raw {
    /// Connects. Each reply may take this long at most.
    pub(super) fn connect(socket: &Path, timeout: Duration) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(Self(BufReader::new(stream)))
    }

    pub(super) fn ask(&mut self, words: &[&str]) -> io::Result<Reply> {
        let words: Vec<String> = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        let request = format!("*{}\r\n{}", words.len(), words.concat());
        self.0.get_mut().write_all(request.as_bytes())?;
        self.read()
    }

    pub(super) fn read(&mut self) -> io::Result<Reply> {
        Ok(parse(&mut &*frame(&mut self.0)?))
    }
}

//! Reading and writing at a position, without moving one that is shared.

use std::fs::File;
use std::io;

/// Reads from `offset` until `buffer` is full or the file ends; how much there was.
pub(super) fn read(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match read_some(file, &mut buffer[len..], offset + len as u64) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

/// How long the file is. Its times are not asked for, see [`FileId::at`](crate::store::file::open_file::FileId::at).
pub(super) fn len(mut file: &File) -> io::Result<u64> {
    // Nobody reads or writes at the position that this moves.
    io::Seek::seek(&mut file, io::SeekFrom::End(0))
}

#[cfg(unix)]
fn read_some(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

/// Writes all of `bytes` at `offset`.
#[cfg(unix)]
pub(super) fn write(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

// Elsewhere the position is the handle's own. No handle is shared while its file is locked.

#[cfg(not(unix))]
fn read_some(mut file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    io::Seek::seek(&mut file, io::SeekFrom::Start(offset))?;
    io::Read::read(&mut file, buffer)
}

/// Writes all of `bytes` at `offset`.
#[cfg(not(unix))]
pub(super) fn write(mut file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    io::Seek::seek(&mut file, io::SeekFrom::Start(offset))?;
    io::Write::write_all(&mut file, bytes)
}

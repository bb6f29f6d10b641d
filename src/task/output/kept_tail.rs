//! Keeps the last bytes of a command's output, within a bound.

use std::collections::VecDeque;
use std::io::{self, PipeReader, Read};

use crate::outcome::command_exit::KeptOutput;

/// The last bytes of a stream, at most `bound`.
pub(super) struct KeptTail {
    /// A deque, so that dropping bytes at the front does not move the other bytes.
    bytes: VecDeque<u8>,
    bound: usize,
    left_out: u64,
}

/// The highest number of bytes that one read returns.
const CHUNK: usize = 64 * 1024;

impl KeptTail {
    pub(super) fn new(bound: usize) -> Self {
        Self { bytes: VecDeque::new(), bound, left_out: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        let before = self.bytes.len().saturating_sub(self.bound);
        self.bytes.drain(..before);
        self.left_out += before as u64;
    }

    pub(super) fn kept(self) -> KeptOutput {
        KeptOutput::new(Vec::from(self.bytes), self.left_out)
    }

    /// Reads `pipe` until all its writers have closed `pipe`. When the other end of `over` is closed, reads only until
    /// `pipe` is empty.
    #[cfg(unix)]
    pub(super) fn of(mut pipe: PipeReader, over: &PipeReader, bound: usize) -> Self {
        use rustix::event::{PollFd, PollFlags, poll};
        use rustix::io::{Errno, ioctl_fionbio};

        /// The highest number of bytes to read after `over` was closed. A pipe holds fewer bytes, so further bytes
        /// would come from a process that is still writing.
        const LEFT_IN_IT: usize = 1024 * 1024;

        let mut tail = Self::new(bound);
        let mut chunk = vec![0; CHUNK];
        let mut is_over = false;
        let mut rest = LEFT_IN_IT;
        while rest > 0 {
            if !is_over {
                let mut ready = [PollFd::new(&pipe, PollFlags::IN), PollFd::new(over, PollFlags::IN)];
                if poll(&mut ready, None) == Err(Errno::INTR) {
                    continue;
                }
                is_over = !ready[1].revents().is_empty();
                if is_over && ioctl_fionbio(&pipe, true).is_err() {
                    break;
                }
            }
            match pipe.read(&mut chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
                Ok(read) => tail.push(&chunk[..read]),
            }
            rest = if is_over { rest.saturating_sub(CHUNK) } else { LEFT_IN_IT };
        }
        tail
    }

    /// Reads until all writers have closed the pipe.
    #[cfg(not(unix))]
    pub(super) fn of(mut pipe: PipeReader, _over: &PipeReader, bound: usize) -> Self {
        let mut tail = Self::new(bound);
        let mut chunk = vec![0; CHUNK];
        while let Ok(read @ 1..) = pipe.read(&mut chunk) {
            tail.push(&chunk[..read]);
        }
        tail
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_the_end_of_what_was_written_and_says_how_much_came_before() {
        let all: Vec<u8> = (0..300_000_u32).map(|at| u8::try_from(at % 251).unwrap()).collect();
        for bound in [0, 1, 100, CHUNK, 299_999, 300_000, usize::MAX] {
            let mut tail = KeptTail::new(bound);
            all.chunks(777).for_each(|chunk| tail.push(chunk));
            let kept = tail.kept();
            let from = all.len().saturating_sub(bound);
            assert!(kept.bytes() == &all[from..], "{bound}");
            assert_eq!(kept.left_out(), from as u64, "{bound}");
        }
    }
}

//! Where a command's output goes.

use std::collections::VecDeque;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use crate::observe::kept_output::KeptOutput;

/// Where what a command writes goes, its standard output and its standard error together;
/// [`Event::output`](crate::Event::output) takes it.
///
/// ```
/// use soloist::{Event, Output};
///
/// let event = Event::exec("backup", "pg_dump app > /backup/app.sql").daily().output(Output::Append("/var/log/backup".into()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Output {
    /// To where this process's own goes, as it is with cron. This is the default.
    #[default]
    Inherit,
    /// Nowhere.
    #[doc(alias = "null")]
    Discard,
    /// Into this file, which each run begins anew. A relative path is one from the directory of this process.
    File(PathBuf),
    /// To the end of this file. A relative path is one from the directory of this process.
    Append(PathBuf),
    /// Into the report: the last so many bytes, see [`RunOutcome::output`](crate::RunOutcome::output). The report of a
    /// failure prints them.
    Keep(usize),
}

/// What listens to a command whose output is kept.
pub(super) struct Listener<'scope> {
    hearing: ScopedJoinHandle<'scope, KeptOutput>,
    /// Gone when nothing more is waited for.
    waiting: PipeWriter,
}

impl Output {
    pub(super) fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) | Self::Append(path) => Some(path),
            Self::Inherit | Self::Discard | Self::Keep(_) => None,
        }
    }

    /// Lets the command write there, and listens to it if that is to be kept.
    pub(super) fn connect<'scope>(
        &self,
        command: &mut Command,
        scope: &'scope Scope<'scope, '_>,
    ) -> io::Result<Option<Listener<'scope>>> {
        let (out, err): (Stdio, Stdio) = match self {
            Self::Inherit => (Stdio::inherit(), Stdio::inherit()),
            Self::Discard => (Stdio::null(), Stdio::null()),
            Self::File(path) | Self::Append(path) => {
                let anew = matches!(self, Self::File(_));
                let open = open(path, OpenOptions::new().create(true).write(true).append(!anew).truncate(anew));
                let both = open.and_then(|file| Ok((file.try_clone()?.into(), file.into())));
                both.map_err(|error| because(&error, format_args!("can't write to {}", path.display())))?
            }
            Self::Keep(bound) => {
                let ((pipe, out), (over, waiting)) = (io::pipe()?, io::pipe()?);
                let (err, bound) = (out.try_clone()?, *bound);
                let hearing = Builder::new()
                    .name("soloist-output".into())
                    .spawn_scoped(scope, move || Tail::of(pipe, &over, bound).kept())
                    .map_err(|error| because(&error, format_args!("no thread that keeps its output")))?;
                command.stdout(out).stderr(err);
                return Ok(Some(Listener { hearing, waiting }));
            }
        };
        command.stdout(out).stderr(err);
        Ok(None)
    }
}

/// Opens a file, and waits for nobody: a pipe with a name that no one reads is an error.
fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;

        let file = options.custom_flags(libc::O_NONBLOCK).open(path)?;
        // Whoever writes to it may wait. Where that can't be said of a file, it makes no difference to one.
        let _ = rustix::io::ioctl_fionbio(&file, false);
        Ok(file)
    }
    #[cfg(not(unix))]
    options.open(path)
}

/// An error of the same kind that says what was attempted.
pub(super) fn because(error: &io::Error, attempted: impl fmt::Display) -> io::Error {
    io::Error::new(error.kind(), format!("{attempted}: {error}"))
}

impl Listener<'_> {
    /// Nothing more comes, but perhaps from what has left the group.
    pub(super) fn heard(self) -> KeptOutput {
        drop(self.waiting);
        self.hearing.join().unwrap_or_else(|_| Tail::new(0).kept())
    }
}

/// The end of a stream.
struct Tail {
    /// Nothing is moved when its front is cut off.
    bytes: VecDeque<u8>,
    bound: usize,
    left_out: u64,
}

/// How much is read at once.
const CHUNK: usize = 64 * 1024;

impl Tail {
    fn new(bound: usize) -> Self {
        Self { bytes: VecDeque::new(), bound, left_out: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        if self.bytes.len() > self.bound.saturating_add(CHUNK) {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let before = self.bytes.len().saturating_sub(self.bound);
        self.bytes.drain(..before);
        self.left_out += before as u64;
    }

    fn kept(mut self) -> KeptOutput {
        self.cut();
        KeptOutput::new(Vec::from(self.bytes), self.left_out)
    }

    /// Reads until nobody can write any more, or until the other end of `over` has gone and nothing is there to be read.
    #[cfg(unix)]
    fn of(mut pipe: PipeReader, over: &PipeReader, bound: usize) -> Self {
        use rustix::event::{PollFd, PollFlags, poll};
        use rustix::io::{Errno, ioctl_fionbio};

        /// More than a pipe holds: what comes then is still being written.
        const LEFT_IN_IT: usize = 1024 * 1024;

        let (mut tail, mut chunk) = (Self::new(bound), vec![0; CHUNK]);
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

    /// Reads until nobody can write any more.
    #[cfg(not(unix))]
    fn of(mut pipe: PipeReader, _over: &PipeReader, bound: usize) -> Self {
        let (mut tail, mut chunk) = (Self::new(bound), vec![0; CHUNK]);
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
            let mut tail = Tail::new(bound);
            all.chunks(777).for_each(|chunk| tail.push(chunk));
            let kept = tail.kept();
            let from = all.len().saturating_sub(bound);
            assert!(kept.bytes() == &all[from..], "{bound}");
            assert_eq!(kept.left_out(), from as u64, "{bound}");
        }
    }
}

//! The output of a command.

mod kept_tail;

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, PipeWriter, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::{Builder, Scope, ScopedJoinHandle};

use crate::outcome::command_exit::KeptOutput;
use kept_tail::KeptTail;

/// The destination of a command's standard output and standard error; [`Event::output`](crate::Event::output) sets it.
///
/// ```
/// use soloist::{Event, Output};
///
/// let event = Event::exec("backup", "pg_dump app > /backup/app.sql").daily().output(Output::Append("/var/log/backup".into()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Output {
    /// The command writes to the standard output and standard error of this process, as with cron. This is the default.
    #[default]
    Inherit,
    /// The output is discarded.
    #[doc(alias = "null")]
    Discard,
    /// The command writes to this file. Each run truncates the file first. A relative path starts at the working
    /// directory of this process. A path that begins with `~` or `$HOME`, or that has a pattern for the date such as
    /// `%Y`, is an error, because nothing replaces these.
    File(PathBuf),
    /// The command appends to this file. A relative path starts at the working directory of this process. As with
    /// `File`, the report of a failure names the file, and [`RunOutcome::output`](crate::RunOutcome::output) returns
    /// the last bytes that the run wrote.
    Append(PathBuf),
    /// The report keeps the last bytes of the output, at most this many; see
    /// [`RunOutcome::output`](crate::RunOutcome::output). The report of a failure prints these bytes.
    Keep(usize),
}

/// The thread that reads and keeps the output of a command.
pub(super) struct Listener<'scope> {
    thread: ScopedJoinHandle<'scope, KeptOutput>,
    /// The writing end of a second pipe, which carries no data. When this end is dropped, the thread does not wait for
    /// more output.
    waiting: PipeWriter,
}

/// The output file of a command, and the offset at which the output of this run begins.
pub(super) struct OutputFile {
    pub(super) path: Arc<Path>,
    begin: u64,
    /// The file, open for reading. `None`: it is not a regular file, or can't be read.
    written: Option<File>,
}

/// The highest number of bytes of an output file that `RunOutcome::output` returns.
const KEPT_OF_FILE: u64 = 16 * 1024;

impl OutputFile {
    /// Opens the file at `path` for reading. The command writes to `file`.
    fn new(path: &Path, file: &File) -> Self {
        let found = file.metadata().ok().filter(fs::Metadata::is_file);
        let written = found.as_ref().and_then(|_| File::open(path).ok());
        Self { path: path.into(), begin: found.map_or(0, |found| found.len()), written }
    }

    /// Reads the last bytes that were written since the command began. `None`: the file is not a regular file, or can't
    /// be read.
    pub(super) fn tail(&self) -> Option<KeptOutput> {
        let mut file = self.written.as_ref()?;
        let end = file.metadata().ok()?.len();
        let from = self.begin.max(end.saturating_sub(KEPT_OF_FILE)).min(end);
        file.seek(SeekFrom::Start(from)).ok()?;
        let mut bytes = Vec::new();
        file.take(KEPT_OF_FILE).read_to_end(&mut bytes).ok()?;
        Some(KeptOutput::new(bytes, from.saturating_sub(self.begin)))
    }
}

impl Output {
    pub(super) fn file(&self) -> Option<&Path> {
        if let Self::File(path) | Self::Append(path) = self { Some(path) } else { None }
    }

    /// Connects the command to its output. Returns the thread that keeps the output, or the output file.
    pub(super) fn connect<'scope>(
        &self,
        command: &mut Command,
        scope: &'scope Scope<'scope, '_>,
    ) -> io::Result<(Option<Listener<'scope>>, Option<OutputFile>)> {
        let mut begun = None;
        let (out, err): (Stdio, Stdio) = match self {
            Self::Inherit => (Stdio::inherit(), Stdio::inherit()),
            Self::Discard => (Stdio::null(), Stdio::null()),
            Self::File(path) | Self::Append(path) => {
                let anew = matches!(self, Self::File(_));
                let open = open(path, OpenOptions::new().create(true).write(true).append(!anew).truncate(anew));
                let both = open.and_then(|file| {
                    begun = Some(OutputFile::new(path, &file));
                    Ok((file.try_clone()?.into(), file.into()))
                });
                both.map_err(|error| because(&error, format_args!("can't write to {}", path.display())))?
            }
            Self::Keep(bound) => {
                let ((pipe, out), (over, waiting)) = (io::pipe()?, io::pipe()?);
                let (err, bound) = (out.try_clone()?, *bound);
                let thread = Builder::new()
                    .name("soloist-output".into())
                    .spawn_scoped(scope, move || KeptTail::of(pipe, &over, bound).kept())
                    .map_err(|error| {
                        because(&error, format_args!("could not start a thread that keeps the output of the command"))
                    })?;
                command.stdout(out).stderr(err);
                return Ok((Some(Listener { thread, waiting }), None));
            }
        };
        command.stdout(out).stderr(err);
        Ok((None, begun))
    }
}

/// Opens a file without waiting: a named pipe that has no reader is an error.
fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;

        let file = options.custom_flags(libc::O_NONBLOCK).open(path)?;
        // The file was opened in the non-blocking mode. This mode is switched off again: if the file is a full pipe,
        // the command's writes must wait, and not fail. An error is ignored, because a file without this mode does not
        // need the change.
        let _ = rustix::io::ioctl_fionbio(&file, false);
        Ok(file)
    }
    #[cfg(not(unix))]
    options.open(path)
}

/// Returns `error` with a text that begins with `attempted`.
pub(super) fn because(error: &io::Error, attempted: impl fmt::Display) -> io::Error {
    io::Error::new(error.kind(), format!("{attempted}: {error}"))
}

impl Listener<'_> {
    /// Returns the kept output. Call this when the group of the command has ended. The later output of a process that
    /// has left the group is not read.
    pub(super) fn heard(self) -> KeptOutput {
        drop(self.waiting);
        self.thread.join().unwrap_or_else(|_| KeptTail::new(0).kept())
    }
}

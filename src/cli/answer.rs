//! The answer of a command: a text for standard output and an exit code, or a message for standard error and another
//! exit code.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

pub(super) mod parse_error;

use crate::base::error::MutexError;
use crate::base::escape::Chain;
use crate::base::standard_error::print_line;
use crate::schedule::pause::pause_error::PauseError;
use crate::schedule::run_due::backfill::BackfillError;
use crate::schedule::schedule::registry::UnknownEvent;
use crate::schedule::shutdown::Shutdown;

/// The exit code if a run failed, or if the command could not do its work.
pub(super) const FAILED: u8 = 1;

/// The exit code if an argument is wrong, or if it names something that does not exist.
pub(super) const USAGE: u8 = 2;

/// The exit code if the store is unavailable, or can't be used.
pub(super) const STORE: u8 = 3;

/// The answer of a command: the text to print, and the exit code.
pub(super) struct CommandAnswer {
    pub(super) text: String,
    code: u8,
}

/// The failure of a command: the message to print, and the exit code.
pub(super) struct CommandFailure {
    pub(super) message: String,
    code: u8,
}

pub(super) type Answered = Result<CommandAnswer, CommandFailure>;

impl CommandAnswer {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), code: 0 }
    }

    pub(super) fn nothing() -> Self {
        Self::text("")
    }

    pub(super) fn json(value: &impl serde::Serialize) -> Answered {
        serde_json::to_string_pretty(value).map(Self::text).map_err(|error| CommandFailure::new(&error))
    }

    pub(super) fn with_code(self, code: u8) -> Self {
        Self { code, ..self }
    }
}

impl CommandFailure {
    pub(super) fn new(error: &(dyn Error + 'static)) -> Self {
        Self::saying(Chain(error))
    }

    pub(super) fn saying(message: impl Display) -> Self {
        Self { message: message.to_string(), code: FAILED }
    }

    pub(super) fn usage(message: impl Display) -> Self {
        Self::saying(message).with_code(USAGE)
    }

    pub(super) fn with_code(self, code: u8) -> Self {
        Self { code, ..self }
    }

    pub(super) fn is_usage(&self) -> bool {
        self.code == USAGE
    }
}

impl From<MutexError> for CommandFailure {
    fn from(error: MutexError) -> Self {
        Self::saying(format_args!("{}{}", Chain(&error), error.next_step())).with_code(STORE)
    }
}

impl From<PauseError> for CommandFailure {
    fn from(error: PauseError) -> Self {
        match error {
            PauseError::Store(error) => error.into(),
            error => Self::usage(Chain(&error)),
        }
    }
}

impl From<BackfillError> for CommandFailure {
    fn from(error: BackfillError) -> Self {
        match error {
            BackfillError::Store(error) => error.into(),
            error => Self::usage(Chain(&error)),
        }
    }
}

impl From<UnknownEvent> for CommandFailure {
    fn from(error: UnknownEvent) -> Self {
        Self::usage(Chain(&error))
    }
}

/// Prints an answer.
pub(super) fn print(answered: Answered) -> ExitCode {
    let printed = answered.and_then(|CommandAnswer { text, code }| print_text(&text).map(|()| code));
    ExitCode::from(printed.unwrap_or_else(|CommandFailure { message, code }| {
        say(message);
        code
    }))
}

/// Prints a text on standard output, with a line feed at the end. A full disk is an error. A reader that stops reading,
/// such as `head`, is no error.
pub(super) fn print_text(text: &str) -> Result<(), CommandFailure> {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let mut output = io::stdout().lock();
    match write!(output, "{text}{end}").and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(CommandFailure::saying(format_args!("can't write the answer: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints `text` at the end of a command that has run events. If a signal triggered `shutdown`, then ends this process
/// by that signal.
pub(super) fn print_end(text: &str, code: u8, shutdown: &Shutdown) -> Answered {
    let printed = print_text(text);
    shutdown.finish();
    printed.map(|()| CommandAnswer::nothing().with_code(code))
}

/// Prints a line on standard error.
pub(super) fn say(message: impl Display) {
    print_line(format_args!("soloist: {message}"));
}

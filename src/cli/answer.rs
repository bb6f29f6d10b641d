//! The answer of a command: a text for standard output and an exit code; or a message for standard error, and another code.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};

use crate::base::error::MutexError;
use crate::base::escape::Chain;
use crate::base::standard_error::print_line;
use crate::schedule::pause::pause_error::PauseError;
use crate::schedule::run_due::backfill::BackfillError;
use crate::schedule::schedule::registry::UnknownEvent;

/// A run failed, or the command could not do its work.
pub(super) const FAILED: u8 = 1;

/// The arguments are wrong, or name something that does not exist.
pub(super) const USAGE: u8 = 2;

/// The store is unavailable, or can't be used.
pub(super) const STORE: u8 = 3;

/// The answer of a command: the text to print, and the exit code.
pub(super) struct CommandAnswer {
    text: String,
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

    pub(super) fn usage(error: &(dyn Error + 'static)) -> Self {
        Self::new(error).with_code(USAGE)
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
        Self::new(&error).with_code(STORE)
    }
}

impl From<PauseError> for CommandFailure {
    fn from(error: PauseError) -> Self {
        Self::new(&error).with_code(if matches!(error, PauseError::Store(_)) { STORE } else { USAGE })
    }
}

impl From<BackfillError> for CommandFailure {
    fn from(error: BackfillError) -> Self {
        Self::new(&error).with_code(if matches!(error, BackfillError::Store(_)) { STORE } else { USAGE })
    }
}

impl From<UnknownEvent> for CommandFailure {
    fn from(error: UnknownEvent) -> Self {
        Self::usage(&error)
    }
}

/// Prints an answer. A full disk is an error, but not a reader that stops reading, such as `head`.
pub(super) fn print(answered: Answered) -> ExitCode {
    let CommandAnswer { text, code } = match answered {
        Ok(answer) => answer,
        Err(CommandFailure { message, code }) => {
            say(message);
            return ExitCode::from(code);
        }
    };
    match print_text(&text) {
        Ok(()) => ExitCode::from(code),
        Err(error) => {
            say(format_args!("can't write the answer: {error}"));
            ExitCode::from(FAILED)
        }
    }
}

/// Prints a text on standard output, with an end of line.
pub(super) fn print_text(text: &str) -> io::Result<()> {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let mut output = io::stdout().lock();
    match write!(output, "{text}{end}").and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Prints a line on standard error.
pub(super) fn say(message: impl Display) {
    print_line(format_args!("soloist: {message}"));
}

/// Prints an error of the parser. For clap, help is an error too, but one for standard output.
pub(super) fn print_parse_error(mut error: clap::Error, usage: u8) -> ExitCode {
    // The tip to put an unknown option behind `--` would run the option as a command.
    if let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) {
        tips.retain(|tip| !tip.to_string().contains("as a value"));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    let is_error = error.use_stderr();
    // If printing fails, only the exit code is left.
    let _ = error.print();
    let text = error.to_string();
    for (_, hint) in HINTS.iter().filter(|(about, _)| is_error && text.contains(about)) {
        print_line(format_args!("\n{hint}"));
    }
    ExitCode::from(if is_error { usage } else { 0 })
}

const OF_A_SCHEDULE: &str = "That is a command of a program with a schedule of its own: see docs/guide/operators.md.";

const WAITS: &str = "With --every, a scheduled time waits for the run before it with --on-overlap queue-one.";

/// Parts of the parser's errors, each with a hint.
const HINTS: [(&str, &str); 12] = [
    (
        "soloist run",
        "Write: soloist run --name NAME --store URL -- COMMAND. docs/guide/from_flock.md has the options of `flock`.",
    ),
    (
        "--store <URL>\n",
        "Say where leases are kept: --store file:/var/lib/locks, or set SOLOIST_STORE as in your crontab.",
    ),
    ("unrecognized subcommand 'list'", OF_A_SCHEDULE),
    ("unrecognized subcommand 'next'", OF_A_SCHEDULE),
    ("unrecognized subcommand 'run-one'", OF_A_SCHEDULE),
    ("unrecognized subcommand 'backfill'", OF_A_SCHEDULE),
    ("unrecognized subcommand 'status'", OF_A_SCHEDULE),
    ("unrecognized subcommand 'work'", OF_A_SCHEDULE),
    ("unrecognized subcommand 'create-table'", "Write: soloist create-table --store URL."),
    ("'--wait <TIME>' cannot be used with", WAITS),
    ("cannot be used with '--wait <TIME>'", WAITS),
    ("--every <TIMES>\n", "Repeat the five fields of the crontab line in --every, in quotes: --every '*/5 * * * *'."),
];

//! The answer of a command: a text for standard output and an exit code, or a message for standard error and another
//! exit code.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind as Wrong};

use super::arguments::is_unit_of_time;
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

/// Stands for each argument that is not an option.
const WORD: &str = "";

/// Stands for each argument that sets a variable, as in `FOO=1`.
const VARIABLE: &str = "=";

/// The advice on unexpected arguments. Each row has words, unexpected arguments, and the advice. A row is for the
/// commands whose usage has at least one of the words.
const UNEXPECTED: &[(&[&str], &[&str], &str)] = &[
    (&["soloist run"], &["-c"], "Instead of -c of `flock`, write: -- sh -c 'LINE'."),
    (&["soloist run"], &["-s", "--shared"], "There are no shared leases: only one command at a time can hold a name."),
    (
        &["soloist run"],
        &[VARIABLE, "--env"],
        "Write a variable before soloist, or as a part of the command: -- env FOO=1 COMMAND.",
    ),
    (&["soloist run"], &["-k", "--kill-after"], "Write the time between SIGTERM and SIGKILL as --grace 10s."),
    (
        &["soloist run"],
        &[WORD],
        "If it is the command, write -- before it. If -- is there, the option before -- lacks its value, as in -w 5m. If \
         it is a part of a value, the value needs quotes, as in --every '*/5 * * * *'. Without them, the shell replaces \
         each *.",
    ),
    (
        &["soloist <COMMAND>"],
        &["--name", "--every"],
        "Write the command of soloist first: soloist run --name NAME --store URL -- COMMAND.",
    ),
    (&["locks"], &["--prefix"], "Write the prefix without an option: locks PREFIX."),
    (
        &["--store"],
        &["--table", "--prefix", "--timeout"],
        "This option belongs in the URL of the store: ?table=NAME, ?prefix=NAME or ?timeout=2s.",
    ),
    (&["pause"], &["--until"], "Write the length of the pause: --for 4d."),
    (&["pause"], &["--reason", "--message", "-m"], "Write the reason as --why TEXT."),
    (&["pause"], &[WORD], "Write the length of the pause as --for 2h, and the reason as --why 'disk full'."),
    (
        &["soloist run"],
        &["--retry-delay", "--retry-interval", "--retry-wait"],
        "Write the time before a retry as --retry-after 10s.",
    ),
    (
        &["unlock"],
        &["-f"],
        "Without an option, unlock asks the holder to stop. To free the lease at once, even if its holder may still be \
         running, write --force.",
    ),
    (
        &["run-one"],
        &["--at", "--for", "--from", "--to", "--date", "--occurrence"],
        "To run past occurrences again, write: backfill EVENT --from TIME --to TIME.",
    ),
    (
        &["next"],
        &[WORD],
        "Write next --for 2h to look ahead for a time, and list --next 5 for the next times of each event.",
    ),
    (
        &["run", "list", "status", "work"],
        &[WORD],
        "This command takes no event. Write run-one EVENT to run one event, due or not, and log EVENT for its runs.",
    ),
];

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

/// Prints an answer.
pub(super) fn print(answered: Answered) -> ExitCode {
    let printed = answered.and_then(|CommandAnswer { text, code }| print_text("the answer", &text).map(|()| code));
    ExitCode::from(printed.unwrap_or_else(|CommandFailure { message, code }| {
        say(message);
        code
    }))
}

/// Prints a text on standard output, with a line feed at the end. A full disk is an error. A reader that stops reading,
/// such as `head`, is no error.
pub(super) fn print_text(what: &str, text: &str) -> Result<(), CommandFailure> {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let mut output = io::stdout().lock();
    match write!(output, "{text}{end}").and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(CommandFailure::saying(format_args!("can't write {what}: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints `text` at the end of a command that has run events. If a signal triggered `shutdown`, then ends this process
/// by that signal.
pub(super) fn print_end(what: &str, text: &str, code: u8, shutdown: &Shutdown) -> Answered {
    let printed = print_text(what, text);
    shutdown.finish();
    printed.map(|()| CommandAnswer::nothing().with_code(code))
}

/// Prints a line on standard error.
pub(super) fn say(message: impl Display) {
    print_line(format_args!("soloist: {message}"));
}

/// Prints an error of the parser, and below it `hint`, which shows how to write the command. For clap, a help text is
/// an error, too, but is printed on standard output.
pub(super) fn print_parse_error(mut error: clap::Error, usage: u8, hint: Option<&'static str>) -> ExitCode {
    // clap suggests to put an unknown option behind `--`. But the words behind `--` are run as a command, so the
    // suggestion is removed.
    if let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) {
        tips.retain(|tip| !tip.to_string().contains("as a value"));
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
    // The hint is the advice. Beside the hint, a similar name that clap suggests would mislead. If clap suggests an
    // option, the usage contains it, too.
    let hints = hints(&error);
    if !hints.is_empty() {
        error.remove(ContextKind::SuggestedSubcommand);
        if error.remove(ContextKind::SuggestedArg).is_some() {
            error.remove(ContextKind::Usage);
        }
    }
    let is_error = error.use_stderr();
    // If printing fails, the exit code still shows the error.
    let _ = error.print();
    if is_error {
        // The message about a wrong value already says what to write, so the hint is left out.
        let hint = hint.filter(|_| !matches!(error.kind(), Wrong::InvalidValue | Wrong::ValueValidation));
        hint.into_iter().chain(hints).for_each(|hint| print_line(format_args!("\n{hint}")));
    }
    ExitCode::from(if is_error { usage } else { 0 })
}

/// Returns advice on what to write instead of the wrong arguments.
fn hints(error: &clap::Error) -> Vec<&'static str> {
    let in_context = |kind| match error.get(kind) {
        Some(ContextValue::String(name)) => vec![name.clone()],
        Some(ContextValue::Strings(names)) => names.clone(),
        _ => Vec::new(),
    };
    let names =
        [ContextKind::InvalidArg, ContextKind::PriorArg, ContextKind::InvalidSubcommand].map(in_context).concat();
    let is_named = |name: &str| names.iter().any(|named| named == name);
    let mut hints = Vec::new();
    match error.kind() {
        Wrong::MissingRequiredArgument => {
            if is_named("--store <URL>") {
                hints.push(
                    "Say where leases are kept: --store file:/var/lib/locks, redis://…, postgres://… or mysql://…, or set \
                     SOLOIST_STORE as in your crontab.",
                );
            }
            if is_named("--every <TIMES>") {
                hints.push("Repeat the five fields of the crontab line in --every, in quotes: --every '*/5 * * * *'.");
            }
        }
        Wrong::ArgumentConflict if is_named("--wait <TIME>") => {
            hints.push(
                "Leave --wait out, or else --every with its options --timezone, --on-one-server and --on-overlap. With --every, \
                 write --on-overlap queue-one: then a scheduled time waits for the end of the previous run.",
            );
        }
        Wrong::UnknownArgument if names.iter().any(|name| is_unit_of_time(name)) => {
            hints.push("A time with a space needs quotes: '2 hours', or 2h.");
        }
        Wrong::ValueValidation if is_named("--log <N>") => {
            hints.push(
                "--log keeps the last runs in the store. To write the output of the command to a file, end the line with >>FILE.",
            );
        }
        Wrong::UnknownArgument => hints.extend(advice_on(error, &names)),
        Wrong::InvalidSubcommand if is_named("create-table") => {
            hints.push("Write: soloist create-table --store URL.");
        }
        Wrong::InvalidSubcommand
            if ["backfill", "list", "next", "run-one", "status", "work"].into_iter().any(is_named) =>
        {
            hints.push("That is a command of a program with a schedule of its own: see docs/guide/operators.md.");
        }
        Wrong::InvalidSubcommand if ["unpause", "continue"].into_iter().any(is_named) => {
            hints.push("Write: resume, or for the pause of one event: resume EVENT.");
        }
        // The program `soloist` has no events.
        Wrong::InvalidSubcommand
            if !usage(error).contains(" soloist ") && error.get(ContextKind::SuggestedSubcommand).is_none() =>
        {
            hints.push("To run one event, due or not, write: run-one EVENT.");
        }
        _ => {}
    }
    hints
}

/// Returns the usage of the command, with a space at its end.
fn usage(error: &clap::Error) -> String {
    let usage = error.get(ContextKind::Usage).map_or_else(String::new, ToString::to_string);
    format!("{} ", usage.trim_end())
}

/// Returns the sentence of the first row of [`UNEXPECTED`] that fits the error.
fn advice_on(error: &clap::Error, names: &[String]) -> Option<&'static str> {
    let usage = usage(error);
    let is_of = |command: &&str| usage.contains(&format!(" {command} "));
    let is_word = |name: &String| !name.starts_with('-');
    let stands_for = |argument: &str, name: &String| match argument {
        WORD => is_word(name),
        VARIABLE => is_word(name) && name.contains('='),
        _ => name == argument,
    };
    let is_named = |argument: &&str| names.iter().any(|name| stands_for(argument, name));
    let row =
        UNEXPECTED.iter().find(|(commands, arguments, _)| commands.iter().any(is_of) && arguments.iter().any(is_named));
    row.map(|(_, _, sentence)| *sentence)
}

//! The error of a command line that can't be read, with advice on what to write instead.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind as Wrong};
use clap::{Arg, Command};

use super::unexpected::{COMMANDS_OF_A_SCHEDULE, COMMANDS_OF_SOLOIST, UNEXPECTED, VARIABLE, WORD};
use crate::base::similar::{list, similar};
use crate::base::standard_error::print_line;
use crate::cli::arguments::is_unit_of_time;

/// Prints an error of `parser`, and below it `hint`, which shows how to write the command. For clap, a help text is an
/// error, too, but is printed on standard output.
pub(in crate::cli) fn print_parse_error(
    mut error: clap::Error,
    parser: &mut Command,
    usage: u8,
    hint: Option<&'static str>,
) -> ExitCode {
    // The hints below the error name the similar options and commands. clap suggests others, too, if the application
    // turns on the feature for it.
    error.remove(ContextKind::SuggestedArg);
    error.remove(ContextKind::SuggestedSubcommand);
    // clap suggests to put an unknown option behind `--`. But the words behind `--` are run as a command, so the
    // suggestion is removed.
    if let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) {
        tips.retain(|tip| !tip.to_string().contains("as a value"));
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
    let hints = hints(&error, command_of(parser));
    let is_error = error.use_stderr();
    // If printing fails, the exit code still shows the error.
    let _ = error.print();
    if is_error {
        // The message about a wrong value already says what to write, so the hint is left out.
        let hint = hint.filter(|_| !matches!(error.kind(), Wrong::InvalidValue | Wrong::ValueValidation));
        hint.map(str::to_owned).into_iter().chain(hints).for_each(|hint| print_line(format_args!("\n{hint}")));
    }
    ExitCode::from(if is_error { usage } else { 0 })
}

/// Returns a question with the options or the commands whose names are similar to a wrong name.
fn similar_names(command: &Command, names: &[String]) -> Option<String> {
    let options: Vec<&str> =
        command.get_arguments().filter(|option| is_listed(option)).filter_map(Arg::get_long).collect();
    let commands: Vec<&str> = command.get_subcommands().map(Command::get_name).filter(|name| *name != "help").collect();
    names.iter().find_map(|typed| {
        let (dashes, known) = if typed.starts_with('-') { ("--", &options) } else { ("", &commands) };
        let similar = similar(typed.trim_start_matches('-'), known.iter().copied());
        let similar = list(similar.into_iter().map(|name| format!("`{dashes}{name}`")), "or");
        (!similar.is_empty()).then(|| format!("tip: did you mean {similar}?"))
    })
}

/// Returns whether the list of options has this argument.
fn is_listed(option: &Arg) -> bool {
    !option.is_positional() && !option.is_hide_set() && !["help", "version"].contains(&option.get_id().as_str())
}

/// Returns the wrong arguments, or the unknown command.
fn wrong_names(error: &clap::Error) -> Vec<String> {
    [ContextKind::InvalidArg, ContextKind::PriorArg, ContextKind::InvalidSubcommand]
        .map(|kind| names(error, kind))
        .concat()
}

fn names(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(name)) => vec![name.clone()],
        Some(ContextValue::Strings(names)) => names.clone(),
        _ => Vec::new(),
    }
}

/// Returns the command in the arguments of this process, or `parser` if the arguments have no command.
fn command_of(parser: &mut Command) -> &Command {
    parser.build();
    let name = std::env::args_os().skip(1).find(|word| parser.find_subcommand(word).is_some());
    name.and_then(|name| parser.find_subcommand(name)).unwrap_or(parser)
}

/// Returns all commands, or the options of the command with their help texts. A program with a schedule sets everything
/// else itself.
fn all_names(error: &clap::Error, command: &Command) -> Option<String> {
    // The program `soloist` has no events.
    let is_of_soloist = usage_of(error).contains(" soloist ");
    if error.kind() == Wrong::InvalidSubcommand {
        return Some(if is_of_soloist { COMMANDS_OF_SOLOIST } else { COMMANDS_OF_A_SCHEDULE }.to_owned());
    }
    if command.has_subcommands() {
        return None;
    }
    let options = if command.get_arguments().any(is_listed) {
        format!("Options:\n{}", command.clone().help_template("{options}").render_help().to_string().trim_end())
    } else {
        format!("{} has no options.", command.get_name())
    };
    let rest = if is_of_soloist {
        ""
    } else {
        "\n\nThe program itself sets everything else, for its schedule and its events."
    };
    Some(options + rest)
}

/// Returns the option of the command with this name, as in `--term`, and its help text.
fn with_help(command: &Command, option: &str) -> Option<String> {
    let name = option.strip_prefix("--")?;
    let option = command.get_arguments().find(|known| known.get_long() == Some(name))?;
    Some(format!("Use {option}: {}.", option.get_help()?))
}

/// Returns advice on what to write instead of the wrong arguments of `command`.
fn hints(error: &clap::Error, command: &Command) -> Vec<String> {
    let names = wrong_names(error);
    let is_named = |name: &str| names.iter().any(|named| named == name);
    let mut hints: Vec<String> = Vec::new();
    let mut hint = |hint: &str| hints.push(hint.to_owned());
    match error.kind() {
        Wrong::MissingRequiredArgument => {
            if is_named("--store <URL>") {
                hint(
                    "Say where leases are kept: --store file:/var/lib/locks, redis://…, postgres://… or mysql://…, or set \
                     SOLOIST_STORE as in your crontab.",
                );
            }
            if is_named("--every <TIMES>") {
                hint("Repeat the five fields of the crontab line in --every, in quotes: --every '*/5 * * * *'.");
            }
            if is_named("--name <NAME>")
                && word_behind_dashes().is_some_and(|first| first.as_encoded_bytes().starts_with(b"-"))
            {
                hint("Write the options before --: soloist run --name NAME -- COMMAND.");
            }
            // After `soloist run` alone, this advice would be too early.
            if is_named("<COMMAND>...") && std::env::args_os().len() > 2 {
                hint(
                    "In a crontab, a % ends the command: write \\% instead, or set SOLOIST_STORE in a line of its own.",
                );
            }
        }
        Wrong::ArgumentConflict if is_named("--force") => {
            hint("--force frees the lease at once, and does not wait for its holder: first try without --force.");
        }
        Wrong::ArgumentConflict if is_named("--wait <TIME>") => {
            hint(
                "Leave --wait out, or else --every with its options --timezone, --on-one-server and --on-overlap. With --every, \
                 write --on-overlap queue-one: then a scheduled time waits for the end of the previous run.",
            );
        }
        Wrong::UnknownArgument if names.iter().any(|name| is_unit_of_time(name)) => {
            hint("A time with a space needs quotes: '2 hours', or 2h.");
        }
        Wrong::ValueValidation if is_named("--log <N>") => {
            hint(
                "--log keeps the last runs in the store. To write the output of the command to a file, end the line with >>FILE.",
            );
        }
        Wrong::ValueValidation if is_named("--next <N>") => {
            hint("--next is a number of due times. To look ahead for a time, write: next --for 2h.");
        }
        Wrong::ValueValidation if is_named("--retry <N>") => {
            hint("For no retry, leave --retry and --retry-after out.");
        }
        // The value is missing.
        Wrong::InvalidValue if error.get(ContextKind::InvalidValue) == Some(&ContextValue::String(String::new())) => {
            let option = names.iter().find_map(|name| with_help(command, name.split(' ').next()?));
            hints.extend(option);
        }
        Wrong::UnknownArgument | Wrong::InvalidSubcommand => {
            // Beside advice, a similar name would mislead.
            let advice = advice_on(error, command, &names).or_else(|| similar_names(command, &names));
            hints.extend(advice.or_else(|| all_names(error, command)));
        }
        _ => {}
    }
    hints
}

/// Returns the first word after `--` in the arguments of this process.
fn word_behind_dashes() -> Option<OsString> {
    std::env::args_os().skip_while(|word| word != "--").nth(1)
}

/// Returns the usage of the command, with a space at its end.
fn usage_of(error: &clap::Error) -> String {
    let usage = error.get(ContextKind::Usage).map_or_else(String::new, ToString::to_string);
    format!("{} ", usage.trim_end())
}

/// Returns the advice of the first row of [`UNEXPECTED`] that fits the error.
fn advice_on(error: &clap::Error, command: &Command, names: &[String]) -> Option<String> {
    let usage = usage_of(error);
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
    row.map(|(_, _, advice)| with_help(command, advice).unwrap_or_else(|| (*advice).to_owned()))
}

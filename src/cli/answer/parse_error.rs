//! The error of a command line that can't be read, with advice on what to write instead.

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind as Wrong};
use clap::{Arg, Command};

use crate::base::similar::{list, similar};
use crate::base::standard_error::print_line;

/// Prints an error of `parser`, and below it `hint`, which shows how to write the command `soloist run`. For clap, a
/// help text is an error, too, but is printed on standard output.
pub(in crate::cli) fn print_parse_error(
    mut error: clap::Error,
    parser: &mut Command,
    usage: u8,
    hint: Option<&'static str>,
) -> ExitCode {
    // clap suggests to put an unknown option behind `--`. But the words behind `--` are run as a command, so the
    // suggestion is removed.
    if let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) {
        tips.retain(|tip| !tip.to_string().contains("as a value"));
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
    // If printing fails, the exit code still shows the error.
    let _ = error.print();
    if !error.use_stderr() {
        return ExitCode::SUCCESS;
    }
    let advice = advice(&error, command_of(parser), hint.is_some());
    hint.map(str::to_owned).into_iter().chain(advice).for_each(|line| print_line(format_args!("\n{line}")));
    ExitCode::from(usage)
}

/// Returns the command in the arguments of this process, or `parser` if the arguments begin with `help` or with an
/// unknown word.
fn command_of(parser: &mut Command) -> &Command {
    parser.build();
    let name = std::env::args_os().nth(1).filter(|name| name != "help");
    name.and_then(|name| parser.find_subcommand(name)).unwrap_or(parser)
}

/// Returns advice on what to write instead of the wrong arguments of `command`.
fn advice(error: &clap::Error, command: &Command, is_soloist_run: bool) -> Vec<String> {
    let names = wrong_names(error);
    let is_named = |name: &str| names.iter().any(|named| named == name);
    let mut advice: Vec<String> = Vec::new();
    let mut say = |text: &str| advice.push(text.to_owned());
    match error.kind() {
        Wrong::MissingRequiredArgument => {
            if is_named("--store <URL>") {
                say(
                    "Say where leases are kept: --store file:/var/lib/locks, redis://…, postgres://… or mysql://…, or set \
                     SOLOIST_STORE as in your crontab.",
                );
            }
            // After `soloist run` alone, this advice would be too early.
            if is_named("<COMMAND>...") && std::env::args_os().len() > 2 {
                say(
                    "In a crontab, a % ends the command: write \\% instead, or set SOLOIST_STORE in a line of its own.",
                );
            }
        }
        Wrong::UnknownArgument | Wrong::InvalidSubcommand => {
            let wrong = names.first().map_or("", String::as_str);
            let of_flock = if is_soloist_run { instead_of(wrong).map(str::to_owned) } else { None };
            advice.extend(of_flock.or_else(|| similar_options(command, wrong)));
        }
        _ => {}
    }
    advice
}

/// Returns the wrong or missing arguments.
fn wrong_names(error: &clap::Error) -> Vec<String> {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(name)) => vec![name.clone()],
        Some(ContextValue::Strings(names)) => names.clone(),
        _ => Vec::new(),
    }
}

/// Returns what to write instead of an unexpected argument of `soloist run`, if a line for `flock` may have it.
fn instead_of(argument: &str) -> Option<&'static str> {
    match argument {
        "-c" | "--command" => Some("Instead of -c of `flock`, write: -- sh -c 'LINE'."),
        word if !word.starts_with('-') => Some(
            "If it is the command, write -- before it. If -- is there, the option before -- lacks its value. If it is a \
             part of a value, the value needs quotes, as in --every '*/5 * * * *'.",
        ),
        _ => None,
    }
}

/// Returns a question with the options whose names are similar to `wrong`, if that is an option.
fn similar_options(command: &Command, wrong: &str) -> Option<String> {
    let known = command.get_arguments().filter(|option| !option.is_hide_set()).filter_map(Arg::get_long);
    let similar = similar(wrong.strip_prefix("--")?, known).into_iter().map(|name| format!("`--{name}`"));
    let similar = list(similar, "or");
    (!similar.is_empty()).then(|| format!("tip: did you mean {similar}?"))
}

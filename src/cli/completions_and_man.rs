//! The commands that describe a whole program: its completion script and its manual page.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, Command, value_parser};
use clap_complete::Shell;
use clap_mangen::Man;

use super::answer::{Answered, CommandAnswer, CommandFailure};
use super::arguments::about;

/// Returns the commands `completions` and `man` of the program whose arguments `parser` parses.
pub(super) fn commands(parser: &Command) -> [Command; 2] {
    let shell = Arg::new("shell").value_name("SHELL").required(true).value_parser(value_parser!(Shell));
    let names =
        parser.get_subcommands().map(Command::get_name).chain(["completions", "help", "man"]).map(str::to_owned);
    let command = Arg::new("command").value_name("COMMAND").help("Print only the page of this command");
    let command = command.value_parser(PossibleValuesParser::new(names)).hide_possible_values(true);
    [
        about("completions", "Print a script that completes these commands in your shell").arg(shell),
        Command::new("man")
            .about(format!("Print the manual page: try `man -l <({} man)`", parser.get_name()))
            .arg(command),
    ]
}

/// Runs `completions` or `man` for the program whose arguments `parser` parses. Returns `None` for any other command.
pub(super) fn describe(parser: Command, matches: &ArgMatches) -> Option<Answered> {
    match matches.subcommand()? {
        ("completions", arguments) => Some(Ok(script(parser, *arguments.get_one("shell")?))),
        ("man", arguments) => Some(page(parser, arguments.get_one::<String>("command").map(String::as_str))),
        _ => None,
    }
}

fn script(mut parser: Command, shell: Shell) -> CommandAnswer {
    let name = parser.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut parser, name, &mut script);
    CommandAnswer::text(String::from_utf8_lossy(&script))
}

/// Returns the manual page of the program, or of one of its commands, in roff, the format of `man`.
fn page(mut parser: Command, command: Option<&str>) -> Answered {
    parser.build();
    let described = command.and_then(|name| parser.find_subcommand(name)).unwrap_or(&parser);
    let mut page = Vec::new();
    Man::new(described.clone()).render(&mut page).map_err(|error| CommandFailure::new(&error))?;
    Ok(CommandAnswer::text(String::from_utf8_lossy(&page)))
}

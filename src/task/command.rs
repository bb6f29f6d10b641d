//! A command as a task: a process, and all processes that the process starts.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::iter;
use std::path::{Path, PathBuf};
use std::process::{self, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

mod stopping;

use super::orphan_policy::{EVENT, OrphanPolicy};
use super::output::{Listener, Output, because};
#[cfg(unix)]
use super::process_group::ProcessGroup as Processes;
#[cfg(all(unix, feature = "cli"))]
use super::process_group::terminal::Terminal;
#[cfg(not(unix))]
use super::process_not_unix::{Leader, ProcessAlone as Processes};
use super::run::Run;
use crate::base::{escape::OneLine, escape::Quoted, threads};
use crate::outcome::cancel::{CancelReason, Cancelled};
use crate::outcome::command_exit::{CommandExit, signal_of};
use crate::outcome::fault::Fault;
use crate::time::clock::shown::Rfc3339;

/// A command: a program or a line for the shell, and its options.
#[derive(Debug)]
pub(crate) struct Command {
    /// A program. If `arguments` is `None`: a line for the shell.
    program: OsString,
    arguments: Option<Vec<OsString>>,
    pub(crate) directory: Option<PathBuf>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) output: Option<Output>,
    /// Whether the command takes the place of this process. Then the command gets the standard input, the terminal and
    /// the signals of this process.
    pub(crate) in_place: bool,
}

/// The environment variables that describe the run.
const OURS: [&str; 7] = [
    EVENT,
    "SOLOIST_OCCURRENCE",
    "SOLOIST_BACKFILL",
    "SOLOIST_ATTEMPT",
    "SOLOIST_OWNER",
    "SOLOIST_TOKEN",
    "SOLOIST_SLOT",
];

/// Parts of a path that other programs replace with the date.
const DATES: [&str; 4] = ["%Y", "%F", "%d.", "$(date"];

impl Command {
    pub(crate) fn new(program: OsString, arguments: Option<Vec<OsString>>) -> Self {
        Self { program, arguments, directory: None, environment: Vec::new(), output: None, in_place: false }
    }

    /// Returns whether Ctrl-C ended a command that takes the place of this process. Ctrl-C may have reached the command
    /// alone, because the command has the terminal. But the user meant this process, too.
    pub(crate) fn was_interrupted(&self, fault: &Fault) -> bool {
        /// The number of SIGINT, on all systems.
        const INTERRUPT: i32 = 2;
        self.in_place && matches!(fault, Fault::Exited(status) if signal_of(*status) == Some(INTERRUPT))
    }

    /// Returns an error if the command or one of its options is invalid.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.program.to_string_lossy().trim().is_empty() {
            return Err("its command is empty: pass a program, or a line of the shell".to_owned());
        }
        let program = self.program.to_string_lossy();
        let is_alone = self.arguments.as_ref().is_some_and(Vec::is_empty) && !self.in_place;
        // The name of a folder may have a space.
        let has_space = |program: &str| program.split_once(' ').is_some_and(|(before, _)| !before.contains('/'));
        if is_alone && has_space(&program) {
            let program = Quoted::new(&program);
            return Err(format!(
                "{program} has a space, and is no program: pass its arguments one by one, or write `Event::exec`"
            ));
        }
        let directory = self.directory.as_ref().map(|path| path.as_os_str());
        let file = self.output.as_ref().and_then(Output::file).map(Path::as_os_str);
        for (method, path) in [("current_dir", directory), ("output", file)] {
            let Some(path) = path else { continue };
            if path.is_empty() {
                return Err(format!("`{method}(..)`: the path is empty: write a path, or leave the method out"));
            }
            if let Some(home) = home_in(path) {
                let path = Quoted::new(&path.to_string_lossy());
                return Err(format!(
                    "`{method}(..)`: only a shell replaces the `{home}` in {path}: write the whole path"
                ));
            }
        }
        let undated = file.map(OsStr::to_string_lossy);
        if let Some((path, date)) =
            undated.and_then(|path| DATES.into_iter().find(|date| path.contains(date)).map(|date| (path, date)))
        {
            return Err(format!(
                "`output(..)`: no date takes the place of the `{date}` in {}: write one path, and rotate the file, or let the line \
                 of `Event::exec` redirect its output, as in `backup >> \"/var/log/$(date +%F).log\"`",
                Quoted::new(&path)
            ));
        }
        let values = self.environment.iter().map(|(_, value)| value.as_os_str());
        let texts = iter::once(&self.program).chain(self.arguments.iter().flatten()).map(OsString::as_os_str);
        if let Some(text) = texts.chain(directory).chain(file).chain(values).find(|text| has(text, 0)) {
            let text = Quoted::new(&text.to_string_lossy());
            return Err(format!("{text} has a NUL character, which can't be passed to a command: leave it out"));
        }
        let is_ours = |name: &OsStr| OURS.iter().any(|ours| name == *ours);
        if let Some((name, _)) = self.environment.iter().find(|(name, _)| is_ours(name)) {
            return Err(format!(
                "`env(\"{}\", ..)`: the scheduler sets this variable for each run: use another name",
                name.display()
            ));
        }
        let no_name = |name: &&OsString| name.is_empty() || has(name, 0) || has(name, b'=');
        if let Some(name) = self.environment.iter().map(|(name, _)| name).find(no_name) {
            let name = Quoted::new(&name.to_string_lossy());
            return Err(format!(
                "`env(..)`: {name} can't be the name of a variable: use a name that is not empty and has no `=`"
            ));
        }
        let for_a_shell = |(name, value): &(OsString, OsString)| Some((name.clone(), part_for_a_shell(name, value)?));
        match self.environment.iter().find_map(for_a_shell) {
            Some((name, part)) => Err(format!(
                "`env(\"{}\", ..)`: only a shell replaces the `{part}` in its value: write the whole value, or set the \
                 variable in a line of `Event::exec`",
                name.display()
            )),
            None => Ok(()),
        }
    }

    /// Runs the command, and returns when all processes of its group have ended. If the run is cancelled, the command
    /// is asked to stop, and killed after its grace.
    pub(crate) fn run(&self, run: &Run, orphan: OrphanPolicy) -> (Option<Fault>, Option<CommandExit>) {
        match self.carry_out(run, orphan) {
            Err(fault) => (Some(fault), None),
            Ok((exit, stopped)) => {
                let fault = match stopped {
                    Some(reason) => Some(Fault::Failed(Arc::new(Cancelled::new(reason)))),
                    None => (!exit.status.success()).then_some(Fault::Exited(exit.status)),
                };
                (fault, Some(exit))
            }
        }
    }

    fn carry_out(&self, run: &Run, orphan: OrphanPolicy) -> Result<(CommandExit, Option<CancelReason>), Fault> {
        thread::scope(|scope| {
            let mut command = self.prepared(run);
            let output = self.output.as_ref().unwrap_or(&Output::Inherit);
            let (listener, file) = output.connect(&mut command, scope).map_err(Fault::not_started)?;
            #[cfg(all(unix, feature = "cli"))]
            let terminal = self.in_place.then(Terminal::of_this_process).flatten();
            let group = Processes::start(command, orphan, run.grace());
            let mut group = group.map_err(|error| Fault::not_started(self.not_started(&error)))?;
            #[cfg(all(unix, feature = "cli"))]
            let _shared = terminal.map(|terminal| terminal.share(scope, group.leader(), &run.held));
            let mut end = stopping::LeaderEnd { leader: group.leader(), is_watched: false, has_come: Arc::default() };
            let leader = group.leader();
            let has_come = Arc::clone(&end.has_come);
            let held = Arc::clone(&run.held);
            let wait = move || {
                leader.wait();
                held.change(|| has_come.store(true, Ordering::Release));
            };
            end.is_watched = threads::start_in(scope, "soloist-command", wait).is_ok();
            let stopped = stopping::wait_for_end(&mut group, &run.held, &end, run.grace(), self.in_place);
            let status = group.end();
            let output = listener.map(Listener::heard).or_else(|| file.as_ref()?.tail());
            let file = file.map(|file| file.path);
            let unknown = |error| because(&error, format_args!("could not read the exit status of {self}"));
            let status = status.map_err(|error| Fault::Failed(Arc::new(unknown(error))))?;
            Ok((CommandExit { status, output, file }, stopped))
        })
    }

    /// Returns the process to start, with environment variables that describe `run`.
    fn prepared(&self, run: &Run) -> process::Command {
        let mut command = match &self.arguments {
            None => shell(&self.program),
            Some(arguments) => {
                let mut command = process::Command::new(&self.program);
                command.args(arguments);
                command
            }
        };
        if !self.in_place {
            command.stdin(Stdio::null());
        }
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let values = [
            Some(run.name().to_owned()),
            Some(Rfc3339(run.occurrence()).to_string()),
            run.is_backfill().then(|| "1".to_owned()),
            Some(run.attempt().to_string()),
            run.held.owner().map(|owner| owner.to_string()),
            run.fencing_token().map(|token| token.to_string()),
            run.slot().map(|slot| slot.to_string()),
        ];
        for (name, value) in OURS.into_iter().zip(values) {
            match value {
                Some(value) => command.env(name, value),
                // If this process is itself a command, it may have inherited this variable. The inherited value
                // describes another run.
                None => command.env_remove(name),
            };
        }
        command
    }

    fn not_started(&self, error: &io::Error) -> io::Error {
        // The system returns one error for both a missing program and a missing directory.
        match self.directory.as_ref().and_then(|directory| Some((directory, no_directory(directory)?))) {
            Some((directory, error)) => {
                let advice = advice_if_relative(directory, Path::new("."));
                advised(&error, advice, format_args!("could not start {self} in {}", directory.display()))
            }
            None => advised(error, self.advice_if_missing(error), format_args!("could not start {self}")),
        }
    }
}

impl Command {
    /// Returns advice if `error` means that the program was not found. A line for the shell gets no advice. A program
    /// without a path must be in a directory of the `PATH` of the command. cron sets a short `PATH`, so such a program is
    /// often not found under cron.
    fn advice_if_missing(&self, error: &io::Error) -> Option<String> {
        if self.arguments.is_none() || error.kind() != io::ErrorKind::NotFound {
            return None;
        }
        if has(&self.program, b'/') {
            return self.advice_on_file();
        }
        let own = self.environment.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone());
        let path = own.or_else(|| std::env::var_os("PATH")).unwrap_or_default();
        let shell = if self.in_place { "`-- sh -c 'LINE'`" } else { "`Event::exec`" };
        Some(format!(
            "it is in no folder of PATH={}: write its whole path, or let a shell read the line, with {shell}",
            OneLine(path.to_string_lossy())
        ))
    }

    /// Returns advice if the file of the program is missing and its path is relative, or if the file is a script whose
    /// interpreter is missing. In both cases, the system returns the error for a missing program.
    fn advice_on_file(&self) -> Option<String> {
        let mut begin = Vec::new();
        let directory = self.directory.as_deref().unwrap_or(Path::new("."));
        match File::open(directory.join(&self.program)).and_then(|file| file.take(256).read_to_end(&mut begin)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return advice_if_relative(Path::new(&self.program), directory);
            }
            read => read.ok()?,
        };
        let line = begin.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
        let line = String::from_utf8_lossy(line);
        let interpreter = line.trim_start_matches([' ', '\t']).split([' ', '\t']).next()?;
        let is_missing = !Path::new(interpreter).exists();
        is_missing.then(|| {
            let interpreter = Quoted::new(interpreter);
            format!("the file exists, but its interpreter {interpreter} does not: correct its first line")
        })
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Quoted::new(&self.program.to_string_lossy()).fmt(f)
    }
}

#[cfg(unix)]
fn shell(line: &OsStr) -> process::Command {
    let mut command = process::Command::new("/bin/sh");
    // Without `--`, the shell would take a line that begins with a dash for an option.
    command.arg("-c").arg("--").arg(line);
    command
}

#[cfg(windows)]
fn shell(line: &OsStr) -> process::Command {
    use std::os::windows::process::CommandExt;

    let mut command = process::Command::new("cmd");
    // `cmd` takes the line between the outer quotes unchanged.
    command.arg("/D").arg("/S").arg("/C").raw_arg("\"").raw_arg(line).raw_arg("\"");
    command
}

/// Returns `error` with a text that begins with `attempted` and ends with the advice.
fn advised(error: &io::Error, advice: Option<String>, attempted: fmt::Arguments<'_>) -> io::Error {
    match advice {
        Some(advice) => io::Error::new(error.kind(), format!("{attempted}: {error}: {advice}")),
        None => because(error, attempted),
    }
}

/// Returns advice on a path that was not found, if the path is relative and so begins at `directory`.
fn advice_if_relative(path: &Path, directory: &Path) -> Option<String> {
    let directory = std::path::absolute(directory).ok().filter(|_| path.is_relative())?;
    let directory = OneLine(directory.display());
    Some(format!("a relative path begins at the current directory, {directory}: write the whole path"))
}

/// Returns the beginning of a path that stands for the home directory, and that only a shell replaces.
fn home_in(path: &OsStr) -> Option<&'static str> {
    ["~", "$HOME", "${HOME}"].into_iter().find(|home| Path::new(path).starts_with(home))
}

/// Returns the part of a variable's value that only a shell replaces: the variable itself, as in `PATH=$PATH:/opt/bin`,
/// or the home directory, as in `LOGS=$HOME/logs`.
fn part_for_a_shell(name: &OsStr, value: &OsStr) -> Option<String> {
    let of_home = || home_in(value).filter(|_| has(value, b'/')).map(str::to_owned);
    if refers_to_itself(name, value) { Some(format!("${}", name.display())) } else { of_home() }
}

/// Returns whether the value of a variable refers to the variable itself, as in `PATH=$PATH:/opt/bin`.
fn refers_to_itself(name: &OsStr, value: &OsStr) -> bool {
    let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
    let is_it = |text: &str| {
        let behind = text.trim_start_matches('{').strip_prefix(&*name);
        behind.is_some_and(|behind| !behind.starts_with(|char: char| char.is_alphanumeric() || char == '_'))
    };
    value.split('$').skip(1).any(is_it)
}

/// Returns the error of a `path` that is not a directory. `None`: `path` is a directory.
fn no_directory(path: &Path) -> Option<io::Error> {
    match path.metadata() {
        Ok(found) if found.is_dir() => None,
        Ok(_) => Some(io::ErrorKind::NotADirectory.into()),
        Err(error) => Some(error),
    }
}

fn has(text: &OsStr, byte: u8) -> bool {
    text.as_encoded_bytes().contains(&byte)
}

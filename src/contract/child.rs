//! Other processes that take part in a case. Each of them is this program, started again.

use std::any;
use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{self, Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use super::harness::Harness;

/// The place where another process enters the suite.
#[derive(Clone)]
pub(super) enum EntryPoint {
    /// At the program's own call of the suite.
    Program,
    /// At this test of a libtest binary.
    Test(String),
}

const HARNESS: &str = "SOLOIST_CONTRACT_HARNESS";
const ADDRESS: &str = "SOLOIST_CONTRACT_ADDRESS";
const RUN: &str = "SOLOIST_CONTRACT_RUN";
const ROLE: &str = "SOLOIST_CONTRACT_ROLE";

/// The beginning of each line for the case. A test binary also prints lines of its own.
const MARK: &str = "soloist-contract: ";

/// An answer takes longer than this only if the store hangs.
const PATIENCE: Duration = Duration::from_secs(40);

impl EntryPoint {
    /// Returns the test of the module that calls `contract_tests!`.
    pub(super) fn test_in(module: &str) -> Self {
        // libtest leaves out the name of the crate.
        let inner = module.split_once("::").map(|(_, inner)| format!("{inner}::"));
        Self::Test(inner.unwrap_or_default() + "processes_of_other_cases_begin_here")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env::current_exe().expect("this program can be found to start it again"));
        match self {
            Self::Program => command.args(env::args_os().skip(1)),
            Self::Test(name) => command.args([name, "--exact", "--nocapture", "--test-threads=1"]),
        };
        command
    }
}

/// A child process that exchanges words with the case. It is killed when this value is dropped.
pub(super) struct Other {
    process: Child,
    words: ChildStdin,
    lines: Receiver<String>,
}

impl Other {
    /// Starts a process that enters the suite at `entry`, opens the store by its `address` and plays `role` there, with
    /// the names of this `run`.
    pub(super) fn start<H: Harness>(entry: &EntryPoint, run: &str, address: &str, role: &str) -> Self {
        let mut command = entry.command();
        command.env(HARNESS, any::type_name::<H>()).env(ADDRESS, address).env(RUN, run).env(ROLE, role);
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("this program can be started again");
        let words = process.stdin.take().expect("its input is piped");
        let output = BufReader::new(process.stdout.take().expect("its output is piped"));
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some((_, word)) = line.split_once(MARK)
                    && sender.send(word.to_owned()).is_err()
                {
                    break;
                }
            }
        });
        Self { process, words, lines }
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Waits for the next word of the process.
    #[track_caller]
    pub(super) fn hear(&self) -> String {
        self.lines.recv_timeout(PATIENCE).unwrap_or_else(|error| {
            panic!(
                "process {}, which was started for this case, sent nothing more ({error}); see its messages on standard error",
                self.pid()
            )
        })
    }

    #[track_caller]
    pub(super) fn tell(&mut self, word: &str) {
        let told = writeln!(self.words, "{word}").and_then(|()| self.words.flush());
        told.unwrap_or_else(|error| {
            panic!("process {}, which was started for this case, has ended: {error}", self.pid())
        });
    }

    /// Waits until the child has ended by itself, as asked.
    pub(super) fn leaves(&mut self) {
        self.process.wait().expect("a child of this process can be waited for");
    }

    /// Kills the process, without a chance to release anything.
    pub(super) fn kill(&mut self) {
        self.process.kill().expect("a child of this process can be killed");
        self.process.wait().expect("a child of this process can be waited for");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The part that a process was started for.
pub(super) enum Role {
    Here {
        address: String,
        run: String,
        role: String,
    },
    /// Another harness of the same program is meant.
    Elsewhere,
}

/// Returns the part of this process, if a case of another process started it.
pub(super) fn part_of<H: Harness>() -> Option<Role> {
    let read = |name| env::var(name).ok();
    let role = read(ROLE)?;
    if read(HARNESS)? == any::type_name::<H>() {
        Some(Role::Here { address: read(ADDRESS)?, run: read(RUN)?, role })
    } else {
        Some(Role::Elsewhere)
    }
}

/// Receives the words that the case sends to this process. This process ends when the process that started it ends.
pub(super) fn words() -> Receiver<String> {
    let (sender, words) = mpsc::channel();
    thread::spawn(move || {
        for word in io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(word).is_err() {
                break;
            }
        }
        // The case is over, or its process has ended. This process does not wait for a store that hangs.
        process::exit(0);
    });
    words
}

/// Sends a word to the case that started this process.
pub(super) fn say(word: &str) {
    let mut output = io::stdout().lock();
    // If the case does not read any more, it has failed already.
    let _ = writeln!(output, "\n{MARK}{word}").and_then(|()| output.flush());
}

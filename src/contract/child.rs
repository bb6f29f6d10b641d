//! Child processes that take part in a case. Each child process runs this program again.

use std::any;
use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{self, Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use super::harness::Harness;

/// The function by which a child process enters the suite.
#[derive(Clone)]
pub(super) enum EntryPoint {
    /// The call of `check` in the program itself.
    Program,
    /// The test with this name in a libtest binary.
    Test(String),
}

const HARNESS: &str = "SOLOIST_CONTRACT_HARNESS";
const ADDRESS: &str = "SOLOIST_CONTRACT_ADDRESS";
const RUN: &str = "SOLOIST_CONTRACT_RUN";
const ROLE: &str = "SOLOIST_CONTRACT_ROLE";

/// The beginning of each line that is meant for the case. A test binary also prints other lines.
const MARK: &str = "soloist-contract: ";

/// The time limit for an answer of a child process. An answer takes longer only if the store hangs.
const PATIENCE: Duration = Duration::from_secs(40);

impl EntryPoint {
    /// Returns the test that child processes run in `module`, the module that calls `contract_tests!`.
    pub(super) fn test_in(module: &str) -> Self {
        // libtest names a test by its module path, without the name of the crate.
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
    /// Starts a process that enters the suite at `entry`, opens the store at `address`, and plays `role`. All names
    /// that the process uses begin with `run`.
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
                "process {}, which was started for this case, sent no answer ({error}); see its messages on standard error",
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

    /// Waits until the child has ended by itself.
    pub(super) fn leaves(&mut self) {
        self.process.wait().expect("a child of this process can be waited for");
    }

    /// Kills the process, so that it can't release its leases.
    pub(super) fn kill(&mut self) {
        self.process.kill().expect("a child of this process can be killed");
        self.process.wait().expect("a child of this process can be waited for");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // Errors are ignored, because the process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The role for which a case in another process started this process.
pub(super) enum Role {
    Here {
        address: String,
        run: String,
        role: String,
    },
    /// This process plays a role for another harness of the program.
    Elsewhere,
}

/// Returns the role of this process. Returns `None` if no case in another process started this process.
pub(super) fn part_of<H: Harness>() -> Option<Role> {
    let read = |name| env::var(name).ok();
    let role = read(ROLE)?;
    if read(HARNESS)? == any::type_name::<H>() {
        Some(Role::Here { address: read(ADDRESS)?, run: read(RUN)?, role })
    } else {
        Some(Role::Elsewhere)
    }
}

/// Starts a thread that receives the words that the case sends to this process. When the case or its process has ended,
/// the thread ends this process.
pub(super) fn words() -> Receiver<String> {
    let (sender, words) = mpsc::channel();
    thread::spawn(move || {
        for word in io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(word).is_err() {
                break;
            }
        }
        // The case is over, or its process has ended. So this process ends at once, even if a call to the store hangs.
        process::exit(0);
    });
    words
}

/// Sends a word to the case that started this process.
pub(super) fn say(word: &str) {
    let mut output = io::stdout().lock();
    // An error is ignored: if the case has stopped reading, the case has already failed.
    let _ = writeln!(output, "\n{MARK}{word}").and_then(|()| output.flush());
}

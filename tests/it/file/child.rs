//! Other processes: this test binary, started again with an order.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write, stdin, stdout};
use std::iter;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use soloist::store::{Admission, Admitted, LeaseRequest, Names};
use soloist::time::Clock;
use soloist::{Event, EventMutex, FileMutex, MutexError, MutexName, Run, Schedule, Term};

const ORDER: &str = "SOLOIST_TEST_CHILD";

/// A task for a child.
pub(super) enum Order<'a> {
    /// Takes a lease of an hour, says so, and waits.
    Hold(&'a Path, &'a str),
    /// Locks this file, says so, and waits.
    Lock(&'a Path),
    /// Acquires and releases all it can, forever, and prints each token.
    Churn(&'a Path),
    /// Acquires and releases one lease 100 times.
    Gates(&'a Path),
    /// Runs this line of the shell as an event, under a lease.
    Run(&'a Path, &'a str),
    /// Waits for a signal to begin, makes 20 claims named after this word, and prints the results.
    Claims(&'a Path, &'a str),
    /// Takes a lease of a minute, starts this in a shell that has its lifeline, says the token, and waits.
    Start(&'a Path, &'a str),
    /// Requests a lease, a claim beside it and the lease again. Prints the answers, and the warnings of a check.
    Ask(&'a Path),
    /// Runs an event for three terms, which fills the disk and renews a slot beside its lease, and then two more
    /// events. Prints the outcomes.
    Fill(&'a Path),
    /// Opens the directory, acquires a lease of a minute and releases it. Prints `granted`, `held` or the failure.
    Use(&'a Path),
}

/// A child process, which ends with this at the latest.
pub(super) struct Doing {
    child: Child,
    said: Option<BufReader<ChildStdout>>,
}

/// Returns a command for this binary that does one thing. `through`: a program that starts it.
pub(super) fn child_command(order: &Order<'_>, through: &[&str]) -> Command {
    copy_command(&std::env::current_exe().unwrap(), order, through)
}

/// Returns such a command for `exe`, a copy of this binary.
pub(super) fn copy_command(exe: &Path, order: &Order<'_>, through: &[&str]) -> Command {
    let mut words: Vec<&std::ffi::OsStr> = through.iter().map(std::ffi::OsStr::new).collect();
    words.push(exe.as_os_str());
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).args(["--exact", "file::child::a_child_does_as_it_is_told", "--nocapture"]);
    let (word, path, more) = match order {
        Order::Hold(dir, name) => ("hold", dir, *name),
        Order::Lock(path) => ("lock", path, ""),
        Order::Churn(dir) => ("churn", dir, ""),
        Order::Gates(dir) => ("gates", dir, ""),
        Order::Run(dir, line) => ("run", dir, *line),
        Order::Claims(dir, word) => ("claims", dir, *word),
        Order::Start(dir, script) => ("start", dir, *script),
        Order::Ask(dir) => ("ask", dir, ""),
        Order::Fill(dir) => ("fill", dir, ""),
        Order::Use(dir) => ("use", dir, ""),
    };
    command.env(ORDER, format!("{word}\n{}\n{more}", path.display()));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

impl Doing {
    #[track_caller]
    pub(super) fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let said = child.stdout.take().map(BufReader::new);
        Self { child, said }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the child's next line; `None`: the child has ended.
    pub(super) fn says(&mut self) -> Option<String> {
        next_said(self.said.as_mut().expect("somebody else listens"))
    }

    /// Returns the child's output, for a thread that reads it.
    pub(super) fn listen(&mut self) -> BufReader<ChildStdout> {
        self.said.take().expect("somebody else listens")
    }

    /// Lets the child begin.
    pub(super) fn begin(&mut self) {
        drop(self.child.stdin.take());
    }

    pub(super) fn signal(&self, signal: &str) {
        let pid = self.pid().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// Kills the child in the middle of its work.
    #[track_caller]
    pub(super) fn kill(mut self) {
        assert_eq!(self.child.try_wait().unwrap(), None, "it ended by itself; what it met is on stderr");
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Kills the child alone. Its own children have its input, which ends when the returned writer is dropped.
    #[track_caller]
    pub(super) fn kill_alone(mut self) -> ChildStdin {
        let input = self.child.stdin.take().expect("its input is piped");
        self.kill();
        input
    }

    /// Waits until the child has carried out its order.
    #[track_caller]
    pub(super) fn finish(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Doing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the next line of a child after the mark `>`; the test harness prints lines, too.
pub(super) fn next_said(from: &mut impl BufRead) -> Option<String> {
    from.lines().map_while(Result::ok).find_map(|line| line.strip_prefix('>').map(str::to_owned))
}

fn say(what: &str) {
    let mut out = stdout().lock();
    // One write, so that a killed child prints all of it or nothing.
    out.write_all(format!("\n>{what}\n").as_bytes()).and_then(|()| out.flush()).unwrap();
}

fn wait_for_the_parent() {
    let _ = stdin().read_to_end(&mut Vec::new());
}

#[test]
fn a_child_does_as_it_is_told() {
    let Ok(order) = std::env::var(ORDER) else { return };
    let mut words = order.split('\n');
    let (word, path, more) = (words.next().unwrap(), Path::new(words.next().unwrap()), words.next().unwrap());
    match word {
        "hold" => {
            let mutex = FileMutex::in_dir(path).unwrap();
            let hour = Term::new(Duration::from_secs(3600)).unwrap();
            let request = LeaseRequest::new(MutexName::lease(more).unwrap(), hour, &Clock::system());
            let lease = super::take(&mutex, &request);
            say(&lease.token().to_string());
            wait_for_the_parent();
        }
        "lock" => {
            let file = File::options().read(true).write(true).open(path).unwrap();
            file.lock().unwrap();
            say("locked");
            wait_for_the_parent();
        }
        "gates" => {
            let mutex = FileMutex::in_dir(path).unwrap();
            for _ in 0..100 {
                let lease = super::take(&mutex, &request("reports"));
                assert!(mutex.forget(&lease).unwrap());
            }
        }
        "run" => {
            let schedule = Schedule::new(FileMutex::in_dir(path).unwrap());
            schedule.add(Event::exec("reports", more).every_minute().without_overlapping()).unwrap();
            let _ = schedule.run_event("reports", super::noon());
        }
        "claims" => {
            wait_for_the_parent();
            say(&claims(&FileMutex::in_dir(path).unwrap(), more));
        }
        "ask" => ask(path),
        "fill" => fill(path),
        "use" => use_once(path),
        "start" => start(path, more),
        "churn" => {
            std::thread::spawn(|| {
                wait_for_the_parent();
                std::process::exit(0);
            });
            churn(path);
        }
        _ => panic!("{word}"),
    }
}

fn request(name: &str) -> LeaseRequest {
    LeaseRequest::new(MutexName::lease(name).unwrap(), super::minute(), &Clock::system())
}

/// Makes ten markers beside one name. Returns a line: each was granted, or the first failure.
pub(super) fn claims(mutex: &FileMutex, word: &str) -> String {
    let hour = Term::new(Duration::from_secs(3600)).unwrap();
    for number in 0..10 {
        let claim = super::reports().mark(word, number.to_string());
        let request = LeaseRequest::new(claim, hour, &Clock::system());
        match super::patiently(|| mutex.create(&request)) {
            Ok(Some(_)) => {}
            Ok(None) => return format!("{word} {number} is held"),
            Err(error) => return error.to_string(),
        }
    }
    "all granted".to_owned()
}

fn ask(dir: &Path) {
    let mutex = FileMutex::in_dir(dir).unwrap();
    let lease = request("reports");
    let claim = lease.with(lease.name().claim("reports", super::noon()), super::minute());
    for admission in [Admission::lease_only(lease.clone()), Admission::both(lease.clone(), claim)] {
        say(&match admission.ask(&mutex) {
            Ok(Admitted::Granted(grant)) => {
                if let Some(lease) = grant.lease() {
                    mutex.forget(lease).unwrap();
                }
                "granted".to_owned()
            }
            Ok(refused) => format!("{refused:?}"),
            Err(error) => error.to_string(),
        });
    }
    say(&format!("{:?}", mutex.exists(lease.name()).map_err(|error| error.to_string())));
    say(&format!("{:?}", mutex.check().map_err(|error| error.to_string())));
}

fn fill(dir: &Path) {
    let mutex = FileMutex::in_dir(dir).unwrap();
    let term = Term::new(Duration::from_secs(8)).unwrap(); // so long that a thread of a busy machine renews in time
    let slot = MutexName::lease("filling").unwrap().mark("filling", "slot 1");
    let slot = super::take(&mutex, &LeaseRequest::new(slot, term, &Clock::system()));
    let schedule = Schedule::new(mutex.clone());
    let (all, store) = (dir.join("all"), mutex.clone());
    let task = move |run: &Run| {
        let mut file = File::create(&all).unwrap();
        let full = iter::repeat_with(|| file.write_all(&[0; 4096])).find_map(Result::err);
        say(&full.expect("the disk is small").to_string());
        for _ in 0..30 {
            std::thread::sleep(term.get() / 10);
            assert!(super::renewed(&store, &slot, term).unwrap());
        }
        say("the slot is renewed");
        assert!(!run.is_cancelled());
    };
    schedule.add(Event::call("filling", task).every_minute().without_overlapping().lease_term(term.get())).unwrap();
    let report = schedule.run_due(super::noon());
    let is_well = !report.is_failure() && !mutex.exists(&MutexName::lease("filling").unwrap()).unwrap();
    say(if is_well { "succeeded, not cancelled, and released" } else { "failed" });
    let schedule = Schedule::new(mutex.clone());
    for name in ["next", "last"] {
        schedule.add(Event::call(name, |_| {}).every_minute().without_overlapping()).unwrap();
    }
    say(&schedule.run_due(super::noon()).to_string().replace('\n', "; "));
    let held = mutex.held(Names::LeasesWithPrefix("")).unwrap();
    say(if held.is_empty() { "free" } else { "held" });
}

fn use_once(path: &Path) {
    let told = |error: MutexError| format!("{error:?}");
    say(&match FileMutex::in_dir(path).and_then(|mutex| Ok((mutex.create(&request("reports"))?, mutex))) {
        Ok((Some(lease), mutex)) => mutex.forget(&lease).map_or_else(told, |_| "granted".to_owned()),
        Ok((None, _)) => "held".to_owned(),
        Err(error) => told(error),
    });
}

fn start(dir: &Path, script: &str) {
    let mutex = FileMutex::in_dir(dir).unwrap();
    let lease = super::take(&mutex, &request("reports"));
    let lifeline = OwnedFd::from(mutex.lifeline(&lease).unwrap().unwrap());
    let mut shell = Command::new("sh").args(["-c", script]).stdout(Stdio::null()).stderr(lifeline).spawn().unwrap();
    if script.ends_with('&') {
        assert!(shell.wait().unwrap().success());
    }
    say(&lease.token().to_string());
    wait_for_the_parent();
    shell.wait().unwrap();
}

/// The names that all of them fight for.
pub(super) const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn churn(dir: &Path) {
    // Locks that show, independently of the store, that no other process is inside. Linux unlocks the files of a
    // killed process from the highest descriptor on: so these must be higher than the life file's.
    let witnesses = NAMES.map(|name| {
        let witness = File::create(dir.with_extension(name)).unwrap();
        File::from(rustix::io::fcntl_dupfd_cloexec(&witness, 100).unwrap())
    });
    let mutex = FileMutex::in_dir(dir).unwrap();
    for at in 0_u32.. {
        let number = (at.wrapping_mul(std::process::id()) / 3 % 4) as usize;
        let (name, witness) = (NAMES[number], &witnesses[number]);
        let lease = request(name);
        // The 16 claims expire soon, so that their slots are written again and again.
        let occurrence = super::noon() + chrono::TimeDelta::seconds(i64::from(at % 16));
        let claim = lease.with(lease.name().claim(name, occurrence), Term::new(Duration::from_millis(2)).unwrap());
        let admission = if at % 3 == 0 { Admission::lease_only(lease) } else { Admission::both(lease, claim) };
        let Admitted::Granted(grant) = super::patiently(|| admission.ask(&mutex)).unwrap() else { continue };
        if witness.try_lock().is_err() {
            say("overlap");
        }
        say(&format!("{name} {}", grant.token()));
        let lease = grant.lease().unwrap().clone();
        assert!(super::patiently(|| super::renewed(&mutex, &lease, super::minute())).unwrap());
        witness.unlock().unwrap();
        super::release(&mutex, &lease);
    }
}

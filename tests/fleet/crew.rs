//! The workers of a fleet: processes that are started, killed and stopped, each at most as long as this one lives.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::history::{At, End, Life, nanoseconds, now, occurrence};
use crate::plan::{BEAT, OnOverlap, Protection, Retries, Round, TERM, Task, Victim};
use crate::servers::clock::{WallClock, settable};
use crate::site::{Site, worker_program};
use crate::support::worker_at;
use crate::worker_log::{Line, read};

/// How many minutes of a round are past when it begins, so that a clock can be behind.
const LEAD: u128 = 3;

/// No worker takes that long for its last minutes once all goes well again, on a loaded machine either.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) struct Crew<'a> {
    round: &'a Round,
    store: String,
    /// Whether each worker is on a host of its own, whose clock may be wrong.
    has_hosts: bool,
    /// Where they write their logs.
    directory: PathBuf,
    began: Instant,
    at_work: Vec<Worker>,
    /// The processes that have ended, with the lead of their clocks in seconds.
    lives: Vec<(Life, i64)>,
}

struct Worker {
    /// The place among the workers. A worker that replaces this one has the same number.
    number: usize,
    name: String,
    child: Child,
    /// By how many seconds the clock of its host is ahead.
    ahead: i64,
    began: At,
    minutes: std::ops::Range<u32>,
}

impl<'a> Crew<'a> {
    /// Begins their clock, without a worker.
    pub(crate) fn new(round: &'a Round, site: &Site, directory: &Path) -> Self {
        let (store, has_hosts, directory) = (site.url(), !site.is_for_one_host(), directory.to_owned());
        Self { round, store, has_hosts, directory, began: Instant::now(), at_work: Vec::new(), lives: Vec::new() }
    }

    /// Starts a worker whose clock is off by so many minutes; which process it is. `None`: its last minute is past.
    pub(crate) fn start(&mut self, number: usize, skew: i32) -> Option<u32> {
        let (first, last) = (first_minute(self.round, self.began, skew)?, self.round.minutes());
        let nth = self.lives.len() + self.at_work.len();
        let name = format!("worker-{number}.{nth}");
        let log = self.directory.join(&name);
        let mut command = worker_at(worker_program(nth), &self.store, &log);
        command.args(["--now", &occurrence(first).to_rfc3339(), "--ticks", &(last - first).to_string()]);
        command.args(["--every-ms", &self.round.minute.as_millis().to_string()]);
        self.describe_the_task(&mut command, &log, number);
        let said = File::create(log.with_extension("stderr")).expect("the directory takes a file");
        let ahead = if self.has_hosts { i64::from(skew) * 60 } else { 0 };
        let mut command = until_we_end(&command, &self.clock(&name, ahead));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        let began = now();
        let child = command.spawn().expect("there is setpriv");
        let pid = child.id();
        self.at_work.push(Worker { number, name, child, ahead, began, minutes: first..last });
        Some(pid)
    }

    /// Returns the words before the command of a worker whose clock is so many seconds ahead.
    fn clock(&self, name: &str, ahead: i64) -> Vec<String> {
        if ahead == 0 {
            return Vec::new();
        }
        let directory = self.directory.join(format!("{name}.clock"));
        fs::create_dir(&directory).expect("the directory takes another");
        let words = settable(&directory);
        WallClock::of(&directory).set_ahead(ahead);
        words
    }

    fn describe_the_task(&self, command: &mut Command, log: &Path, number: usize) {
        let round = self.round;
        command.args(["--run-log", &round.logged_runs.to_string()]);
        command.args(["--event", &event(round), "--in-background", &round.events.to_string()]);
        if round.protection != Protection::Claim {
            command.args(["--without-overlapping", "--term", &TERM.as_secs().to_string()]);
        }
        if round.protection != Protection::Lease {
            command.arg("--on-one-server");
        }
        if round.makes_up {
            command.args(["--catch-up-all", "3600", "--from", &occurrence(0).to_rfc3339()]);
        }
        if round.slots > 1 {
            command.args(["--at-most", &round.slots.to_string()]);
        }
        if round.shares_mutex {
            command.args(["--mutex-name", &mutex(round)]);
        }
        if round.is_filtered {
            command.arg("--filtered");
        }
        if !round.pauses.is_empty() {
            command.args(["--named", &schedule_name(round)]);
        }
        match round.on_overlap {
            OnOverlap::Skip => {}
            OnOverlap::Queue(places) => _ = command.args(["--on-overlap", &format!("queue-all={places}")]),
            OnOverlap::Replace => _ = command.args(["--on-overlap", "replace"]),
        }
        if let Some(Retries { times, after, .. }) = round.retries {
            command.args(["--retry", &times.to_string(), "--retry-after-ms", &after.as_millis().to_string()]);
        }
        let fails = round.retries.map_or(0, |retries| retries.fails);
        match round.task {
            Task::Callback(takes) => {
                if number % 2 == 1 {
                    command.args(["--async", "--grace-ms", "300"]);
                }
                command.args(["--work-ms", &takes.as_millis().to_string(), "--fails", &fails.to_string()])
            }
            Task::Command(beats) => {
                command.args(["--exec", &line_of_the_shell(log, beats, fails), "--grace-ms", "300"])
            }
        };
    }

    /// Kills it and waits for its end; which process it was. `None`: its place is empty.
    pub(crate) fn kill(&mut self, number: usize) -> Option<u32> {
        let at = self.at_work.iter().position(|worker| worker.number == number)?;
        let mut worker = self.at_work.remove(at);
        let killed = now();
        worker.child.kill().expect("it is ours");
        let status = worker.child.wait().expect("it is ours");
        let pid = worker.child.id();
        // The process may have ended by itself just before.
        let was_killed = status.signal() == Some(Signal::KILL.as_raw());
        let end = if was_killed { End::Killed(killed) } else { end(status, &self.directory, &worker.name) };
        self.lives.push(worker.into_life(end));
        was_killed.then_some(pid)
    }

    /// Sends this signal, and returns the process. `None`: no living process has this number.
    pub(crate) fn signal(&mut self, number: usize, signal: Signal) -> Option<u32> {
        let worker = self.at_work.iter_mut().find(|worker| worker.number == number)?;
        if worker.child.try_wait().expect("it is ours").is_some() {
            return None;
        }
        let pid = worker.child.id();
        // The process id cannot be reused before we have waited for the process.
        let process = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process has a number");
        kill_process(process, signal).ok().map(|()| pid)
    }

    pub(crate) fn find(&self, victim: Victim) -> usize {
        match victim {
            Victim::Number(number) => number,
            Victim::AtWork(other) => {
                let mut busy = self.at_work.iter().filter(|worker| worker.has_a_task_at_work(&self.directory));
                busy.next().map_or(other, |worker| worker.number)
            }
        }
    }

    /// Waits until all have ticked their last minute. Returns their lives.
    pub(crate) fn come_home(mut self) -> Vec<Life> {
        let patience = Instant::now() + PATIENCE;
        for mut worker in std::mem::take(&mut self.at_work) {
            let end = loop {
                match worker.child.try_wait().expect("it is ours") {
                    Some(status) => break end(status, &self.directory, &worker.name),
                    None if patience < Instant::now() => {
                        worker.child.kill().and_then(|()| worker.child.wait()).expect("it is ours");
                        break End::Badly(format!("it was still there {PATIENCE:?} after the last fault"));
                    }
                    None => thread::sleep(Duration::from_millis(5)), // between two checks of another process
                }
            };
            self.lives.push(worker.into_life(end));
        }
        // A command may have written until now.
        let lives = std::mem::take(&mut self.lives).into_iter();
        lives.map(|(life, ahead)| Life { lines: lines(&self.directory.join(&life.name), ahead), ..life }).collect()
    }

    /// Returns the time until the next minute begins.
    pub(crate) fn until_the_next_minute(&self) -> Duration {
        let past = nanoseconds(self.began.elapsed()) % nanoseconds(self.round.minute);
        self.round.minute.saturating_sub(Duration::from_nanos(past))
    }
}

impl Drop for Crew<'_> {
    /// Kills workers that are left after a failure.
    fn drop(&mut self) {
        for worker in &mut self.at_work {
            let _ = worker.child.kill().and_then(|()| worker.child.wait());
        }
    }
}

impl Worker {
    fn into_life(self, end: End) -> (Life, i64) {
        let Self { name, child, ahead, began, minutes, .. } = self;
        (Life { name, pid: child.id(), began, minutes, lines: Vec::new(), end }, ahead)
    }

    fn has_a_task_at_work(&self, directory: &Path) -> bool {
        let log = fs::read_to_string(directory.join(&self.name)).unwrap_or_default();
        log.lines().last().is_some_and(|last| {
            ["start", "beat", "fails", "attempt"].iter().any(|what| last.contains(&format!("\"what\":\"{what}\"")))
        })
    }
}

/// Returns the minute of the schedule on a clock with this skew, for a round that began at this moment; `None`
/// after the last. Only workers whose clocks are behind tick the first minutes of a round.
pub(crate) fn first_minute(round: &Round, began: Instant, skew: i32) -> Option<u32> {
    let past = began.elapsed().as_nanos() / round.minute.as_nanos();
    let minute = i64::try_from(past + LEAD).expect("a round is short") + i64::from(skew);
    u32::try_from(minute.max(0)).ok().filter(|minute| *minute < round.minutes())
}

/// Returns the name of the round's first event. Further events have a number after it.
fn event(round: &Round) -> String {
    format!("round-{}", round.seed)
}

/// Returns the mutex that its events share.
pub(crate) fn mutex(round: &Round) -> String {
    format!("mutex-{}", round.seed)
}

/// Returns the name of the workers' schedules, under which they are paused.
pub(crate) fn schedule_name(round: &Round) -> String {
    format!("schedule-{}", round.seed)
}

/// Returns the names of all events of this round.
pub(crate) fn events(round: &Round) -> Vec<String> {
    let first = event(round);
    (1..=round.events).map(|number| if number == 1 { first.clone() } else { format!("{first}-{number}") }).collect()
}

/// Returns the command, with these words before it. It is killed when the thread ends that starts it.
fn until_we_end(command: &Command, words: &[String]) -> Command {
    let mut bound = Command::new("setpriv");
    bound.args(["--pdeathsig", "KILL", "--"]).args(words).arg(command.get_program()).args(command.get_args());
    bound
}

/// Returns the command that logs `start`, then so many `beat`s and `end`, as the callback of `worker` does; so many attempts of a
/// run fail. Every second event beats several times as often.
fn line_of_the_shell(log: &Path, beats: u32, fails: u32) -> String {
    let line = r#"{"at":%s,"event":"%s","what":"%s","occurrence":"%s","token":%s,"slot":%s}\n"#;
    let values = r#""$(date +%s%N)" "$SOLOIST_EVENT" "$1" "$SOLOIST_OCCURRENCE" "${SOLOIST_TOKEN:-null}" "${SOLOIST_SLOT:-null}""#;
    let say = format!("say() {{ printf '{line}' {values} >> '{}'; }}", log.display());
    let beat = BEAT.as_secs_f64();
    let beats = format!("case $SOLOIST_EVENT in *-2 | *-4) beats={};; *) beats={beats};; esac", 7 * beats);
    let begin = "case $SOLOIST_ATTEMPT in 1) say start;; *) say attempt;; esac";
    let end = format!("if [ $SOLOIST_ATTEMPT -le {fails} ]; then say fails; exit 3; fi; say end");
    format!("{say}; {beats}; {begin}; for beat in $(seq $beats); do sleep {beat}; say beat; done; {end}")
}

/// Returns the lines of a worker's log. Their times are shifted to the clock of this machine; the worker's was
/// ahead by `ahead` seconds.
fn lines(log: &Path, ahead: i64) -> Vec<Line> {
    let here = |at: At| at.checked_add_signed(-ahead * 1_000_000_000).expect("it is long after 1970");
    let lines = read(log).into_iter();
    lines.map(|line| Line { at: here(line.at), lost_at: line.lost_at.map(here), ..line }).collect()
}

fn end(status: std::process::ExitStatus, directory: &Path, name: &str) -> End {
    // A run that failed or was not to be had is a failure of its process, as it should be.
    if matches!(status.code(), Some(0 | 1)) {
        return End::Done;
    }
    let said = fs::read_to_string(directory.join(name).with_extension("stderr")).unwrap_or_default();
    End::Badly(format!("{status}: {said}"))
}

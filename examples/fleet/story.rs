//! The history of a fleet, from the reports of its workers: each run with its worker and time, each skip with its
//! reason, and the kill.

use std::collections::BTreeMap;

use crate::jobs::{JOBS, TERM, VICTIM};
use crate::pace::At;

#[derive(Debug)]
pub(crate) struct Story {
    pub(crate) workers: usize,
    pub(crate) minutes: u32,
    pub(crate) seed: u64,
    /// The runs. The runs of one worker are in the order of their starts.
    pub(crate) runs: Vec<Run>,
    pub(crate) skips: Vec<Skip>,
    pub(crate) kill: Option<Kill>,
    after_a_kill: AfterAKill,
    /// The worker of each process id. A worker that was restarted has two ids.
    processes: BTreeMap<u32, usize>,
}

/// A run of an event. The number of the worker begins at 0; the pictures and messages show it from 1.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) worker: usize,
    pub(crate) job: usize,
    pub(crate) minute: u32,
    pub(crate) token: String,
    pub(crate) from: At,
    pub(crate) end: Option<(At, End)>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum End {
    Well,
    Failed(String),
    /// The run ended because its process was killed.
    Killed,
}

#[derive(Debug)]
pub(crate) struct Skip {
    pub(crate) worker: usize,
    pub(crate) job: usize,
    pub(crate) minute: u32,
    pub(crate) reason: Reason,
    /// The reason in words, with the worker that held the lease or the claim.
    pub(crate) why: String,
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Reason {
    /// Another worker has taken this minute.
    Taken,
    /// The run of an earlier minute had not ended.
    Running,
    /// A killed worker still held the lease.
    Leased,
    /// Any other reason, such as a store that is unavailable.
    Fault,
}

/// The time at which a store frees the lease of a killed process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum AfterAKill {
    /// The lease is free at once: a store on the same host knows that the process has ended.
    FreeAtOnce,
    /// The lease is free when its term is over: a server does not know whether the process has ended.
    Leased,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Kill {
    pub(crate) worker: usize,
    pub(crate) process: u32,
    pub(crate) at: At,
    pub(crate) restarted: Option<At>,
}

impl Story {
    pub(crate) fn new(workers: usize, minutes: u32, seed: u64, after_a_kill: AfterAKill) -> Self {
        let (runs, skips) = (Vec::new(), Vec::new());
        Self { workers, minutes, seed, runs, skips, kill: None, after_a_kill, processes: BTreeMap::new() }
    }

    pub(crate) fn started(&mut self, worker: usize, process: u32) {
        self.processes.insert(process, worker);
    }

    /// Adds a line of a worker to the history. Returns `None` if the line has no known format.
    pub(crate) fn told(&mut self, worker: usize, line: &str) -> Option<()> {
        let fields: Vec<&str> = line.splitn(7, '\t').collect();
        let [at, minute, event, what @ ..] = &fields[..] else { return None };
        let (at, minute) = (At(at.parse().ok()?), minute.parse().ok()?);
        let job = JOBS.iter().position(|job| job.name == *event)?;
        match what {
            ["started", token] => {
                self.runs.push(Run { worker, job, minute, token: (*token).to_owned(), from: at, end: None });
            }
            ["ended", how, outcome] => {
                let end = if *how == "well" { End::Well } else { End::Failed((*outcome).to_owned()) };
                let mut runs = self.runs.iter_mut();
                runs.find(|run| (run.worker, run.job, run.minute) == (worker, job, minute))?.end = Some((at, end));
            }
            ["skipped", keyword, holder, text] => {
                let (reason, why) = self.why_skipped(keyword, holder, text);
                self.skips.push(Skip { worker, job, minute, reason, why });
            }
            _ => return None,
        }
        Some(())
    }

    /// Returns the reason of a skip, and its text, which names the worker instead of the process. A report from a store
    /// on a server can't say whether the holder is running or was killed, but the history knows the kill.
    fn why_skipped(&self, keyword: &str, holder: &str, text: &str) -> (Reason, String) {
        let (reason, words) = match keyword {
            "ran_elsewhere" => (Reason::Taken, "taken by"),
            "overlapping" => (Reason::Running, "still running:"),
            _ => return (Reason::Fault, text.to_owned()),
        };
        let process = holder.parse().unwrap_or(0);
        let Some(worker) = self.processes.get(&process).map(|worker| worker + 1) else {
            return (reason, text.to_owned());
        };
        match self.kill.filter(|kill| kill.process == process) {
            Some(kill) if reason == Reason::Running && self.after_a_kill == AfterAKill::Leased => {
                let (at, term) = (kill.at, TERM.as_secs());
                let free = format!("free when its term of {term} minutes is over");
                (Reason::Leased, format!("leased to worker {worker}, which was killed at minute {at}: {free}"))
            }
            _ => (reason, format!("{words} worker {worker}")),
        }
    }

    /// Ends the runs of the killed worker.
    pub(crate) fn died(&mut self, kill: Kill) {
        for run in self.runs.iter_mut().filter(|run| run.worker == kill.worker && run.end.is_none()) {
            run.end = Some((kill.at, End::Killed));
        }
    }

    pub(crate) fn run_of(&self, job: usize, minute: u32) -> Option<&Run> {
        self.runs.iter().find(|run| (run.job, run.minute) == (job, minute))
    }

    /// Returns the run of the event [`VICTIM`] that ended because its worker was killed.
    pub(crate) fn killed_run(&self) -> Option<&Run> {
        self.runs.iter().find(|run| run.job == VICTIM && matches!(run.end, Some((_, End::Killed))))
    }

    /// Returns the first run of the event [`VICTIM`] after the kill.
    pub(crate) fn takeover(&self) -> Option<&Run> {
        let kill = self.kill?;
        self.runs.iter().filter(|run| run.job == VICTIM && run.from >= kill.at).min_by_key(|run| run.from)
    }

    /// Describes the kill in sentences.
    pub(crate) fn of_the_kill(&self) -> Vec<String> {
        let (Some(kill), Some(run)) = (self.kill, self.killed_run()) else { return Vec::new() };
        let (worker, event, minute) = (kill.worker + 1, JOBS[run.job].name, run.minute);
        let mut lines =
            vec![format!("worker {worker} was killed at minute {}, during {event} of minute {minute}", kill.at)];
        if let Some(next) = self.takeover() {
            let (worker, after) = (next.worker + 1, next.from.after(kill.at));
            lines.push(format!(
                "worker {worker} took over {event} at minute {}, {after} minutes later, with a higher token",
                next.from
            ));
        }
        if let Some(back) = kill.restarted {
            lines.push(format!("worker {worker} was back at minute {back}"));
        }
        lines
    }

    /// Returns the broken promises and other failures. The list is empty if all is well.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (number, run) in self.runs.iter().enumerate() {
            let what = format!("{} of minute {} on worker {}", JOBS[run.job].name, run.minute, run.worker + 1);
            match &run.end {
                None => faults.push(format!("{what} has no end")),
                Some((_, End::Failed(outcome))) => faults.push(format!("{what} {outcome}")),
                Some((_, End::Well | End::Killed)) => {}
            }
            for other in self.runs[..number].iter().filter(|other| other.job == run.job) {
                if other.minute == run.minute {
                    faults.push(format!("{what} ran on worker {}, too", other.worker + 1));
                }
                if run.job == VICTIM && run.overlaps(other) {
                    faults.push(format!("{what} overlapped with the run of minute {}", other.minute));
                }
            }
        }
        faults.extend(self.skips.iter().filter(|skip| skip.reason == Reason::Fault).map(|skip| skip.why.clone()));
        let token = |run: &Run| run.token.parse::<u64>().ok();
        match (self.killed_run(), self.takeover()) {
            (Some(died), Some(next)) if token(next) > token(died) => {}
            (Some(_), Some(_)) => faults.push("the token did not rise after the kill".into()),
            _ => faults.push("no worker took over the event of the killed worker".into()),
        }
        faults
    }
}

impl Run {
    /// Returns the end of the run, or the latest possible time if the run has not ended.
    pub(crate) fn to(&self) -> At {
        self.end.as_ref().map_or(At(u32::MAX), |(at, _)| *at)
    }

    pub(crate) fn was_killed(&self) -> bool {
        matches!(self.end, Some((_, End::Killed)))
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.from < other.to() && other.from < self.to()
    }
}

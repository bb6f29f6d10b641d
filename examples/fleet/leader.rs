//! Starts the workers, kills one worker during a run, restarts this worker, and prints the reports of all workers.

use std::error::Error;
use std::fmt::Display;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use soloist::store::Scope;
use soloist::{EventMutex, MutexName};

use crate::jobs::{JOBS, VICTIM};
use crate::pace::{At, Pace};
use crate::story::{AfterAKill, Kill, Reason, Run, Story};

/// Checks that workers can use the store, so that an error is reported once, and not by each worker. Returns whether
/// the store frees the leases of a killed process at once or when their terms are over.
pub(crate) fn look_at(url: &str) -> Result<AfterAKill, Box<dyn Error>> {
    let mutex = soloist::connect(url)?;
    let after_a_kill = match mutex.describe().scope() {
        Scope::Process => {
            return Err("each worker is a process, and processes can't share a store in memory: use file:/path or \
                        redis://host"
                .into());
        }
        Scope::Host => AfterAKill::FreeAtOnce,
        _ => AfterAKill::Leased,
    };
    mutex.exists(&MutexName::lease("fleet")?)?;
    Ok(after_a_kill)
}

/// Runs a fleet from its first to its last minute, and adds its runs, skips and the kill to `story`.
pub(crate) fn lead(url: &str, story: Story) -> Result<Story, Box<dyn Error>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    let mut leader = Leader::new(url, story);
    println!("            {:17}{:19}{}", JOBS[0].name, JOBS[1].name, JOBS[2].name);
    (0..leader.story.workers).try_for_each(|worker| leader.start(worker))?;
    while leader.servers.iter().any(Option::is_some) {
        let heard = leader.listen();
        // Ctrl-C also ends the workers, which makes `heard` an error. The interruption is reported instead.
        if interrupted.load(Ordering::Relaxed) {
            return Err("interrupted".into());
        }
        heard?;
        leader.kill_one()?;
        leader.restart_it()?;
        leader.show_minutes();
    }
    Ok(leader.story)
}

struct Leader {
    url: String,
    pace: Pace,
    story: Story,
    /// The processes of the workers; `None` for a worker that has ended. Dropping a process kills it.
    servers: Vec<Option<Server>>,
    tell: Sender<(usize, News)>,
    told: Receiver<(usize, News)>,
    /// The earliest minute of the kill. The next run of the event [`VICTIM`] that starts then or later is killed.
    kill_from: u32,
    /// The time from the start of the killed run to the kill, in thousandths of a minute.
    kill_after: u32,
    /// The number of minutes that were printed so far.
    shown: u32,
}

enum News {
    Line(String),
    /// The standard output of the worker is closed, because the worker has ended.
    Gone,
}

impl Leader {
    fn new(url: &str, story: Story) -> Self {
        let (tell, told) = mpsc::channel();
        let mut random = fastrand::Rng::with_seed(story.seed);
        Self {
            url: url.to_owned(),
            pace: Pace::new(),
            servers: (0..story.workers).map(|_| None).collect(),
            tell,
            told,
            // Four minutes are left for the next run of the event, and for the restart of the worker.
            kill_from: random.u32(2..story.minutes - 4),
            kill_after: random.u32(200..700),
            shown: 0,
            story,
        }
    }

    fn start(&mut self, worker: usize) -> Result<(), Box<dyn Error>> {
        let (began, minutes) = (self.pace.began().to_string(), self.story.minutes.to_string());
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--worker", &began, "--minutes", &minutes, &self.url]);
        let mut server = Server(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
        let out = server.0.stdout.take().ok_or("a worker without its standard output")?;
        let tell = self.tell.clone();
        thread::spawn(move || {
            let lines = BufReader::new(out).lines().map_while(Result::ok).map(News::Line);
            lines.chain([News::Gone]).try_for_each(|news| tell.send((worker, news)))
        });
        self.story.started(worker, server.0.id());
        self.servers[worker] = Some(server);
        Ok(())
    }

    /// Reads the lines that the workers have written, and adds them to the story. Waits up to 20 ms for the first line.
    fn listen(&mut self) -> Result<(), Box<dyn Error>> {
        let first = self.told.recv_timeout(Duration::from_millis(20)).ok();
        for (worker, news) in first.into_iter().chain(self.told.try_iter()) {
            match (news, self.story.kill) {
                (News::Line(line), _) => {
                    self.story.told(worker, &line).ok_or_else(|| format!("worker {} says {line:?}", worker + 1))?;
                }
                (News::Gone, Some(kill)) if kill.worker == worker && kill.restarted.is_none() => {
                    self.story.died(kill);
                    self.servers[worker] = None;
                }
                (News::Gone, _) => {
                    let status = self.servers[worker].take().map(|mut server| server.0.wait()).transpose()?;
                    if let Some(status) = status.filter(|status| !status.success()) {
                        return Err(format!("worker {} ended with {status}", worker + 1).into());
                    }
                }
            }
        }
        Ok(())
    }

    /// Kills a worker by SIGKILL during a run of the event [`VICTIM`], if the time for the kill has come.
    fn kill_one(&mut self) -> Result<(), Box<dyn Error>> {
        let now = self.pace.now();
        let is_due = |run: &Run| run.minute >= self.kill_from && now.0 >= run.from.0 + self.kill_after;
        let run = self.story.runs.iter().find(|run| run.job == VICTIM && run.end.is_none() && is_due(run));
        let (Some(run), None) = (run, self.story.kill) else { return Ok(()) };
        let worker = run.worker;
        let Some(server) = &mut self.servers[worker] else { return Ok(()) };
        // The time is read before the kill, because another worker can start the event right after the kill.
        let kill = Kill { worker, process: server.0.id(), at: self.pace.now(), restarted: None };
        server.0.kill()?;
        server.0.wait()?;
        println!("{}worker {} is killed during {}", head(kill.at), worker + 1, JOBS[VICTIM].name);
        self.story.kill = Some(kill);
        Ok(())
    }

    /// Starts the killed worker again, if the kill was a minute and a half ago or earlier.
    fn restart_it(&mut self) -> Result<(), Box<dyn Error>> {
        let now = self.pace.now();
        let Some(kill) = self.story.kill.as_mut().filter(|kill| kill.restarted.is_none()) else { return Ok(()) };
        if now.0 < kill.at.0 + At::MINUTE * 3 / 2 || self.servers[kill.worker].is_some() {
            return Ok(());
        }
        kill.restarted = Some(now);
        let worker = kill.worker;
        println!("{}worker {} is started again", head(now), worker + 1);
        self.start(worker)
    }

    /// Prints a line for each minute that is nearly over.
    fn show_minutes(&mut self) {
        while self.shown < self.story.minutes && self.pace.now().0 >= At::minute(self.shown).0 + 900 {
            let [remind, generate, sync] = [0, 1, 2].map(|job| who(&self.story, job, self.shown));
            println!("{}", format!("{}{remind:17}{generate:19}{sync}", head(self.shown)).trim_end());
            self.shown += 1;
        }
    }
}

/// Returns the beginning of a line: the word `minute` and the time `when`.
fn head(when: impl Display) -> String {
    format!("{:<12}", format!("minute {when}"))
}

/// Returns which worker runs the event in this minute, or why none does. A skip is known only when the tick of its
/// worker has ended.
fn who(story: &Story, job: usize, minute: u32) -> String {
    let start = At::minute(minute);
    let is_in_the_way = |run: &Run| job == VICTIM && run.job == job && run.from < start && run.to() > start;
    let was_skipped = |why| story.skips.iter().any(|skip| (skip.job, skip.minute, skip.reason) == (job, minute, why));
    match story.run_of(job, minute) {
        Some(run) => format!("worker {}", run.worker + 1),
        None if was_skipped(Reason::Leased) => "(still leased)".into(),
        None if story.runs.iter().any(is_in_the_way) || was_skipped(Reason::Running) => "(still running)".into(),
        None => "(no worker yet)".into(),
    }
}

/// The process of a worker. Dropping it kills the process, if the process is running.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

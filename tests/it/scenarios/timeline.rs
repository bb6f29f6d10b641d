//! Servers that tick one event, drawn as a timeline. Each tick is a process of its own, as cron starts it. The
//! drawing has a row for each server, a column for each moment of ticks, and bars for runs.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::fleet::Fleet;
use crate::worker::Worker;
use crate::worker_log::Line;

pub(crate) struct Timeline<'a> {
    fleet: &'a Fleet,
    event: &'a str,
    options: &'a [&'a str],
    ticks: Vec<Tick<'a>>,
}

/// A tick of one server at one moment.
struct Tick<'a> {
    server: &'static str,
    moment: &'static str,
    pid: u32,
    /// The process of a running task.
    worker: Option<Worker<'a>>,
    lines: Vec<Line>,
    killed_at: Option<u64>,
}

impl Tick<'_> {
    fn start(&self) -> Option<&Line> {
        self.lines.iter().find(|line| line.what == "start")
    }

    /// Returns when its task ended, and whether by itself.
    fn end(&self) -> (u64, bool) {
        let end = self.lines.iter().find(|line| line.what == "end").map(|line| (line.at, true));
        end.or(self.killed_at.map(|at| (at, false))).expect("nothing is at work any more")
    }
}

impl<'a> Timeline<'a> {
    pub(crate) fn new(fleet: &'a Fleet, event: &'a str, options: &'a [&'a str]) -> Self {
        Self { fleet, event, options, ticks: Vec::new() }
    }

    /// Lets servers tick one after another, at a moment such as `12:00` or `12:00:30`. A task ends before the next
    /// tick.
    #[track_caller]
    pub(crate) fn ask(&mut self, moment: &'static str, servers: &[&'static str]) {
        for server in servers {
            let mut tick = self.tick(moment, server, &[]);
            tick.lines = tick.worker.take().expect("it has started").succeeds();
            self.ticks.push(tick);
        }
    }

    /// Starts the task on the first server, and lets the others tick while it runs.
    #[track_caller]
    pub(crate) fn ask_during_the_task(&mut self, moment: &'static str, servers: &[&'static str]) {
        let (first, others) = servers.split_first().expect("somebody runs it");
        let folder = self.folder(moment, first);
        std::fs::create_dir(&folder).expect("it is new");
        let mut tick = self.tick(moment, first, &["--until", &folder]);
        tick.worker.as_mut().expect("it has started").wait_for("start");
        self.ticks.push(tick);
        self.ask(moment, others);
    }

    /// Ends the task that began at this moment on this server.
    #[track_caller]
    pub(crate) fn end(&mut self, moment: &'static str, server: &'static str) {
        std::fs::write(format!("{}/{}", self.folder(moment, server), self.event), "").expect("the folder is there");
        let tick = self.running(moment, server);
        tick.lines = tick.worker.take().expect("it is at work").succeeds();
    }

    /// Kills the server in its task.
    #[track_caller]
    pub(crate) fn kill(&mut self, moment: &'static str, server: &'static str) {
        let tick = self.running(moment, server);
        let worker = tick.worker.take().expect("it is at work");
        tick.lines = worker.log();
        worker.kill();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
        tick.killed_at = Some(u64::try_from(now.as_nanos()).expect("it is earlier than 2554"));
    }

    /// Returns the line that the task of this tick logged when it started.
    #[track_caller]
    pub(crate) fn start_of(&self, moment: &str, server: &str) -> &Line {
        self.of(moment, server).and_then(Tick::start).expect("it started the task")
    }

    /// Returns when the task of this tick ended.
    #[track_caller]
    pub(crate) fn end_of(&self, moment: &str, server: &str) -> u64 {
        self.of(moment, server).expect("it has ticked").end().0
    }

    /// Returns the tokens of all runs, in the order of their starts.
    pub(crate) fn tokens(&self) -> Vec<u64> {
        let mut starts: Vec<&Line> = self.ticks.iter().filter_map(Tick::start).collect();
        starts.sort_by_key(|start| start.at);
        starts.iter().map(|start| start.token.expect("protected")).collect()
    }

    /// Returns how often this occurrence started.
    pub(crate) fn starts(&self, occurrence: &str) -> usize {
        self.ticks.iter().filter_map(Tick::start).filter(|start| clock(&start.occurrence) == occurrence).count()
    }

    #[track_caller]
    fn tick(&self, moment: &'static str, server: &'static str, more: &[&str]) -> Tick<'a> {
        let seconds = if moment.len() > "12:00".len() { "" } else { ":00" };
        let now = format!("2026-03-01T{moment}{seconds}Z");
        let options = [&["--event", self.event, "--now", &now], self.options, more].concat();
        let worker = Worker::with(self.fleet, &format!("{} {moment} {server}", self.event), &options);
        Tick { server, moment, pid: worker.pid(), worker: Some(worker), lines: Vec::new(), killed_at: None }
    }

    fn of(&self, moment: &str, server: &str) -> Option<&Tick<'a>> {
        self.ticks.iter().find(|tick| tick.server == server && tick.moment == moment)
    }

    #[track_caller]
    fn running(&mut self, moment: &str, server: &str) -> &mut Tick<'a> {
        let mut ticks = self.ticks.iter_mut();
        ticks.find(|tick| tick.server == server && tick.moment == moment).expect("it has ticked")
    }

    fn folder(&self, moment: &str, server: &str) -> String {
        self.fleet.log(&format!("{} {moment} {server} ends", self.event)).display().to_string()
    }

    /// Renders the timeline as the page does.
    pub(crate) fn draw(&self) -> String {
        let mut moments: Vec<&str> = Vec::new();
        let mut servers: Vec<&str> = Vec::new();
        for tick in &self.ticks {
            if !moments.contains(&tick.moment) {
                moments.push(tick.moment);
            }
            if !servers.contains(&tick.server) {
                servers.push(tick.server);
            }
        }
        servers.sort_unstable();
        let names: Vec<(u32, &str)> = self.ticks.iter().map(|tick| (tick.pid, tick.server)).collect();
        let began = |moment: &str| {
            let lines = self.ticks.iter().filter(|tick| tick.moment == moment).map(|tick| &tick.lines[0]);
            lines.map(|line| line.at).min().expect("somebody asked")
        };
        let began: Vec<u64> = moments.iter().map(|moment| began(moment)).collect();

        let of = |server: &str, moment: &&str| self.of(moment, server);
        let mut table = vec![("", moments.iter().map(|moment| (*moment).to_owned()).collect())];
        for server in servers {
            let cell = |moment| of(server, moment).map_or(String::new(), |tick| cell(tick, &names));
            table.push((server, moments.iter().map(cell).collect()));
        }
        let width = width(&table);

        let mut drawn = Vec::new();
        for (row, (server, _)) in rows(&table).into_iter().zip(&table) {
            drawn.push(row);
            let mut bars = Vec::new();
            let ran = moments.iter().enumerate().filter_map(|(column, moment)| Some((column, of(server, moment)?)));
            for (column, tick) in ran.filter(|(_, tick)| tick.start().is_some()) {
                let (at, by_itself) = tick.end();
                let last = began.iter().rposition(|began| *began <= at).expect("it ended after it began");
                let length = (last - column) * width + if last == column { 4 } else { width / 2 };
                bars.resize(HEAD + column * width, ' ');
                bars.resize(bars.len() + length - 1, '█');
                bars.push(if by_itself { '█' } else { '✗' });
            }
            if !bars.is_empty() {
                drawn.push(bars.into_iter().collect());
            }
        }
        drawn.join("\n")
    }
}

/// How wide the names of servers are.
const HEAD: usize = 7;

/// Returns the width of each column.
fn width(table: &[(&str, Vec<String>)]) -> usize {
    table.iter().flat_map(|(_, cells)| cells).map(|cell| cell.len() + 2).max().expect("there are cells")
}

/// Returns each row with its head, and its cells below one another.
pub(crate) fn rows(table: &[(&str, Vec<String>)]) -> Vec<String> {
    let width = width(table);
    let row = |(head, cells): &(&str, Vec<String>)| {
        let row = cells.iter().fold(format!("{head:HEAD$}"), |row, cell| row + &format!("{cell:width$}"));
        row.trim_end().to_owned()
    };
    table.iter().map(row).collect()
}

/// Returns the words of a tick's report, with the server in place of the holder.
fn cell(tick: &Tick<'_>, names: &[(u32, &str)]) -> String {
    match (tick.start(), &tick.lines[..]) {
        (Some(start), _) => format!("runs {}", clock(&start.occurrence)),
        (None, [line]) if line.what == "skipped" => skip(line, names),
        (None, lines) => panic!("{} at {}: {lines:#?}", tick.server, tick.moment),
    }
}

/// Returns the words of the report for a skip, with the server in place of its process.
#[track_caller]
pub(crate) fn skip(line: &Line, names: &[(u32, &str)]) -> String {
    let (Some(text), Some(holder)) = (&line.text, &line.holder) else { panic!("nobody holds it: {line:?}") };
    let words = text.strip_suffix(holder.as_str()).expect("the holder comes last");
    let server = names.iter().find(|(pid, _)| holder.contains(&format!(", pid {pid}, since ")));
    format!("{words}{}", server.unwrap_or_else(|| panic!("none of us: {holder}")).1)
}

/// Returns `12:00` for `2026-03-01T12:00:00Z`.
fn clock(occurrence: &str) -> &str {
    occurrence.get(11..16).expect("an instant as RFC 3339 writes it")
}

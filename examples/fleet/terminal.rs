//! The timeline and the numbers of runs and skips, for a terminal.

use std::io::IsTerminal;

use crate::jobs::JOBS;
use crate::pace::At;
use crate::story::{End, Reason, Run, Story};

/// The width of the first column: the longest name of an event, and a gap.
const LABEL: usize = 18;

pub(crate) fn show(story: &Story) {
    let paint = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let chart = Chart { story, cells: if story.minutes > 12 { 4 } else { 5 }, paint };
    chart.print();
    println!();
    tally(story);
    println!();
    story.of_the_kill().iter().for_each(|line| println!("{line}"));
}

struct Chart<'a> {
    story: &'a Story,
    /// The number of characters of a minute.
    cells: u32,
    paint: bool,
}

impl Chart<'_> {
    fn print(&self) {
        println!("\n{:LABEL$}{}", "minute", self.axis());
        for (number, job) in JOBS.iter().enumerate() {
            println!("{}, {}", job.name, job.about);
            for worker in 0..self.story.workers {
                println!("{}", format!("  worker {:<7}{}", worker + 1, self.row(number, worker)).trim_end());
            }
        }
        // A bar begins with the last digit of its minute.
        let minutes = if self.story.minutes > 10 { "minute 3, 13 or 23" } else { "minute 3" };
        println!("\n3██ the run of {minutes}");
        println!("X   the worker was killed      ░ the worker is not running");
        println!("·   skipped: taken by another  ○ skipped: the lease was still held");
        println!("!   skipped by a fault, which is printed at the end");
    }

    fn axis(&self) -> String {
        let mut axis = vec![' '; self.cell(At::minute(self.story.minutes))];
        for minute in 0..self.story.minutes {
            let from = self.cell(At::minute(minute));
            axis.splice(from..from + 2, format!("{minute:<2}").chars());
        }
        axis.into_iter().collect::<String>().trim_end().to_owned()
    }

    fn row(&self, job: usize, worker: usize) -> String {
        let mut row = vec![' '; self.columns()];
        for skip in self.story.skips.iter().filter(|skip| (skip.job, skip.worker) == (job, worker)) {
            row[self.cell(At::minute(skip.minute))] = match skip.reason {
                Reason::Taken => '·',
                Reason::Running | Reason::Leased => '○',
                Reason::Fault => '!',
            };
        }
        if let Some(kill) = self.story.kill.filter(|kill| kill.worker == worker) {
            let back = kill.restarted.map_or(row.len(), |back| self.cell(back));
            row[self.cell(kill.at)..back].fill('░');
        }
        self.story
            .runs
            .iter()
            .filter(|run| (run.job, run.worker) == (job, worker))
            .for_each(|run| self.draw(run, &mut row));
        let row: String = row.into_iter().collect();
        if self.paint { painted(&row, job) } else { row }
    }

    fn draw(&self, run: &Run, row: &mut [char]) {
        let (from, to) = (self.cell(run.from), self.cell(run.to()).min(row.len() - 1));
        // Even the shortest run has one character.
        row[from..to.max(from + 1)].fill('█');
        row[from] = char::from_digit(run.minute % 10, 10).unwrap_or('?');
        if run.was_killed() {
            row[to.max(from + 1).min(row.len() - 1)] = 'X';
        }
    }

    /// Returns the column of a time. On a busy machine, a run can end after the last column; its end is then in the
    /// last column.
    fn cell(&self, at: At) -> usize {
        let cell = usize::try_from(at.0 / (At::MINUTE / self.cells)).unwrap_or(usize::MAX);
        cell.min(self.columns() - 1)
    }

    /// Returns the number of columns. There are two more minutes than ticks, because the last runs end later.
    fn columns(&self) -> usize {
        usize::try_from((self.story.minutes + 2) * self.cells).unwrap_or(usize::MAX)
    }
}

/// Returns a row in colours: runs in the colour of their event, kills and faults in red, all other marks dimmed.
fn painted(row: &str, job: usize) -> String {
    let colour = |char: char| match char {
        'X' | '!' => "31;1",
        '·' | '○' | '░' => "2",
        _ => ["34", "33", "32"][job],
    };
    row.trim_end()
        .chars()
        .map(|char| if char == ' ' { " ".into() } else { format!("\x1b[{}m{char}\x1b[0m", colour(char)) })
        .collect()
}

fn tally(story: &Story) {
    println!(
        "{:LABEL$}{:>6}{:>8}{:>8}{:>20}{:>15}{:>8}",
        "", "ran", "killed", "failed", "skipped: taken", "overlapping", "faults"
    );
    for (number, job) in JOBS.iter().enumerate() {
        let runs = |is: fn(&End) -> bool| {
            story
                .runs
                .iter()
                .filter(|run| run.job == number && run.end.as_ref().is_some_and(|(_, end)| is(end)))
                .count()
        };
        let skips = |reason| story.skips.iter().filter(|skip| (skip.job, skip.reason) == (number, reason)).count();
        println!(
            "{:LABEL$}{:>6}{:>8}{:>8}{:>20}{:>15}{:>8}",
            job.name,
            runs(|end| *end == End::Well),
            runs(|end| *end == End::Killed),
            runs(|end| matches!(end, End::Failed(_))),
            skips(Reason::Taken),
            skips(Reason::Running) + skips(Reason::Leased),
            skips(Reason::Fault),
        );
    }
}

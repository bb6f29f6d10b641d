//! The timeline as an SVG file without references to other files. Each worker has a lane, and each event has a row in
//! the lane.

use std::cmp::Ordering;
use std::fmt::Write as _;

use crate::jobs::{JOBS, VICTIM};
use crate::pace::At;
use crate::story::{End, Kill, Reason, Run, Skip, Story};

/// The distance of the first minute from the left, in pixels. The other sizes are in pixels, too.
const LEFT: u32 = 208;
const TOP: u32 = 128;
const ROW: u32 = 17;
/// The height of a lane. There are four rows for three events, because the runs of the last event overlap, and need two
/// rows.
const LANE: u32 = 4 * ROW + 14;
const LEGEND: u32 = 144;
/// The least width of the picture. With few minutes, the texts at the top and at the bottom need this width.
const LEAST_WIDTH: u32 = 900;

const STYLE: &str = include_str!("svg.css");

pub(crate) fn draw(story: &Story) -> String {
    let mut picture = Picture { story, minute: (960 / story.minutes).clamp(76, 96), svg: String::new() };
    picture.paper();
    picture.axis();
    (0..story.workers).for_each(|worker| picture.lane(worker));
    story.kill.iter().for_each(|kill| picture.kill(*kill));
    picture.takeover();
    story.runs.iter().for_each(|run| picture.run(run));
    story.skips.iter().for_each(|skip| picture.skip(skip));
    picture.legend();
    picture.svg + "</svg>\n"
}

struct Picture<'a> {
    story: &'a Story,
    /// The width of a minute.
    minute: u32,
    svg: String,
}

impl Picture<'_> {
    fn add(&mut self, element: &str) {
        self.svg.push_str(element);
        self.svg.push('\n');
    }

    fn text(&mut self, x: u32, y: u32, class: &str, text: &str) {
        self.add(&format!("<text x=\"{x}\" y=\"{y}\" class=\"{class}\">{}</text>", escape(text)));
    }

    fn paper(&mut self) {
        let Story { workers, minutes, seed, .. } = self.story;
        let (width, height) = (self.width(), self.bottom() + LEGEND);
        let size = format!("width=\"{width}\" height=\"{height}\"");
        self.add(&format!("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" {size}>"));
        self.add(&format!("<title>{workers} workers on one store, one of them killed</title>\n<style>{STYLE}</style>"));
        self.add(&format!("<rect class=\"paper\" {size}/>"));
        self.text(20, 32, "title", &format!("{workers} workers on one store, {minutes} minutes, seed {seed}"));
        for (y, line) in (54..).step_by(17).zip(self.story.of_the_kill()) {
            self.text(20, y, "", &line);
        }
    }

    fn axis(&mut self) {
        self.text(20, TOP - 10, "quiet", "minute");
        for minute in 0..=self.story.minutes {
            let (x, bottom) = (self.x(At::minute(minute)), self.bottom());
            self.add(&format!("<path class=\"grid\" d=\"M{x} {} V{bottom}\"/>", TOP - 6));
            self.add(&format!(
                "<text x=\"{x}\" y=\"{}\" class=\"quiet\" text-anchor=\"middle\">{minute}</text>",
                TOP - 10
            ));
        }
    }

    fn lane(&mut self, worker: usize) {
        let (top, width) = (top(worker), self.width());
        self.add(&format!(
            "<rect class=\"lane\" x=\"12\" y=\"{top}\" width=\"{}\" height=\"{}\" rx=\"6\"/>",
            width - 24,
            LANE - 6
        ));
        // The lane hides the lines of the minutes, so they are drawn again.
        for minute in 0..=self.story.minutes {
            let x = self.x(At::minute(minute));
            self.add(&format!("<path class=\"grid\" d=\"M{x} {top} v{}\"/>", LANE - 6));
        }
        self.text(24, top + 19, "worker", &format!("worker {}", worker + 1));
        for (number, job) in JOBS.iter().enumerate() {
            let y = y_of(worker, number, 0) + 12;
            self.add(&format!(
                "<text x=\"{}\" y=\"{y}\" class=\"quiet\" text-anchor=\"end\">{}</text>",
                LEFT - 8,
                escape(job.name)
            ));
        }
    }

    fn run(&mut self, run: &Run) {
        let (x, y) = (self.x(run.from), y_of(run.worker, run.job, run.minute));
        let width = (self.x(run.to()) - x).max(3);
        let (job, token) = (JOBS[run.job].name, &run.token);
        let ended = match &run.end {
            None => "with no end".into(),
            Some((at, End::Well)) => format!("until {at}"),
            Some((at, End::Failed(outcome))) => format!("until {at}: {outcome}"),
            Some((at, End::Killed)) => format!("until {at}, when its worker was killed"),
        };
        let title = format!(
            "{job} of minute {} on worker {}, from minute {} {ended}, token {token}",
            run.minute,
            run.worker + 1,
            run.from
        );
        let label = shortened(token);
        self.add(&format!("<g><title>{}</title>", escape(&title)));
        self.add(&format!(
            "<rect class=\"job{}\" x=\"{x}\" y=\"{}\" width=\"{width}\" height=\"{}\" rx=\"3\"/>",
            run.job,
            y + 1,
            ROW - 2
        ));
        // The label must end before the next minute, because a mark can cover the bar there.
        let next = self.x(At::minute(run.minute + 1));
        if fits(&label, width.min(next.saturating_sub(x))) {
            self.text(x + 5, y + 12, "token", &label);
        }
        if run.was_killed() {
            self.cross("kill", x + width, y + ROW / 2);
        }
        self.add("</g>");
    }

    fn skip(&mut self, skip: &Skip) {
        // The mark is at the beginning of the minute, even if the tick asked for the event later.
        let (x, y) = (self.x(At::minute(skip.minute)) + 5, y_of(skip.worker, skip.job, skip.minute) + ROW / 2);
        let title = format!("{} of minute {}: skipped, {}", JOBS[skip.job].name, skip.minute, skip.why);
        // The mark is small, so an invisible larger circle shows the title when the mouse is near the mark.
        self.add(&format!(
            "<g><title>{}</title><circle class=\"touch\" cx=\"{x}\" cy=\"{y}\" r=\"8\"/>",
            escape(&title)
        ));
        self.mark(skip.reason, x, y);
        self.add("</g>");
    }

    fn mark(&mut self, reason: Reason, x: u32, y: u32) {
        match reason {
            Reason::Taken => self.add(&format!("<circle class=\"taken\" cx=\"{x}\" cy=\"{y}\" r=\"2\"/>")),
            Reason::Running | Reason::Leased => {
                self.add(&format!("<circle class=\"leased\" cx=\"{x}\" cy=\"{y}\" r=\"4\"/>"));
            }
            Reason::Fault => self.cross("fault", x, y),
        }
    }

    fn cross(&mut self, class: &str, x: u32, y: u32) {
        self.add(&format!("<path class=\"{class}\" d=\"M{} {} l10 10 m0 -10 l-10 10\"/>", x - 5, y - 5));
    }

    /// Adds the time from the kill to the restart of the worker.
    fn kill(&mut self, kill: Kill) {
        let (from, top) = (self.x(kill.at), top(kill.worker));
        let to = kill.restarted.map_or(self.x(At::minute(self.story.minutes)), |back| self.x(back));
        self.add(&format!("<g><title>worker {} was killed at minute {}</title>", kill.worker + 1, kill.at));
        self.add(&format!(
            "<rect class=\"down\" x=\"{from}\" y=\"{top}\" width=\"{}\" height=\"{}\"/>",
            to.saturating_sub(from),
            LANE - 6
        ));
        self.add(&format!("<path class=\"kill\" d=\"M{from} {top} v{}\"/>", LANE - 6));
        self.text(from + 8, top + 16, "red", &format!("killed at {}", kill.at));
        if let Some(back) = kill.restarted {
            self.add(&format!("<path class=\"back\" d=\"M{to} {top} v{}\"/>", LANE - 6));
            self.text(from + 8, top + LANE - 15, "red", &format!("restarted at {back}"));
        }
        self.add("</g>");
    }

    /// Adds the arrow from the killed run to the run that took over.
    fn takeover(&mut self) {
        let (Some(died), Some(next)) = (self.story.killed_run(), self.story.takeover()) else { return };
        let (x, y) = (self.x(died.to()), y_of(died.worker, VICTIM, 0) + ROW / 2);
        let (to_x, to_y) = (self.x(next.from), y_of(next.worker, VICTIM, 0) + ROW / 2);
        // The arrow first leaves the lane along the line of the kill, so that it crosses no text.
        let edge = match next.worker.cmp(&died.worker) {
            Ordering::Less => top(died.worker),
            Ordering::Equal => y,
            Ordering::Greater => top(died.worker) + LANE - 6,
        };
        let line = format!("M{x} {y} V{edge} L{to_x} {to_y}");
        self.add(&format!("<path class=\"takeover\" d=\"{line}\"><title>taken over</title></path>"));
        self.add(&format!("<circle class=\"end\" cx=\"{to_x}\" cy=\"{to_y}\" r=\"4\"/>"));
    }

    fn legend(&mut self) {
        let top = self.bottom() + 24;
        for (number, job) in (0..).zip(&JOBS) {
            let y = top + number * 20;
            self.add(&format!(
                "<rect class=\"job{number}\" x=\"24\" y=\"{}\" width=\"26\" height=\"12\" rx=\"3\"/>",
                y - 10
            ));
            self.text(60, y, "", &format!("{}: {}", job.name, job.about));
        }
        let y = top + 66;
        self.mark(Reason::Taken, 37, y - 4);
        self.text(60, y, "", "skipped: another worker took the minute");
        self.mark(Reason::Running, 335, y - 4);
        self.text(349, y, "", "skipped: the lease was still held");
        self.mark(Reason::Fault, 602, y - 4);
        self.text(617, y, "", "skipped by a fault");
        let y = y + 20;
        self.cross("kill", 37, y - 4);
        self.text(60, y, "", "the worker was killed during the run");
        self.add(&format!("<path class=\"takeover\" d=\"M322 {} h26\"/>", y - 4));
        self.text(355, y, "", "taken over");
        self.text(
            60,
            y + 20,
            "quiet",
            "In a bar: the last digits of its fencing token. Point at a bar or a mark for details.",
        );
    }

    fn width(&self) -> u32 {
        // There is room after the last minute, because its runs end later.
        (self.x(At::minute(self.story.minutes)) + self.minute + 30).max(LEAST_WIDTH)
    }

    fn bottom(&self) -> u32 {
        top(self.story.workers)
    }

    fn x(&self, at: At) -> u32 {
        LEFT + at.0.min(2 * At::MINUTE * self.story.minutes) * self.minute / At::MINUTE
    }
}

/// Returns the top of an event's row in the lane of a worker. The runs of the last event alternate between two rows.
fn y_of(worker: usize, job: usize, minute: u32) -> u32 {
    let row = u32::try_from(job).unwrap_or(0) + if job == JOBS.len() - 1 { minute % 2 } else { 0 };
    top(worker) + 4 + row * ROW
}

fn top(worker: usize) -> u32 {
    TOP + u32::try_from(worker).unwrap_or(0) * LANE
}

/// Returns the last nine digits of a token. The first digits are left out, because they are equal for all tokens of a
/// picture: the built-in stores count microseconds.
fn shortened(token: &str) -> String {
    match token.len().checked_sub(9).and_then(|more| token.get(more..)) {
        Some(end) if end.len() < token.len() => format!("…{end}"),
        _ => token.to_owned(),
    }
}

/// Returns whether a label of digits fits into `width`, with room for a mark behind the label.
fn fits(label: &str, width: u32) -> bool {
    u32::try_from(label.chars().count()).is_ok_and(|length| length * 6 + 8 <= width)
}

fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for char in text.chars() {
        match char {
            '<' | '>' | '&' | '"' | '\'' => write!(escaped, "&#{};", u32::from(char)).unwrap_or_default(),
            // XML has no escape for most control characters, so each becomes a space.
            _ if char.is_control() => escaped.push(' '),
            _ => escaped.push(char),
        }
    }
    escaped
}

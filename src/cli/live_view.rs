//! What `work` prints while it works: a line for each step, and on a terminal, below these lines, what is at work now.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::tables::{marked, table, time};
use crate::base::escape::{Chain, Named, OneLine};
use crate::observe::notice::{Notice, Step};
use crate::observe::skip_reason::SkipReason;
use crate::observe::tell::observers::Observer;
use crate::schedule::registry::Schedule;
use crate::schedule::registry::status::Status;
use crate::schedule::shutdown::Shutdown;
use crate::time::clock::shown::{HumanDuration, to_the_second};
use crate::time::zone::Zone;

/// How often what is at work is shown anew.
const EVERY: Duration = Duration::from_secs(1);

/// How many events are shown at most, where the height of the terminal is not known.
const USUAL_HEIGHT: u16 = 24;

/// Moves up over this text, and clears the rest of the screen. See ECMA-48: CUU and ED.
fn clear(text: &str) -> String {
    let width = terminal_size::terminal_size().map_or(usize::MAX, |(width, _)| width.0.into()).max(1);
    let lines: usize = text.lines().map(|line| visible(line).div_ceil(width).max(1)).sum();
    if lines == 0 { String::new() } else { format!("\x1b[{lines}A\x1b[J") }
}

/// How many characters of a line are seen: not those that change its colour.
fn visible(line: &str) -> usize {
    let mut parts = line.split("\x1b[");
    let plain = parts.next().map_or(0, |part| part.chars().count());
    parts.fold(plain, |count, part| count + part.split_once('m').map_or(0, |(_, seen)| seen.chars().count()))
}

#[derive(Clone)]
pub(super) struct LiveView(Arc<Mutex<Screen>>);

/// The lines of the picture at the bottom of the terminal; `None` where there is no terminal.
struct Screen {
    picture: Option<String>,
}

impl LiveView {
    pub(super) fn new() -> Self {
        let picture = io::stdout().is_terminal().then(String::new);
        Self(Arc::new(Mutex::new(Screen { picture })))
    }

    /// Does this, and shows meanwhile what is at work.
    pub(super) fn follow(&self, schedule: &Schedule, shutdown: &Shutdown, work: impl FnOnce()) {
        let events = schedule.names().count();
        self.line(&format!("{events} {}; Ctrl-C ends this", if events == 1 { "event" } else { "events" }));
        if self.screen().picture.is_none() {
            return work();
        }
        let (ended, has_ended) = channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut is_ending = false;
                while has_ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                    if !is_ending && shutdown.has_begun() {
                        is_ending = true;
                        self.line("nothing more starts, and what is at work may finish; Ctrl-C again stops it");
                    }
                    self.screen().show(Some(picture(&schedule.status())), "");
                }
                self.screen().show(Some(String::new()), "");
            });
            work();
            drop(ended);
        });
    }

    fn line(&self, line: &str) {
        self.screen().show(None, &format!("{line}\n"));
    }

    fn screen(&self) -> MutexGuard<'_, Screen> {
        // No code that can panic runs while it is half-changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Screen {
    /// Prints lines above the picture, and the picture, a new one if there is one.
    fn show(&mut self, picture: Option<String>, lines: &str) {
        let text = match &mut self.picture {
            None => lines.to_owned(),
            Some(shown) => {
                let text = clear(shown) + lines;
                *shown = picture.unwrap_or_else(|| shown.clone());
                text + shown
            }
        };
        // Whoever reads no more is not told.
        let mut output = io::stdout().lock();
        let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
    }
}

impl Observer for LiveView {
    fn observe(&self, notice: &Notice<'_>) {
        let told = match notice.step() {
            Step::Started { token: None } => "started".to_owned(),
            Step::Started { token: Some(token) } => format!("started under token {token}"),
            // Another server has it, which is as it should be.
            Step::Skipped(SkipReason::RanElsewhere(_)) => return,
            Step::Skipped(reason) => format!("skipped, {reason}"),
            Step::Ended(outcome) => outcome.to_string(),
            Step::Cancelled(reason) => format!("told to stop, because {reason}"),
            Step::DoesNotStop => "does not stop".to_owned(),
            Step::LeaseLost { .. } => "lost its lease".to_owned(),
            Step::HookFailed(failure) => failure.to_string(),
            Step::LeftBehind => "left behind: still running".to_owned(),
            Step::Queued { place } => format!("waits in place {place} of its queue"),
            Step::Unprotected(error) => format!("runs without protection: {}", Chain(*error)),
            Step::StoreOut(error) => format!("no answer from the store: {}", Chain(*error)),
            Step::StoreBack => "the store answers again".to_owned(),
            Step::TickLate(late) => format!("this tick is {} late", HumanDuration(*late)),
            _ => return,
        };
        let about = notice.event().map_or_else(String::new, |event| format!("{}: ", Named(event)));
        self.line(&format!("{} {about}{told}", to_the_second(notice.at())));
    }
}

/// What is at work here, or held elsewhere; and what is due next.
fn picture(status: &Status) -> String {
    let height = terminal_size::terminal_size().map_or(USUAL_HEIGHT, |(_, height)| height.0);
    // Something of the lines above stays in sight.
    let room = usize::from(height / 2).max(1);
    let mut rows = Vec::new();
    for event in &status.events {
        let lease_of = |token| event.held_by.iter().flatten().find(|holder| Some(holder.token()) == token);
        for run in &event.running {
            let lease =
                lease_of(run.token).map_or_else(String::new, |holder| time(holder.until(), &Zone::UTC, status.at));
            let since = time(run.since, &event.zone, status.at);
            rows.push(vec![
                Named(&event.name).into(),
                marked("here".to_owned(), Some(true)),
                since.into(),
                lease.into(),
            ]);
        }
        let is_ours = |token| event.running.iter().any(|run| run.token == Some(token));
        for holder in event.held_by.iter().flatten().filter(|holder| !is_ours(holder.token())) {
            let [since, until] = [holder.since(), holder.until()].map(|at| time(at, &event.zone, status.at));
            let place = format!("{}, pid {}", OneLine(holder.host()), holder.pid());
            rows.push(vec![Named(&event.name).into(), place.into(), since.into(), until.into()]);
        }
    }
    let more = rows.len().saturating_sub(room);
    rows.truncate(room);
    let mut picture = String::from("\n");
    if !rows.is_empty() {
        let _ = writeln!(picture, "{}", table(&["at work", "on", "since", "lease ends, unless renewed"], rows));
    }
    if more > 0 {
        let _ = writeln!(picture, "… and {more} more");
    }
    let next = status.events.iter().filter_map(|event| Some((event.next_due?, event))).min_by_key(|(due, _)| *due);
    if let Some((due, event)) = next {
        let _ = writeln!(picture, "next: {}, {}", Named(&event.name), time(due, &event.zone, status.at));
    }
    picture
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_colours_a_line_is_not_seen() {
        assert_eq!(visible("\x1b[1mAT WORK  ON\x1b[0m\x1b[39m\x1b[49m"), 11);
        assert_eq!((visible("plain"), visible("")), (5, 0));
    }

    #[test]
    fn a_line_is_printed_above_the_picture_which_is_drawn_anew() {
        assert_eq!(clear("a\nb\n"), "\x1b[2A\x1b[J");
        assert_eq!(clear(""), "");
    }
}

//! The output of `work` and `backfill`: a line for each step. On a terminal, a picture at the bottom shows the current
//! runs until the shutdown begins.
//!
//! A separate thread prints the lines and the picture, so that neither a slow terminal nor an unavailable store delays
//! a run. The output of tasks scrolls above the picture.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use crate::base::escape::{Chain, Named, OneLine};
use crate::cli::tables::{marked, other_timetables, table, time};
use crate::observe::notice::{Notice, Step};
use crate::observe::tell::observers::Observer;
use crate::outcome::skip_reason::SkipReason;
use crate::schedule::history::status::Status;
use crate::schedule::schedule::Schedule;
use crate::schedule::shutdown::Shutdown;
use crate::time::clock::Clock;
use crate::time::clock::shown::{ExactDuration, HumanDuration, for_people};

/// The time between two pictures.
const EVERY: Duration = Duration::from_secs(1);

/// The number of lines that can wait to be printed. If this many lines wait, further lines are dropped.
const MOST_WAITING: usize = 1_000;

/// An observer that sends a line for each step to the thread that prints.
#[derive(Clone)]
pub(super) struct LiveView(SyncSender<ToPrint>);

/// A line that waits to be printed. `None`: no more lines follow.
type ToPrint = Option<String>;

impl LiveView {
    /// Returns the view, and the receiver of its lines for [`print_during`](Self::print_during).
    pub(super) fn new() -> (Self, Receiver<ToPrint>) {
        let (told, lines) = sync_channel(MOST_WAITING);
        (Self(told), lines)
    }

    /// Prints the line `first`, and runs `work`. Meanwhile, another thread prints the lines of the view.
    pub(super) fn print_during<T>(
        &self,
        told: Receiver<ToPrint>,
        schedule: &Schedule,
        shutdown: &Shutdown,
        first: &str,
        work: impl FnOnce() -> T,
    ) -> T {
        print(&format!("{first}\n"));
        thread::scope(|scope| {
            scope.spawn(move || print_told(&told, schedule, shutdown));
            let worked = work();
            // An error only means that the printing thread has ended.
            let _ = self.0.send(None);
            worked
        })
    }
}

fn print_told(told: &Receiver<ToPrint>, schedule: &Schedule, shutdown: &Shutdown) {
    let clock = Clock::system();
    let mut has_picture = io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    let mut bottom = Bottom::default();
    let mut next = clock.moment();
    // Report a missing table or a wrong password before the first event needs the store.
    if let Err(error) = schedule.check() {
        print(&format!("{}\n", Chain(&error)));
    }
    loop {
        // Without a picture, the thread sleeps until the next line, and reads no store.
        let next_line = if has_picture {
            told.recv_timeout(next.since(clock.moment()))
        } else {
            told.recv().map_err(RecvTimeoutError::from)
        };
        match next_line {
            Ok(Some(line)) => print(&format!("{line}\n")),
            Err(RecvTimeoutError::Timeout) => {}
            Ok(None) | Err(RecvTimeoutError::Disconnected) => break,
        }
        if has_picture && shutdown.is_triggered() {
            // From now on, a further signal can end the process at once, and would leave the picture on the terminal.
            has_picture = false;
            bottom.clear();
            let drain = ExactDuration(shutdown.drain());
            print(&format!("no more runs start, and the current runs have {drain} to end; Ctrl-C again stops them\n"));
        }
        if !has_picture || clock.moment() < next {
            continue;
        }
        next = clock.moment().plus(EVERY);
        bottom.draw(&schedule.status_without_log());
    }
    bottom.clear();
}

/// Prints a text. Errors are ignored, because the runs must continue without a reader.
fn print(text: &str) {
    let mut output = io::stdout().lock();
    let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
}

/// The part at the bottom of the terminal, which does not scroll. The value has the height of the terminal, and the
/// number of lines in this part.
///
/// The escape sequences are those of ECMA-48, and DECSTBM, DECSC, DECRC and IND of the VT100. No drawing has a line
/// feed. At a line feed, standard output would write a drawing in two pieces, and the output of a task could come
/// between them.
#[derive(Default)]
struct Bottom(Option<(u16, u16)>);

impl Bottom {
    fn draw(&mut self, status: &Status) {
        let Some((_, terminal_size::Height(height))) = terminal_size::terminal_size() else { return };
        // At least half of the screen scrolls.
        let lines = height / 2;
        if lines < 3 {
            return;
        }
        if self.0 != Some((height, lines)) {
            self.clear();
            self.0 = Some((height, lines));
            let scrolls = height - lines;
            // First the screen scrolls, so that the cursor is above the picture.
            print(&format!("{}\x1b[{lines}A\x1b7\x1b[1;{scrolls}r\x1b8", "\x1bD".repeat(lines.into())));
        }
        let picture = picture(status, lines.into());
        let mut drawing = format!("\x1b7\x1b[{};1H\x1b[J", height - lines + 1);
        for (line, row) in picture.lines().zip(height - lines + 1..=height) {
            let _ = write!(drawing, "\x1b[{row};1H{line}");
        }
        print(&(drawing + "\x1b8"));
    }

    fn clear(&mut self) {
        if let Some((height, lines)) = self.0.take() {
            print(&format!("\x1b7\x1b[r\x1b[{};1H\x1b[J\x1b8", height - lines + 1));
        }
    }
}

impl Observer for LiveView {
    fn observe(&self, notice: &Notice<'_>) {
        let told = match notice.step() {
            Step::Started { token: None } => "started".to_owned(),
            Step::Started { token: Some(token) } => format!("started under token {token}"),
            // Another server runs this occurrence, as intended.
            Step::Skipped(reason @ SkipReason::RanElsewhere(_)) if reason.other_application().is_none() => return,
            Step::Skipped(reason) => format!("skipped, {reason}"),
            Step::Ended(outcome) => outcome.to_string(),
            Step::AttemptFailed { attempt, fault, retry_in } => {
                format!("attempt {attempt} {fault}; the next attempt in {}", HumanDuration(*retry_in))
            }
            Step::AttemptStarted { attempt } => format!("attempt {attempt} started"),
            Step::Cancelled(reason) => format!("asked to stop, because {reason}"),
            Step::DoesNotStop => "does not stop".to_owned(),
            Step::LeaseLost { .. } => "lost its lease".to_owned(),
            Step::HookFailed(failure) => failure.to_string(),
            Step::LeftBehind => "left behind: still running".to_owned(),
            Step::Queued { .. } if notice.is_backfill() => "waits until its lease is free".to_owned(),
            Step::Queued { place } => format!("waits in place {place} of its queue"),
            Step::Unprotected(error) => format!("runs without protection: {}", Chain(*error)),
            Step::StoreUnavailable(error) => format!("no answer from the store: {}", Chain(*error)),
            Step::StoreAvailable => "the store answers again".to_owned(),
            Step::TickLate(late) => format!("this tick is {} late", HumanDuration(*late)),
            _ => return,
        };
        let backfilled = notice.occurrence().filter(|_| notice.is_backfill());
        let backfilled = backfilled.map_or_else(String::new, |occurrence| format!(" for {}", for_people(occurrence)));
        let about = notice.event().map_or_else(String::new, |event| format!("{}{backfilled}: ", Named(event)));
        // If too many lines wait, this line is dropped: a stopped terminal must not delay a run.
        let _ = self.0.try_send(Some(format!("{} {about}{told}", for_people(notice.at()))));
    }
}

/// Returns the picture: the runs of this process, the leases of other holders, and the next due event.
fn picture(status: &Status, lines: usize) -> String {
    let mut rows = Vec::new();
    for event in &status.events {
        let lease_of = |token| event.held_by.iter().flatten().find(|holder| Some(holder.token()) == token);
        for run in &event.running {
            let lease = lease_of(run.token).map(|holder| time(holder.until(), status.at));
            let since = time(run.since, status.at);
            let here = marked("here".to_owned(), Some(true));
            rows.push(vec![Named(&event.name).into(), here, since.into(), lease.unwrap_or_default().into()]);
        }
        let is_ours = |token| event.running.iter().any(|run| run.token == Some(token));
        for holder in event.held_by.iter().flatten().filter(|holder| !is_ours(holder.token())) {
            let [since, until] = [holder.since(), holder.until()].map(|at| time(at, status.at));
            let place = holder.process_and_application();
            rows.push(vec![Named(&event.name).into(), place.into(), since.into(), until.into()]);
        }
    }
    let mut picture = String::from("\n");
    for error in &status.store_errors {
        let _ = writeln!(picture, "no answer from the store: {}", OneLine(Chain(error)));
    }
    other_timetables(status).for_each(|line| picture.extend([&*line, "\n"]));
    let next = status.events.iter().filter_map(|event| Some((event.next_due?, event))).min_by_key(|(due, _)| *due);
    if let Some((due, event)) = next {
        let _ = writeln!(picture, "next: {}, {}", Named(&event.name), time(due, status.at));
    }
    let room = lines.saturating_sub(picture.lines().count() + 2);
    let more = rows.len().saturating_sub(room);
    rows.truncate(room);
    if more > 0 {
        let _ = writeln!(picture, "{more} more are running");
    }
    picture + &table(&["running", "on", "since", "lease ends, unless renewed"], rows, "")
}

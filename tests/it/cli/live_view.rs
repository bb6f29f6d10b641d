//! What the picture of `work` costs the store: one request a second on a terminal, and none elsewhere.

use std::time::Instant;

use super::terminal::on_a_terminal;
use super::*;
use crate::servers::redis::Redis;

/// How long it is watched.
const WATCHED: Duration = Duration::from_secs(6);

/// Runs `work` of `examples/schedule_cli.rs`, and returns what it asked of the store while it was watched, apart from runs and their
/// log. `start` waits until it works.
fn asked(server: &Redis, start: impl FnOnce(&Place) -> Running) -> (Vec<String>, Duration) {
    let place = Place::on(server);
    // Nothing starts, so that all that is asked is asked for the picture, but one read of the pauses each minute.
    succeeds(&mut place.schedule("pause --for 1h"));
    let working = start(&place);
    let mut monitor = server.monitor();
    let began = Instant::now();
    std::thread::sleep(WATCHED);
    let commands = monitor.commands();
    let watched = began.elapsed();
    working.signal("TERM");
    drop(working.ended());
    (commands, watched)
}

#[test]
fn a_picture_is_one_request_a_second_whatever_the_number_of_events() {
    let server = Redis::start();
    let (commands, watched) = asked(&server, |place| {
        let line = format!("exec {} work", example("schedule_cli").display());
        let working = start(&mut on_a_terminal(place, &line));
        place.until_shown("\x1b[13;1H"); // it checks the store first, and then draws the picture in the lower half
        working
    });
    // A minute that begins meanwhile reads the pauses, and catches up with nothing.
    let most = usize::try_from(watched.as_secs()).unwrap_or(usize::MAX) + 5;
    assert!((1..=most).contains(&commands.len()), "{} in {watched:?}: {commands:#?}", commands.len());
}

#[test]
fn where_nobody_looks_nothing_is_asked() {
    let server = Redis::start();
    let (commands, _) = asked(&server, |place| {
        let shown = std::fs::File::create(place.path("shown")).expect("the folder is ours");
        let working = start(place.schedule("work").stdout(shown));
        until(|| place.read("shown").contains("Ctrl-C ends this")).expect("it works");
        let mut monitor = server.monitor();
        let is_quiet = (0..20).any(|_| {
            std::thread::sleep(Duration::from_secs(2)); // it checks the store first
            monitor.commands().is_empty()
        });
        assert!(is_quiet, "it goes on asking");
        working
    });
    assert!(commands.len() <= 4, "one read of the pauses where a minute begins: {commands:#?}");
}

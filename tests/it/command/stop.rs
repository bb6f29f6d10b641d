//! Commands that are stopped because they take too long.

use super::*;

/// Lets half a minute pass when the command is ready, and has noted its process id.
#[track_caller]
fn timed_out(place: &Place, event: Event) -> Observed {
    let event = event.timeout(30 * SECOND).without_overlapping();
    let observed = observe(place, event, |clock, _| {
        until(|| place.has("ready")).unwrap_or_else(|error| panic!("it does not get ready: {error}"));
        clock.advance(30 * SECOND);
    });
    let outcome = &observed.outcome;
    assert!(matches!(outcome.ended(), Ended::TimedOut { limit, .. } if *limit == 30 * SECOND), "{outcome:?}");
    assert!(!outcome.is_success() && outcome.lease_lost_at().is_none(), "{outcome:?}");
    assert!(matches!(outcome.release(), Some(Release::Released)), "{outcome:?}");
    let seen = ["asked for before its group was known", "given back when its group had gone"];
    assert_eq!(observed.seen, seen, "{outcome}");
    observed
}

fn line(place: &Place, line: &str) -> Event {
    place.exec(&format!("echo $$ >pid; {line}"))
}

#[track_caller]
fn within(grace: Duration, observed: &Observed) {
    assert!(observed.took < grace + SECOND + SLACK, "it took {:?} with a grace of {grace:?}", observed.took);
}

/// Asserts that the command is killed, after its grace.
#[track_caller]
fn is_killed_after(grace: Duration, place: &Place, event: Event) -> RunOutcome {
    let observed = timed_out(place, event.grace(grace));
    let said = "e  2026-03-01 12:00:00 UTC  timed out after 30.0 s; ended by signal 9 (SIGKILL)";
    assert!(observed.report.starts_with(said), "{}", observed.report);
    assert!(observed.took >= grace, "it had {:?} of {grace:?}", observed.took);
    within(grace, &observed);
    observed.outcome
}

#[test]
fn a_command_that_obeys() {
    let place = Place::new();
    let observed = timed_out(&place, line(&place, ": >ready; sleep 60 & sleep 60").grace(20 * SECOND));
    assert_eq!(observed.report, "e  2026-03-01 12:00:00 UTC  timed out after 30.0 s; ended by signal 15 (SIGTERM)");
    assert!(observed.took < 20 * SECOND, "it is not waited for any longer");
    let Ended::TimedOut { fault: Some(Fault::Failed(error)), .. } = observed.outcome.ended() else {
        panic!("{:?}", observed.outcome)
    };
    let reason = error.downcast_ref::<Cancelled>().map(Cancelled::reason);
    assert_eq!(reason, Some(CancelReason::TimedOut));
}

#[test]
fn a_command_that_takes_its_end_in_its_own_way_has_timed_out_all_the_same() {
    for code in [0, 7] {
        let place = Place::new();
        let text = format!("exec 2>&-; trap 'echo bye; exit {code}' TERM; : >ready; while :; do sleep 0.05; done");
        let event = line(&place, &text).grace(20 * SECOND).output(Output::Keep(100));
        let observed = timed_out(&place, event.on_success(|_, _| Err("it is none".into())));
        let said = format!("timed out after 30.0 s; exited with {code}; its output:\nbye\n");
        assert_eq!(observed.outcome.to_string(), said);
        assert_eq!(observed.outcome.exit_status().unwrap().code(), Some(code));
        assert!(observed.took < 20 * SECOND, "it is not waited for any longer");
    }
}

#[test]
fn a_command_that_does_not_hear_is_killed_with_all_that_it_started() {
    let place = Place::new();
    let text = "trap '' TERM; sleep 60 & (sleep 60; :) & sh -c 'sleep 60; :' & : >ready; sleep 60; sleep 60";
    is_killed_after(SECOND, &place, line(&place, text));
}

#[test]
fn what_a_command_left_behind_is_ended_when_the_command_itself_has_ended_before() {
    let left = "(while kill -s 0 $$ 2>&-; do sleep 0.01; done; : >ready; sleep 60; :) &";
    let place = Place::new();
    let observed = timed_out(&place, line(&place, &format!("{left} exit 0")).grace(20 * SECOND));
    assert_eq!(observed.outcome.to_string(), "timed out after 30.0 s; exited with 0");
    assert!(observed.took < 20 * SECOND);

    let place = Place::new();
    let observed = timed_out(&place, line(&place, &format!("trap '' TERM; {left} exit 3")).grace(SECOND));
    assert_eq!(observed.outcome.to_string(), "timed out after 30.0 s; exited with 3");
    assert!(observed.took >= SECOND);
    within(SECOND, &observed);
}

#[test]
fn what_hears_is_ended_and_what_does_not_is_killed() {
    const GRACE: Duration = Duration::from_secs(6); // so long that a busy shell gets the signal
    let place = Place::new();
    let text =
        "trap '' TERM; (sleep 60; :) & trap 'echo told >told; exit 4' TERM; : >ready; while :; do sleep 0.05; done";
    let observed = timed_out(&place, line(&place, text).grace(GRACE));
    assert_eq!(observed.outcome.to_string(), "timed out after 30.0 s; exited with 4");
    assert!(place.has("told") && observed.took >= GRACE);
    within(GRACE, &observed);
}

const FLOOD: &str = "trap '' TERM; exec 2>&1; echo flood; echo flood; : >ready; while :; do echo flood; done";

#[test]
fn a_command_that_floods_what_is_kept() {
    let place = Place::new();
    let event =
        line(&place, "trap '' TERM; yes flood | head -c 200000; : >ready; exec yes flood").output(Output::Keep(1000));
    let outcome = is_killed_after(Duration::from_millis(500), &place, event);
    let output = outcome.output().unwrap();
    assert!(output.bytes().len() == 1000 && output.left_out() > 100_000, "{output:?}");
}

#[test]
fn a_command_that_floods_a_file() {
    let place = Place::new();
    for output in [Output::File(place.path("log")), Output::Append(place.path("log"))] {
        is_killed_after(Duration::from_millis(300), &place, line(&place, FLOOD).output(output));
        assert!(place.read("log").starts_with("flood\nflood\n"));
        for name in ["pid", "ready"] {
            fs::remove_file(place.path(name)).unwrap();
        }
    }
}

#[test]
fn a_command_that_floods_the_output_of_this_process() {
    if let Some(text) = run_alone("command::stop::a_command_that_floods_the_output_of_this_process", &[]) {
        return assert!(text.contains("flood\nflood\n"));
    }
    let place = Place::new();
    is_killed_after(Duration::from_millis(300), &place, line(&place, FLOOD));
}

#[test]
fn a_command_that_closes_its_output() {
    let place = Place::new();
    let event = line(&place, "trap '' TERM; echo first; exec >&- 2>&-; : >ready; sleep 60; :");
    let outcome = is_killed_after(Duration::from_millis(300), &place, event.output(Output::Keep(100)));
    assert_eq!(text_of(&outcome), "first\n");
}

#[test]
fn a_command_that_has_stopped_itself_hears_that_it_is_to_end() {
    let place = Place::new();
    let text = "(until grep -q '(stopped)' /proc/$$/status; do sleep 0.01; done; : >ready) & kill -s STOP $$; sleep 60";
    let told = timed_out(&place, line(&place, text).grace(20 * SECOND));
    assert_eq!(told.report, "e  2026-03-01 12:00:00 UTC  timed out after 30.0 s; ended by signal 15 (SIGTERM)");
    assert!(told.took < 20 * SECOND, "it is not waited for any longer");
}

#[test]
fn a_command_without_a_grace_is_killed_at_once() {
    let place = Place::new();
    is_killed_after(Duration::ZERO, &place, line(&place, "trap '' TERM; : >ready; sleep 60; :"));
}

#[test]
fn a_command_that_goes_on_starting_others_is_killed_with_them() {
    let place = Place::new();
    // Each process starts the next and ends, so that every read of the group finds another.
    let text = "trap '' TERM; echo 'sh next &' >next; sh next & : >ready; exit 0";
    let observed = timed_out(&place, line(&place, text).grace(Duration::from_millis(300)));
    assert_eq!(observed.outcome.to_string(), "timed out after 30.0 s; exited with 0");
    within(Duration::from_millis(300), &observed);
}

#[test]
fn the_group_that_is_ended_is_the_commands_own() {
    let mut bystander = Command::new("sleep").arg("60").spawn().unwrap();
    let place = Place::new();
    is_killed_after(Duration::ZERO, &place, line(&place, "trap '' TERM; : >ready; sleep 60; :"));
    let ended = bystander.try_wait().unwrap();
    bystander.kill().unwrap();
    bystander.wait().unwrap();
    assert_eq!(ended, None);
}

#[test]
fn the_lease_is_renewed_while_a_command_uses_up_its_grace() {
    let place = Place::new();
    let event = line(&place, "trap 'echo told >told' TERM; : >ready; until [ -e go ]; do sleep 0.02; done; exit 2");
    let event = event.timeout(SECOND).grace(18 * SECOND).without_overlapping();
    let observed = observe(&place, event, |clock, store| {
        let name = MutexName::lease("e").unwrap();
        until(|| place.has("ready")).unwrap();
        clock.advance(SECOND);
        until(|| place.has("told")).unwrap();
        for second in [21, 41, 61, 81, 101] {
            clock.advance(20 * SECOND);
            // The last renewal was at most a third of the term ago, without the time for stopping.
            let end = holder(&store.store, &name).map(|holder| holder.until());
            assert!(end > Some(noon() + (second + 46) * SECOND), "{end:?} at {second} s");
        }
        place.touch("go");
    });
    let said = "e  2026-03-01 12:00:00 UTC  timed out after 1.0 s, and stopped 1 min 40 s later; exited with 2";
    assert_eq!(observed.report, said);
    assert!(
        observed.outcome.lease_lost_at().is_none() && matches!(observed.outcome.release(), Some(Release::Released))
    );
}

#[test]
fn a_command_that_ends_in_time_is_no_failure() {
    let outcome = outcome(Event::exec("e", "exit 0").every_minute().timeout(HOUR).without_overlapping());
    assert_eq!(outcome.to_string(), "succeeded in 0 µs");
}

#[test]
fn a_timeout_on_the_clock_of_the_machine() {
    let schedule = Schedule::in_process();
    let limit = Duration::from_millis(300);
    schedule.add(Event::exec("e", "sleep 60 & sleep 60").every_minute().timeout(limit).grace(PATIENCE)).unwrap();
    let before = Instant::now();
    let report = schedule.run_due(noon());
    let (said, took) = (ran(&report, "e").to_string(), before.elapsed());
    assert!(said.starts_with("timed out after 300 ms") && said.ends_with("; ended by signal 15 (SIGTERM)"), "{said}");
    assert!(took >= limit && took < PATIENCE, "{took:?}");
}

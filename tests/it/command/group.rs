//! A command and its children: which of them a run waits for.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use super::*;
use crate::file::users::{ALICE, Ground, set_mode};

/// Runs a line under a lease, and keeps its output. Returns the outcome, and notes on the release of the lease.
#[track_caller]
fn outlasted(place: &Place, line: &str) -> (RunOutcome, Vec<String>) {
    let event = place.exec(line).without_overlapping().output(Output::Keep(1000));
    let observed = observe(place, event, |_, _| ());
    (observed.outcome, observed.seen)
}

const RELEASED: [&str; 2] = ["asked for before its group was known", "given back when its group had gone"];

#[test]
fn a_run_lasts_until_what_the_command_left_behind_has_ended() {
    let place = Place::new();
    let (outcome, seen) = outlasted(
        &place,
        "echo $$ >pid; (until [ -s gone ]; do sleep 0.01; done; sleep 0.2; echo late) & echo early; echo 1 >gone; exit 0",
    );
    assert!(outcome.is_success(), "{outcome}");
    assert_eq!(text_of(&outcome), "early\nlate\n");
    assert_eq!(seen, RELEASED);
}

#[test]
fn its_exit_status_is_that_of_the_process_that_was_started() {
    let place = Place::new();
    let (outcome, seen) = outlasted(&place, "echo $$ >pid; (sleep 0.2; exit 7) & exit 3");
    assert_eq!(outcome.to_string(), "exited with 3 after 0 µs");
    assert_eq!(seen, RELEASED);
    let place = Place::new();
    let (outcome, _) = outlasted(
        &place,
        "echo $$ >pid; (until [ -s gone ]; do sleep 0.01; done; sleep 0.5; kill -s KILL $$) & echo 1 >gone; exit 0",
    );
    assert!(outcome.is_success(), "{outcome}");
}

#[test]
fn a_run_lasts_as_long_as_any_of_many() {
    let place = Place::new();
    let line = "echo $$ >pid; for i in 1 2 3; do (sleep 0.$i; (sleep 0.1; echo $i) &) & done";
    let (outcome, seen) = outlasted(&place, line);
    let text = text_of(&outcome);
    let mut done: Vec<&str> = text.lines().collect();
    done.sort_unstable(); // On a busy machine, a longer sleep may end first.
    assert_eq!(done, ["1", "2", "3"]);
    assert_eq!(seen, RELEASED);
}

/// Copies the program that sleeps. Another process writes the copy: no other command that is started meanwhile has it
/// open.
#[track_caller]
fn copy_sleep(copy: &Path) {
    let sleep = ["/bin/sleep", "/usr/bin/sleep"].into_iter().find(|path| Path::new(path).exists());
    let copied = Command::new("cp").arg(sleep.expect("there is one")).arg(copy).status();
    assert!(copied.expect("there is cp").success());
}

#[test]
fn a_run_lasts_as_long_as_a_process_whose_name_is_no_text() {
    // The kernel keeps the first 15 bytes, and cuts the last letter of the second one in two.
    for name in [b"\xff) S 1 1".as_slice(), "zw\u{f6}lf Buchsta\u{e4}".as_bytes()] {
        let place = Place::new();
        let program = place.0.path().join(OsStr::from_bytes(name));
        copy_sleep(&program);
        let event = place.exec("echo $$ >pid; \"$PROGRAM\" 0.6 & exit 0").env("PROGRAM", &program);
        let observed = observe(&place, event.without_overlapping(), |_, _| ());
        assert_eq!(observed.seen, RELEASED, "{}", program.display());
    }
}

/// A process with its id in this file, which is killed on drop.
struct Escaped<'a>(&'a Place);

impl Escaped<'_> {
    fn is_there(&self) -> bool {
        is_alive(self.0.pid("escaped"))
    }
}

impl Drop for Escaped<'_> {
    fn drop(&mut self) {
        if let Ok(id) = self.0.read("escaped").trim().parse()
            && is_alive(id)
        {
            signal("KILL", id);
        }
    }
}

#[test]
fn what_has_left_the_group_holds_up_neither_the_run_nor_its_output() {
    for output in [Output::Keep(1000), Output::Discard] {
        let place = Place::new();
        // The process has the output open, and writes to the end.
        let line = "echo $$ >pid; setsid sh -c 'echo escaped; echo $$ >escaped; exec sleep 60' &
            until [ -s escaped ]; do sleep 0.01; done; echo done; exit 5";
        let event = place.exec(line).without_overlapping().output(output.clone());
        let escaped = Escaped(&place);
        let observed = observe(&place, event, |_, _| ());
        assert!(escaped.is_there());
        assert_eq!(observed.outcome.exit_status().unwrap().code(), Some(5));
        assert_eq!(observed.seen, RELEASED);
        if output != Output::Discard {
            assert_eq!(text_of(&observed.outcome), "escaped\ndone\n");
        }
    }
}

#[test]
fn what_has_left_the_group_and_writes_on_does_not_hold_up_the_run() {
    let place = Place::new();
    // More than is kept is written before the command ends, however late `yes` may be.
    let line = "echo $$ >pid; setsid sh -c 'yes | head -c 2000; echo $$ >escaped; exec yes' &
        until [ -s escaped ]; do sleep 0.01; done";
    let escaped = Escaped(&place);
    let (outcome, _) = outlasted(&place, line);
    assert!(outcome.is_success() && outcome.output().unwrap().bytes().len() == 1000, "{outcome}");
    drop(escaped);
}

/// A process that has ended and stays a zombie as long as its parent, whose id is in this file, sleeps: that has
/// left the group, and waits for no child.
const UNNOTICED: &str = r#"echo $$ >pid
    left='until [ -s escaped ]; do sleep 0.01; done; echo $$ >dead'; export left
    sh -c 'sh -c "$left" & exec setsid sh -c "echo \$\$ >escaped; exec sleep 60"' &
    until [ -s dead ]; do sleep 0.01; done; "#;

#[test]
fn what_has_ended_and_is_not_noticed_by_its_parent_does_not_hold_up_the_run() {
    for (line, said) in [("exit 3", "exited with 3 after 0 µs"), ("sleep 0.3", "succeeded in 0 µs")] {
        let place = Place::new();
        let escaped = Escaped(&place);
        let (outcome, seen) = outlasted(&place, &(UNNOTICED.to_owned() + line));
        assert_eq!(outcome.to_string(), said);
        assert_eq!(seen, RELEASED);
        let (group, dead) = (place.pid("pid"), place.pid("dead"));
        let left = processes().into_iter().find(|process| process.id == dead).expect("nobody has noticed its end");
        assert!(left.group == group && left.parent == place.pid("escaped") && !left.is_alive);
        assert!(escaped.is_there());
    }
}

/// With this variable, `/proc` hides the processes of other users. Its value is the path of a program that sleeps as root, for any user.
const HIDDEN: &str = "SOLOIST_TEST_HIDDEN";

#[test]
fn a_process_of_a_hidden_user_holds_up_the_run() {
    const TEST: &str = "command::group::a_process_of_a_hidden_user_holds_up_the_run";
    let Some(sleep) = std::env::var_os(HIDDEN) else {
        let Some(ground) = Ground::as_root(TEST) else { return };
        let sleep = ground.path().join("sleep");
        copy_sleep(&sleep);
        set_mode(&sleep, 0o4755);
        let line = format!(
            "mount -t proc -o hidepid=2 proc /proc || exit 1
            setpriv --reuid={ALICE} --regid={ALICE} --clear-groups \"$0\" {TEST} --exact --nocapture & wait"
        );
        let mut alone = Command::new("unshare");
        alone.args(["--fork", "--pid", "--mount", "--kill-child", "sh", "-c", &line]).arg(&ground.exe);
        alone.env(HIDDEN, sleep).current_dir(ground.path()).stdout(Stdio::piped());
        let mut alone = alone.spawn().expect("util-linux is installed");
        let said = BufReader::new(alone.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
        let said: Vec<String> = said.take_while(|line| !line.starts_with("test result")).collect();
        alone.kill().and_then(|()| alone.wait()).expect("it is ours");
        assert!(said.iter().any(|line| line.ends_with("... ok")), "{said:?}");
        return;
    };
    assert!(!Path::new("/proc/1").exists(), "it is hidden");
    let begun = Instant::now();
    let event = |line: &str| Event::exec("e", line).every_minute().env("SLEEP", &sleep);
    assert_eq!(said(event("\"$SLEEP\" 2 & exit 3")), "exited with 3 after 0 µs");
    assert!(begun.elapsed() >= 2 * SECOND, "{:?}", begun.elapsed());
}

#[test]
fn a_killed_group_of_which_one_is_not_noticed_by_its_parent_has_gone() {
    let place = Place::new();
    let escaped = Escaped(&place);
    let line = format!("trap '' TERM; {UNNOTICED} : >ready; sleep 60");
    let event = place.exec(&line).timeout(30 * SECOND).grace(Duration::ZERO).without_overlapping();
    let observed = observe(&place, event, |clock, _| {
        until(|| place.has("ready")).unwrap();
        clock.advance(30 * SECOND);
    });
    assert_eq!(observed.outcome.to_string(), "timed out after 30.0 s; ended by signal 9 (SIGKILL)");
    assert_eq!(observed.seen, RELEASED);
    assert!(observed.took < SECOND + SLACK && escaped.is_there());
}

#[test]
fn a_lease_that_is_held_for_longer_is_held_from_when_the_group_has_gone() {
    let place = Place::new();
    let event = place.exec("echo $$ >pid; sleep 0.2 & exit 0").without_overlapping().hold_at_least(59 * SECOND);
    let observed = observe(&place, event, |_, _| ());
    assert!(matches!(observed.outcome.release(), Some(Release::HeldFor(_))), "{}", observed.report);
    assert_eq!(observed.seen, [RELEASED[0], "held on when its group had gone"]);
}

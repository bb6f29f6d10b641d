//! `soloist run` and `flock` on a terminal, in equal scripts: a person sees no difference.

use super::terminal::{CTRL_C, CTRL_Z, Person};
use super::*;
use crate::support::{group_lives, number_in};

/// Waits for the file `$1`, or until a test succeeds, without starting anything: each start would be a chance to meet a stop.
const WAITS: &str = r"
mkfifo fifo 2>/dev/null
pause() { read -t 0.05 -r _ <>fifo; }
waits() { until [ -e $1 ]; do pause; done; }
stops() { until [[ $(jobs) == *Stopped* ]]; do pause; done; }
";

/// Runs a script of bash under `flock` and under `soloist`, which stands in `$L`, while a person types. Returns the text on
/// the terminal, which is equal for both.
#[track_caller]
fn both(script: &str, types: impl Fn(&Place, &mut Person)) -> String {
    let seen = |wrapper: &str| {
        let place = Place::new();
        std::fs::write(place.path("script"), format!("{WAITS}\n{script}")).expect("the folder is ours");
        let mut person = Person::at(&place, &format!("L='{wrapper}' bash ./script"));
        types(&place, &mut person);
        let seen = person.has_seen();
        until(|| !place.has_locks()).expect("its lease is free");
        succeeds(place.program(Path::new("flock"), "-n lock true").arg("x"));
        seen
    };
    let by_flock = seen("flock -n lock");
    let by_soloist = seen(&format!("{SOLOIST} run --name j --grace 1s --"));
    assert_eq!(by_soloist, by_flock);
    by_soloist
}

#[test]
fn a_pager_behind_it_reads_the_keyboard_while_the_command_works_on() {
    let pager = "read -r line; echo $line; : >asks; read -r key </dev/tty; echo the pager got $key; : >go; cat";
    let script = format!(
        "set -m
        $L bash -c 'echo line; until [ -e go ]; do sleep 0.05; done; echo last' | bash -c '{pager}'
        echo ended with ${{PIPESTATUS[*]}}"
    );
    let seen = both(&script, |place, person| {
        place.wait_for("asks");
        person.types("one\n");
    });
    assert!(seen.ends_with("the pager got one\nlast\nended with 0 0\n"), "{seen}");
}

#[test]
fn a_command_that_reads_in_the_background_is_stopped_and_has_the_terminal_in_the_foreground() {
    let script = "set -m; $L cat & stops; : >stopped; fg >/dev/null; echo ended with $?";
    let seen = both(script, |place, person| {
        place.wait_for("stopped");
        person.types("one\n");
        person.types(CTRL_D);
    });
    assert!(seen.ends_with("one\none\nended with 0\n"), "{seen}");
}

#[test]
fn a_job_that_is_stopped_because_it_reads_can_be_ended() {
    for signal in ["TERM", "HUP"] {
        // `wait` takes the number: the shell may have noticed the end of the job already, and forgotten the job.
        let script = format!(
            "set -m; exec 2>/dev/null; $L cat & job=$!; stops; kill -{signal} %1; code=149
            while [ $code = 149 ]; do pause; wait $job; code=$?; done; echo ended with $code"
        );
        let seen = both(&script, |_, _| ());
        let code = 128 + ASKING.iter().find(|(_, name)| *name == signal).expect("it is one of the four").0;
        assert!(seen.ends_with(&format!("ended with {code}\n")), "{seen}");
    }
}

#[test]
fn a_job_that_reads_is_stopped_again_when_it_goes_on_in_the_background() {
    let script = "set -m; $L cat & stops; bg >/dev/null; stops; : >stopped; fg >/dev/null; echo ended with $?";
    let seen = both(script, |place, person| {
        place.wait_for("stopped");
        person.types(CTRL_D);
    });
    assert!(seen.ends_with("ended with 0\n"), "{seen}");
}

#[test]
fn a_script_that_starts_it_in_the_background_can_ask_a_question() {
    let script = "
        $L bash -c ': >began; until [ -e go ]; do sleep 0.05; done; echo done' &
        waits began; : >asks; read -r name; echo hello $name; : >go; wait; echo ended with $?";
    // Under a shell that notices if the script is stopped.
    let outer = format!("cat >inner <<'END'\n{WAITS}\n{script}\nEND\nset -m; bash ./inner; echo the script: $?");
    let seen = both(&outer, |place, person| {
        place.wait_for("asks");
        person.types("bob\n");
    });
    assert!(seen.ends_with("hello bob\ndone\nended with 0\nthe script: 0\n"), "{seen}");
}

#[test]
fn ctrl_c_ends_the_job_although_its_command_ignores_it() {
    let script = "set -m; trap : INT
        $L bash -c 'trap \"\" INT; ps -o pgid= $$ >group.new; mv group.new group; exec sleep 600'
        echo ended with $?; [[ $L != flock* ]] || kill -KILL -- -$(echo $(cat group))";
    let seen = both(script, |place, person| {
        let group = number_in(&place.path("group"));
        person.types(CTRL_C);
        // `flock` ends alone, and its script ends the command.
        until(|| !group_lives(group)).expect("it is killed after its grace");
    });
    assert!(seen.ends_with("ended with 130\n"), "{seen}");
}

#[test]
fn ctrl_c_ends_the_script_around_it() {
    let script = "cat >inner <<'END'
        for i in 1 2; do $L bash -c ': >began; exec sleep 600'; echo no end; done\nEND
        set -m; trap : INT; bash ./inner
        echo ended with $?";
    let seen = both(script, |place, person| {
        place.wait_for("began");
        person.types(CTRL_C);
    });
    assert!(seen.ends_with("ended with 130\n") && !seen.contains("no end"), "{seen}");
}

#[test]
fn ctrl_z_stops_a_command_that_does_not_read_and_a_pipe_behind_it() {
    let script = "set -m
        $L bash -c ': >began; until [ -e go ]; do sleep 0.05; done; echo done' | cat
        echo stopped with $?; : >go; fg >/dev/null; echo ended with $?";
    let seen = both(script, |place, person| {
        place.wait_for("began");
        person.types(CTRL_Z);
    });
    assert!(seen.ends_with("stopped with 148\ndone\nended with 0\n"), "{seen}");
}

#[test]
fn a_command_can_change_the_settings_of_the_terminal() {
    let script = "set -m; $L bash -c 'stty -echo; echo $(stty | grep -o -e -echo); stty echo'; echo ended with $?";
    assert_eq!(both(script, |_, _| ()), "-echo\nended with 0\n");
}

// No shell will ever give it the terminal.
#[test]
fn a_command_that_reads_when_its_shell_has_gone_ends() {
    let script = "set -m
        ($L bash -c ': >began; until [ -e go ]; do sleep 0.05; done; read -r a 2>/dev/null; exit 1' </dev/tty &)
        waits began; : >go; until flock -n lock true && ! $S locks 2>/dev/null | grep -q '^j '; do pause; done; echo free";
    assert_eq!(both(script, |_, _| ()), "free\n");
}

const CTRL_D: &str = "\x04";

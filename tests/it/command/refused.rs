//! Commands that a schedule does not take.

use super::*;

/// Returns why a schedule with leases of a minute refuses the event.
#[track_caller]
fn refused(event: Event) -> (AddErrorKind, String) {
    let error = Schedule::in_process().add(event).map(drop).unwrap_err();
    let text = error.to_string();
    let what = text.strip_prefix("event `e`: ").unwrap_or_else(|| panic!("{text}"));
    (error.kind(), what.to_owned())
}

#[track_caller]
fn is_taken(event: Event) {
    Schedule::in_process().add(event).map(drop).unwrap();
}

fn line(line: &str) -> Event {
    Event::exec("e", line).every_minute()
}

#[test]
fn a_command_that_is_none() {
    let none: [&str; 0] = [];
    for event in [line(""), line(" \n\t"), Event::command("e", "", none).every_minute()] {
        let (kind, text) = refused(event);
        assert_eq!(kind, AddErrorKind::Command);
        assert_eq!(text, "its command is empty: pass a program, or a line of the shell");
    }
}

#[test]
fn a_line_in_the_place_of_a_program() {
    let none: [&str; 0] = [];
    let (kind, text) = refused(Event::command("e", "pg_dump --file=/a/b app", none).every_minute());
    assert_eq!(kind, AddErrorKind::Command);
    let advice = "has a space, and is no program: pass its arguments one by one, or write `Event::exec`";
    assert_eq!(text, format!("`pg_dump --file=/a/b app` {advice}"));
    is_taken(Event::command("e", "/opt/My App/run", none).every_minute());
    is_taken(Event::command("e", "My App", ["argument"]).every_minute());
}

#[test]
fn a_text_that_has_a_nul() {
    for event in [
        line("a\0b"),
        Event::command("e", "a\0b", ["c"]).every_minute(),
        Event::command("e", "c", ["d", "a\0b"]).every_minute(),
        line("c").current_dir("a\0b"),
        line("c").env("D", "a\0b"),
        line("c").output(Output::File("a\0b".into())),
        line("c").output(Output::Append("a\0b".into())),
    ] {
        let (kind, text) = refused(event);
        assert_eq!(kind, AddErrorKind::Command);
        assert_eq!(text, "`a\\0b` has a NUL character, which can't be passed to a command: leave it out");
    }
}

#[test]
fn a_variable_that_can_not_be_called_so() {
    for (name, shown) in [("", ""), ("A=B", "A=B"), ("=", "="), ("a\0b", "a\\0b")] {
        let (kind, text) = refused(line("c").env("FINE", "a=b").env(name, "x"));
        assert_eq!(kind, AddErrorKind::Command);
        let what = "use a name that is not empty and has no `=`";
        assert_eq!(text, format!("`env(..)`: `{shown}` can't be the name of a variable: {what}"));
    }
}

#[test]
fn a_variable_with_two_values() {
    let (kind, text) = refused(line("c").env("A", "1").env("B", "1").env("A", "2"));
    assert_eq!(kind, AddErrorKind::Conflict);
    assert_eq!(text, "`env(\"A\", ..)` is called twice with different values: remove one of the two");
    is_taken(line("c").env("A", "1").env("A", "1"));
}

#[test]
fn output_of_which_nothing_is_kept() {
    let (kind, text) = refused(line("c").output(Output::Keep(0)));
    assert_eq!(kind, AddErrorKind::OutOfRange);
    assert_eq!(text, "`output(Output::Keep(0))` keeps nothing: write how many bytes to keep, or use `Output::Discard`");
    is_taken(line("c").output(Output::Keep(1)));
}

#[test]
fn a_variable_that_tells_the_command_of_its_run() {
    for name in [
        "SOLOIST_EVENT",
        "SOLOIST_OCCURRENCE",
        "SOLOIST_BACKFILL",
        "SOLOIST_ATTEMPT",
        "SOLOIST_OWNER",
        "SOLOIST_TOKEN",
        "SOLOIST_SLOT",
    ] {
        assert_eq!(
            refused(line("c").env(name, "mine")).1,
            format!("`env(\"{name}\", ..)`: the scheduler sets this variable for each run: use another name")
        );
    }
    is_taken(line("c").env("SOLOIST_OF_OUR_OWN", "fine"));
}

#[test]
fn a_directory_or_a_file_without_a_name() {
    for (method, event) in
        [("current_dir", line("c").current_dir("")), ("output", line("c").output(Output::File("".into())))]
    {
        let empty = "the path is empty: write a path, or leave the method out";
        assert_eq!(refused(event).1, format!("`{method}(..)`: {empty}"));
    }
}

#[test]
fn a_path_that_a_shell_would_have_to_replace() {
    for (method, path, home, event) in [
        ("current_dir", "~/backup", "~", line("c").current_dir("~/backup")),
        ("current_dir", "$HOME", "$HOME", line("c").current_dir("$HOME")),
        ("output", "~/log", "~", line("c").output(Output::File("~/log".into()))),
        ("output", "$HOME/log", "$HOME", line("c").output(Output::Append("$HOME/log".into()))),
        ("output", "${HOME}/log", "${HOME}", line("c").output(Output::Append("${HOME}/log".into()))),
    ] {
        let (kind, text) = refused(event);
        assert_eq!(kind, AddErrorKind::Command);
        let what = format!("only a shell replaces the `{home}` in `{path}`: write the whole path");
        assert_eq!(text, format!("`{method}(..)`: {what}"));
    }
    is_taken(line("c").current_dir("./~/backup").output(Output::File("~log".into())));
}

#[test]
fn a_path_of_the_output_with_a_date_that_nothing_replaces() {
    for (path, date) in
        [("/log/%Y-%m-%d.log", "%Y"), ("/log/%F/a", "%F"), ("%d.log", "%d."), ("/log/$(date +%F)", "%F")]
    {
        let (kind, text) = refused(line("c").output(Output::Append(path.into())));
        assert_eq!(kind, AddErrorKind::Command);
        let instead = "write one path, and rotate the file, or let the line of `Event::exec` redirect its output, as in \
                       `backup >> \"/var/log/$(date +%F).log\"`";
        assert_eq!(text, format!("`output(..)`: no date takes the place of the `{date}` in `{path}`: {instead}"));
    }
    is_taken(line("c").output(Output::File("/log/100%done-%5d.log".into())));
}

#[test]
fn a_value_of_a_variable_in_which_a_shell_would_have_to_replace_a_part() {
    for (name, value, part) in [
        ("PATH", "$PATH:/opt/bin", "$PATH"),
        ("A", "/a:${A}", "$A"),
        ("A", "$B $A", "$A"),
        ("A", "$HOME/backup", "$HOME"),
        ("PATH", "${HOME}/bin", "${HOME}"),
        ("A", "~/backup", "~"),
    ] {
        let (kind, text) = refused(line("c").env(name, value));
        assert_eq!(kind, AddErrorKind::Command);
        let instead = "write the whole value, or set the variable in a line of `Event::exec`";
        assert_eq!(text, format!("`env(\"{name}\", ..)`: only a shell replaces the `{part}` in its value: {instead}"));
    }
    for (name, value) in [("A", "$AB $A_ ${AB}"), ("A", "/a/~/$HOME"), ("A", "~"), ("A", "$HOMES/a"), ("A", "A$")] {
        is_taken(line("c").env(name, value));
    }
}

#[test]
fn a_grace_of_more_than_an_hour() {
    is_taken(line("c").grace(HOUR));
    is_taken(line("c").grace(Duration::ZERO));
    let (kind, text) = refused(line("c").grace(HOUR + Duration::from_millis(1)));
    assert_eq!(kind, AddErrorKind::OutOfRange);
    assert_eq!(text, "`grace(3600001ms)`: use 0s to 1h");
    assert_eq!(refused(line("c").grace(Duration::MAX).without_overlapping()).1, "`grace(Duration::MAX)`: use 0s to 1h");
}

#[test]
fn a_lease_that_ends_before_the_command_can_be_stopped() {
    let half_a_minute = |term: &str, longer: &str| {
        format!(
            "its lease of {term} is too short: it must last at least 62s, twice the sum of the `grace(..)`, which is 30s, and the \
             1s that a kill may take: use a longer `{longer}(..)`, or a shorter `grace(..)`"
        )
    };
    let (grace, too_long) = (|event: Event| event.grace(29 * SECOND), |event: Event| event.grace(30 * SECOND));
    is_taken(line("c").apply(grace).without_overlapping());
    is_taken(line("c").apply(too_long));
    is_taken(line("c").apply(too_long).on_one_server());
    is_taken(line("c").apply(too_long).without_overlapping_for(62 * SECOND));
    is_taken(line("c").apply(too_long).without_overlapping().lease_term(62 * SECOND));
    for (event, term, longer) in [
        (line("c").without_overlapping(), "1m", "lease_term"),
        (line("c").without_overlapping_for(Duration::from_millis(61_999)), "61999ms", "without_overlapping_for"),
        (line("c").without_overlapping().lease_term(31 * SECOND), "31s", "lease_term"),
        (line("c").without_overlapping().on_one_server(), "1m", "lease_term"),
    ] {
        let (kind, text) = refused(event.apply(too_long));
        assert_eq!(kind, AddErrorKind::Conflict);
        assert_eq!(text, half_a_minute(term, longer));
    }
    // The usual grace is five seconds, and the usual term is the schedule's.
    is_taken(line("c").without_overlapping_for(12 * SECOND));
    assert!(
        refused(line("c").without_overlapping_for(Duration::from_millis(11_999)))
            .1
            .contains("`grace(..)`, which is 5s")
    );
    let short = || Schedule::in_process().with_lease_term(11 * SECOND);
    assert!(short().add(line("c").without_overlapping()).is_err());
    assert!(short().add(line("c").without_overlapping().grace(4 * SECOND)).is_ok());
}

#[test]
fn what_is_said_of_a_command_that_is_a_callback() {
    type Way = fn(Event) -> Event;
    let ways: [(&str, Way); 3] = [
        ("current_dir", |event| event.current_dir("/")),
        ("env", |event| event.env("A", "B")),
        ("output", |event| event.output(Output::Discard)),
    ];
    for (method, way) in ways {
        let (kind, text) = refused(Event::call("e", |_| {}).every_minute().apply(way));
        assert_eq!(kind, AddErrorKind::Conflict);
        let advice = "is for commands, but the task of this event is no command: use `Event::exec` or `Event::command`";
        assert_eq!(text, format!("`{method}(..)` {advice}"));
        is_taken(line("c").apply(way));
    }
    let (kind, text) = refused(Event::call("e", |_| {}).every_minute().grace(SECOND));
    assert_eq!(kind, AddErrorKind::Conflict);
    let advice = "is for commands and futures, but the task of this event is a function, which can't be ended by force: leave it out";
    assert_eq!(text, format!("`grace(..)` {advice}"));
    is_taken(line("c").grace(SECOND));
}

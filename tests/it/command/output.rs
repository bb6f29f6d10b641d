//! Where the output of a command goes.

use std::fs::File;
use std::io::{self, Read};

use super::*;

fn line(line: &str) -> Event {
    Event::exec("e", line).every_minute()
}

#[track_caller]
fn kept(bound: usize, text: &str) -> (Vec<u8>, u64) {
    let outcome = outcome(line(text).output(Output::Keep(bound)));
    let output = outcome.output().expect("it is kept");
    (output.bytes().to_vec(), output.left_out())
}

/// Returns the output of the test `name`, run again in a process of its own: standard output, standard error.
#[track_caller]
fn of_a_process(name: &str) -> Option<(String, String)> {
    const ALONE: &str = "SOLOIST_TEST_OUTPUT";
    if std::env::var_os(ALONE).is_some() {
        return None;
    }
    let mut child = Command::new(std::env::current_exe().expect("a running program has a path"));
    let output = child.args([name, "--exact", "--nocapture"]).env(ALONE, "1").output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    Some((text(&output.stdout), text(&output.stderr)))
}

#[test]
fn it_goes_where_that_of_this_process_goes() {
    let Some((out, err)) = of_a_process("command::output::it_goes_where_that_of_this_process_goes") else {
        let text = "echo to the output; echo to the error output >&2";
        assert!(outcome(line(text)).is_success());
        assert!(outcome(line(text).output(Output::Inherit)).is_success());
        assert!(outcome(line("echo nowhere; echo nowhere >&2").output(Output::Discard)).is_success());
        return;
    };
    assert_eq!(out.matches("to the output\n").count(), 2, "{out}");
    assert_eq!(err, "to the error output\n".repeat(2));
    assert!(!out.contains("nowhere"), "{out}");
}

#[test]
fn a_file_is_begun_anew_by_each_run() {
    let place = Place::new();
    let log = place.path("log");
    for text in ["echo a long first line; echo error >&2; echo out", "echo second"] {
        assert!(outcome(line(text).output(Output::File(log.clone()))).is_success());
        let expected = if text == "echo second" { "second\n" } else { "a long first line\nerror\nout\n" };
        assert_eq!(place.read("log"), expected);
    }
}

#[test]
fn a_file_is_appended_to() {
    let place = Place::new();
    let log = place.path("log");
    for text in ["echo first; echo error >&2", "echo second"] {
        assert!(outcome(line(text).output(Output::Append(log.clone()))).is_success());
    }
    assert_eq!(place.read("log"), "first\nerror\nsecond\n");
}

#[test]
fn what_goes_to_a_file_is_there_for_a_hook_and_a_failure_names_the_file() {
    let place = Place::new();
    let log = place.path("log");
    for output in [Output::File(log.clone()), Output::Append(log.clone())] {
        std::fs::write(&log, "of a run before\n").expect("the folder is ours");
        let outcome = outcome(line("echo out; echo error >&2; exit 3").output(output));
        let kept = outcome.output().expect("the file is read");
        assert_eq!((kept.bytes(), kept.left_out()), (&b"out\nerror\n"[..], 0), "only what this run wrote");
        assert_eq!(outcome.output_file(), Some(&*log));
        assert!(outcome.to_string().ends_with(&format!("; its output is in {}", log.display())), "{outcome}");
    }
    let outcome = outcome(line("head -c 20000 /dev/zero | tr '\\0' x").output(Output::Append(log)));
    let kept = outcome.output().expect("the file is read");
    assert_eq!((kept.bytes().len(), kept.left_out()), (16 * 1024, 20_000 - 16 * 1024));
    assert!(!outcome.to_string().contains("log"), "{outcome}");
}

#[test]
fn several_commands_append_to_one_file_without_overwriting_each_other() {
    let place = Place::new();
    let schedule = Schedule::in_process();
    for name in ["a", "b", "c"] {
        let text = format!("for i in 1 2 3 4 5 6 7 8 9; do echo {name}; done");
        let event = Event::exec(name, text).every_minute().in_background().output(Output::Append(place.path("log")));
        schedule.add(event).unwrap();
    }
    assert!(!schedule.run_due(noon()).is_failure());
    let log = place.read("log");
    assert!(["a\n", "b\n", "c\n"].iter().all(|name| log.matches(name).count() == 9), "{log}");
}

#[test]
fn where_its_file_can_not_be_opened_nothing_is_started() {
    let place = Place::new();
    let unread = place.path("unread");
    assert!(Command::new("mkfifo").arg(&unread).status().expect("there is mkfifo").success());
    for (log, error) in [
        (place.path("missing/log"), "No such file or directory (os error 2)"),
        ("no-such-folder/log".into(), "No such file or directory (os error 2)"),
        (unread, "No such device or address (os error 6)"),
    ] {
        for output in [Output::File(log.clone()), Output::Append(log.clone())] {
            let outcome = outcome(place.exec(": >started").output(output));
            assert_eq!(outcome.to_string(), format!("failed after 0 µs: can't write to {}: {error}", log.display()));
            assert!(outcome.exit_status().is_none() && outcome.output().is_none());
        }
    }
    assert!(!place.has("started"));
}

#[test]
fn a_pipe_with_a_name_is_written_to_as_it_is_read() {
    let place = Place::new();
    let pipe = place.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("there is mkfifo").success());
    // Opened for both directions, so that neither open waits; the output is larger than the pipe.
    let reader = File::options().read(true).write(true).open(&pipe).expect("it is there");
    let reading =
        thread::spawn(move || io::copy(&mut reader.take(200_000), &mut io::sink()).expect("it is written to"));
    let outcome = outcome(place.exec("head -c 200000 /dev/zero").output(Output::Append(pipe)));
    assert!(outcome.is_success(), "{outcome}");
    assert_eq!(reading.join().expect("it reads"), 200_000);
}

#[test]
fn both_outputs_are_kept_in_the_order_in_which_they_were_written() {
    let (bytes, left_out) = kept(1000, "for i in 1 2 3; do echo out $i; echo err $i >&2; done");
    assert_eq!(String::from_utf8(bytes).unwrap(), "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n");
    assert_eq!(left_out, 0);
}

#[test]
fn the_end_is_kept_up_to_the_bound() {
    assert_eq!(kept(1, "echo 12345"), (b"\n".to_vec(), 5));
    assert_eq!(kept(6, "echo 12345"), (b"12345\n".to_vec(), 0));
    assert_eq!(kept(100, "exit 0"), (b"".to_vec(), 0));
    // More than a pipe holds, and more than is read at once.
    let (bytes, left_out) = kept(5, "yes 1234567 | head -n 200000; echo end");
    assert_eq!((&*bytes, left_out), (b"\nend\n".as_slice(), 200_000 * 8 + 4 - 5));
    let (bytes, left_out) = kept(usize::MAX, "yes 1234567 | head -n 50000");
    assert_eq!((bytes.len(), left_out), (400_000, 0));
}

#[test]
fn what_is_no_text_is_kept_as_it_is() {
    let (bytes, _) = kept(100, r"printf '\000\377\n\r\033'");
    assert_eq!(bytes, b"\0\xff\n\r\x1b");
}

#[test]
fn kept_output_is_shown_for_a_failure_and_only_then() {
    let text = "echo no paper; echo; echo and no ink >&2";
    let report = tick(line(&format!("{text}; exit 3")).output(Output::Keep(100)));
    let expected = [
        "2026-03-01 12:00:00 UTC: 1 due, 1 ran, 0 skipped, 1 failed",
        "  e  2026-03-01 12:00:00 UTC  exited with 3 after 0 µs; its output:",
        "                              no paper",
        "                              ",
        "                              and no ink",
    ];
    assert_eq!(report.to_string(), expected.join("\n"));
    assert_eq!(ran(&report, "e").to_string(), "exited with 3 after 0 µs; its output:\nno paper\n\nand no ink\n");

    let cut = tick(line(&format!("{text}; exit 3")).output(Output::Keep(8)));
    assert_eq!(ran(&cut, "e").to_string(), "exited with 3 after 0 µs; its output:\n… no ink\n");

    assert_eq!(said(line(text).output(Output::Keep(100))), "succeeded in 0 µs");
    assert_eq!(said(line("exit 3").output(Output::Keep(100))), "exited with 3 after 0 µs");
}

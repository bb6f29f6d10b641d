//! Drawing and job control on a terminal, that of `script`.

use std::io::Write;
use std::process::ChildStdin;
use std::time::Instant;

use soloist::{Event, Schedule};

use super::embedded::instead_of_sleep;
use super::*;

/// Returns a command for a shell line on a terminal of 24 rows and 80 columns. Its standard input is typed there.
pub(super) fn on_a_terminal(place: &Place, line: &str) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,QUIT,TERM,TSTP,TTIN,TTOU,CHLD", "script", "-q", "-e", "-f", "-c"]);
    command.arg(format!("stty rows 24 cols 80; {line}")).arg(SHOWN);
    command.env("TERM", "xterm").env("SHELL", "/bin/sh").env("SOLOIST_STORE", &place.store).env("S", SOLOIST);
    command.env("SCHEDULE_STORE", &place.store).env_remove("NO_COLOR").env_remove("SOLOIST_APP");
    command.current_dir(place.folder.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The file with all that a terminal has shown so far.
const SHOWN: &str = "typescript";

impl Place {
    /// Waits until the terminal in this place has shown this text.
    #[track_caller]
    pub(super) fn until_shown(&self, text: &str) {
        until(|| self.read(SHOWN).contains(text)).unwrap_or_else(|why| panic!("{why} for {text:?}"));
    }
}

/// A person who types at such a terminal.
pub(super) struct Person {
    at_work: Running,
    keys: Option<ChildStdin>,
}

impl Person {
    #[track_caller]
    pub(super) fn at(place: &Place, line: &str) -> Self {
        let _ = std::fs::remove_file(place.path(SHOWN)); // of a person before
        let mut at_work = start(on_a_terminal(place, line).stdin(Stdio::piped()));
        let keys = at_work.0.as_mut().and_then(|child| child.stdin.take());
        Self { at_work, keys }
    }

    #[track_caller]
    pub(super) fn types(&mut self, text: &str) {
        self.keys.as_mut().expect("it is piped").write_all(text.as_bytes()).expect("somebody reads it");
    }

    /// Waits until the line has ended, within a bound. Returns what the terminal has shown.
    #[track_caller]
    pub(super) fn has_seen(mut self) -> String {
        let ended = until(|| is_zombie(&self.at_work));
        ended.expect("it ends");
        drop(self.keys.take());
        self.at_work.ended().exits_with(0).printed.replace('\r', "")
    }
}

/// Returns whether the child has ended, and is still a zombie.
fn is_zombie(child: &Child) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'))
}

/// Asserts that the output has these parts, one after the other.
#[track_caller]
fn in_order(seen: &str, parts: &[&str]) {
    let mut rest = seen;
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { panic!("no {part:?} in {rest:?} of {seen:?}") };
        rest = after;
    }
}

pub(super) const CTRL_C: &str = "\x03";
pub(super) const CTRL_Z: &str = "\x1a";

#[test]
fn a_command_reads_from_the_terminal_whatever_its_standard_input_is() {
    for input in ["", "</dev/null"] {
        let place = Place::new();
        let line = format!("$S run --name j -- sh -c 'read a </dev/tty; echo \"got $a\"' {input}");
        let mut person = Person::at(&place, &line);
        person.types("one\n");
        assert!(person.has_seen().ends_with("got one\n"), "{input}");
        place.is_free();
    }
}

#[test]
fn the_terminal_is_given_back_when_the_command_has_ended() {
    let place = Place::new();
    let line = "$S run --name j -- true; $S run --name j -- sh -c 'kill -KILL $$'; $S run --name j -- /no/command; read a; echo \"got $a\"";
    let mut person = Person::at(&place, line);
    person.types("one\n");
    assert!(person.has_seen().ends_with("got one\n"));
}

/// Waits for the file `$1` without starting a process: if a shell is stopped between `vfork` and `exec`, the
/// kernel reports it as running.
const WAITS: &str = "waits() { until [ -e $1 ]; do read -t 0.05 -r _ <>fifo; done; }";

/// Starts a shell with job control, which runs `then` after this command is stopped. The command is `%1`.
#[track_caller]
fn under_job_control(place: &Place, options: &str, command: &str, then: &str) -> Person {
    let command = format!("{WAITS}\nmkfifo fifo; echo $$ >began; {command}");
    std::fs::write(place.path("command"), command).expect("the folder is ours");
    let shell = format!("set -m; $S run --name j {options} -- bash ./command; echo stopped with $?; {then}");
    std::fs::write(place.path("shell"), shell).expect("the folder is ours");
    let mut person = Person::at(place, "bash ./shell");
    place.wait_for("began");
    person.types(CTRL_Z);
    person
}

/// Lets it go on. The test sees if it went on before that.
const MEANWHILE: &str = ": >go; sleep 0.5; echo nothing meanwhile";

#[test]
fn ctrl_z_stops_the_command_with_its_scheduler_and_fg_lets_both_go_on() {
    let place = Place::new();
    let then = format!("{MEANWHILE}; fg >jobs; echo ended with $?");
    let person =
        under_job_control(&place, "", "waits go; echo it goes on; read -r a </dev/tty; echo got $a; exit 5", &then);
    let mut person = person;
    place.wait_for("jobs");
    person.types("one\n"); // to the command
    in_order(&person.has_seen(), &["stopped with 148", "nothing meanwhile", "it goes on", "got one", "ended with 5"]);
    place.is_free();
}

#[test]
fn a_command_that_was_stopped_goes_on_in_the_background() {
    let place = Place::new();
    let then = format!("{MEANWHILE}; bg >jobs; read -r a; echo got $a; wait %1; echo ended with $?");
    let mut person = under_job_control(&place, "", "waits go; echo it goes on; waits end; exit 5", &then);
    place.wait_for("jobs");
    person.types("one\n"); // to the shell
    place.touch("end");
    let seen = person.has_seen();
    in_order(&seen, &["stopped with 148", "nothing meanwhile", "got one", "ended with 5"]);
    in_order(&seen, &["nothing meanwhile", "it goes on", "ended with 5"]);
    place.is_free();
}

#[test]
fn ctrl_z_may_be_typed_again_and_what_is_stopped_can_be_ended() {
    let place = Place::new();
    let then = ": >go; fg >jobs; echo again with $?; kill %1; fg >jobs; echo ended with $?";
    let command = "trap 'echo told; exit 3' TERM; waits go; : >went-on; waits never";
    let mut person = under_job_control(&place, "", command, then);
    place.wait_for("went-on");
    person.types(CTRL_Z);
    in_order(&person.has_seen(), &["stopped with 148", "again with 148", "told", "ended with 143"]);
    place.is_free();
}

/// Stops a command for longer than its term.
#[test]
fn a_command_that_was_stopped_for_too_long_does_not_go_on() {
    let place = Place::new();
    let then = "sleep 9; : >go; fg >jobs; echo ended with $?";
    let person = under_job_control(&place, "--term 8s --grace 1s", "waits go; echo it goes on; : >went-on", then);
    let seen = person.has_seen();
    in_order(&seen, &["stopped with 148", "the lease was lost at ", "ended with 75"]);
    assert!(!seen.contains("it goes on") && !place.path("went-on").exists(), "{seen}");
    place.is_free();
}

#[test]
fn ctrl_c_ends_the_command_and_not_what_called_it() {
    let place = Place::new();
    let line = "trap : INT; $S run --name j -- sh -c 'trap \"echo told; exit 3\" INT; echo $$ >began; while :; do sleep 0.05; done'; echo ended with $?";
    let mut person = Person::at(&place, line);
    place.wait_for("began");
    person.types(CTRL_C);
    in_order(&person.has_seen(), &["told", "ended with 130"]);
    place.is_free();
}

/// States on a terminal why nothing runs; in a crontab there is no output.
#[test]
fn why_nothing_is_run_is_told_on_a_terminal() {
    let place = Place::new().used();
    succeeds(place.soloist("pause --why").arg("a move"));
    let line = "$S run --name j -E 9 -- true; echo \"code $?\"";
    let told = succeeds(&mut on_a_terminal(&place, line)).printed;
    assert!(
        told.starts_with("soloist: j: skipped, paused by ") && told.ends_with(": a move\r\ncode 9\r\n"),
        "{told:?}"
    );
    succeeds(&mut place.soloist("resume"));
    let _first = start(&mut place.run("", "sleep 600"));
    place.until_held();
    succeeds(&mut on_a_terminal(&place, line)).says("soloist: j: skipped, still running: ").says("code 9");
    // Standard error alone decides.
    let told = succeeds(&mut on_a_terminal(&place, &line.replace("true;", "true 2>log;"))).printed;
    assert_eq!((&*told, &*place.read("log")), ("code 9\r\n", ""));
}

/// As much of a VT100 as is needed.
struct Screen {
    rows: Vec<Vec<char>>,
    row: usize,
    column: usize,
    saved: (usize, usize),
    /// The first and last of the rows that scroll.
    scrolls: (usize, usize),
    /// The lines that have scrolled out of sight.
    gone: Vec<String>,
}

impl Screen {
    fn showing(text: &str) -> Self {
        let mut screen =
            Self { rows: vec![Vec::new(); 24], row: 0, column: 0, saved: (0, 0), scrolls: (0, 23), gone: Vec::new() };
        let mut chars = text.chars();
        while let Some(char) = chars.next() {
            match char {
                '\r' => screen.column = 0,
                '\n' => screen.down(),
                '\x1b' => match chars.next() {
                    Some('7') => screen.saved = (screen.row, screen.column),
                    Some('8') => (screen.row, screen.column) = screen.saved,
                    Some('D') => screen.down(),
                    Some('[') => {
                        let mut numbers = String::new();
                        let end = chars.by_ref().find(|char| {
                            numbers.push(*char);
                            char.is_ascii_alphabetic()
                        });
                        numbers.pop();
                        let numbers: Vec<usize> = numbers.split(';').filter_map(|number| number.parse().ok()).collect();
                        screen.carry_out(end.expect("it has an end"), &numbers);
                    }
                    other => panic!("ESC {other:?}"),
                },
                char => screen.put(char),
            }
        }
        screen
    }

    fn carry_out(&mut self, command: char, numbers: &[usize]) {
        match (command, numbers) {
            ('A', [count]) => self.row = self.row.saturating_sub(*count),
            ('H', [row, column]) => (self.row, self.column) = (row - 1, column - 1),
            ('J', []) => {
                self.rows[self.row].truncate(self.column);
                self.rows[self.row + 1..].iter_mut().for_each(Vec::clear);
            }
            ('r', []) => ((self.row, self.column), self.scrolls) = ((0, 0), (0, 23)),
            ('r', [first, last]) => {
                assert!(first < last && *last <= 24, "{first} {last}");
                ((self.row, self.column), self.scrolls) = ((0, 0), (first - 1, last - 1));
            }
            ('m', _) => {}
            other => panic!("CSI {other:?}"),
        }
    }

    fn down(&mut self) {
        if self.row == self.scrolls.1 {
            let gone = self.rows.remove(self.scrolls.0);
            self.gone.push(gone.into_iter().collect());
            self.rows.insert(self.scrolls.1, Vec::new());
        } else if self.row < 23 {
            self.row += 1;
        }
    }

    fn put(&mut self, char: char) {
        if self.column == 80 {
            self.column = 0;
            self.down();
        }
        let row = &mut self.rows[self.row];
        row.resize(row.len().max(self.column + 1), ' ');
        row[self.column] = char;
        self.column += 1;
    }

    fn row(&self, number: usize) -> String {
        self.rows[number].iter().collect()
    }

    /// Returns all lines, those out of sight first.
    fn lines(&self) -> Vec<String> {
        self.gone.iter().cloned().chain((0..24).map(|row| self.row(row))).collect()
    }
}

#[test]
fn a_screen_scrolls_within_its_region_alone() {
    let text = format!("a\r\n{}\x1b[24;1Hbottom\x1b[1;2r\x1b[1;1Hone\r\ntwo\r\nthree", "\n".repeat(3));
    let screen = Screen::showing(&text);
    assert_eq!((screen.row(0), screen.row(1), screen.row(23)), ("two".into(), "three".into(), "bottom".into()));
    assert_eq!(screen.gone, ["one"]);
    let screen = Screen::showing("one\r\ntwo\x1b7\r\nthree\x1b[2A\x1b[J\x1b8!\x1b[m");
    assert_eq!((screen.row(0), screen.row(1)), ("one  ".trim().into(), "   !".into()));
    assert_eq!(Screen::showing(&"x".repeat(81)).lines()[..2], ["x".repeat(80), "x".into()]);
}

/// Whether the test below is a program with a schedule.
const PRINTS: &str = "SOLOIST_TEST_PRINTS";

/// How many lines it prints at a time: more than the screen has.
const AT_A_TIME: usize = 40;

/// Works a schedule with one event that prints lines, each second: this test, in a process of its own.
#[test]
fn a_program_whose_tasks_print() {
    if std::env::var_os(PRINTS).is_none() {
        return;
    }
    let matches = soloist::cli::command("app").get_matches_from(["app", "work"]);
    let _code = soloist::cli::run_matches(&matches, || {
        let schedule = Schedule::new(soloist::connect(&std::env::var("SOLOIST_STORE").expect("it is said"))?);
        // Some of them while the picture is drawn.
        let line = format!("for i in $(seq {AT_A_TIME}); do echo $SOLOIST_TOKEN:$i; sleep 0.01; done");
        schedule.add(Event::exec("prints", line).every_second().without_overlapping())?;
        Ok::<_, Box<dyn std::error::Error>>(schedule)
    });
}

/// Runs a program for four seconds, and ends it by SIGTERM. Returns the seconds that this took, and what the program sent to the
/// terminal. On a busy machine this may be not enough: then it is run for longer.
fn typescript(program: &str, stty: &str, is_enough: impl Fn(&str) -> bool) -> (u64, String) {
    let run_for = |seconds: u64| {
        let began = Instant::now();
        let line = format!("{stty} timeout --foreground -s TERM {seconds} {program}; stty -a | grep -o 'rows [0-9]*'");
        let shown = succeeds(on_a_terminal(&Place::new(), &line).env(PRINTS, "1")).printed;
        (began.elapsed().as_secs(), shown)
    };
    let is_enough = |(_, shown): &(u64, String)| is_enough(shown);
    [4, 8, 16].into_iter().map(run_for).find(is_enough).unwrap_or_else(|| run_for(32))
}

fn printing_program() -> String {
    let this = std::env::current_exe().expect("a running program has a path");
    format!("{} cli::terminal::a_program_whose_tasks_print --exact --nocapture", this.display())
}

#[test]
fn work_draws_a_picture_in_the_last_lines_of_a_terminal_and_gives_them_back() {
    let pictures = |shown: &str| shown.matches("next: carts:remind, ").count();
    let program = format!("{} work", example("schedule_cli").display());
    let (seconds, shown) = typescript(&program, "", |shown| pictures(shown) >= 2);
    assert!(shown.starts_with("3 events; Ctrl-C ends this\r\n"), "{shown:?}");
    let (drawn, end) = shown.rsplit_once("\x1b[r").expect("the region is given back");
    let screen = Screen::showing(drawn.strip_suffix("\x1b7").unwrap_or(drawn));
    assert_eq!((screen.scrolls, &*screen.row(0)), ((0, 11), "3 events; Ctrl-C ends this"));
    let below: Vec<String> = (12..24).map(|row| screen.row(row)).collect();
    assert!(below.iter().any(|line| line.starts_with("next: carts:remind, ") && line.contains(", in ")), "{below:?}");
    let pictures = pictures(&shown) as u64;
    assert!((2..=seconds + 2).contains(&pictures), "{pictures} in {seconds} seconds: {shown:?}");
    // The drawing is removed, and the shell continues below the output.
    assert!(!end.contains("\x1b[1;12r"), "{end:?}");
    let screen = Screen::showing(&shown);
    assert_eq!(screen.scrolls, (0, 23));
    let text: Vec<String> = screen.lines().into_iter().filter(|line| !line.trim().is_empty()).collect();
    assert!(text.first().is_some_and(|line| line.starts_with("3 events")), "{text:?}");
    assert!(text.last().is_some_and(|line| line == "rows 24") && !text.concat().contains("next: "), "{text:?}");
}

/// Ends the run only after the picture was removed: a further signal could have ended the program at once.
#[test]
fn the_picture_is_removed_when_the_shutdown_begins() {
    let place = Place::new();
    let _slow = instead_of_sleep(&place, "until [ -e go ]; do /bin/sleep 0.05; done");
    let (folder, program) = (place.path("bin"), example("schedule_cli"));
    let line = format!("trap : INT; PATH={}:$PATH {} work; echo code $?", folder.display(), program.display());
    let mut person = Person::at(&place, &line);
    place.until_shown(" UTC carts:remind: started under token ");
    place.until_shown("next: carts:remind, ");
    person.types(CTRL_C);
    place.until_shown("no more runs start, and the current runs have 20s to end; Ctrl-C again stops them\r\n");
    std::thread::sleep(Duration::from_secs(3)); // a picture is drawn each second
    let shown = place.read(SHOWN);
    let (_, after) = shown.split_once("\x1b[r").expect("the region is given back");
    assert!(after.contains("no more runs start, "), "{shown:?}");
    assert!(!after.contains("\x1b[1;12r") && !after.contains("next: carts:remind, "), "{shown:?}");
    place.touch("go");
    let seen = person.has_seen();
    assert!(seen.ends_with("code 130\n"), "{seen:?}");
}

#[test]
fn what_tasks_print_scrolls_above_the_picture_and_nothing_of_it_is_lost() {
    let drawn = |shown: &str| shown.matches("\x1b[13;1H\x1b[J").count();
    let printed = |shown: &str| {
        shown.replace('\x1b', "\n\x1b").lines().filter(|line| line.contains("started under token")).count()
    };
    let (_, shown) = typescript(&printing_program(), "", |shown| drawn(shown) > 1 && printed(shown) > 1);
    assert!(drawn(&shown) > 1, "it was drawn: {shown:?}");
    let lines = Screen::showing(&shown).lines();
    let printed = printed(&shown);
    assert!(printed > 1, "{shown:?}");
    // Each run under its token, each line of it once, whole, and in its order.
    let tokens: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.split_once("started under token ").map(|(_, token)| token.trim()))
        .collect();
    assert_eq!(tokens.len(), printed, "{lines:#?}");
    for token in &tokens[..tokens.len() - 1] {
        let own: Vec<&String> = lines.iter().filter(|line| line.starts_with(&format!("{token}:"))).collect();
        let expected: Vec<String> = (1..=AT_A_TIME).map(|number| format!("{token}:{number}")).collect();
        assert!(own.iter().copied().eq(expected.iter()), "{token}: {own:?}\n{lines:#?}");
    }
}

#[test]
fn a_terminal_that_is_too_low_or_knows_no_sequences_has_plain_lines() {
    std::thread::scope(|scope| {
        for stty in ["stty rows 5;", "TERM=dumb", "stty rows 0 cols 0;"] {
            scope.spawn(move || {
                let prints = |shown: &str| shown.contains(" UTC prints: started under token ");
                let (_, shown) = typescript(&printing_program(), stty, prints);
                assert!(!shown.contains('\x1b') && prints(&shown), "{stty} {shown:?}");
            });
        }
    });
}

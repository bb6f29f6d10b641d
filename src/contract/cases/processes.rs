//! Cases of several processes: processes race for names, are killed, or use a lease too late.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
#[cfg(unix)]
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;
use std::thread;

use crate::contract::child::{Other, say};
use crate::contract::subject::{CaseResult, DoesNotApply, Subject, answered, broken, lease, long, must};
use crate::contract::{harness::Harness, race::patiently, race::repeat};
use crate::lease::{name::MutexName, request::Lease, term::Term};
use crate::store::event_mutex::extend_one;
use crate::store::event_mutex::{EventMutex, lifeline::Lifeline};

const PROCESSES: usize = 4;
const NAMES: usize = 200;

/// The number of names in a round. A store may keep a file open for each held name. So the winners release their names
/// after each round, before too many files are open.
const ROUND: usize = 50;
const UPDATES: usize = 50;

const ONE_PROCESS: DoesNotApply = DoesNotApply("the harness gives no address: only this process sees the store");

pub(super) fn of_four_processes_exactly_one_wins_each_name<H: Harness>(subject: &Subject<H>) -> CaseResult {
    let address = subject.harness.address().ok_or(ONE_PROCESS)?;
    let mut others = start_together(subject, &address, "win");
    repeat(1, NAMES / ROUND, |number| {
        let round = number * ROUND;
        // Each process lives and keeps its names until all processes have answered. Otherwise a name could be won
        // twice, because a store may free the names of a process that ends.
        for other in &mut others {
            other.tell(&round.to_string());
        }
        let mut winners = [0; ROUND];
        for other in &others {
            for number in other.hear().split_whitespace() {
                let number: usize = number.parse().expect("a process sends the numbers of the names that it won");
                winners[number - round] += 1;
            }
        }
        for (number, winners) in (round..).zip(winners) {
            let name = contested(subject, number);
            let happened = format_args!("{winners} of {PROCESSES} processes got it");
            must(winners == 1, "if several processes create a free name, exactly one gets it", &name, happened);
            subject.is_held(&name, "a name that another process created is held");
        }
        for other in &mut others {
            other.tell("release");
        }
    });
    Ok(())
}

pub(super) fn no_update_is_lost_between_processes<H: Harness>(subject: &Subject<H>) -> CaseResult {
    let address = subject.harness.address().ok_or(ONE_PROCESS)?;
    let file = counter(subject);
    let _removed = RemoveOnDrop(&file);
    fs::write(&file, "0 0").expect("the directory for temporary files takes a counter");
    let others = start_together(subject, &address, "count");
    let made = |other: &Other| other.hear().parse::<u64>().expect("a process sends the number of its updates");
    let all: u64 = others.iter().map(made).sum();
    let (count, _) = read_counter(&file);
    let happened = format_args!("{count} of {all} updates were kept");
    must(count == all, "only one process at a time holds the name", &guarded(subject), happened);
    Ok(())
}

pub(super) fn the_name_of_a_killed_process_is_free_when_its_term_is_over<H: Harness>(
    subject: &Subject<H>,
) -> CaseResult {
    let address = subject.harness.address().ok_or(ONE_PROCESS)?;
    let mut other = subject.start(&address, "hold");
    let (name, token) = held_by(subject, &mut other);
    other.kill();
    subject.let_pass(held_term(subject));
    subject.is_free(&name, "the name of a killed process is free when its term is over");
    let next = subject.create(&name);
    let happened = format_args!("{} came after {token}", next.token());
    must(next.token().get() > token, "tokens rise after the death of a holder", &name, happened);
    subject.is_held_by(&next, "the new owner holds the name of a killed process");
    subject.releases(&next);
    Ok(())
}

pub(super) fn a_process_that_was_late_can_not_come_back<H: Harness>(subject: &Subject<H>) -> CaseResult {
    let address = subject.harness.address().ok_or(ONE_PROCESS)?;
    let mut other = subject.start(&address, "hold");
    let (name, _) = held_by(subject, &mut other);
    subject.let_pass(held_term(subject));
    let holder = subject.create(&name);
    for word in ["extend", "forget"] {
        other.tell(word);
        let answer = other.hear();
        let refused = answer == "false" || (word == "extend" && answer == "unsupported");
        let happened = format_args!("{word} answered {answer}");
        must(refused, "a late process can't get its lease back", &name, happened);
        subject.is_held_by(&holder, "a late process changes nothing for the new holder");
        subject.is_refused(&name);
    }
    subject.releases(&holder);
    Ok(())
}

pub(super) fn a_name_that_is_released_later_outlives_its_process<H: Harness>(subject: &Subject<H>) -> CaseResult {
    let address = subject.harness.address().ok_or(ONE_PROCESS)?;
    subject.can_extend()?;
    let minimum_hold = released_after(subject);
    subject.in_time(|name| {
        let mut other = subject.start(&address, "hold");
        must_hear(&other, "ready");
        let asked = subject.clock.moment();
        other.tell(&format!("hold {}", name.mutex()));
        let token = other.hear();
        let end = subject.clock.moment().plus(minimum_hold.get());
        other.tell("release later");
        let answer = other.hear();
        // If the term may have been over at the release, the answer proves nothing.
        subject.before(asked.plus(held_term(subject).get()), ())?;
        must(
            answer == "true",
            "the owner's release with a minimum hold succeeds",
            name,
            format_args!("it answered {answer}"),
        );
        other.tell("leave");
        other.leaves();
        // When the requested term has passed, only the minimum hold keeps the name held.
        subject.let_pass(held_term(subject));
        let promise = "a name stays held until its minimum hold is over, even if its process ends";
        let exists = subject.before(end, subject.exists(name))?;
        must(exists, promise, name, "exists answered false");
        let created = subject.before(end, subject.try_create(name))?;
        must(created.is_none(), promise, name, format_args!("got {created:?}"));
        if let Some(told) = subject.before(end, subject.holder(name))? {
            let same = told.pid() == other.pid() && told.token().to_string() == token;
            must(
                same,
                "the answer names the right holder, even if its process has ended",
                name,
                format_args!("found {told:?}"),
            );
        }
        subject.let_pass(minimum_hold);
        subject.is_free(name, "a name is free when its minimum hold is over, even if its process has ended");
        subject.create(name);
        Some(())
    });
    Ok(())
}

pub(super) fn a_lease_of_a_killed_process_lasts_as_long_as_a_command_has_its_lifeline<H: Harness>(
    subject: &Subject<H>,
) -> CaseResult {
    let address = subject.harness.address().ok_or(ONE_PROCESS)?;
    subject.gives_lifelines()?;
    subject.in_time(|name| {
        let mut other = subject.start(&address, "hold");
        let token = held_with_lifeline(subject, &mut other, name, "hand on")?;
        let pid = other.pid();
        other.kill();
        subject.let_pass(held_term(subject));
        let promise = "a lease of a killed process lasts as long as a command has the lifeline of the lease";
        subject.is_held(name, promise);
        subject.is_refused(name);
        if let Some(told) = subject.holder(name) {
            let same = told.pid() == pid && told.token().get() == token;
            must(
                same,
                "the answer names the right holder, even if its process has ended",
                name,
                format_args!("found {told:?}"),
            );
        }
        // The command has inherited the standard input of the killed process. The drop closes the other end of this
        // pipe, so that the command ends.
        drop(other);
        let promise = "a lease of a killed process ends with the command that has its lifeline";
        let next = patiently(promise, name, || subject.try_create(name));
        let happened = format_args!("{} came after {token}", next.token());
        must(next.token().get() > token, "tokens rise after the end of a command", name, happened);
        subject.releases(&next);
        Some(())
    });
    Ok(())
}

pub(super) fn a_lease_of_a_killed_process_ends_when_nobody_has_its_lifeline<H: Harness>(
    subject: &Subject<H>,
) -> CaseResult {
    let address = subject.harness.address().ok_or(ONE_PROCESS)?;
    subject.gives_lifelines()?;
    subject.in_time(|name| {
        let mut other = subject.start(&address, "hold");
        held_with_lifeline(subject, &mut other, name, "keep the lifeline")?;
        other.kill();
        subject.let_pass(held_term(subject));
        let promise = "a lease of a killed process ends with its term, if no process has its lifeline";
        subject.is_free(name, promise);
        subject.create(name);
        Some(())
    });
    Ok(())
}

/// Lets another process acquire this name and request the lifeline of its lease. Returns the token, or `None` if the
/// machine was so slow that the term may have been over.
fn held_with_lifeline<H: Harness>(
    subject: &Subject<H>,
    other: &mut Other,
    name: &MutexName,
    word: &str,
) -> Option<u64> {
    must_hear(other, "ready");
    let end = subject.clock.moment().plus(held_term(subject).get());
    other.tell(&format!("hold {}", name.mutex()));
    let token = other.hear();
    other.tell(word);
    let answer = other.hear();
    subject.before(end, ())?;
    let promise = "a process gets the lifeline of the lease that it holds";
    must(answer == "done", promise, name, format_args!("lifeline answered {answer}"));
    Some(token.parse().expect("a process sends the token of its lease"))
}

/// Lets another process acquire a name, and checks that this process sees the name as held. Returns the name and the
/// token.
fn held_by<H: Harness>(subject: &Subject<H>, other: &mut Other) -> (MutexName, u64) {
    must_hear(other, "ready");
    subject.in_time(|name| {
        let end = subject.clock.moment().plus(held_term(subject).get());
        other.tell(&format!("hold {}", name.mutex()));
        let answer = other.hear();
        let Ok(token) = answer.parse() else {
            broken("a free name is granted to another process", name, format_args!("create answered {answer}"));
        };
        let exists = subject.before(end, subject.exists(name))?;
        must(exists, "a name that another process holds is not free", name, "exists answered false");
        let holder = subject.before(end, subject.holder(name))?;
        if let Some(holder) = holder {
            let same = holder.pid() == other.pid() && holder.token().get() == token;
            let happened = format_args!("found {holder:?} instead of process {} with token {token}", other.pid());
            must(same, "the answer names the right holder in another process, too", name, happened);
        }
        let created = subject.before(end, subject.try_create(name))?;
        must(created.is_none(), "a name that another process holds is refused", name, format_args!("got {created:?}"));
        Some((name.clone(), token))
    })
}

/// Plays a role of a case. The case runs in the process that started this process.
pub(in crate::contract) fn play<H: Harness>(subject: &Subject<H>, role: &str, words: &Receiver<String>) {
    say("ready");
    match role {
        "win" => words.iter().take(1).for_each(|_go| win(subject, words)),
        "count" => words.iter().take(1).for_each(|_go| count(subject)),
        "hold" => hold(subject, words),
        role => panic!("no case starts a process to {role:?}"),
    }
}

/// Plays rounds. For each round, the case sends two words: the number of the first name, and a word that ends the
/// round.
fn win<H: Harness>(subject: &Subject<H>, words: &Receiver<String>) {
    for word in words {
        let round: usize = word.parse().expect("a case sends the number of the first name of a round");
        let create = |number| Some((number, subject.try_create(&contested(subject, number))?));
        let won: Vec<(usize, Lease)> = (round..round + ROUND).filter_map(create).collect();
        let numbers: Vec<String> = won.iter().map(|(number, _)| number.to_string()).collect();
        say(&numbers.join(" "));
        if words.recv().is_err() {
            return;
        }
        for (_, lease) in &won {
            subject.releases(lease);
        }
    }
}

/// Makes updates while it holds the name, and sends their number.
fn count<H: Harness>(subject: &Subject<H>) {
    let (name, file) = (guarded(subject), counter(subject));
    let updates = repeat(5, UPDATES, |_| {
        let promise = "a name that is released again and again is granted";
        let lease = patiently(promise, &name, || subject.try_create(&name));
        let (count, last) = read_counter(&file);
        thread::yield_now();
        let token = lease.token().get();
        must(
            last < token,
            "tokens rise with every grant, to any owner",
            &name,
            format_args!("{token} came after {last}"),
        );
        fs::write(&file, format!("{} {token}", count + 1)).expect("the counter is written by one process at a time");
        subject.releases(&lease);
    });
    say(&updates.to_string());
}

fn hold<H: Harness>(subject: &Subject<H>, words: &Receiver<String>) {
    let mut held = None;
    // The lifelines and the commands are kept until this process ends.
    let (mut lifelines, mut commands) = (Vec::new(), Vec::new());
    for word in words {
        match (word.as_str(), &held) {
            ("forget", Some(held)) => say(&subject.forget(held).to_string()),
            ("extend", Some(held)) => match extend_one(&subject.mutex, held, long()) {
                Err(error) if error.is_unsupported() => say("unsupported"),
                answer => say(&answered("extend", held.name(), answer).to_string()),
            },
            ("release later", Some(held)) => say(&subject.release_after(held, released_after(subject)).to_string()),
            ("keep the lifeline" | "hand on", Some(held)) => match subject.mutex.lifeline(held) {
                Ok(Some(lifeline)) => {
                    if word == "hand on" {
                        commands.push(command_with(lifeline));
                    } else {
                        lifelines.push(lifeline);
                    }
                    say("done");
                }
                answer => say(&format!("{answer:?}")),
            },
            ("leave", _) => return,
            (word, _) => {
                let name = word.strip_prefix("hold ").map(lease);
                let name = name.expect("a case sends one of these words");
                let lease = subject.create_for(&name, held_term(subject));
                say(&lease.token().to_string());
                held = Some(lease);
            }
        }
    }
}

/// Starts a command that has the lifeline open, and that ends when the standard input of this process ends.
#[cfg(unix)]
fn command_with(lifeline: Lifeline) -> Child {
    // `cat` writes nothing to standard error, so its standard error can be the lifeline. `cat` reads the standard input
    // of this process, and ends at the end of the input.
    let command = Command::new("cat").stdout(Stdio::null()).stderr(lifeline.into_parts().0).spawn();
    command.expect("every Unix has a `cat`")
}

#[cfg(not(unix))]
fn command_with(lifeline: Lifeline) -> Child {
    unreachable!("there is no {lifeline:?} here")
}

fn start_together<H: Harness>(subject: &Subject<H>, address: &str, role: &str) -> Vec<Other> {
    let mut others: Vec<Other> = (0..PROCESSES).map(|_| subject.start(address, role)).collect();
    for other in &others {
        must_hear(other, "ready");
    }
    for other in &mut others {
        other.tell("go");
    }
    others
}

#[track_caller]
fn must_hear(other: &Other, word: &str) {
    let heard = other.hear();
    assert_eq!(heard, word, "process {}, started for this case", other.pid());
}

fn contested<H: Harness>(subject: &Subject<H>, number: usize) -> MutexName {
    subject.name(format_args!("contested {number}"))
}

fn guarded<H: Harness>(subject: &Subject<H>) -> MutexName {
    subject.name("guarded")
}

fn held_term<H: Harness>(subject: &Subject<H>) -> Term {
    subject.shorts(4)
}

/// Returns the minimum hold of a release. It is longer than the term of the lease.
fn released_after<H: Harness>(subject: &Subject<H>) -> Term {
    subject.shorts(8)
}

/// Returns the path of the file in which the processes count their updates and keep the last token.
fn counter<H: Harness>(subject: &Subject<H>) -> PathBuf {
    env::temp_dir().join(format!("soloist {}", subject.run))
}

fn read_counter(file: &Path) -> (u64, u64) {
    let text = fs::read_to_string(file).expect("the counter is there until all processes are done");
    let numbers = text.split_once(' ').and_then(|(count, token)| Some((count.parse().ok()?, token.parse().ok()?)));
    numbers.unwrap_or_else(|| {
        panic!(
            "promised: only one process at a time holds the name; but the guarded file was read half-written: {text:?}"
        )
    })
}

struct RemoveOnDrop<'a>(&'a Path);

impl Drop for RemoveOnDrop<'_> {
    fn drop(&mut self) {
        // If this fails, a small file stays in the directory for temporary files.
        let _ = fs::remove_file(self.0);
    }
}

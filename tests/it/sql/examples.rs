//! The examples that take the URL of a store, on databases.

use std::process::{Command, Output};

use soloist::store::LeaseRequest;
use soloist::time::Clock;
use soloist::{EventMutex, MutexName, Term};

use super::batches::extend;
use super::{SqlServer, on_both};
use crate::support::{example, patient_url};

on_both!(
    a_worker_makes_its_table_when_it_is_told_to,
    three_copies_share_the_permits_of_a_database,
    the_audit_makes_its_table_and_is_kept,
    a_late_write_with_a_lower_token_changes_nothing,
    what_the_guide_tells_an_operator_shows_and_frees_what_is_held,
);

fn run(name: &str, arguments: &[&str]) -> Output {
    Command::new(example(name)).args(arguments).output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the URL with each of its two schemes.
fn urls<S: SqlServer>(server: &S) -> [String; 2] {
    let url = patient_url(&server.url());
    let (scheme, rest) = url.split_once(':').expect("a url");
    let other = if scheme == "mysql" { "mariadb" } else { "postgresql" };
    [format!("{other}:{rest}"), url]
}

fn a_worker_makes_its_table_when_it_is_told_to<S: SqlServer>() {
    let server = S::with(&[]);
    let worker = |url: &str, minute: u32, more: &[&str]| {
        let now = format!("2026-03-01T12:{minute:02}:00Z");
        let options = ["--store", url, "--without-overlapping", "--on-one-server", "--now", &now];
        run("worker", &[&options, more].concat())
    };
    let [other, url] = urls(&server);
    let without = worker(&url, 0, &[]);
    assert_eq!(without.status.code(), Some(1));
    assert!(text(&without.stderr).contains("`soloist create-table` or `create_table()`"), "{without:?}");
    for (minute, (url, more)) in
        (1..).zip([(&url, &["--create-table"][..]), (&other, &["--create-table"]), (&other, &[])])
    {
        let output = worker(url, minute, more);
        assert!(output.status.success() && text(&output.stdout).contains("\"what\":\"end\""), "{output:?}");
    }
    assert!(text(&worker(&url, 3, &[]).stdout).contains("\"reason\":\"ran_elsewhere\""), "it is one store");

    let memory = run("worker", &["--store", "memory:", "--create-table"]);
    assert_eq!(memory.status.code(), Some(2));
    assert!(text(&memory.stderr).contains("--create-table is for a store in a database"), "{memory:?}");
}

fn three_copies_share_the_permits_of_a_database<S: SqlServer>() {
    for url in urls(S::shared()) {
        let output = run("permits", &[&url]);
        assert!(output.status.success(), "{output:?}");
        let said = text(&output.stdout);
        let of = |event: &str| said.lines().filter(|line| line.contains(event)).count();
        assert_eq!((of("carts:clean-up"), of("carts:remind")), (2, 4), "{said}");
    }
}

fn the_audit_makes_its_table_and_is_kept<S: SqlServer>() {
    let server = S::with(&[]);
    let url = server.url();
    S::create_table(&server.mutex()).unwrap();
    for (store, rows) in [(&[][..], 3), (&[&*patient_url(&url)], 6)] {
        let output = run("audit", &[&[&*url], store].concat());
        assert!(output.status.success(), "{output:?}");
        assert_eq!(server.count("SELECT COUNT(*) FROM soloist_audit"), rows);
        assert_eq!(server.count("SELECT COUNT(*) FROM soloist_audit WHERE reason = 'granted'"), rows / 3);
    }
    for wrong in [&[][..], &["memory:"], &["file:/tmp", "memory:"], &[&*url, "memory:", "more"]] {
        let output = run("audit", wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {output:?}");
        assert!(text(&output.stderr).starts_with("usage: audit DATABASE [STORE]"), "{output:?}");
    }
}

fn a_late_write_with_a_lower_token_changes_nothing<S: SqlServer>() {
    let url = S::shared().url();
    let output = run("fencing", &[&url]);
    if url.starts_with("postgres") {
        let said = text(&output.stdout);
        assert!(output.status.success(), "{output:?}");
        assert!(said.contains("the second run writes: 1 row\n") && said.contains("writes: 0 rows\n"), "{said}");
    } else {
        assert_eq!(output.status.code(), Some(1), "it speaks to PostgreSQL only: {output:?}");
    }
}

fn what_the_guide_tells_an_operator_shows_and_frees_what_is_held<S: SqlServer>() {
    let server = S::start();
    let title = if server.url().starts_with("mysql") { "-- MySQL" } else { "-- PostgreSQL" };
    let guide = include_str!("../../../docs/guide/stores.md");
    let blocks = guide.split("```sql\n").skip(1).filter_map(|block| block.split("```").next());
    let block = blocks.into_iter().find(|block| block.starts_with(title)).expect("the book has one for each");
    let lines: Vec<&str> = block.lines().filter(|line| !line.starts_with("--")).collect();
    let lines = lines.join(" ");
    let statements: Vec<&str> = lines.split_terminator(';').collect();
    let [look, free] = statements[..] else { panic!("{block}") };

    let mutex = server.mutex();
    let lease = |name| LeaseRequest::new(MutexName::lease(name).unwrap(), Term::DEFAULT, &Clock::system());
    let taken = ["carts:remind", "other"].map(|name| mutex.create(&lease(name)).unwrap().unwrap());
    let names = |look: &str| {
        let mut names: Vec<String> = server.ask(look).into_iter().map(|row| row[0].clone().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names(look), ["lease/carts:remind", "lease/other"]);
    server.ask(free);
    assert_eq!(names(look), ["lease/other"]);
    let renewed = extend(&mutex, &taken, Term::DEFAULT);
    assert!(matches!(renewed[..], [Ok(false), Ok(true)]), "its holder is told: {renewed:?}");
    assert!(mutex.create(&lease("carts:remind")).unwrap().is_some());
}

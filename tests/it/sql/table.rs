//! The table: who makes it, what is said where there is none, and what its users must be allowed.

use soloist::{Clock, EventMutex, LeaseRequest, MutexName, Term};

use super::{SqlServer, on_both};

fn request(name: &str) -> LeaseRequest {
    LeaseRequest::new(MutexName::lease(name).expect("a name"), Term::MAX, &Clock::system())
}

on_both!(
    a_missing_table_is_an_error_that_contains_what_makes_it,
    a_table_is_made_once,
    a_table_may_have_another_name,
    a_table_that_is_not_as_it_should_be_is_warned_of,
);

/// The statements without their comments, as the error shows them: in one line.
fn one_line(sql: &str) -> String {
    let lines = sql.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("--"));
    lines.collect::<Vec<_>>().join(" ")
}

fn a_missing_table_is_an_error_that_contains_what_makes_it<S: SqlServer>() {
    let server = S::with(&[]);
    let mutex = server.mutex();
    let error = mutex.create(&request("reports")).unwrap_err();
    assert!(error.is_refused());
    let said = format!("{error:?}");
    let statements = one_line(S::schema(&mutex));
    assert!(
        said.contains(&format!(
            "; create or upgrade the table soloist_mutexes: call create_table(), or run {statements}"
        )),
        "{said}"
    );
    let as_its_user = if server.url().starts_with("postgres") { "SET ROLE owner; " } else { "" };
    server.ask(&format!("{as_its_user}{statements}"));
    assert!(mutex.create(&request("reports")).unwrap().is_some());
}

fn a_table_is_made_once<S: SqlServer>() {
    let server = S::with(&[]);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| S::create_table(&server.mutex()).unwrap());
        }
    });
    let lease = server.mutex().create(&request("reports")).unwrap().unwrap();
    S::create_table(&server.mutex()).unwrap();
    assert!(server.mutex().exists(lease.name()).unwrap(), "what is in the table stays");
    assert_eq!(server.mutex().check().unwrap(), []);
}

fn a_table_may_have_another_name<S: SqlServer>() {
    let server = S::start();
    let other = S::named(&server.url(), "order");
    assert!(
        format!("{:?}", other.create(&request("reports")).unwrap_err()).contains("create or upgrade the table order")
    );
    S::create_table(&other).unwrap();
    assert!(other.create(&request("reports")).unwrap().is_some());
    assert!(!server.mutex().exists(request("reports").name()).unwrap(), "tables don't see each other");
    assert_eq!((other.check().unwrap(), S::purge(&other).unwrap()), (vec![], 0));
}

fn a_table_that_is_not_as_it_should_be_is_warned_of<S: SqlServer>() {
    let server = S::start();
    let changes = if server.url().starts_with("mysql") {
        [
            ("ENGINE = MyISAM", "its engine is MyISAM, and only InnoDB is known to"),
            (
                "MODIFY name VARCHAR(500) CHARACTER SET ascii COLLATE ascii_general_ci",
                "names are not compared byte by byte",
            ),
            ("DROP PRIMARY KEY", "its primary key is not the name alone"),
        ]
    } else {
        [
            ("SET UNLOGGED", "the table forgets leases when the server ends, because it is UNLOGGED"),
            ("ALTER name TYPE text COLLATE \"en-x-icu\"", "names are not compared byte by byte"),
            ("DROP CONSTRAINT soloist_mutexes_pkey", "its primary key is not the name alone"),
        ]
    };
    for (at, (change, said)) in changes.into_iter().enumerate() {
        server.ask(&format!("ALTER TABLE soloist_mutexes {change}"));
        let warnings: Vec<String> = server.mutex().check().unwrap().iter().map(ToString::to_string).collect();
        assert!(warnings.len() == at + 1 && warnings.iter().any(|warning| warning.contains(said)), "{warnings:?}");
    }
}

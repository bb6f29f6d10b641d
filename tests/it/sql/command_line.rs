//! The program `soloist` on a database: it makes its table, and ends without a word from the driver.

use std::process::{Command, Output};

use super::trouble::Trouble;
use super::{SqlServer, on_both};
use crate::support::patient_url;

on_both!(
    the_table_is_made_by_a_command,
    a_program_with_a_log_of_runs_ends_in_silence,
    a_check_as_a_user_that_may_only_read_fails
);

fn soloist(arguments: &[&str], url: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_soloist"));
    command.args(arguments).env("SOLOIST_STORE", url).output().expect("it can be started")
}

fn said(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn the_table_is_made_by_a_command<S: SqlServer>() {
    let server = S::with(&[]);
    let (code, error) = said(&soloist(&["locks"], &patient_url(&server.url())));
    assert_eq!(code, Some(3), "{error}");
    assert!(error.contains("; create the tables, with `soloist create-table` or `create_table()`"), "{error}");
    for words in [&["check"][..], &["run", "--name", "j", "--", "true"]] {
        let (code, error) = said(&soloist(words, &patient_url(&server.url())));
        assert!(code != Some(0) && error.contains("`soloist create-table`"), "{error}");
        assert!(error.lines().all(|line| line.len() < 400 && !line.contains("CREATE TABLE")), "{error}");
    }
    for _ in 0..2 {
        assert_eq!(said(&soloist(&["create-table"], &patient_url(&server.url()))), (Some(0), String::new()));
    }
    assert_eq!(said(&soloist(&["locks"], &patient_url(&server.url()))), (Some(0), String::new()));
    let (code, error) = said(&soloist(&["create-table"], "file:/tmp"));
    assert_eq!(
        (code, error.trim_end()),
        (Some(2), "soloist: a store with the scheme file has no table, and needs none")
    );
}

fn a_check_as_a_user_that_may_only_read_fails<S: Trouble>() {
    let server = S::start();
    let check = |url: &str| {
        let output = soloist(&["check"], &patient_url(url));
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    assert_eq!(check(&server.url()), (Some(0), "the store answers, and nothing is wrong with it\n".to_owned()));
    let (code, said) = check(&server.user_with("SELECT"));
    assert!(code == Some(1) && said.starts_with("the store refused a trial, "), "{code:?}: {said}");
    assert!(said.contains("; the user in the url needs SELECT, INSERT, UPDATE and DELETE on the table; "), "{said}");
}

fn a_program_with_a_log_of_runs_ends_in_silence<S: SqlServer>() {
    let server = S::shared();
    for _ in 0..5 {
        let run = ["run", "--name", "silent", "--log", "5", "--", "true"];
        assert_eq!(said(&soloist(&run, &patient_url(&server.url()))), (Some(0), String::new()));
    }
}

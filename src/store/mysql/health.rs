//! The warnings about a MySQL server and its table.

use crate::store::event_mutex::warning::StoreWarning;
use crate::store::sql::session::{TextRow, values_of, wrong_table};

/// Returns the warnings about a server and a table, from the rows of `health.sql`.
pub(super) fn warnings(health: &[TextRow]) -> Vec<StoreWarning> {
    let values_of = |field: &str| values_of(health, field);
    let engine = values_of("engine").into_iter().find(|engine| *engine != "InnoDB");
    let wrong_engine = |engine: &str| {
        wrong_table(&format!(
            "its engine is {engine}, but only InnoDB is known to grant an admission as a whole or not at all"
        ))
    };
    let is_compared_by_bytes = values_of("collation").iter().all(|collation| collation.ends_with("_bin"));
    let warnings = [
        values_of("version").into_iter().find_map(|version| StoreWarning::if_older(version, oldest(version))),
        engine.map(wrong_engine),
        (values_of("key") != ["name"]).then(|| wrong_table("its primary key must be the column `name` alone")),
        (!is_compared_by_bytes).then(|| wrong_table("names are not compared byte by byte")),
    ];
    warnings.into_iter().flatten().collect()
}

/// Returns the oldest version of MariaDB, or of MySQL, that has `SKIP LOCKED`.
fn oldest(version: &str) -> &'static str {
    if version.contains("MariaDB") { "10.6" } else { "8.0" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(lines: &[(&str, &str)]) -> Vec<String> {
        let health: Vec<TextRow> =
            lines.iter().map(|(what, how)| vec![(*what).to_owned(), (*how).to_owned()]).collect();
        warnings(&health).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_server_in_order_is_not_warned_of() {
        let table = [("engine", "InnoDB"), ("key", "name"), ("collation", "ascii_bin")];
        for version in ["8.0.11-log", "8.4.3", "10.6.1-MariaDB", "10.11.6-MariaDB-0+deb12u1"] {
            assert!(warned(&[&[("version", version)], &table[..]].concat()).is_empty());
        }
    }

    #[test]
    fn each_warning_says_what_to_do() {
        let health = [
            ("version", "10.5.29-MariaDB"),
            ("engine", "MyISAM"),
            ("key", "id"),
            ("key", "name"),
            ("collation", "ascii_general_ci"),
        ];
        let do_so = "; drop it while nothing runs, and create it with create_table() or `soloist create-table`";
        let wrong = |what: &str| format!("the table is wrong: {what}{do_so}");
        assert_eq!(
            warned(&health),
            [
                "the server's version 10.5.29-MariaDB is older than 10.6, the oldest that is supported: update it",
                &wrong("its engine is MyISAM, but only InnoDB is known to grant an admission as a whole or not at all"),
                &wrong("its primary key must be the column `name` alone"),
                &wrong("names are not compared byte by byte"),
            ]
        );
    }
}

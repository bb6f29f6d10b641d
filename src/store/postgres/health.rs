//! The warnings about a PostgreSQL server and its table.

use crate::store::event_mutex::warning::StoreWarning;
use crate::store::server::engine::IS_REPLICA;
use crate::store::sql::session::{TextRow, values_of, wrong_table};

/// The number of old versions of rows at which an admission takes several times as long as usual.
const MANY_DEAD_ROWS: u64 = 50_000;

/// Returns the warnings about a server and a table, from the rows of `health.sql`.
pub(super) fn warnings(health: &[TextRow]) -> Vec<StoreWarning> {
    let values_of = |field: &str| values_of(health, field);
    let version: u32 = values_of("version").first().and_then(|version| version.parse().ok()).unwrap_or(0);
    let forgets = |how: &str| {
        StoreWarning::new(format_args!("the table can lose its leases, because {how}: replace it by a permanent table"))
    };
    let dead = values_of("dead").first().and_then(|dead| dead.parse().ok()).unwrap_or(0);
    let has_dead_rows = || {
        StoreWarning::new(format_args!(
            "{dead} old versions of rows make each admission slow: end the transaction that keeps the server from cleaning them \
             away (the oldest backend_xmin in pg_stat_activity, pg_prepared_xacts or pg_replication_slots), then VACUUM the table"
        ))
    };
    let warnings = [
        (values_of("replica") == ["true"]).then(|| StoreWarning::new(IS_REPLICA)),
        (dead >= MANY_DEAD_ROWS).then(has_dead_rows),
        StoreWarning::if_older(&(version / 10_000).to_string(), "12"),
        (values_of("persistence") == ["u"]).then(|| forgets("it is UNLOGGED")),
        (values_of("persistence") == ["t"]).then(|| forgets("it is TEMPORARY")),
        (values_of("key") != ["name"]).then(|| wrong_table("its primary key must be the column `name` alone")),
        (values_of("collation") != ["C"]).then(|| wrong_table("names are not compared byte by byte")),
    ];
    let strangers = values_of("stranger").into_iter().map(wrong_table);
    warnings.into_iter().flatten().chain(strangers).collect()
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
        let health =
            [("version", "150018"), ("replica", "false"), ("persistence", "p"), ("key", "name"), ("collation", "C")];
        assert!(warned(&health).is_empty());
    }

    #[test]
    fn each_warning_says_what_to_do() {
        let health = [
            ("version", "90624"),
            ("replica", "true"),
            ("dead", "60000"),
            ("persistence", "u"),
            ("collation", "default"),
            ("stranger", "soloist_mutexes belongs to eve"),
        ];
        assert_eq!(
            warned(&health),
            [
                "the server is a replica and can't be written to: connect to its primary",
                "60000 old versions of rows make each admission slow: end the transaction that keeps the server from cleaning \
                 them away (the oldest backend_xmin in pg_stat_activity, pg_prepared_xacts or pg_replication_slots), then \
                 VACUUM the table",
                "the server's version 9 is older than 12, the oldest that is supported: update it",
                "the table can lose its leases, because it is UNLOGGED: replace it by a permanent table",
                "the table is wrong: its primary key must be the column `name` alone; drop it while nothing runs, \
                 and create it with create_table() or `soloist create-table`",
                "the table is wrong: names are not compared byte by byte; drop it while nothing runs, \
                 and create it with create_table() or `soloist create-table`",
                "the table is wrong: soloist_mutexes belongs to eve; drop it while nothing runs, and create it \
                 with create_table() or `soloist create-table`",
            ]
        );
    }
}

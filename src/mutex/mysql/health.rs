//! A look at the server and the table, before they are trusted.

use crate::mutex::StoreWarning;
use crate::mutex::sql::Row;

/// What is to be said of a server and a table of which `health` tells so.
pub(super) fn warnings(health: &[Row]) -> Vec<StoreWarning> {
    let told = |what: &str| {
        let told = health.iter().filter(move |row| row.first().is_some_and(|first| first == what));
        told.filter_map(|row| row.get(1).map(String::as_str)).collect::<Vec<_>>()
    };
    let mut warnings = Vec::new();
    // Newer servers call it by three states and more.
    if told("read_only").iter().any(|state| !["0", "OFF"].contains(state)) {
        warnings.push(StoreWarning::Replica);
    }
    for version in told("version").iter().filter(|version| is_old(version)) {
        warnings.push(StoreWarning::OldVersion { found: (*version).to_owned(), needed: "5.7" });
    }
    match told("engine")[..] {
        ["InnoDB"] => {}
        [engine] => warnings.push(StoreWarning::Forgets { how: format!("its engine is {engine}") }),
        _ => {}
    }
    if told("key") != ["name"] {
        warnings.push(StoreWarning::WrongTable { what: "its primary key is not the name alone".to_owned() });
    }
    if !told("collation").iter().all(|collation| collation.ends_with("_bin")) {
        warnings.push(StoreWarning::WrongTable { what: "names are not compared byte by byte".to_owned() });
    }
    warnings
}

fn is_old(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) < (5, 7)
}

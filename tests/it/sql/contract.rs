//! The behaviour suite, with a witness that asks the table by a client of its own.

use std::time::Duration;

use soloist::MutexName;
use soloist::contract::Harness;

use super::{SqlServer, key};
use crate::servers::mariadb::Mariadb;
use crate::servers::postgres::Postgres;

struct InTable<S: SqlServer> {
    url: String,
    /// `None` in the processes that a case starts.
    server: Option<&'static S>,
}

impl<S: SqlServer> InTable<S> {
    fn shared() -> Self {
        let server = S::shared();
        Self { url: server.url(), server: Some(server) }
    }
}

impl<S: SqlServer> Harness for InTable<S> {
    type Mutex = S::Mutex;

    fn mutex(&self) -> S::Mutex {
        S::open(&self.url, Duration::from_secs(4))
    }

    /// What a person does: looks for the row of the name. Longer names are known by an id.
    fn witness(&self, name: &MutexName) -> Option<bool> {
        let (server, key) = (self.server?, key(name));
        let is_held = if server.url().starts_with("mysql") {
            "expires_at > UTC_TIMESTAMP(6) AND NOT (released_token <=> token)"
        } else {
            "expires_at > now() AND released_token IS DISTINCT FROM token"
        };
        let sql = format!("SELECT COUNT(*) FROM soloist_mutexes WHERE name = '{key}' AND {is_held}");
        (key.len() <= 500).then(|| server.count(&sql) == 1)
    }

    fn address(&self) -> Option<String> {
        Some(self.url.clone())
    }

    fn at(address: &str) -> Self {
        Self { url: address.to_owned(), server: None }
    }
}

mod on_mariadb {
    soloist::contract_tests!(super::InTable::<super::Mariadb>::shared());
}

mod on_postgres {
    soloist::contract_tests!(super::InTable::<super::Postgres>::shared());
}

//! The behaviour suite, with a witness that asks the table by a client of its own.

use std::marker::PhantomData;
use std::sync::Mutex;

use soloist::MutexName;
use soloist::contract::Harness;

use super::{Ask, PATIENT, SqlServer, key};
use crate::servers::mariadb::Mariadb;
use crate::servers::postgres::Postgres;

struct InTable<S: SqlServer> {
    url: String,
    /// The witness's own connection. `None` in the processes that a case starts.
    witness: Option<Mutex<Ask>>,
    server: PhantomData<fn(S)>,
}

impl<S: SqlServer> InTable<S> {
    fn shared() -> Self {
        let server = S::shared();
        Self { url: server.url(), witness: Some(Mutex::new(server.connected())), server: PhantomData }
    }
}

impl<S: SqlServer> Harness for InTable<S> {
    type Mutex = S::Mutex;

    fn mutex(&self) -> S::Mutex {
        S::open(&self.url, PATIENT)
    }

    /// Reads the row of the name, as a person would. Longer names are stored under an id.
    fn witness(&self, name: &MutexName) -> Option<bool> {
        let (witness, key) = (self.witness.as_ref()?, key(name));
        let is_held = if self.url.starts_with("mysql") {
            "expires_at > UTC_TIMESTAMP(6) AND NOT released"
        } else {
            "expires_at > now() AND NOT released"
        };
        let sql = format!("SELECT COUNT(*) FROM soloist_mutexes WHERE name = '{key}' AND {is_held}");
        (key.len() <= 500).then(|| witness.lock().expect("no question fails")(&sql) == [[Some("1".to_owned())]])
    }

    fn address(&self) -> Option<String> {
        Some(self.url.clone())
    }

    fn at(address: &str) -> Self {
        Self { url: address.to_owned(), witness: None, server: PhantomData }
    }
}

mod on_mariadb {
    soloist::contract_tests!(super::InTable::<super::Mariadb>::shared());
}

mod on_postgres {
    soloist::contract_tests!(super::InTable::<super::Postgres>::shared());
}

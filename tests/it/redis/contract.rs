//! The behaviour suite, with a witness that speaks the protocol itself.

use soloist::contract::Harness;
use soloist::{MutexName, RedisMutex};

use crate::servers::cluster::Cluster;
use crate::servers::redis::Redis;
use crate::servers::replication::Replicated;
use crate::servers::sentinel::Sentinels;

struct OnRedis {
    url: String,
    /// `None` in the processes that a case starts.
    server: Option<&'static Redis>,
}

impl OnRedis {
    fn on(server: &'static Redis) -> Self {
        Self { url: server.url(), server: Some(server) }
    }

    /// Returns the harness of a store on these servers, whose primary stays where it is.
    fn of(servers: &'static impl Replicated, options: &str) -> Self {
        Self { url: servers.url() + options, server: Some(servers.primary()) }
    }
}

impl Harness for OnRedis {
    type Mutex = RedisMutex;

    fn mutex(&self) -> RedisMutex {
        super::patient(&self.url)
    }

    /// Reads the key of the name, as a person would.
    fn witness(&self, name: &MutexName) -> Option<bool> {
        Some(self.server?.ask(&["EXISTS", &key(name)]).number() == 1)
    }

    fn address(&self) -> Option<String> {
        Some(self.url.clone())
    }

    fn at(address: &str) -> Self {
        Self { url: address.to_owned(), server: None }
    }
}

/// Returns the key of a name, by the documentation.
pub(super) fn key(name: &MutexName) -> String {
    let encode = |byte: u8| match byte {
        b'!'..=b'~' if !b"{}\"'\\".contains(&byte) => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    format!("{{soloist}}:{}", name.to_string().bytes().map(encode).collect::<String>())
}

mod on_a_server {
    soloist::contract_tests!(super::OnRedis::on(super::Redis::shared()));
}

mod on_the_primary_of_sentinels {
    soloist::contract_tests!(super::OnRedis::of(super::Sentinels::shared(), ""));
}

mod on_a_cluster_whose_replicas_confirm {
    soloist::contract_tests!(super::OnRedis::of(super::Cluster::shared(), "?wait=1"));
}

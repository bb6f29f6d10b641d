//! Opens a store by its URL, for programs that have the URL in their configuration.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use super::event_mutex::EventMutex;
use super::file::FileMutex;
use super::memory::MemoryMutex;
#[cfg(feature = "mysql")]
use super::mysql::MysqlMutex;
#[cfg(feature = "postgres")]
use super::postgres::PostgresMutex;
#[cfg(feature = "redis")]
use super::redis::RedisMutex;
#[cfg(feature = "cli")]
use crate::base::error::MutexError;
use crate::base::error::{BoxError, debug_as_display};
use crate::base::escape::decoded_text;

/// Opens the store that `url` names.
///
/// | url | store |
/// | --- | --- |
/// | `memory:` | a new, empty [`MemoryMutex`] |
/// | `file:/var/lib/myapp/locks` | the [`FileMutex`] in this directory; `file:///…` and `file://localhost/…` mean the same |
/// | `redis://user:password@host:6379/0` | the `RedisMutex` on this server, with the feature `redis`; `rediss://…` over TLS, with the feature `redis-tls`; `redis+unix:///run/redis.sock` on this host; `redis+sentinel://…` and `redis+cluster://…` follow a failover |
/// | `mysql://user:password@host:3306/database` | the `MysqlMutex` in this database, with the feature `mysql`, over TLS with `?ssl-mode=REQUIRED` and the feature `mysql-tls`; `mariadb://…` means the same |
/// | `postgres://user:password@host:5432/database` | the `PostgresMutex` in this database, with the feature `postgres`, over TLS with `?sslmode=require` and the feature `postgres-tls`; `postgresql://…` means the same |
///
/// `connect` does not contact a server: if the server is down, the first request to the store fails. A database needs a
/// table, which `MysqlMutex::create_table` and `PostgresMutex::create_table` make.
///
/// The URL of a server can end with a `?` and options of the store's builder, with an `&` between two options. If
/// several applications share a server, give each application its own prefix or table. If they share a file system,
/// give each application its own folder.
///
/// | option | of | sets |
/// | --- | --- | --- |
/// | `prefix=billing` | Redis | the prefix of all keys; `soloist` unless it is set |
/// | `table=billing_mutexes` | MySQL, PostgreSQL | the table; `soloist_mutexes` unless it is set |
/// | `timeout=500ms`, `2s`, `1m` | all servers | the time limit of a call |
/// | `wait=1` | Redis | the number of replicas that must confirm each change |
///
/// In a value, `%XX` stands for the byte `XX`. Write `&` as `%26`, and `?` as `%3F`.
///
/// The path of a file store must be absolute. So two programs with equal URLs share a store, even if their working
/// directories differ. In the path, `%XX` stands for the byte `XX`. Write `%` as `%25`, `?` as `%3F`, and `#` as `%23`.
///
/// # Errors
///
/// - The URL has no scheme, or this build has no store with this scheme.
/// - The path or an option is not well-formed, or an option occurs twice in the URL.
/// - The store can't be opened.
///
/// No error shows a user name, a password or the value of an option.
///
/// ```
/// use soloist::MutexName;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mutex = soloist::connect("memory:")?;
/// assert!(!mutex.exists(&MutexName::lease("reports")?)?);
///
/// let error = soloist::connect("consul://user:secret@host").unwrap_err();
/// assert!(error.to_string().starts_with("no store has the scheme consul; the schemes are memory, file, redis,"));
/// # Ok(())
/// # }
/// ```
pub fn connect(url: &str) -> Result<Arc<dyn EventMutex>, ConnectError> {
    let (scheme, kind, rest) = split_scheme(url)?;
    match kind {
        "memory" if matches!(rest, "" | "//") => Ok(Arc::new(MemoryMutex::new())),
        "memory" => Err(refused("the url of a store in memory is `memory:`, with nothing after the colon")),
        "file" => Ok(Arc::new(FileMutex::in_dir(directory(rest)?).map_err(refused)?)),
        #[cfg(feature = "redis")]
        "redis" => Ok(Arc::new(RedisMutex::new(url).map_err(refused)?)),
        #[cfg(feature = "redis-tls")]
        "redis-tls" => Ok(Arc::new(RedisMutex::new(url).map_err(refused)?)),
        #[cfg(feature = "mysql")]
        "mysql" => Ok(Arc::new(MysqlMutex::new(url).map_err(refused)?)),
        #[cfg(feature = "postgres")]
        "postgres" => Ok(Arc::new(PostgresMutex::new(url).map_err(refused)?)),
        feature => Err(not_built_in(&scheme, feature)),
    }
}

/// The statements that make the tables of a store in a database, and a function that makes them.
#[cfg(feature = "cli")]
type DatabaseTables = (String, Box<dyn FnOnce() -> Result<(), MutexError>>);

/// Returns the tables of the store that `url` names, for the command `create-table`. Does not connect to the store.
#[cfg(feature = "cli")]
pub(crate) fn tables_of(url: &str) -> Result<DatabaseTables, ConnectError> {
    let (scheme, kind, _) = split_scheme(url)?;
    match kind {
        #[cfg(feature = "mysql")]
        "mysql" => {
            let store = MysqlMutex::new(url).map_err(refused)?;
            Ok((store.schema().to_owned(), Box::new(move || store.create_table())))
        }
        #[cfg(feature = "postgres")]
        "postgres" => {
            let store = PostgresMutex::new(url).map_err(refused)?;
            Ok((store.schema().to_owned(), Box::new(move || store.create_table())))
        }
        "memory" | "file" | "redis" | "redis-tls" => {
            Err(refused(format!("a store with the scheme {scheme} has no table, and needs none")))
        }
        feature => Err(not_built_in(&scheme, feature)),
    }
}

/// The reason why [`connect`] opened no store.
///
/// ```
/// let error = soloist::connect("/var/lib/myapp/locks").unwrap_err();
/// assert!(error.to_string().starts_with("the url of a store does not begin with a scheme: write one such as file:/var/"));
/// ```
#[derive(Clone, thiserror::Error)]
#[error(transparent)]
pub struct ConnectError(Arc<dyn Error + Send + Sync>);

debug_as_display!(ConnectError);

#[cfg(feature = "cli")]
impl ConnectError {
    /// Returns whether the store is the cause: the URL is well-formed, but the store can't be opened.
    pub(crate) fn is_of_the_store(&self) -> bool {
        self.0.is::<MutexError>()
    }
}

fn refused(why: impl Into<BoxError>) -> ConnectError {
    ConnectError(why.into().into())
}

/// All kinds of stores, with the schemes of their URLs. If a kind needs a Cargo feature, the kind has the name of this
/// feature. Kinds are listed even if this build lacks their feature.
const KINDS: [(&str, &[&str]); 6] = [
    ("memory", &["memory"]),
    ("file", &["file"]),
    ("redis", &["redis", "redis+unix", "redis+sentinel", "redis+cluster"]),
    ("redis-tls", &["rediss", "rediss+sentinel", "rediss+cluster"]),
    ("mysql", &["mysql", "mariadb"]),
    ("postgres", &["postgres", "postgresql"]),
];

fn kind_of(scheme: &str) -> Option<&'static str> {
    KINDS.iter().find(|(_, schemes)| schemes.contains(&scheme)).map(|(kind, _)| *kind)
}

fn not_built_in(scheme: &str, feature: &str) -> ConnectError {
    refused(format!(
        "a store with the scheme {scheme} needs the feature `{feature}`, and this build of soloist does not have it"
    ))
}

/// Returns the scheme in lower case, the kind of store, and the text after the colon.
fn split_scheme(url: &str) -> Result<(String, &'static str, &str), ConnectError> {
    if url.trim() != url {
        return Err(refused("the url of a store begins or ends with a space or a line end: leave it out"));
    }
    let (scheme, rest) = url.split_once(':').unwrap_or_default();
    let scheme = scheme.to_ascii_lowercase();
    if let Some(kind) = kind_of(&scheme) {
        return Ok((scheme, kind, rest));
    }
    // In `app:password@host/database`, the text before the colon is the name of a user, and no message shows it.
    let is_scheme = (rest.starts_with("//") || !rest.contains('@'))
        && scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let what = if is_scheme {
        format!("no store has the scheme {scheme}")
    } else {
        "the url of a store does not begin with a scheme: write one such as file:/var/lib/myapp/locks".to_owned()
    };
    let schemes = KINDS.map(|(_, schemes)| schemes).concat().join(", ");
    Err(refused(format!("{what}; the schemes are {schemes}")))
}

/// Returns the directory of the file store that `url` names, if this directory does not exist yet. Otherwise returns
/// `None`.
#[cfg(feature = "cli")]
pub(crate) fn missing_directory(url: &str) -> Option<PathBuf> {
    let (_, kind, rest) = split_scheme(url).ok()?;
    let directory = if kind == "file" { directory(rest).ok()? } else { return None };
    (!directory.exists()).then_some(directory)
}

fn directory(rest: &str) -> Result<PathBuf, ConnectError> {
    if rest.contains(['?', '#']) {
        let why = "the url of a file store has no options: give each application its own folder; in a path, write ? as %3F \
                   and # as %23";
        return Err(refused(why));
    }
    let path = rest.strip_prefix("//").map_or(rest, |rest| rest.strip_prefix("localhost").unwrap_or(rest));
    if path.trim_start_matches('/').is_empty() || !path.starts_with('/') {
        return Err(refused(
            "the url of a file store needs an absolute path to a folder of its own: write file:/var/lib/myapp/locks",
        ));
    }
    let why = "the path in the url of a store has a % that is not followed by two hexadecimal digits, or is not UTF-8";
    decoded_text(path).map(PathBuf::from).ok_or_else(|| refused(why))
}

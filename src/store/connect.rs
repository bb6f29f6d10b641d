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
use crate::base::escape::{percent_decoded, surplus_around};
use crate::base::similar::did_you_mean;

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
    let (scheme, rest) = split_scheme(url)?;
    match kind_of(&scheme)? {
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

/// The tables of a store in a database, for the command `create-table`.
#[cfg(feature = "cli")]
pub(crate) struct DatabaseTables {
    /// The SQL statements that make the tables.
    pub(crate) schema: String,
    /// Makes the tables.
    pub(crate) create: Box<dyn FnOnce() -> Result<(), MutexError>>,
}

#[cfg(feature = "cli")]
impl DatabaseTables {
    /// Returns the tables of the store that `url` names, without connecting to the store.
    pub(crate) fn of(url: &str) -> Result<Self, ConnectError> {
        let (scheme, _) = split_scheme(url)?;
        match kind_of(&scheme)? {
            #[cfg(feature = "mysql")]
            "mysql" => {
                let store = MysqlMutex::new(url).map_err(refused)?;
                Ok(Self { schema: store.schema().to_owned(), create: Box::new(move || store.create_table()) })
            }
            #[cfg(feature = "postgres")]
            "postgres" => {
                let store = PostgresMutex::new(url).map_err(refused)?;
                Ok(Self { schema: store.schema().to_owned(), create: Box::new(move || store.create_table()) })
            }
            "memory" | "file" | "redis" | "redis-tls" => {
                Err(refused(format!("a store with the scheme {scheme} has no table, and needs none")))
            }
            feature => Err(not_built_in(&scheme, feature)),
        }
    }
}

/// The reason why [`connect`] opened no store.
///
/// ```
/// let error = soloist::connect("/var/lib/myapp/locks").unwrap_err();
/// assert_eq!(error.to_string(), "the url of a store has no scheme; did you mean file:/var/lib/myapp/locks");
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

/// Returns the schemes of all stores as the text of a message.
fn all_schemes() -> String {
    KINDS.map(|(_, schemes)| schemes).concat().join(", ")
}

fn kind_of(scheme: &str) -> Result<&'static str, ConnectError> {
    let found = KINDS.iter().find(|(_, schemes)| schemes.contains(&scheme));
    let instead = || match scheme {
        "valkey" => "a Valkey server is reached by redis://host:6379/0".to_owned(),
        "valkeys" => "a Valkey server is reached by rediss://host:6379/0".to_owned(),
        "redis+socket" => "a socket of Redis is reached by redis+unix:///run/redis.sock".to_owned(),
        "pgsql" | "psql" => "a PostgreSQL server is reached by postgres://user:password@host:5432/database".to_owned(),
        "redis+tls" | "redis+ssl" => "a Redis server with TLS is reached by rediss://host:6379/0".to_owned(),
        "tcp" => "write the kind of the server: redis://, mysql:// or postgres://".to_owned(),
        _ => {
            let similar =
                |scheme: &str| did_you_mean(scheme, KINDS.iter().flat_map(|(_, schemes)| schemes.iter().copied()));
            // `postgresql+psycopg2` of other libraries names a driver.
            let without_driver = || similar(scheme.split('+').next()?);
            let all = || format!("the schemes are {}", all_schemes());
            similar(scheme).or_else(without_driver).unwrap_or_else(all)
        }
    };
    found.map(|(kind, _)| *kind).ok_or_else(|| refused(format!("no store has the scheme {scheme}; {}", instead())))
}

fn not_built_in(scheme: &str, feature: &str) -> ConnectError {
    refused(format!(
        "a store with the scheme {scheme} needs the feature `{feature}`, and this build of soloist does not have it"
    ))
}

/// Returns the URL that the user may have meant, if `text` is the name of a store, an absolute path, or a host with the
/// default port of a server. Returns `None` for other texts. Other texts may contain a password, so no message repeats
/// them.
fn meant(text: &str) -> Option<String> {
    let example = match text {
        "memory" => "memory:",
        "file" => "file:/var/lib/myapp/locks",
        "redis" | "valkey" => "redis://host:6379/0",
        "mysql" | "mariadb" => "mysql://user:password@host:3306/database",
        "postgres" | "postgresql" => "postgres://user:password@host:5432/database",
        _ => "",
    };
    if !example.is_empty() {
        return Some(example.to_owned());
    }
    if text.starts_with('/') && !text.starts_with("//") && !text.contains(['@', '?', '#', '%']) {
        return Some(format!("file:{text}"));
    }
    let (host, port) = text.split_once(':').filter(|(host, _)| !host.contains(['@', '/', '?', '%']))?;
    // A comma is in front of the options in a connection string of .NET.
    match port.split(['/', ',']).next().unwrap_or_default() {
        "6379" => Some(format!("redis://{host}:6379/0")),
        "3306" => Some(format!("mysql://user:password@{host}:3306/database")),
        "5432" => Some(format!("postgres://user:password@{host}:5432/database")),
        _ => None,
    }
}

/// Returns the scheme in lower case, and the text after the colon.
fn split_scheme(url: &str) -> Result<(String, &str), ConnectError> {
    if let Some(around) = surplus_around(url).filter(|_| !url.trim().is_empty()) {
        return Err(refused(format!("the url of a store {around}")));
    }
    let well_formed = |scheme: &str| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    };
    // In `app:password@host/database`, the text before the colon is the name of a user.
    let is_user = |name: &str, rest: &str| {
        rest.contains('@') && !rest.starts_with("//") && !KINDS.iter().any(|(_, schemes)| schemes.contains(&name))
    };
    match url.split_once(':') {
        Some((scheme, rest)) if well_formed(scheme) && meant(url).is_none() && !is_user(scheme, rest) => {
            Ok((scheme.to_ascii_lowercase(), rest))
        }
        _ => {
            if url.trim().is_empty() {
                return Err(refused("the url of a store is empty: write one such as file:/var/lib/myapp/locks"));
            }
            let known = || format!("write one such as file:/var/lib/myapp/locks; the schemes are {}", all_schemes());
            let instead = meant(url).map_or_else(known, |url| format!("did you mean {url}"));
            Err(refused(format!("the url of a store has no scheme; {instead}")))
        }
    }
}

/// Returns the directory of the file store that `url` names, if this directory does not exist yet. Otherwise returns
/// `None`.
#[cfg(feature = "cli")]
pub(crate) fn missing_directory(url: &str) -> Option<PathBuf> {
    let (scheme, rest) = split_scheme(url).ok()?;
    let directory = if scheme == "file" { directory(rest).ok()? } else { return None };
    (!directory.exists()).then_some(directory)
}

fn directory(rest: &str) -> Result<PathBuf, ConnectError> {
    if rest.contains(['?', '#']) {
        let why = "the url of a file store has no options: give each application its own folder; in a path, write ? as %3F \
                   and # as %23";
        return Err(refused(why));
    }
    let path = match rest.strip_prefix("//").map(|rest| rest.split_at(rest.find('/').unwrap_or(rest.len()))) {
        Some((host, path)) if matches!(host, "" | "localhost") || path.is_empty() => path,
        Some((host, path)) => {
            let is_path = !rest.contains(['@', '%']);
            let instead = if is_path { format!("/{host}{path}") } else { "/path".to_owned() };
            let why = format!("the url of a file store names a host after its //; did you mean file:{instead}");
            return Err(refused(why));
        }
        None => rest,
    };
    if path.trim_start_matches('/').is_empty() || !path.starts_with('/') {
        let of_shell = if path.starts_with(['$', '~']) { "; only a shell replaces a `$` or a `~`" } else { "" };
        return Err(refused(format!(
            "the url of a file store needs an absolute path to a folder of its own: write file:/var/lib/myapp/locks{of_shell}"
        )));
    }
    let why = "the path in the url of a store has a % that is not followed by two hexadecimal digits";
    path_of(percent_decoded(path).ok_or_else(|| refused(why))?)
}

#[cfg(unix)]
#[allow(clippy::unnecessary_wraps)] // The version for other systems can fail.
fn path_of(bytes: Vec<u8>) -> Result<PathBuf, ConnectError> {
    Ok(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(bytes).into())
}

#[cfg(not(unix))]
fn path_of(bytes: Vec<u8>) -> Result<PathBuf, ConnectError> {
    let why = "the path in the url of a store is not valid utf-8, and this system needs paths in utf-8";
    String::from_utf8(bytes).map(PathBuf::from).map_err(|_| refused(why))
}

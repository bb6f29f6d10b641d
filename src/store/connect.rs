//! A store by its URL, for programs that are told where to go when they start.

use std::fmt;
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
#[cfg(any(feature = "redis", feature = "mysql", feature = "postgres"))]
use crate::base::error::InvalidOptions;
use crate::base::error::{MutexError, debug_as_display};

/// Opens the store that `url` names.
///
/// | url | store |
/// | --- | --- |
/// | `memory:` | a new, empty [`MemoryMutex`] |
/// | `file:/var/lib/myapp/locks` | the [`FileMutex`] in this directory; `file:///…` and `file://localhost/…` mean the same |
/// | `redis://user:password@host:6379/0` | the `RedisMutex` on this server, with the feature `redis`; `rediss://…` over TLS, with the feature `redis-tls`; `redis+unix:///run/redis.sock` on this host |
/// | `mysql://user:password@host:3306/database` | the `MysqlMutex` in this database, with the feature `mysql`, over TLS with `?ssl-mode=REQUIRED` and `mysql-tls`; `mariadb://…` means the same |
/// | `postgres://user:password@host:5432/database` | the `PostgresMutex` in this database, with the feature `postgres`, over TLS with `?sslmode=require` and `postgres-tls`; `postgresql://…` means the same |
///
/// Nothing is connected yet to a server, so that one which is down is an error of the first question. A database needs a
/// table, which this does not make: `MysqlMutex::create_table` and `PostgresMutex::create_table` do.
///
/// The path of a file store is absolute, so that two programs with the same URL meet, wherever they were started. `%XX` in it is the
/// byte `XX`; `%`, `?` and `#` themselves are written as `%25`, `%3F` and `%23`.
///
/// # Errors
///
/// A URL without a scheme, with one that no store has, or with one whose store is not in this build; a path that is
/// not well-formed; a store that can't be opened. No error shows a user name, a password or an option of the URL.
///
/// ```
/// use soloist::MutexName;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mutex = soloist::connect("memory:")?;
/// assert!(!mutex.exists(&MutexName::lease("reports")?)?);
///
/// let error = soloist::connect("consul://user:secret@host").unwrap_err();
/// assert!(error.to_string().starts_with("no store has the scheme consul; there are memory, file, redis,"));
/// # Ok(())
/// # }
/// ```
pub fn connect(url: &str) -> Result<Arc<dyn EventMutex>, ConnectError> {
    let (scheme, rest) = split_scheme(url)?;
    match &*scheme {
        "memory" => memory(rest),
        "file" => file(rest),
        #[cfg(feature = "redis")]
        "redis" | "redis+unix" => Ok(Arc::new(RedisMutex::new(url).map_err(Problem::from)?)),
        #[cfg(feature = "redis-tls")]
        "rediss" => Ok(Arc::new(RedisMutex::new(url).map_err(Problem::from)?)),
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => Ok(Arc::new(MysqlMutex::new(url).map_err(Problem::from)?)),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => Ok(Arc::new(PostgresMutex::new(url).map_err(Problem::from)?)),
        _ => Err(Problem::of_scheme(scheme).into()),
    }
}

/// Why [`connect`] opened no store.
///
/// ```
/// let error = soloist::connect("/var/lib/myapp/locks").unwrap_err();
/// assert_eq!(error.to_string(), "the url of a store has no scheme; did you mean file:/var/lib/myapp/locks");
/// ```
#[derive(Clone, thiserror::Error)]
#[error(transparent)]
pub struct ConnectError(#[from] Problem);

debug_as_display!(ConnectError);

#[derive(Clone, Debug, thiserror::Error)]
enum Problem {
    #[error("the url of a store has no scheme; {}", Suggestion(.path.as_deref()))]
    NoScheme { path: Option<String> },
    #[error("no store has the scheme {scheme}; there are {KNOWN}")]
    UnknownScheme { scheme: String },
    #[error("a store at {scheme}: needs a soloist with the feature `{feature}`")]
    NotBuiltIn { scheme: String, feature: &'static str },
    #[error("the url of a store in memory is memory: and nothing else")]
    MemoryWithMore,
    #[error("the url of a store on file needs an absolute path, as in file:/var/lib/myapp/locks")]
    NotAbsolute,
    #[error("the url of a store on file names a host; files are on this one: write file:/path")]
    WithHost,
    #[error("the url of a store on file has no options; in a path, ? is written as %3F and # as %23")]
    WithOptions,
    #[error("the path in the url of a store has a % that is not followed by two hexadecimal digits")]
    BadPercent,
    #[cfg(not(unix))]
    #[error("the path in the url of a store is not text, and on this system paths are")]
    NotText,
    #[cfg(any(feature = "redis", feature = "mysql", feature = "postgres"))]
    #[error(transparent)]
    BadOptions(#[from] InvalidOptions),
    // The message of what failed stands here, so that its own source is ours.
    #[error(transparent)]
    NotOpened(#[from] MutexError),
}

/// The schemes of all stores, in this build or not.
const KNOWN: &str = "memory, file, redis, rediss, redis+unix, mysql, mariadb, postgres and postgresql";

impl Problem {
    fn of_scheme(scheme: String) -> Self {
        let feature = match &*scheme {
            "redis" | "redis+unix" => "redis",
            "rediss" => "redis-tls",
            "mysql" | "mariadb" => "mysql",
            "postgres" | "postgresql" => "postgres",
            _ => return Self::UnknownScheme { scheme },
        };
        Self::NotBuiltIn { scheme, feature }
    }
}

struct Suggestion<'a>(Option<&'a str>);

impl fmt::Display for Suggestion<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(path) => write!(f, "did you mean file:{path}"),
            None => write!(f, "there are {KNOWN}"),
        }
    }
}

/// The scheme in lower case, and what stands behind its colon.
fn split_scheme(url: &str) -> Result<(String, &str), Problem> {
    let well_formed = |scheme: &str| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    };
    match url.split_once(':') {
        Some((scheme, rest)) if well_formed(scheme) => Ok((scheme.to_ascii_lowercase(), rest)),
        _ => {
            // Only what is plainly a path is repeated: anything else may hold a password.
            let is_path = url.starts_with('/') && !url.starts_with("//") && !url.contains(['@', '?', '#', '%']);
            Err(Problem::NoScheme { path: is_path.then(|| url.to_owned()) })
        }
    }
}

fn memory(rest: &str) -> Result<Arc<dyn EventMutex>, ConnectError> {
    match rest {
        "" | "//" => Ok(Arc::new(MemoryMutex::new())),
        _ => Err(Problem::MemoryWithMore.into()),
    }
}

fn file(rest: &str) -> Result<Arc<dyn EventMutex>, ConnectError> {
    if rest.contains(['?', '#']) {
        return Err(Problem::WithOptions.into());
    }
    let path = match rest.strip_prefix("//") {
        None => rest,
        Some(with_host) => {
            let (host, _) = with_host.split_once('/').ok_or(Problem::NotAbsolute)?;
            if !matches!(host, "" | "localhost") {
                return Err(Problem::WithHost.into());
            }
            &with_host[host.len()..]
        }
    };
    if !path.starts_with('/') {
        return Err(Problem::NotAbsolute.into());
    }
    Ok(Arc::new(FileMutex::in_dir(path_of(percent_decoded(path)?)?).map_err(Problem::from)?))
}

fn percent_decoded(text: &str) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    bytes.extend(parts.next().unwrap_or_default().bytes());
    for part in parts {
        let digits = part.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).ok_or(Problem::BadPercent)?;
        bytes.push(byte);
        bytes.extend(&part.as_bytes()[2..]);
    }
    Ok(bytes)
}

#[cfg(unix)]
#[allow(clippy::unnecessary_wraps)] // Where paths are not bytes, not all bytes are a path.
fn path_of(bytes: Vec<u8>) -> Result<PathBuf, Problem> {
    Ok(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(bytes).into())
}

#[cfg(not(unix))]
fn path_of(bytes: Vec<u8>) -> Result<PathBuf, Problem> {
    String::from_utf8(bytes).map(PathBuf::from).map_err(|_| Problem::NotText)
}

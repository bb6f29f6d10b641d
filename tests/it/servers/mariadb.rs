//! A MariaDB of the test's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, Error, OptsBuilder, Value};

use super::clock::{self, WallClock};
use super::process::{PATIENCE, Process, assert_may_start_servers, free_port};
use super::{account, template, tls};

/// A server on a port and a Unix socket of its own, with an empty database `app`, and ended when this is dropped.
///
/// A restart keeps the data, also after a kill.
pub(crate) struct Mariadb {
    process: Process,
    port: u16,
    /// Reads the counters: a new connection for each read would count too.
    witness: Mutex<Option<Conn>>,
}

/// An answer as text.
pub(crate) type Rows = Vec<Vec<Option<String>>>;

impl Mariadb {
    /// Returns the server that all tests of this process share, if they leave the server and the names of others
    /// alone.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<Mariadb> = OnceLock::new();
        assert_may_start_servers();
        SHARED.get_or_init(Self::start)
    }

    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// Starts a server with these options too: `--transaction-isolation=READ-COMMITTED`, `--sql-mode=`,
    /// `--default-time-zone=+05:00`.
    #[track_caller]
    pub(crate) fn with(configuration: &[&str]) -> Self {
        Self::prepared(|_| configuration.iter().map(ToString::to_string).collect(), |_| Vec::new())
    }

    /// Starts a server whose clock a test can [set](Self::clock).
    #[track_caller]
    pub(crate) fn with_clock() -> Self {
        Self::prepared(|_| Vec::new(), clock::settable)
    }

    /// Starts a server whose port speaks TLS only, with a certificate by [`ca`](Self::ca) for 127.0.0.1 and
    /// localhost.
    #[track_caller]
    pub(crate) fn with_tls() -> Self {
        let options = |directory: &Path| {
            tls::write_certificates(directory);
            let file = |name: &str| directory.join(name).display().to_string();
            let mut options = vec![format!("--ssl-cert={}", file("server.pem")), "--require-secure-transport".into()];
            options.extend([format!("--ssl-key={}", file("server.key")), format!("--ssl-ca={}", file("ca.pem"))]);
            options
        };
        Self::prepared(options, |_| Vec::new())
    }

    /// Starts a server. `before`: the words before the server's command line.
    #[track_caller]
    fn prepared(options: impl FnOnce(&Path) -> Vec<String>, before: impl FnOnce(&Path) -> Vec<String>) -> Self {
        let port = free_port();
        let process = Process::new(|directory| {
            let mut command = before(directory);
            command.extend(prepare(directory, port, options(directory)));
            command
        });
        let mariadb = Self { process, port, witness: Mutex::default() };
        mariadb.start_again();
        mariadb
    }

    /// Returns the URL of the database `app`, for a user with all privileges in it, and no others.
    pub(crate) fn url(&self) -> String {
        self.url_of("owner")
    }

    /// Returns such a URL that makes a client check the certificate and the name in it. From then on this process
    /// has a crypto provider, as a program with encryption has.
    pub(crate) fn tls_url(&self) -> String {
        let _ = rustls::crypto::ring::default_provider().install_default();
        format!("{}?ssl-mode=VERIFY_IDENTITY", self.url())
    }

    /// Returns the URL of the database `app` for a new user, with these grants on it and no other: `SELECT,
    /// INSERT`.
    #[track_caller]
    pub(crate) fn user_with(&self, grants: &str) -> String {
        static USERS: AtomicUsize = AtomicUsize::new(0);
        let user = format!("user_{}", USERS.fetch_add(1, Ordering::Relaxed));
        self.ask(&format!("CREATE USER {user} IDENTIFIED BY 'password'"));
        self.ask(&format!("GRANT {grants} ON app.* TO {user}"));
        self.url_of(&user)
    }

    fn url_of(&self, user: &str) -> String {
        format!("mysql://{user}:password@127.0.0.1:{}/app", self.port)
    }

    /// Returns the certificate of the server's authority, as a PEM file.
    pub(crate) fn ca(&self) -> PathBuf {
        self.process.directory().join("ca.pem")
    }

    pub(crate) fn clock(&self) -> WallClock {
        WallClock::of(self.directory())
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(crate) fn directory(&self) -> &Path {
        self.process.directory()
    }

    /// Returns the server's log.
    pub(crate) fn log(&self) -> String {
        self.process.log()
    }

    /// Asks past every store; an error reply fails the test.
    #[track_caller]
    pub(crate) fn ask(&self, sql: &str) -> Rows {
        self.try_ask(sql).unwrap_or_else(|error| panic!("{sql:.200}: {error}"))
    }

    /// Asks past every store. Each question has a connection of its own.
    pub(crate) fn try_ask(&self, sql: &str) -> Result<Rows, Error> {
        ask(&mut self.connect(PATIENCE)?, sql)
    }

    /// Returns whether the server replies within this time.
    pub(crate) fn answers_within(&self, timeout: Duration) -> bool {
        self.connect(timeout).is_ok_and(|mut connection| connection.query_drop("SELECT 1").is_ok())
    }

    /// Opens a connection past every store, to the database `app`, with all privileges.
    #[track_caller]
    pub(crate) fn connection(&self) -> Conn {
        self.connect(PATIENCE).expect("the server is there")
    }

    /// Returns the server's counter with this name: `Com_commit`, `Rows_read`.
    ///
    /// Reading adds one to `Questions` and to `Com_show_status` itself, and to no other.
    #[track_caller]
    pub(crate) fn status(&self, name: &str) -> u64 {
        let mut witness = self.witness.lock().unwrap_or_else(PoisonError::into_inner);
        let look = format!("SHOW GLOBAL STATUS LIKE '{name}'");
        let rows = ask(witness.get_or_insert_with(|| self.connection()), &look).expect("the server is there");
        let [row] = &*rows else { panic!("{name} is not one counter: {rows:?}") };
        row[1].as_ref().and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("no number: {row:?}"))
    }

    /// Ends the server at once; its port refuses connections from here on.
    #[track_caller]
    pub(crate) fn kill(&self) {
        self.process.kill();
        *self.witness.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Starts it again where it was, with its data.
    #[track_caller]
    pub(crate) fn start_again(&self) {
        self.process.start(|| self.answers_within(PATIENCE));
    }

    /// Stops it where it stands: connections are accepted, and nothing is answered.
    #[track_caller]
    pub(crate) fn pause(&self) {
        self.process.pause();
    }

    #[track_caller]
    pub(crate) fn resume(&self) {
        self.process.resume();
    }

    fn connect(&self, timeout: Duration) -> Result<Conn, Error> {
        let socket = self.process.directory().join("socket").display().to_string();
        let options = OptsBuilder::new().socket(Some(socket)).user(Some("root")).db_name(Some("app"));
        let options = options.read_timeout(Some(timeout)).write_timeout(Some(timeout));
        // Else it would be asked for by a statement, which counts.
        Conn::new(options.max_allowed_packet(Some(16 << 20)))
    }
}

/// Asks on a connection that the test keeps open.
pub(crate) fn ask(connection: &mut Conn, sql: &str) -> Result<Rows, Error> {
    let mut rows = Rows::new();
    let mut results = connection.query_iter(sql)?;
    while let Some(result) = results.iter() {
        for row in result {
            rows.push(row?.unwrap().into_iter().map(text).collect());
        }
    }
    Ok(rows)
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        other => panic!("not as text: {other:?}"),
    }
}

/// Small and quick. A commit reaches the system but not the disk: a kill of the process loses nothing.
const OPTIONS: [&str; 9] = [
    "--no-defaults",
    "--bind-address=127.0.0.1",
    "--skip-name-resolve",
    "--max-connections=200",
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-buffer-pool-size=32M",
    "--innodb-log-file-size=8M",
    "--innodb-use-native-aio=0",
    "--silent-startup",
];

/// Prepares the directory for the server's start. Returns the command line.
fn prepare(directory: &Path, port: u16, configuration: Vec<String>) -> Vec<String> {
    let program = account::installed("mariadbd", &["/usr/sbin".into(), "/usr/libexec".into()]);
    let sql = system_tables() + DATABASE;
    let build = |workshop: &Path| {
        let mut bootstrap = command(&program, workshop);
        bootstrap.push("--bootstrap".into());
        account::run(workshop, bootstrap, &sql);
    };
    template::copy("mariadb", (template::version(&program), OPTIONS, &sql), build, directory);
    account::give(directory);
    let mut command = command(&program, directory);
    command.push(format!("--port={port}"));
    command.push(format!("--socket={}", directory.join("socket").display()));
    command.extend(configuration);
    account::ordinary(command)
}

fn command(program: &Path, directory: &Path) -> Vec<String> {
    let mut command = vec![program.display().to_string()];
    command.extend(OPTIONS.map(str::to_owned));
    command.push(format!("--datadir={}", directory.join("data").display()));
    // In a common one it would delete, when it starts, the temporary tables of all servers, which may crash of it.
    command.push(format!("--tmpdir={}", directory.display()));
    command
}

/// Returns the statements that create the tables of a new server's users. `mariadb-install-db` runs more of them,
/// and needs programs of another package.
fn system_tables() -> String {
    // Under the names of the releases from 11 on, and of those before.
    let places = [["/usr/share/mariadb", "mariadb"], ["/usr/share/mysql", "mariadb"], ["/usr/share/mysql", "mysql"]];
    let read = |[folder, name]: [&str; 2], what| fs::read_to_string(format!("{folder}/{name}_system_tables{what}.sql"));
    let found = places.into_iter().find_map(|place| Some(read(place, "").ok()? + &read(place, "_data").ok()?));
    let tables = found.expect("the statements for the system's tables are installed with the server");
    format!("CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n{tables}")
}

/// The database of the tests, and its owner.
const DATABASE: &str = "
FLUSH PRIVILEGES;
CREATE DATABASE app;
CREATE USER owner IDENTIFIED BY 'password';
GRANT ALL ON app.* TO owner;
";

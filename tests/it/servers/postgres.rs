//! A PostgreSQL of the test's own.

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use postgres::{Client, Config, Error, NoTls, SimpleQueryMessage};

use super::clock::{self, WallClock};
use super::process::{PATIENCE, Process, assert_may_start_servers, free_port};
use super::{account, template, tls};

/// A server on a port and a Unix socket of its own, with an empty database `app`, and ended when this is dropped.
///
/// A restart keeps the data, also after a kill.
pub(crate) struct Postgres {
    process: Process,
    port: u16,
}

/// An answer as text.
pub(crate) type Rows = Vec<Vec<Option<String>>>;

impl Postgres {
    /// Returns the server that all tests of this process share, if they leave the server and the names of others
    /// alone.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        assert_may_start_servers();
        SHARED.get_or_init(Self::start)
    }

    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// Starts a server with these options too: `--default-transaction-isolation=serializable`, or `-c` and
    /// `name=value`.
    #[track_caller]
    pub(crate) fn with(configuration: &[&str]) -> Self {
        Self::prepared(|_| configuration.iter().map(ToString::to_string).collect(), "host", |_| Vec::new())
    }

    /// Starts a server whose clock a test can [set](Self::clock).
    #[track_caller]
    pub(crate) fn with_clock() -> Self {
        Self::prepared(|_| Vec::new(), "host", clock::settable)
    }

    /// Starts a server whose port speaks TLS only, with a certificate by [`ca`](Self::ca) for 127.0.0.1 and
    /// localhost.
    #[track_caller]
    pub(crate) fn with_tls() -> Self {
        let options = |directory: &Path| {
            tls::write_certificates(directory);
            let files = [("cert", "server.pem"), ("key", "server.key"), ("ca", "ca.pem")];
            let file = |(what, name)| format!("--ssl-{what}-file={}", directory.join(name).display());
            files.map(file).into_iter().chain(["--ssl=on".to_owned()]).collect()
        };
        Self::prepared(options, "hostssl", |_| Vec::new())
    }

    /// Starts a server. `host`: the clients that may connect to the port, as in `pg_hba.conf`. `before`: the words
    /// before the server's command line.
    #[track_caller]
    fn prepared(
        options: impl FnOnce(&Path) -> Vec<String>,
        host: &str,
        before: impl FnOnce(&Path) -> Vec<String>,
    ) -> Self {
        let port = free_port();
        let process = Process::new(|directory| {
            let mut command = before(directory);
            command.extend(prepare(directory, port, options(directory), host));
            command
        });
        let postgres = Self { process, port };
        postgres.start_again();
        postgres
    }

    /// Returns the URL of the database `app` for its owner, who has no other privileges.
    pub(crate) fn url(&self) -> String {
        self.url_of("owner")
    }

    /// Returns such a URL that makes a client check the certificate and the name in it.
    pub(crate) fn tls_url(&self) -> String {
        format!("{}?sslmode=verify-full", self.url())
    }

    /// Returns the URL of the database `app` for a new user, with these grants on its tables and no other:
    /// `SELECT, INSERT`. They hold for tables to come, too. `CREATE` is a grant on its schema.
    #[track_caller]
    pub(crate) fn user_with(&self, grants: &str) -> String {
        static USERS: Mutex<usize> = Mutex::new(0);
        // One at a time: concurrent changes of default privileges fail.
        let mut users = USERS.lock().unwrap_or_else(PoisonError::into_inner);
        *users += 1;
        let user = format!("user_{users}");
        self.ask(&format!("CREATE ROLE {user} LOGIN PASSWORD 'password'"));
        for grant in grants.split(',').map(str::trim).filter(|grant| !grant.is_empty()) {
            if grant == "CREATE" {
                self.ask(&format!("GRANT CREATE ON SCHEMA public TO {user}"));
            } else {
                self.ask(&format!("GRANT {grant} ON ALL TABLES IN SCHEMA public TO {user}"));
                let creators = "FOR ROLE owner, postgres IN SCHEMA public";
                self.ask(&format!("ALTER DEFAULT PRIVILEGES {creators} GRANT {grant} ON TABLES TO {user}"));
            }
        }
        self.url_of(&user)
    }

    fn url_of(&self, user: &str) -> String {
        format!("postgres://{user}:password@127.0.0.1:{}/app", self.port)
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

    /// Returns the process that has started all others.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(crate) fn processes(&self) -> Vec<u32> {
        self.process.processes()
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
    #[track_caller]
    pub(crate) fn try_ask(&self, sql: &str) -> Result<Rows, Error> {
        let answer = self.ask_within(PATIENCE, "app", sql);
        answer.unwrap_or_else(|| panic!("{sql:.200}: nothing was answered for {PATIENCE:?}"))
    }

    /// Returns whether the server replies within this time.
    pub(crate) fn answers_within(&self, timeout: Duration) -> bool {
        self.ask_within(timeout, "app", "SELECT 1").is_some_and(|answer| answer.is_ok())
    }

    /// Opens a connection past every store, to the database `app`, with all privileges.
    #[track_caller]
    pub(crate) fn connection(&self) -> Client {
        self.configuration("app").connect(NoTls).expect("the server is there")
    }

    /// Returns the counter in this column of `pg_stat_database` for the database `app`: `xact_commit`. Reading
    /// does not count there.
    ///
    /// A connection counts when it ends, and after [`count`]. Otherwise it counts up to once a second while it is
    /// used, and ten seconds after its last use.
    #[track_caller]
    pub(crate) fn status(&self, column: &str) -> u64 {
        self.number("template1", &format!("SELECT {column} FROM pg_stat_database WHERE datname = 'app'"))
    }

    /// Returns the counter of one table, in `pg_stat_user_tables`: `n_tup_ins`, `seq_scan`. Reading is a
    /// transaction in `app`.
    #[track_caller]
    pub(crate) fn table_status(&self, table: &str, column: &str) -> u64 {
        self.number("app", &format!("SELECT {column} FROM pg_stat_user_tables WHERE relname = '{table}'"))
    }

    #[track_caller]
    fn number(&self, database: &str, sql: &str) -> u64 {
        let rows = self.ask_within(PATIENCE, database, sql).expect("it answers").expect("it counts this");
        let [row] = &*rows else { panic!("{sql}: not one row: {rows:?}") };
        row[0].as_ref().and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{sql}: no number: {row:?}"))
    }

    /// Ends the server at once, all its processes; its port refuses connections from here on.
    #[track_caller]
    pub(crate) fn kill(&self) {
        self.process.kill();
    }

    /// Starts it again where it was, with its data.
    #[track_caller]
    pub(crate) fn start_again(&self) {
        self.process.start(|| self.answers_within(PATIENCE));
    }

    /// Stops all its processes where they stand: connections are accepted, and nothing is answered.
    #[track_caller]
    pub(crate) fn pause(&self) {
        self.process.pause();
    }

    #[track_caller]
    pub(crate) fn resume(&self) {
        self.process.resume();
    }

    fn configuration(&self, database: &str) -> Config {
        let mut configuration = Config::new();
        configuration.host_path(self.process.directory()).port(self.port).user("postgres").dbname(database);
        configuration
    }

    /// Asks in a thread of its own, because the driver waits for a reply without end.
    fn ask_within(&self, timeout: Duration, database: &str, sql: &str) -> Option<Result<Rows, Error>> {
        let (configuration, sql) = (self.configuration(database), sql.to_owned());
        let (says, hears) = mpsc::channel();
        thread::spawn(move || {
            let answer = configuration.connect(NoTls).and_then(|mut connection| ask(&mut connection, &sql));
            // The receiver may have given up.
            let _ = says.send(answer);
        });
        hears.recv_timeout(timeout).ok()
    }
}

/// Asks on a connection that the test keeps open.
pub(crate) fn ask(connection: &mut Client, sql: &str) -> Result<Rows, Error> {
    let messages = connection.simple_query(sql)?;
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect()),
        _ => None,
    });
    Ok(rows.collect())
}

/// Makes the work of this connection count now.
pub(crate) fn count(connection: &mut Client) -> Result<(), Error> {
    connection.simple_query("SELECT pg_stat_force_next_flush()").map(drop)
}

/// How the data is laid out; `C` knows nothing of the machine's languages.
const LAYOUT: [&str; 6] =
    ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--wal-segsize=1", "--no-sync"];

/// Small and quick. A commit reaches the system but not the disk: a kill of all processes loses nothing. There is
/// no automatic clean-up, which would change the counters.
const OPTIONS: [&str; 9] = [
    "--listen-addresses=127.0.0.1",
    "--max-connections=200",
    "--shared-buffers=16MB",
    "--fsync=off",
    "--full-page-writes=off",
    "--autovacuum=off",
    "--max-logical-replication-workers=0",
    // As files among the data: other shared memory outlives a kill.
    "--dynamic-shared-memory-type=mmap",
    "--password-encryption=scram-sha-256",
];

/// Prepares the directory for the server's start. Returns the command line.
fn prepare(directory: &Path, port: u16, configuration: Vec<String>, host: &str) -> Vec<String> {
    let program = account::installed("postgres", &releases());
    let build = |workshop: &Path| build(&program, workshop);
    template::copy("postgres", (template::version(&program), LAYOUT, DATABASE, SCHEMA), build, directory);
    let access = format!("local all all trust\n{host} all all 127.0.0.1/32 scram-sha-256\n");
    fs::write(directory.join("data/pg_hba.conf"), access).expect("the directory takes a file");
    account::give(directory);
    let data = directory.join("data").display().to_string();
    let mut command = vec![program.display().to_string(), "-D".into(), data];
    command.extend([format!("--port={port}"), format!("--unix-socket-directories={}", directory.display())]);
    command.extend(OPTIONS.map(str::to_owned));
    command.extend(configuration);
    account::ordinary(command)
}

/// Returns the folders of each release's programs on Debian, the newest first: they are not on the `PATH`.
fn releases() -> Vec<PathBuf> {
    let folders = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let number = |folder: &PathBuf| folder.file_name()?.to_str()?.parse::<u32>().ok();
    let mut releases: Vec<PathBuf> = folders.map(|folder| folder.path()).collect();
    releases.sort_by_key(|folder| Reverse(number(folder)));
    releases.into_iter().map(|folder| folder.join("bin")).collect()
}

fn build(program: &Path, workshop: &Path) {
    let initdb = program.with_file_name("initdb").display().to_string();
    let layout = LAYOUT.into_iter().map(str::to_owned);
    account::run(workshop, [initdb, "-D".into(), "data".into()].into_iter().chain(layout), "");
    for (database, sql) in [("template1", DATABASE), ("app", SCHEMA)] {
        let words = ["--single", "-D", "data", "-c", "exit_on_error=on", "-F", database].map(str::to_owned);
        account::run(workshop, [program.display().to_string()].into_iter().chain(words), sql);
    }
}

/// The database of the tests, and its owner. Each line is a statement. A database is hundreds of files, and all
/// are copied for each server: only one other is kept, as the template for new ones.
const DATABASE: &str = "\
CREATE ROLE owner LOGIN PASSWORD 'password';
ALTER DATABASE postgres RENAME TO app;
ALTER DATABASE app OWNER TO owner;
REVOKE TEMPORARY ON DATABASE app FROM PUBLIC;
ALTER DATABASE template0 IS_TEMPLATE false;
DROP DATABASE template0;
";

/// Only the owner creates tables, in each release.
const SCHEMA: &str = "\
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT CREATE ON SCHEMA public TO owner;
";

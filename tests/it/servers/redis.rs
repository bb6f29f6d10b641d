//! A Redis of the test's own, or a Valkey where `SOLOIST_TEST_REDIS` is `valkey-server`.

use std::env;
use std::fs;
use std::io::{
    self,
    ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof},
};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::clock::{self, WallClock};
use super::process::{PATIENCE, Process, assert_may_start_servers, free_port};
use super::resp::{Raw, Reply, is_set_up};
use super::tls;

/// The number of slots of a cluster.
pub(super) const SLOTS: u16 = 16_384;

/// A server on a port and a Unix socket of its own, empty, and ended when this is dropped.
pub(crate) struct Redis {
    process: Process,
    port: u16,
    /// Where it speaks TLS, if it does.
    tls_port: Option<u16>,
    password: Option<String>,
    is_cluster: bool,
}

impl Redis {
    /// Returns the server that all tests of this process share, if they leave the server and the names of others
    /// alone.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<Redis> = OnceLock::new();
        assert_may_start_servers();
        SHARED.get_or_init(Self::start)
    }

    /// Returns a shared server that is the only node of a cluster.
    #[cfg(feature = "redis")]
    pub(crate) fn shared_cluster_node() -> &'static Self {
        static SHARED: OnceLock<Redis> = OnceLock::new();
        assert_may_start_servers();
        SHARED.get_or_init(Self::cluster_node)
    }

    pub(crate) fn start() -> Self {
        Self::with("")
    }

    /// Starts a server with these lines in its configuration.
    ///
    /// Of interest are `appendonly yes`, with which a restart keeps the data, `requirepass secret`, and `sentinel
    /// monitor NAME HOST PORT QUORUM`, which makes it a Sentinel.
    #[track_caller]
    pub(crate) fn with(configuration: &str) -> Self {
        Self::prepared(configuration, |_| Vec::new())
    }

    /// Starts a server whose clock a test can [set](Self::clock).
    #[track_caller]
    pub(crate) fn with_clock() -> Self {
        Self::with_clock_and("")
    }

    /// Starts a server with these lines in its configuration, whose clock a test can [set](Self::clock).
    #[track_caller]
    pub(crate) fn with_clock_and(configuration: &str) -> Self {
        Self::prepared(configuration, clock::settable)
    }

    /// Starts a server. `before`: the words before the server's command line.
    #[track_caller]
    fn prepared(configuration: &str, before: impl FnOnce(&Path) -> Vec<String>) -> Self {
        let port = free_port();
        let process = Process::new(|directory| {
            let directives = [
                &format!("port {port}"),
                "bind 127.0.0.1",
                "unixsocket socket",
                "save ''",
                // Each write reaches the system before its reply, and no reply waits for a disk: a kill loses nothing.
                "appendfsync no",
                "repl-diskless-sync-delay 0",
                configuration,
            ];
            let before = before(directory).into_iter().map(PathBuf::from);
            before.chain(prepare(directory, &directives.join("\n"))).collect::<Vec<_>>()
        });
        let password = configuration.lines().find_map(|line| line.strip_prefix("requirepass ")).map(str::to_owned);
        let is_cluster = configuration.lines().any(|directive| directive == "cluster-enabled yes");
        let tls_port = configuration.lines().find_map(|line| line.strip_prefix("tls-port ")?.parse().ok());
        let redis = Self { process, port, tls_port, password, is_cluster };
        redis.process.start(|| redis.answers());
        redis.give_script();
        redis
    }

    /// Starts the only node of a cluster: it has all slots, and refuses commands across slots.
    #[track_caller]
    pub(crate) fn cluster_node() -> Self {
        let node = Self::with("cluster-enabled yes");
        node.serve(0..SLOTS);
        node.wait_for_its_cluster();
        node
    }

    /// Gives a node of a cluster these slots, which no node has.
    #[track_caller]
    pub(super) fn serve(&self, slots: Range<u16>) {
        let slots: Vec<String> = slots.map(|slot| slot.to_string()).collect();
        self.ask(&[&["CLUSTER", "ADDSLOTS"], &*slots.iter().map(String::as_str).collect::<Vec<_>>()].concat());
    }

    /// Starts a server that follows another, and takes no writes.
    #[track_caller]
    pub(crate) fn replica_of(other: &Self) -> Self {
        let replica = Self::with(&format!("replicaof 127.0.0.1 {}", other.port));
        let follows = || replica.ask(&["INFO", "replication"]).text().contains("master_link_status:up");
        replica.process.wait_until("it follows the other", follows);
        // The primary counts a replica that reports an offset, which needs a first write.
        other.ask(&["PUBLISH", "copied", ""]);
        let is_counted = |line: &str| line.contains("state=online") && !line.contains("offset=0,");
        let counts = || other.ask(&["INFO", "replication"]).text().lines().any(is_counted);
        replica.process.wait_until("the other counts it", counts);
        replica
    }

    /// Starts a server that speaks TLS too, with a certificate by [`ca`](Self::ca) for 127.0.0.1 and localhost.
    #[track_caller]
    pub(crate) fn with_tls() -> Self {
        Self::with(&tls_lines(Path::new("")))
    }

    /// Starts a server that speaks TLS with the certificate of another one, and with these lines in its configuration.
    #[cfg(feature = "redis-tls")]
    #[track_caller]
    pub(crate) fn with_the_certificate_of(other: &Self, configuration: &str) -> Self {
        Self::with(&format!("{}\n{configuration}", tls_lines(other.directory())))
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    #[track_caller]
    pub(crate) fn tls_url(&self) -> String {
        format!("rediss://127.0.0.1:{}", self.tls_port.expect("it speaks TLS"))
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

    pub(crate) fn socket(&self) -> PathBuf {
        self.process.directory().join("socket")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Returns whether the server was neither ended nor stopped.
    pub(super) fn is_running(&self) -> bool {
        self.process.is_running()
    }

    /// Reads the server's output.
    pub(super) fn log(&self) -> String {
        self.process.log()
    }

    pub(crate) fn directory(&self) -> &Path {
        self.process.directory()
    }

    /// Asks past every driver; an error reply fails the test.
    #[track_caller]
    pub(crate) fn ask(&self, words: &[&str]) -> Reply {
        let is_cut = |error: &io::Error| matches!(error.kind(), ConnectionReset | UnexpectedEof | BrokenPipe);
        let reply = match self.try_ask(words) {
            // Sentinels end all connections of a server when they change its role.
            Err(error) if is_cut(&error) => self.try_ask(words),
            reply => reply,
        };
        match reply {
            Ok(Reply::Error(error)) => panic!("{words:.80?}: {error}"),
            Ok(reply) => reply,
            Err(error) => panic!("{words:.80?}: {error}"),
        }
    }

    /// Asks past every driver. Each question has a connection of its own.
    pub(crate) fn try_ask(&self, words: &[&str]) -> io::Result<Reply> {
        self.connection(PATIENCE)?.ask(words)
    }

    /// Returns whether the server replies within this time.
    pub(crate) fn answers_within(&self, timeout: Duration) -> bool {
        self.connection(timeout).is_ok_and(|mut connection| connection.ask(&["PING"]).is_ok())
    }

    /// Ends the server at once; its port refuses connections from here on.
    #[track_caller]
    pub(crate) fn kill(&self) {
        self.process.kill();
    }

    /// Restarts the server with the data that its configuration keeps: by default none.
    #[track_caller]
    pub(crate) fn start_again(&self) {
        self.process.start(|| self.answers());
        self.wait_for_its_cluster();
        self.give_script();
    }

    /// Gives the server the script of admissions, which every server has that a schedule has used: so a command is sent once.
    fn give_script(&self) {
        let script = include_str!("../../../src/store/redis/scripts/carry_out.lua");
        let _ = self.try_ask(&["SCRIPT", "LOAD", script]); // A Sentinel has no data.
    }

    #[track_caller]
    pub(crate) fn restart(&self) {
        self.kill();
        self.start_again();
    }

    /// Restarts the server so that it loads its data for minutes, and replies to requests with `LOADING`.
    #[track_caller]
    pub(crate) fn restart_loading(&self) {
        // The loading server reads requests after each of these keys.
        let fill = "for i = 1, 5000 do redis.call('SET', 'ballast:' .. i, string.rep('1', 1100)) end";
        self.ask(&["EVAL", fill, "0"]);
        self.ask(&["CONFIG", "SET", "rdbcompression", "no"]);
        self.ask(&["SAVE"]);
        self.kill();
        let slow = "\nkey-load-delay 20000\nloading-process-events-interval-bytes 1024\n";
        let configuration = self.directory().join("configuration");
        let usual = fs::read_to_string(&configuration).expect("it was written");
        fs::write(&configuration, usual.clone() + slow).expect("it can be written");
        self.process.start(|| self.is_loading());
        fs::write(&configuration, usual).expect("it can be written");
    }

    /// Lets a server that loads its data come to the end of it.
    #[track_caller]
    pub(crate) fn finish_loading(&self) {
        self.ask(&["CONFIG", "SET", "key-load-delay", "0"]);
        self.process.wait_until("it has loaded its data", || !self.is_loading());
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

    /// Records the commands that the server gets from now on.
    #[track_caller]
    pub(crate) fn monitor(&self) -> Monitor<'_> {
        let mut connection = self.connection(PATIENCE).expect("the server is there");
        assert_eq!(connection.ask(&["MONITOR"]).expect("it answers"), Reply::Text("OK".into()));
        Monitor { server: self, connection }
    }

    fn connection(&self, timeout: Duration) -> io::Result<Raw> {
        let mut connection = Raw::connect(&self.socket(), timeout)?;
        if let Some(password) = &self.password {
            connection.ask(&["AUTH", password])?;
        }
        if self.is_cluster {
            connection.ask(&["READONLY"])?; // A replica can be read.
        }
        Ok(connection)
    }

    fn answers(&self) -> bool {
        self.try_ask(&["PING"]).is_ok_and(|reply| reply == Reply::Text("PONG".into()))
    }

    fn is_loading(&self) -> bool {
        let reply = self.try_ask(&["PING"]);
        reply.is_ok_and(|reply| matches!(reply, Reply::Error(error) if error.starts_with("LOADING ")))
    }

    #[track_caller]
    fn wait_for_its_cluster(&self) {
        let is_ok = || self.ask(&["CLUSTER", "INFO"]).text().contains("cluster_state:ok");
        if self.is_cluster {
            self.process.wait_until("its cluster is whole", is_ok);
        }
    }
}

/// Returns the configuration of a server that speaks TLS with the certificate in this directory.
fn tls_lines(directory: &Path) -> String {
    let file = |name: &str| directory.join(name).display().to_string();
    let lines = [
        format!("tls-port {}", free_port()),
        format!("tls-cert-file {}", file("server.pem")),
        format!("tls-key-file {}", file("server.key")),
        format!("tls-ca-cert-file {}", file("ca.pem")),
        "tls-auth-clients no".to_owned(),
    ];
    lines.join("\n")
}

/// Writes the server's configuration. Returns the command line.
fn prepare(directory: &Path, configuration: &str) -> Vec<PathBuf> {
    let file = directory.join("configuration");
    let own = format!("dir {}\n", directory.display());
    if configuration.contains("tls-cert-file server.pem") {
        tls::write_certificates(directory);
    }
    fs::write(&file, own + configuration).expect("the directory takes a file");
    // The program's name decides whether it is a Sentinel.
    let is_sentinel = configuration.contains("\nsentinel monitor ");
    let program = directory.join(if is_sentinel { "redis-sentinel" } else { "redis-server" });
    std::os::unix::fs::symlink(installed(), &program).expect("the directory takes a link");
    vec![program, file]
}

/// Returns the server's program. Debian's package of tools has it, as the checker of dumps, without the package
/// that starts a server for the whole system.
fn installed() -> PathBuf {
    let name = env::var("SOLOIST_TEST_REDIS").unwrap_or_else(|_| "redis-server".into());
    let names = [name.clone(), name.replace("-server", "-check-rdb")];
    let path = env::var_os("PATH").unwrap_or_default();
    let candidates = names.iter().flat_map(|name| env::split_paths(&path).map(move |folder| folder.join(name)));
    candidates
        .into_iter()
        .find(|candidate| candidate.is_file())
        .unwrap_or_else(|| panic!("{name} is not installed; tests/run installs it, or says what to install"))
}

/// A connection with a line for every command that its server carries out.
pub(crate) struct Monitor<'a> {
    server: &'a Redis,
    connection: Raw,
}

impl Monitor<'_> {
    /// Returns the commands of a store's clients since the last call, each as `[0 127.0.0.1:40000] "set" "key"
    /// "value"`.
    ///
    /// Leaves out commands of scripts, those that set up a connection, and those of the tests.
    #[track_caller]
    pub(crate) fn commands(&mut self) -> Vec<String> {
        static MARKERS: AtomicUsize = AtomicUsize::new(0);
        let marker = format!("marker {}", MARKERS.fetch_add(1, Ordering::Relaxed));
        self.server.ask(&["ECHO", &marker]);
        let mut commands = Vec::new();
        loop {
            let line = self.connection.read().expect("the server tells what it does");
            let (_time, command) = line.text().split_once(' ').expect("a line begins with its time");
            if command.ends_with(&format!("\"{marker}\"")) {
                return commands;
            }
            let (client, words) = command.split_once("] ").expect("a line says whose command it is");
            let word = words.split('"').nth(1).expect("a command has a name");
            let is_a_stores = !client.ends_with(" lua") && !client.contains(" unix:");
            if is_a_stores && !is_set_up(word) {
                commands.push(command.to_owned());
            }
        }
    }
}

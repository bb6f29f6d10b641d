//! A server process that never outlives the test process.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The limit for work that takes a server a fraction of a second.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// A server in a directory of its own; dropping it kills the process and removes the directory.
pub(super) struct Process {
    directory: PathBuf,
    supervisor: Mutex<Supervisor>,
}

struct Supervisor {
    shell: Child,
    words: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    server: Option<u32>,
}

impl Process {
    /// Prepares a server that will run `command`, which gives the directory; it is not started yet.
    pub(super) fn new<Word: AsRef<OsStr>>(command: impl FnOnce(&Path) -> Vec<Word>) -> Self {
        let directory = directory().expect("a temporary directory").keep();
        let mut shell = Command::new("sh");
        shell.args(["-c", include_str!("supervise.sh"), "supervise"]).arg(&directory).args(command(&directory));
        let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("there is a shell");
        let words = shell.stdin.take();
        let answers = BufReader::new(shell.stdout.take().expect("its output is piped"));
        Self { directory, supervisor: Mutex::new(Supervisor { shell, words, answers, server: None }) }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the server's output.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    #[track_caller]
    pub(super) fn pid(&self) -> u32 {
        self.supervisor().server.expect("the server was started")
    }

    /// Returns whether the server was started, and was neither ended nor stopped since.
    pub(super) fn is_running(&self) -> bool {
        let server = self.supervisor().server;
        server.and_then(state).is_some_and(|state| !"TZ".contains(state))
    }

    /// Starts the server and returns when it is `ready`.
    #[track_caller]
    pub(super) fn start(&self, ready: impl Fn() -> bool) {
        let mut supervisor = self.supervisor();
        assert_eq!(supervisor.server, None, "the server was not ended");
        let pid = supervisor.order("start");
        supervisor.server = Some(pid.parse().expect("the supervisor says which process it started"));
        drop(supervisor);
        self.wait_until("the server is ready", ready);
    }

    /// Ends the server without a chance to do anything about it, as SIGKILL does, and waits for the end of all its
    /// processes.
    #[track_caller]
    pub(super) fn kill(&self) {
        let mut supervisor = self.supervisor();
        supervisor.order("end");
        supervisor.server = None;
    }

    /// Stops the server where it stands, in all its processes; it does not know.
    #[track_caller]
    pub(super) fn pause(&self) {
        self.wait_until("the server stands still", || {
            // A child that was started meanwhile is stopped the next time.
            self.supervisor().order("STOP");
            self.processes().into_iter().all(|process| state(process).is_none_or(|state| "TZ".contains(state)))
        });
    }

    #[track_caller]
    pub(super) fn resume(&self) {
        self.supervisor().order("CONT");
        self.wait_until("the server goes on", || {
            self.processes().into_iter().all(|process| state(process) != Some('T'))
        });
    }

    /// Returns the server's process, and its children.
    #[track_caller]
    pub(super) fn processes(&self) -> Vec<u32> {
        let server = self.pid();
        let items = fs::read_dir("/proc").expect("Linux has one").flatten();
        let all = items.filter_map(|item| item.file_name().to_str()?.parse().ok());
        all.filter(|&process| process == server || parent(process) == Some(server)).collect()
    }

    /// Looks again and again; fails, with the server's log, when it has ended or `PATIENCE` has.
    #[track_caller]
    pub(super) fn wait_until(&self, what: &str, happens: impl Fn() -> bool) {
        let began = Instant::now();
        let pid = self.pid();
        while !happens() {
            let gone = matches!(state(pid), None | Some('Z'));
            assert!(!gone, "waited until {what}, but it has ended:\n{}", self.log());
            assert!(began.elapsed() < PATIENCE, "waited for {PATIENCE:?} until {what}:\n{}", self.log());
            thread::sleep(Duration::from_millis(5)); // between two checks of another process
        }
    }

    fn supervisor(&self) -> MutexGuard<'_, Supervisor> {
        self.supervisor.lock().expect("a conversation with the supervisor does not fail")
    }
}

impl Supervisor {
    /// Sends a word, and waits for the confirmation.
    #[track_caller]
    fn order(&mut self, word: &str) -> String {
        let words = self.words.as_mut().expect("the supervisor hears until the end");
        writeln!(words, "{word}").expect("the supervisor hears until the end");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("the supervisor answers in text");
        assert!(!answer.is_empty(), "the supervisor of a server did not answer to {word}");
        answer.trim_end().to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let supervisor = self.supervisor.get_mut().unwrap_or_else(PoisonError::into_inner);
        // The end of its input.
        supervisor.words = None;
        let _ = supervisor.shell.wait();
    }
}

/// Makes a directory for a server: in memory where there is room, because its hundreds of files cost a disk's file system more
/// than the server's start.
fn directory() -> io::Result<TempDir> {
    const MEMORY: &str = "/dev/shm";
    const ROOM: u64 = 4 << 30;

    let has_room = rustix::fs::statvfs(MEMORY).is_ok_and(|memory| memory.f_bavail * memory.f_frsize > ROOM);
    if has_room { tempfile::tempdir_in(MEMORY) } else { tempfile::tempdir() }
}

/// Returns the kernel's letter for the state of a process: `T` stopped, `Z` a zombie.
pub(super) fn state(pid: u32) -> Option<char> {
    status(pid)?.chars().next()
}

fn parent(pid: u32) -> Option<u32> {
    status(pid)?.split(' ').nth(1)?.parse().ok()
}

/// Returns the kernel's fields of a process after its name, which may contain any text.
fn status(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit_once(") ")?.1.to_owned())
}

/// Returns a free port that no other server of the tests gets before this process ends: so a restarted server
/// finds its port free.
///
/// All lie below the ports that the kernel gives to clients. So do the ports 10,000 higher, where a Redis in a
/// cluster listens, too.
pub(super) fn free_port() -> u16 {
    const FIRST: u16 = 10_000;
    const COUNT: u16 = 10_000;

    static NEXT: OnceLock<AtomicU16> = OnceLock::new();
    static RESERVED: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());
    // Other processes begin elsewhere.
    let next = NEXT.get_or_init(|| AtomicU16::new(fastrand::u16(..COUNT)));
    let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    let mut ports = (0..COUNT).map(|_| FIRST + next.fetch_add(1, Ordering::Relaxed) % COUNT);
    let reserved = ports.find_map(|port| {
        let reservation = reserve(port)?;
        (is_free(port) && is_free(port + COUNT)).then_some((port, reservation))
    });
    let (port, reservation) = reserved.expect("a port is free");
    RESERVED.lock().unwrap_or_else(PoisonError::into_inner).push(reservation);
    port
}

/// Reserves a port among the processes of the tests. `None`: another one has it, whose server need not listen yet. The kernel
/// forgets the socket with its process.
pub(super) fn reserve(port: u16) -> Option<UnixListener> {
    let name = SocketAddr::from_abstract_name(format!("soloist test port {port}")).expect("it is short");
    UnixListener::bind_addr(&name).ok()
}

/// Asserts that this process was not started to use another's server.
#[track_caller]
pub(super) fn assert_may_start_servers() {
    assert!(env::var_os("SOLOIST_CONTRACT_ROLE").is_none(), "this process was started to use another's server");
}

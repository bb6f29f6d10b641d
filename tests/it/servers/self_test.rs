//! The servers do what tests rely on without checking: otherwise a test could pass without testing anything.

mod mariadb;
mod postgres;
mod proxy;
mod redis;
mod replication;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::burners::Burners;
use super::mariadb::Mariadb;
use super::postgres::Postgres;
use super::process::{PATIENCE, free_port, reserve, state};
use super::redis::Redis;

/// How long nothing has to come where nothing comes.
const A_WHILE: Duration = Duration::from_millis(300);

fn wait_until(what: &str, happens: impl Fn() -> bool) {
    let began = Instant::now();
    while !happens() {
        assert!(began.elapsed() < PATIENCE, "waited for {PATIENCE:?} until {what}");
        thread::sleep(Duration::from_millis(5)); // between two checks of another process
    }
}

/// Returns whether this authority vouches for the server that speaks TLS after this protocol's greeting.
fn verifies(protocol: &str, port: u16, authority: &Path) -> bool {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-starttls", protocol, "-verify_return_error", "-verify_ip", "127.0.0.1", "-connect"]);
    command.arg(format!("127.0.0.1:{port}")).arg("-CAfile").arg(authority).stdin(Stdio::null());
    let output = command.output().expect("openssl is installed");
    String::from_utf8_lossy(&output.stdout).contains("Verify return code: 0 (ok)") && output.status.success()
}

#[test]
fn a_port_is_given_once_also_before_a_server_listens_on_it() {
    let port = free_port();
    assert!(reserve(port).is_none(), "another process gets port {port}");
    assert_ne!(free_port(), port);
}

/// Set for the process that the next test starts.
const KEEPS_SERVERS: &str = "SOLOIST_TEST_KEEPS_SERVERS";

#[test]
fn servers_and_their_directories_go_when_the_test_process_is_killed() {
    let mut command = Command::new(std::env::current_exe().expect("a running program has a path"));
    command.args(["--exact", "servers::self_test::a_process_keeps_servers", "--nocapture"]);
    let mut keeper = command.env(KEEPS_SERVERS, "1").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(keeper.stdout.take().expect("its output is piped")).lines().map_while(Result::ok);
    let kept: Vec<PathBuf> = said.filter_map(|line| Some(line.strip_prefix('>')?.into())).take(6).collect();
    let [redis, mariadb, postgres, directories @ ..] = &*kept else { panic!("it says what it keeps: {kept:?}") };
    let listed =
        [redis, mariadb, postgres].map(|pids| pids.to_str().expect("numbers").split(' ')).into_iter().flatten();
    let mut processes: Vec<u32> = listed.map(|pid| pid.parse().expect("a number")).collect();
    // The process of a connection may have ended with it.
    processes.retain(|process| state(*process).is_some());
    assert!(processes.len() > 3, "{processes:?}");
    assert!(directories.len() == 3 && directories.iter().all(|directory| directory.is_dir()), "{directories:?}");

    keeper.kill().expect("it waits");
    keeper.wait().expect("it is ours");
    let is_gone = |process: &u32| matches!(state(*process), None | Some('Z'));
    wait_until("the servers are gone", || processes.iter().all(is_gone));
    wait_until("their directories are gone", || directories.iter().all(|directory| !directory.exists()));
}

#[test]
fn a_process_keeps_servers() {
    if std::env::var_os(KEEPS_SERVERS).is_some() {
        let (redis, mariadb, postgres) = (Redis::shared(), Mariadb::shared(), Postgres::shared());
        let processes: Vec<String> = postgres.processes().iter().map(ToString::to_string).collect();
        println!("\n>{}\n>{}\n>{}", redis.pid(), mariadb.pid(), processes.join(" "));
        for directory in [redis.directory(), mariadb.directory(), postgres.directory()] {
            println!(">{}", directory.display());
        }
        let _ = std::io::stdin().read(&mut [0]);
    }
}

#[test]
fn a_machine_is_busy_while_burners_burn() {
    let burners = Burners::start(2);
    let burning = || fs::read_dir("/proc/self/task").unwrap().flatten().filter(|task| is_burning(&task.path())).count();
    wait_until("both burn", || burning() >= 2);
    drop(burners);
}

/// Returns whether the task has used a tenth of a second of processor time.
fn is_burning(task: &Path) -> bool {
    let Ok(stat) = fs::read_to_string(task.join("stat")) else { return false };
    let (name, fields) = stat.rsplit_once(") ").expect("a name in brackets");
    let ticks: u32 = fields.split(' ').nth(11).and_then(|ticks| ticks.parse().ok()).expect("its time");
    name.ends_with("(burner") && ticks >= 10
}

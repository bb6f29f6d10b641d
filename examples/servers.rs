//! Shows three processes on one store: each occurrence runs in one process, and no run overlaps another.
//!
//! ```text
//! cargo run --example servers
//! cargo run --example servers --features redis -- redis://127.0.0.1
//! cargo run --example servers --features postgres -- postgres://app:secret@127.0.0.1/app
//! ```
//!
//! Without a URL, the store has its files in the system's temporary directory. A database needs its table first:
//! `soloist create-table --store URL`.

use std::env;
use std::error::Error;
use std::process::Command;
use std::thread;
use std::time::Duration;

use chrono::Utc;
use soloist::{Event, Schedule};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [server, url] = &arguments[..] {
        return serve(server, url);
    }
    let usual = format!("file:{}", env::temp_dir().join("soloist-servers").display());
    let url = arguments.first().unwrap_or(&usual);
    let start = |server: &str| Command::new(env::current_exe()?).args([server, url.as_str()]).spawn();
    let servers: Vec<_> = ["web-1", "web-2", "web-3"].into_iter().map(start).collect::<Result<_, _>>()?;
    for mut server in servers {
        if !server.wait()?.success() {
            return Err("a server failed".into());
        }
    }
    Ok(())
}

/// Ticks once a second, five times.
fn serve(server: &str, url: &str) -> Result<(), Box<dyn Error>> {
    let schedule = Schedule::new(soloist::connect(url)?).named("servers-example")?.with_instance(server)?;
    let name = server.to_owned();
    schedule.add(
        Event::call("orders:sync", move |run| {
            let token = run.fencing_token().expect("the event is protected");
            println!("{name}  {}  token {token}", run.occurrence().format("%T"));
            thread::sleep(Duration::from_millis(300));
        })
        .every_second()
        .on_one_server()
        .without_overlapping(),
    )?;
    for _ in 0..5 {
        let report = schedule.run_due(Utc::now());
        if report.is_failure() {
            return Err(report.to_string().into());
        }
        thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}

//! Shows a lease without a schedule: systemd starts this program on every server, and one of the
//! programs runs the job.
//!
//! ```text
//! # report.service                                             # report.timer
//! [Service]                                                    [Timer]
//! Type=oneshot                                                 OnCalendar=hourly
//! ExecStart=/usr/local/bin/guarded_job redis://cache.internal
//! ```
//!
//! If you start the program twice at the same time, only one of the two processes runs the job:
//!
//! ```text
//! cargo run --example guarded_job & cargo run --example guarded_job; wait
//! ```

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use soloist::store::{Held, Names};
use soloist::{LeaseGuard, MutexName, Term};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let usual = format!("file:{}", std::env::temp_dir().join("soloist-guarded-job").display());
    let store = soloist::connect(&std::env::args().nth(1).unwrap_or(usual))?;
    let name = MutexName::lease("report")?;

    // The guard renews the lease while the job runs. If this process is killed, the job is blocked for at most a
    // minute.
    let Some(guard) = LeaseGuard::acquire(&store, name.clone(), Term::DEFAULT)? else {
        match store.held(Names::of(&name))?.first().and_then(Held::holder) {
            Some(holder) => println!("report: already running: {holder}"),
            None => println!("report: was running a moment ago"),
        }
        return Ok(ExitCode::SUCCESS);
    };
    for page in 1..=3 {
        println!("report: page {page}, under token {}", guard.lease().token());
        // Replace this wait by the work, and check `is_lost` meanwhile. If the lease is lost, another server can run
        // the job.
        if guard.wait_lost(Duration::from_millis(500)) {
            return Err(format!("the lease was lost: stopped after page {page}").into());
        }
    }
    let was_ours = guard.release()?;
    Ok(if was_ours { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

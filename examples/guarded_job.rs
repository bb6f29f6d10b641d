//! Shows a job of another scheduler, under the protection alone: systemd starts it on every server, and it runs on one.
//!
//! ```text
//! # report.service                                             # report.timer
//! [Service]                                                    [Timer]
//! Type=oneshot                                                 OnCalendar=hourly
//! ExecStart=/usr/local/bin/guarded_job redis://cache.internal
//! ```
//!
//! Start it twice at once: the second one is refused.
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

    // Renewed while the job is at work. If this process is killed, the next one waits for a minute at most.
    let Some(guard) = LeaseGuard::acquire(&store, name.clone(), Term::DEFAULT)? else {
        match store.held(Names::of(&name))?.first().and_then(Held::holder) {
            Some(holder) => println!("report: at work already: {holder}"),
            None => println!("report: was at work a moment ago"),
        }
        return Ok(ExitCode::SUCCESS);
    };
    for page in 1..=3 {
        println!("report: page {page}, under token {}", guard.lease().token());
        // The work; and a look whether it is still ours to do.
        if guard.wait_lost(Duration::from_millis(500)) {
            return Err(format!("the lease was lost: stopped after page {page}").into());
        }
    }
    let was_ours = guard.release()?;
    Ok(if was_ours { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

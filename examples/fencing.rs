//! Shows a fencing token in SQL: a row has the token of its last writer, and a write with a lower token changes
//! nothing.
//!
//! ```text
//! cargo run --example fencing -- postgres://app:secret@127.0.0.1/app
//! ```
//!
//! The first run is suspended. When its lease has ended, a second run writes. Then the first run continues, and its
//! write changes nothing. The example needs a PostgreSQL, and creates the table `soloist_totals`.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use postgres::{Client, NoTls};
use soloist::time::ManualClock;
use soloist::{FencingToken, LeaseGuard, MemoryMutex, MutexName, Term};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let Some(url) = std::env::args().nth(1) else {
        println!("usage: fencing postgres://USER:PASSWORD@HOST/DATABASE");
        return Ok(ExitCode::from(2));
    };
    let mut database = Client::connect(&url, NoTls)?;
    database.batch_execute(
        "CREATE TABLE IF NOT EXISTS soloist_totals (id INT PRIMARY KEY, amount BIGINT NOT NULL, token BIGINT NOT NULL);
         INSERT INTO soloist_totals VALUES (1, 0, 0) ON CONFLICT (id) DO UPDATE SET amount = 0, token = 0;",
    )?;

    // The example moves this clock by two minutes, as if the process of the first run were suspended for two minutes.
    let clock = ManualClock::at("2026-03-01T12:00:00Z".parse()?);
    let (store, name) = (MemoryMutex::with_clock(&clock), MutexName::lease("totals")?);
    let first = LeaseGuard::acquire(&store, name.clone(), Term::DEFAULT)?.ok_or("the name is free")?;
    clock.jump(Duration::from_secs(120));
    let second = LeaseGuard::acquire(&store, name, Term::DEFAULT)?.ok_or("the lease has ended")?;

    println!("the second run writes: {} row", write(&mut database, 200, second.lease().token())?);
    println!("the first run continues and writes: {} rows", write(&mut database, 100, first.lease().token())?);
    let amount: i64 = database.query_one("SELECT amount FROM soloist_totals WHERE id = 1", &[])?.get(0);
    println!("the amount is {amount}");
    Ok(if amount == 200 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Writes `amount`, unless a run with a higher token has written before. Returns the number of changed rows.
fn write(database: &mut Client, amount: i64, token: FencingToken) -> Result<u64, Box<dyn Error>> {
    let update = "UPDATE soloist_totals SET amount = $1, token = $2 WHERE id = 1 AND token <= $2";
    Ok(database.execute(update, &[&amount, &i64::try_from(token.get())?])?)
}

//! Runs the contract tests on the store at a URL, for example on a database version that the tests of the project don't
//! use. A database needs its table first: `soloist create-table --store URL`.
//!
//! `cargo run --all-features --example check_store -- redis://127.0.0.1/9`

use std::sync::Arc;

use soloist::EventMutex;
use soloist::contract::{self, Harness};

struct AtUrl(String);

impl Harness for AtUrl {
    type Mutex = Arc<dyn EventMutex>;

    fn mutex(&self) -> Self::Mutex {
        soloist::connect(&self.0).expect("the url was tried before the suite began")
    }

    /// Returns the URL of the store. Cases with several processes start this program again, and pass the URL to `at`.
    fn address(&self) -> Option<String> {
        Some(self.0.clone())
    }

    fn at(address: &str) -> Self {
        Self(address.to_owned())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("give the url of a store, such as redis://127.0.0.1/9")?;
    soloist::connect(&url)?.check()?;
    contract::check(|| AtUrl(url.clone()))?;
    Ok(())
}

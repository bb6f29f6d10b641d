//! Fuzz tests: each parser gets made-up input. The input is accepted, or refused in words, and nothing is lost.
//!
//! Each of these tests plays rounds. A round is a number of inputs that follow from its seed. In the whole test
//! suite the seeds are fixed, and few. For a longer search with fresh seeds, set the seconds for each test:
//!
//! ```text
//! SOLOIST_FUZZ_SECONDS=600 cargo test --all-features --test it -- fuzz
//! ```
//!
//! An input that fails is shrunk, and shown with the `SOLOIST_FUZZ_SEED` that plays its round again. Each finding
//! becomes a test of its own, next to the code that it was found in.

use std::fmt::Debug;
use std::panic::resume_unwind;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

mod bytes;
mod cron;
#[cfg(all(feature = "mysql", feature = "postgres"))]
mod handshakes;
#[cfg(feature = "redis")]
mod redis;
mod states;
#[cfg(all(feature = "redis", feature = "mysql", feature = "postgres"))]
mod urls;

/// Nothing here takes a hundredth of it, however busy the machine.
const HANGS_AFTER: Duration = Duration::from_secs(60);

/// The rounds in the whole test suite.
struct Rounds {
    rounds: u64,
    /// The inputs of each.
    inputs: u32,
}

impl Rounds {
    /// Passes the inputs to `judge`, which panics on a violation.
    #[track_caller]
    fn feed<S>(self, inputs: impl FnOnce() -> S + Send + 'static, judge: impl Fn(&S::Value) + Send + 'static)
    where
        S: Strategy,
        S::Value: Debug,
    {
        let in_hand: Arc<Mutex<(u64, String, Instant)>> =
            Arc::new(Mutex::new((0, "nothing yet".to_owned(), Instant::now())));
        let (told, done) = mpsc::channel::<()>();
        let name = thread::current().name().unwrap_or_default().to_owned();
        let player = thread::Builder::new().name(name).spawn({
            let in_hand = Arc::clone(&in_hand);
            move || {
                let _told = told; // Dropped on success and on failure.
                let inputs = inputs();
                for seed in self.seeds() {
                    play(seed, self.inputs, &inputs, &judge, |input| {
                        *in_hand.lock().expect("nothing panics while it is held") =
                            (seed, format!("{input:?}"), Instant::now());
                    });
                }
            }
        });
        let player = player.expect("there is room for a thread");
        while done.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
            let (seed, input, began) = &*in_hand.lock().expect("nothing panics while it is held");
            assert!(began.elapsed() < HANGS_AFTER, "it hangs at {input}{}", Again(*seed));
        }
        player.join().unwrap_or_else(|panic| resume_unwind(panic));
    }

    /// Returns the seeds of the rounds: the fixed ones, or fresh ones until the time is over, or a failed one.
    fn seeds(&self) -> Box<dyn Iterator<Item = u64>> {
        let number = |name: &str| {
            let text = std::env::var(name).ok()?;
            Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
        };
        if let Some(seed) = number("SOLOIST_FUZZ_SEED") {
            return Box::new(std::iter::once(seed));
        }
        let Some(seconds) = number("SOLOIST_FUZZ_SECONDS") else { return Box::new(0..self.rounds) };
        let (began, mut rounds, inputs) = (Instant::now(), 0_u64, u64::from(self.inputs));
        let name = thread::current().name().unwrap_or_default().to_owned();
        Box::new(std::iter::from_fn(move || {
            if began.elapsed() >= Duration::from_secs(seconds) {
                println!("{name}: {} inputs in {seconds} seconds", rounds * inputs);
                return None;
            }
            rounds += 1;
            Some(fastrand::u64(..))
        }))
    }
}

/// The seed of a round, shown as the way to play it again.
struct Again(u64);

impl std::fmt::Display for Again {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\nonce more: SOLOIST_FUZZ_SEED={}", self.0)
    }
}

#[track_caller]
fn play<S: Strategy>(seed: u64, inputs: u32, strategy: &S, judge: &impl Fn(&S::Value), note: impl Fn(&S::Value))
where
    S::Value: Debug,
{
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases: inputs, failure_persistence: None, max_shrink_iters: 5_000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let result = runner.run(strategy, |input| {
        note(&input);
        judge(&input);
        Ok::<(), TestCaseError>(())
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(reason, input)) => panic!("{reason}\nat {input:?}{}", Again(seed)),
        Err(TestError::Abort(reason)) => panic!("{reason}{}", Again(seed)),
    }
}

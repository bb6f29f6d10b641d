//! Measures several contenders with one kind of work, in turns, so that a change in the speed of the machine affects
//! all contenders.

use std::time::{Duration, Instant};

/// The texts of the column *protects*. A contender that protects nothing lets runs overlap.
pub(crate) const NOTHING: &str = "nothing";
pub(crate) const LEASE: &str = "a lease";
pub(crate) const BOTH: &str = "a lease and a claim";

/// The unit of a measured value.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    Seconds,
    Bytes,
}

/// A kind of work and its contenders. All contenders are compared with the first contender.
pub(crate) struct Work<'a> {
    title: String,
    unit: Unit,
    contenders: Vec<Contender<'a>>,
}

struct Contender<'a> {
    name: String,
    protects: &'static str,
    turn: Box<dyn FnMut() -> f64 + 'a>,
}

/// The results of a kind of work.
pub(crate) struct Measured {
    pub(crate) title: String,
    pub(crate) unit: Unit,
    pub(crate) rows: Vec<Row>,
}

pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) protects: &'static str,
    pub(crate) value: Spread,
    /// The ratios to the first contender, each within one round.
    pub(crate) ratio: Spread,
}

/// The median and the two quartiles of measured values.
#[derive(Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

impl<'a> Work<'a> {
    /// Makes a kind of work without contenders. The title says what a value is for, as in "…, each event".
    pub(crate) fn new(title: impl Into<String>, unit: Unit) -> Self {
        Self { title: title.into(), unit, contenders: Vec::new() }
    }

    /// Adds a contender. A call of `turn` does the work, asserts that it was done, and returns the measured value.
    pub(crate) fn by(
        mut self,
        name: impl Into<String>,
        protects: &'static str,
        turn: impl FnMut() -> f64 + 'a,
    ) -> Self {
        self.contenders.push(Contender { name: name.into(), protects, turn: Box::new(turn) });
        self
    }

    /// Measures all contenders in turns: six rounds at least, and up to 300 rounds until `effort` is over. The first
    /// round is a warm-up, and is not counted. If `effort` is zero, there is only one round, which is counted.
    pub(crate) fn measure(mut self, effort: Duration) -> Measured {
        const LEAST: usize = 6;
        const MOST: usize = 300;
        let began = Instant::now();
        let mut rounds: Vec<Vec<f64>> = Vec::new();
        while rounds.is_empty()
            || !effort.is_zero() && (rounds.len() < LEAST || began.elapsed() < effort && rounds.len() < MOST)
        {
            let mut round = vec![0.0; self.contenders.len()];
            let mut turns: Vec<_> = self.contenders.iter_mut().zip(&mut round).collect();
            // Every second round is in reverse order, because a contender can find the caches as its predecessor left
            // them.
            if rounds.len() % 2 == 1 {
                turns.reverse();
            }
            for (contender, value) in turns {
                *value = (contender.turn)();
            }
            rounds.push(round);
        }
        let counted = &rounds[usize::from(rounds.len() > 1)..];
        let of = |each: &dyn Fn(&Vec<f64>) -> f64| Spread::of(counted.iter().map(each).collect());
        let rows = self.contenders.into_iter().enumerate().map(|(at, Contender { name, protects, .. })| Row {
            name,
            protects,
            value: of(&|round| round[at]),
            ratio: of(&|round| round[at] / round[0]),
        });
        Measured { title: self.title, unit: self.unit, rows: rows.collect() }
    }
}

impl Row {
    pub(crate) fn is_ours(&self) -> bool {
        self.name.trim_start_matches('`').starts_with("soloist")
    }
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        let at = |quarter: usize| values[quarter * (values.len() - 1) / 4];
        Self { low: at(1), median: at(2), high: at(3) }
    }
}

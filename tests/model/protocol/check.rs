//! Tries every order of all steps, and shows the steps that lead to a violation.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Instant;

use stateright::{Checker, Expectation, HasDiscoveries, Model, Path};

use crate::fleet::{Action, Fleet};
use crate::variant::Variant;

/// Asserts that every promise holds in every reachable state, and that each expected event happens in some state.
#[track_caller]
pub fn holds(variant: Variant) {
    let began = Instant::now();
    let checked = variant.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let found = checked.discoveries();
    println!(
        "{variant:?}: {} states, {} steps deep, {:?}",
        checked.unique_state_count(),
        checked.max_depth(),
        began.elapsed()
    );
    for property in variant.properties() {
        let path = found.get(property.name);
        match property.expectation {
            Expectation::Always => {
                assert!(path.is_none(), "broken: {}\n{}", property.name, path.map(describe).unwrap_or_default());
            }
            _ => assert!(path.is_some(), "never happens: {}", property.name),
        }
    }
}

/// Asserts that the variant's flaw breaks this promise.
#[track_caller]
pub fn breaks(variant: Variant, promise: &'static str) {
    let began = Instant::now();
    let until = HasDiscoveries::AnyOf(BTreeSet::from([promise]));
    let checked = variant.checker().finish_when(until).spawn_dfs().join();
    println!("{variant:?}: {} states, {:?}", checked.unique_state_count(), began.elapsed());
    let path = checked.discovery(promise);
    let path = path.unwrap_or_else(|| panic!("not found: that {variant:?} breaks: {promise}"));
    println!("broken, as it should be: {promise}\n{}", describe(&path));
}

/// Describes the steps, one a line, and the last state. After each step the servers are numbered anew.
fn describe(path: &Path<Fleet, Action>) -> String {
    let mut text = String::new();
    for (at, action) in path.clone().into_actions().iter().enumerate() {
        writeln!(text, "{:3}. {action:?}", at + 1).expect("a string takes all");
    }
    write!(text, "{:#?}", path.last_state()).expect("a string takes all");
    text
}

//! An upgrade: workers of two versions on one store, the current one and an earlier one, which `tests/upgrade` has built.
//!
//! Three rounds repeat: both versions are mixed; the earlier one is alone on the store that both have used; both are
//! mixed again.

use std::env;
use std::fmt;
use std::path::PathBuf;
use std::sync::OnceLock;

use crate::support::example;

/// Where the program of the earlier version is. Without it every worker is of the current version.
const EARLIER: &str = "SOLOIST_FIRE_EARLIER_WORKER";

/// The command line of the script, with which a round can be repeated.
const COMMAND: &str = "SOLOIST_FIRE_COMMAND";

/// The version of one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Version {
    Current,
    Earlier,
}

/// The versions of the workers of one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Versions {
    Current,
    Mixed,
    Earlier,
}

/// The rounds of an upgrade, which repeat.
const UPGRADE: [Versions; 3] = [Versions::Mixed, Versions::Earlier, Versions::Mixed];

impl Versions {
    /// Those of the round at this place in its campaign.
    pub(crate) fn of_round(place: usize) -> Self {
        if is_upgrade() { UPGRADE[place % UPGRADE.len()] } else { Self::Current }
    }

    /// The version of the worker in this place of the crew, which so many had before it. In a mix it differs from the one
    /// before it, and from those in the places beside it.
    pub(crate) fn of_worker(self, seed: u64, number: usize, before_it: usize) -> Version {
        let is_even = seed.is_multiple_of(2) ^ number.is_multiple_of(2) ^ before_it.is_multiple_of(2);
        match self {
            Self::Current => Version::Current,
            Self::Mixed if is_even => Version::Current,
            Self::Mixed | Self::Earlier => Version::Earlier,
        }
    }

    /// In the order in which they are deployed, each with its own `create_table`.
    pub(crate) fn deployed(self) -> &'static [Version] {
        match self {
            Self::Current => &[Version::Current],
            Self::Mixed => &[Version::Earlier, Version::Current],
            Self::Earlier => &[Version::Earlier],
        }
    }
}

impl Version {
    pub(crate) fn program(self) -> PathBuf {
        match self {
            Self::Current => {
                // Whoever edits the source during a campaign does not end it.
                static FOUND: OnceLock<PathBuf> = OnceLock::new();
                FOUND.get_or_init(|| example("worker")).clone()
            }
            Self::Earlier => env::var_os(EARLIER).expect("an upgrade has an earlier version").into(),
        }
    }
}

/// The first part of a worker's name.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Current => "worker",
            Self::Earlier => "earlier",
        })
    }
}

/// Whose runs are counted in an upgrade: those of one version in the rounds of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    CurrentMixed,
    EarlierMixed,
    EarlierAlone,
}

impl Part {
    pub(crate) const ALL: [Self; 3] = [Self::CurrentMixed, Self::EarlierMixed, Self::EarlierAlone];

    /// `None`: this is no upgrade.
    pub(crate) fn of(versions: Versions, version: Version) -> Option<Self> {
        match (versions, version) {
            (Versions::Current, _) => None,
            (_, Version::Current) => Some(Self::CurrentMixed),
            (Versions::Mixed, Version::Earlier) => Some(Self::EarlierMixed),
            (Versions::Earlier, Version::Earlier) => Some(Self::EarlierAlone),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CurrentMixed => "runs of the current version, mixed with the earlier one",
            Self::EarlierMixed => "runs of the earlier version, mixed with the current one",
            Self::EarlierAlone => "runs of the earlier version, alone",
        })
    }
}

pub(crate) fn is_upgrade() -> bool {
    env::var_os(EARLIER).is_some()
}

/// How many rounds a campaign has at least.
pub(crate) fn least_rounds() -> usize {
    if is_upgrade() { UPGRADE.len() } else { 1 }
}

/// What repeats the round of this seed, at this place in its campaign.
pub(crate) fn again(store: &str, seed: u64, place: usize) -> String {
    let command = env::var(COMMAND).unwrap_or_else(|_| "tests/under_fire".into());
    let first = if is_upgrade() { seed - (place % UPGRADE.len()) as u64 } else { seed };
    format!("{command} --seconds 1 --seed {first} {store}")
}

#[test]
fn in_a_mix_each_place_changes_from_one_version_to_the_other() {
    for (seed, number, before_it) in [(1, 0, 0), (2, 3, 1), (9, 7, 4)] {
        let of = |seed, number, before_it| Versions::Mixed.of_worker(seed, number, before_it);
        let one = of(seed, number, before_it);
        assert_ne!(of(seed + 1, number, before_it), one);
        assert_ne!(of(seed, number + 1, before_it), one);
        assert_ne!(of(seed, number, before_it + 1), one);
    }
}

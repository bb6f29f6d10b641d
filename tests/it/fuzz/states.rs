//! The state of a mutex on file, changed by another program while its holder lives and runs.
//!
//! An unchanged line counts on. A damaged text is an error as long as the holder lives, and means nothing
//! afterwards. An intact text counts, like a restored backup.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::Utc;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use soloist::store::{Admission, Admitted, Held, Lease, LeaseRequest, MutexErrorKind, Names, Slot};
use soloist::time::{Clock, ManualClock};
use soloist::{EventMutex, FencingToken, FileMutex, MutexError, MutexName, Term};
use tempfile::TempDir;

use super::Rounds;
use super::bytes::Damage;
use crate::support::noon;

/// How every state begins.
const MAGIC: &[u8] = b"soloist-state v1\n";

/// A damage to the bytes of a state.
#[derive(Clone, Debug)]
enum Harm {
    Damaged(Vec<Damage>),
    Replaced(Vec<u8>),
    /// Partly overwritten by another whole state.
    Mixed(Source, Index, Index),
}

#[derive(Clone, Copy, Debug)]
enum Source {
    EarlierState,
    StateOfAnother,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    Exists,
    Holder,
    List,
    Create,
    ClaimExists,
    CreateClaim,
    AdmitBoth,
    AdmitAnotherClaim,
    Extend,
    Break,
}

fn harms() -> impl Strategy<Value = Harm> {
    let source = select(vec![Source::EarlierState, Source::StateOfAnother]);
    prop_oneof![
        6 => Damage::some().prop_map(Harm::Damaged),
        1 => vec(any::<u8>(), 0..2_000).prop_map(Harm::Replaced),
        1 => vec(any::<u8>(), 0..800).prop_map(|junk| Harm::Replaced([MAGIC, &junk].concat())),
        2 => (source, any::<Index>(), any::<Index>()).prop_map(|(source, one, other)| Harm::Mixed(source, one, other)),
    ]
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let acts = vec![
        Act::Exists,
        Act::Holder,
        Act::List,
        Act::Create,
        Act::ClaimExists,
        Act::CreateClaim,
        Act::AdmitBoth,
        Act::AdmitAnotherClaim,
        Act::Extend,
        Act::Break,
    ];
    vec(select(acts), 1..7)
}

/// A lease and a claim of one mutex, both held by one handle and asked for by another.
struct Scene {
    _dir: TempDir,
    clock: ManualClock,
    holder: FileMutex,
    asker: FileMutex,
    state: PathBuf,
    lease: Lease,
    whole: Vec<u8>,
    earlier: Vec<u8>,
    of_another: Vec<u8>,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let clock = ManualClock::at(Utc::now());
        let open = || FileMutex::builder(dir.path()).clock(&clock).open().expect("the directory is there");
        let (holder, asker) = (open(), open());
        let request = |name: MutexName| LeaseRequest::new(name, minute(), &Clock::from(&clock));
        let both = |name: &str| {
            let lease = request(MutexName::lease(name).expect("a name"));
            let claim = lease.with(lease.name().claim("fuzzed", noon()), minute());
            Admission::both(lease, claim)
        };
        granted(&holder, &both("another"));
        let of_another = text_of(&state_of(dir.path()));
        fs::remove_file(state_of(dir.path())).expect("it is there");
        let first = granted(&holder, &Admission::lease_only(request(name())));
        holder.forget(&first).expect("it answers");
        let state = state_of(dir.path());
        let earlier = text_of(&state);
        clock.advance(Duration::from_millis(1));
        let lease = granted(&holder, &both("fuzzed"));
        let whole = text_of(&state);
        clock.advance(Duration::from_millis(1));
        Self { _dir: dir, clock, holder, asker, state, lease, whole, earlier, of_another }
    }

    fn request(&self, name: MutexName) -> LeaseRequest {
        LeaseRequest::new(name, minute(), &Clock::from(&self.clock))
    }

    fn harmed(&self, harm: &Harm) -> Vec<u8> {
        let (source, from, to) = match harm {
            Harm::Damaged(damages) => return Damage::all_done_to(&self.whole, damages),
            Harm::Replaced(bytes) => return bytes.clone(),
            Harm::Mixed(Source::EarlierState, from, to) => (&self.earlier, from, to),
            Harm::Mixed(Source::StateOfAnother, from, to) => (&self.of_another, from, to),
        };
        let (one, other) = (from.index(source.len() + 1), to.index(source.len() + 1));
        let part = one.min(other)..one.max(other);
        let mut bytes = self.whole.clone();
        let end = bytes.len().min(part.end);
        bytes.splice(part.start.min(bytes.len())..end, source[part].iter().copied());
        bytes
    }

    /// Returns whether the line of this name, and no other line of the name, stands in the text as it was written.
    fn has_kept(&self, bytes: &[u8], name: &str) -> bool {
        let lines = |bytes: &[u8]| -> Vec<Vec<u8>> {
            let lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec);
            lines.filter(|line| String::from_utf8_lossy(line).contains(name)).collect()
        };
        lines(bytes) == lines(&self.whole)
    }
}

fn name() -> MutexName {
    MutexName::lease("fuzzed").expect("a name")
}

fn minute() -> Term {
    Term::new(Duration::from_secs(60)).expect("a term")
}

/// Returns the text, without the zeros that fill its block.
fn text_of(state: &Path) -> Vec<u8> {
    let bytes = fs::read(state).expect("it was written");
    bytes[..bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)].to_vec()
}

fn state_of(dir: &Path) -> PathBuf {
    let mut paths = fs::read_dir(dir).expect("it is there").map(|entry| entry.expect("it is readable").path());
    paths.find(|path| path.extension().is_some_and(|ending| ending == "state")).expect("there is one")
}

#[track_caller]
fn granted(mutex: &FileMutex, admission: &Admission) -> Lease {
    match admission.ask(mutex).expect("it answers") {
        Admitted::Granted(grant) => grant.lease().expect("it was asked for").clone(),
        refused => panic!("{refused:?}"),
    }
}

/// The facts that the answers of both handles must respect.
struct Facts<'a> {
    scene: &'a Scene,
    /// The holder lives, and the line about it is unchanged.
    is_held: bool,
    is_claimed: bool,
    /// The file may be of another store: each call is refused, and nothing is written.
    is_foreign: bool,
}

impl Facts<'_> {
    #[track_caller]
    fn answer<T>(&self, answer: Result<T, MutexError>) -> Option<T> {
        match answer {
            Ok(answer) => {
                assert!(!self.is_foreign, "a file that may be somebody else's was taken for ours");
                Some(answer)
            }
            Err(error) => {
                let path = self.scene.state.to_str().expect("a plain path");
                assert!(error.to_string().contains(path) && error.kind() == MutexErrorKind::Unusable, "{error:?}");
                None
            }
        }
    }

    #[track_caller]
    fn act(&mut self, act: Act) {
        let Scene { asker, holder, lease, .. } = self.scene;
        let claim = name().claim("fuzzed", noon());
        match act {
            Act::Exists => {
                let exists = self.answer(asker.exists(&name()));
                assert!(!self.is_held || exists != Some(false), "a held lease was taken for free");
            }
            Act::Holder => {
                let held = self.answer(asker.held(Names::of(&name())));
                if let Some(known) = held.iter().flatten().find_map(Held::holder) {
                    assert!(!self.is_held || known.owner() == lease.owner(), "{known:?} does not hold it");
                }
            }
            Act::List => {
                // A file that can't be used is left out.
                let listed = asker.held(Names::LeasesWithPrefix("")).expect("it answers");
                let known = listed.iter().find(|held| *held.name() == name()).and_then(Held::holder);
                assert!(!self.is_held || known.is_none_or(|known| known.owner() == self.scene.lease.owner()));
                assert!(!self.is_foreign || known.is_none(), "{known:?} does not hold it");
            }
            Act::Create => {
                let other = self.answer(asker.create(&self.scene.request(name()))).flatten();
                self.note_grant(other.as_ref());
            }
            Act::ClaimExists => {
                let exists = self.answer(asker.exists(&claim));
                assert!(!self.is_claimed || exists != Some(false), "a claim was lost that is whole");
            }
            Act::CreateClaim => {
                let other = self.answer(asker.create(&self.scene.request(claim))).flatten();
                assert!(!self.is_claimed || other.is_none(), "the claim was granted twice");
                self.is_claimed |= other.is_some();
            }
            Act::AdmitBoth | Act::AdmitAnotherClaim => {
                let claim = if act == Act::AdmitBoth { claim } else { name().claim("another", noon()) };
                let request = self.scene.request(name());
                let both = Admission::both(request.clone(), request.with(claim, minute()));
                if let Some(Admitted::Granted(grant)) = self.answer(both.ask(asker)) {
                    self.note_grant(grant.lease());
                    assert!(act != Act::AdmitBoth || !self.is_claimed, "the claim was granted twice");
                    self.is_claimed |= act == Act::AdmitBoth;
                }
            }
            Act::Extend => {
                let mut slot = Slot::new(lease.clone());
                holder.extend(std::slice::from_mut(&mut slot), minute());
                let answer = self.answer(slot.answer().cloned().expect("it is answered"));
                assert!(!self.is_held || answer != Some(false), "its holder lost what is whole");
                self.is_held &= answer != Some(false);
            }
            Act::Break => {
                let broken = self.answer(asker.break_lease(&name()));
                assert!(!self.is_held || broken != Some(None), "a held lease was taken for free");
                self.is_held &= broken.is_none();
            }
        }
    }

    #[track_caller]
    fn note_grant(&mut self, other: Option<&Lease>) {
        let Some(other) = other else { return };
        assert!(!self.is_held, "two hold it");
        assert!(other.token() > self.scene.lease.token(), "the token did not rise");
        assert_ne!(other.token(), FencingToken::new(0));
        assert!(self.scene.asker.forget(other).expect("it answers"), "it could not be given back");
    }
}

fn judge(harm: &Harm, acts: &[Act]) {
    let scene = Scene::new();
    let bytes = scene.harmed(harm);
    fs::write(&scene.state, &bytes).expect("it is writable");
    let is_whole = text_of(&scene.state).ends_with(b"\nend\n") && str::from_utf8(&bytes).is_ok();
    let begun = &bytes[..bytes.len().min(MAGIC.len())];
    let is_zero = bytes.iter().all(|byte| *byte == 0);
    let mut told = Facts {
        is_held: !is_whole || scene.has_kept(&bytes, "\tlease/fuzzed\t"),
        is_claimed: scene.has_kept(&bytes, "\tclaim/fuzzed/fuzzed/"),
        is_foreign: !(MAGIC.starts_with(begun) || is_zero),
        scene: &scene,
    };
    for act in acts {
        told.act(*act);
    }
    let ended = told.answer(scene.holder.forget(&scene.lease));
    if told.is_foreign {
        assert_eq!(fs::read(&scene.state).expect("it is readable"), bytes, "somebody else's file was changed");
        return;
    }
    assert!(ended == Some(true) || bytes != scene.whole || acts.contains(&Act::Break), "it was not its owner's");
    if is_whole {
        // A state that a text editor has saved is valid.
        return;
    }
    told.is_held = false;
    scene.clock.advance(Duration::from_millis(1));
    let next = told.answer(scene.asker.create(&scene.request(name()))).flatten();
    assert!(next.is_some(), "it does not heal when its holder has gone");
    told.note_grant(next.as_ref());
}

#[test]
fn a_state_that_anybody_may_have_changed_has_one_holder_and_heals() {
    Rounds { rounds: 4, inputs: 100 }.feed(|| (harms(), acts()), |(harm, acts)| judge(harm, acts));
}

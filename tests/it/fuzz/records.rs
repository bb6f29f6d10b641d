//! The record of a mutex on file, changed by somebody who knows nothing of it, while its holder lives and works on.
//!
//! What stays as it was counts on. A state that is torn says nothing any more, and the lease stays held as long as its
//! holder lives. Only a whole block of an earlier time, as a restored backup has it, is believed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::Utc;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use soloist::{
    Admission, Admitted, Clock, EventMutex, FencingToken, FileMutex, Held, Lease, LeaseRequest, ManualClock,
    MutexError, MutexErrorKind, MutexName, Names, Slot, Term,
};
use tempfile::TempDir;

use super::Rounds;
use super::bytes::Damage;
use crate::support::noon;

/// How every record begins, and where its state lies if its name is short.
const MAGIC: &[u8] = b"soloist-mutex v1\n";
const STATE: std::ops::Range<usize> = 256..768;
const CLAIM: std::ops::Range<usize> = 768..1152;

/// What becomes of the bytes.
#[derive(Clone, Debug)]
enum Harm {
    Damaged(Vec<Damage>),
    Replaced(Vec<u8>),
    /// Partly overwritten by another whole record.
    Mixed(Source, Index, Index),
}

#[derive(Clone, Copy, Debug)]
enum Source {
    EarlierRecord,
    RecordOfAnother,
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
    let source = select(vec![Source::EarlierRecord, Source::RecordOfAnother]);
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
    record: PathBuf,
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
        let of_another = fs::read(record_of(dir.path())).expect("it was written");
        fs::remove_file(record_of(dir.path())).expect("it is there");
        let first = granted(&holder, &Admission::lease_only(request(name())));
        holder.forget(&first).expect("it answers");
        let record = record_of(dir.path());
        let earlier = fs::read(&record).expect("it was written");
        clock.advance(Duration::from_millis(1));
        let lease = granted(&holder, &both("fuzzed"));
        let whole = fs::read(&record).expect("it was written");
        clock.advance(Duration::from_millis(1));
        Self { _dir: dir, clock, holder, asker, record, lease, whole, earlier, of_another }
    }

    fn request(&self, name: MutexName) -> LeaseRequest {
        LeaseRequest::new(name, minute(), &Clock::from(&self.clock))
    }

    fn harmed(&self, harm: &Harm) -> Vec<u8> {
        let (source, from, to) = match harm {
            Harm::Damaged(damages) => return Damage::all_done_to(&self.whole, damages),
            Harm::Replaced(bytes) => return bytes.clone(),
            Harm::Mixed(Source::EarlierRecord, from, to) => (&self.earlier, from, to),
            Harm::Mixed(Source::RecordOfAnother, from, to) => (&self.of_another, from, to),
        };
        let (one, other) = (from.index(source.len() + 1), to.index(source.len() + 1));
        let part = one.min(other)..one.max(other);
        let mut bytes = self.whole.clone();
        let end = bytes.len().min(part.end);
        bytes.splice(part.start.min(bytes.len())..end, source[part].iter().copied());
        bytes
    }

    /// Whether the state is a whole one of another time or name.
    fn is_replayed(&self, bytes: &[u8]) -> bool {
        let block = bytes.get(STATE);
        block.is_some() && [&self.earlier, &self.of_another].iter().any(|source| source.get(STATE) == block)
    }
}

fn name() -> MutexName {
    MutexName::lease("fuzzed").expect("a name")
}

fn minute() -> Term {
    Term::new(Duration::from_secs(60)).expect("a term")
}

fn record_of(dir: &Path) -> PathBuf {
    let mut paths = fs::read_dir(dir).expect("it is there").map(|entry| entry.expect("it is readable").path());
    paths.find(|path| path.extension().is_some_and(|ending| ending == "record")).expect("there is one")
}

#[track_caller]
fn granted(mutex: &FileMutex, admission: &Admission) -> Lease {
    match admission.ask(mutex).expect("it answers") {
        Admitted::Granted(grant) => grant.lease().expect("it was asked for").clone(),
        refused => panic!("{refused:?}"),
    }
}

/// What the two handles may be told from here on.
struct Told<'a> {
    scene: &'a Scene,
    is_held: bool,
    is_claimed: bool,
    /// The file may be somebody else's: all is refused, and nothing written.
    is_foreign: bool,
}

impl Told<'_> {
    #[track_caller]
    fn answer<T>(&self, answer: Result<T, MutexError>) -> Option<T> {
        let error = match answer {
            Ok(answer) => {
                assert!(!self.is_foreign, "a file that may be somebody else's was taken for ours");
                return Some(answer);
            }
            Err(error) => error,
        };
        assert!(self.is_foreign, "{error:?}");
        let path = self.scene.record.to_str().expect("a plain path");
        assert!(error.to_string().contains(path) && error.kind() == MutexErrorKind::Unusable, "{error:?}");
        None
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
                if let Some(Some(known)) = self
                    .answer(asker.held(Names::Exactly(&name())))
                    .map(|held| held.first().and_then(|held| held.holder().cloned()))
                {
                    assert!(!self.is_held || known.owner() == lease.owner(), "{known:?} does not hold it");
                }
            }
            Act::List => {
                // What may be somebody else's file is left out, and so is a record that does not say its name.
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
                let answer = slot.answer().cloned().expect("it is answered");
                // Where nobody can tell whose it is, its holder is told that it is lost.
                self.is_held &= self.answer(answer) != Some(false);
            }
            Act::Break => {
                let broken = self.answer(asker.break_lease(&name()));
                assert!(!self.is_held || broken != Some(soloist::Broken::NotHeld), "a held lease was taken for free");
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
    fs::write(&scene.record, &bytes).expect("it is writable");
    let begun = &bytes[..bytes.len().min(MAGIC.len())];
    let is_zero = bytes.iter().take(4_096).all(|byte| *byte == 0);
    let is_anothers = bytes.get(..STATE.start) == scene.of_another.get(..STATE.start);
    let mut told = Told {
        is_held: !scene.is_replayed(&bytes),
        is_claimed: !scene.is_replayed(&bytes) && bytes.get(CLAIM) == scene.whole.get(CLAIM),
        is_foreign: is_anothers || !(MAGIC.starts_with(begun) || is_zero),
        scene: &scene,
    };
    for act in acts {
        told.act(*act);
    }
    if told.is_foreign {
        told.answer(scene.holder.forget(&scene.lease));
        assert_eq!(fs::read(&scene.record).expect("it is readable"), bytes, "somebody else's file was changed");
        return;
    }
    let ended = told.answer(scene.holder.forget(&scene.lease));
    assert!(ended == Some(true) || bytes != scene.whole || acts.contains(&Act::Break), "it was not its owner's");
    told.is_held = false;
    // A state that is whole says until when it counts.
    let patience = if scene.is_replayed(&bytes) { minute().get() } else { Duration::ZERO };
    scene.clock.advance(patience + Duration::from_millis(1));
    let next = told.answer(scene.asker.create(&scene.request(name()))).flatten();
    assert!(next.is_some(), "it does not heal when its holder has gone");
    told.note_grant(next.as_ref());
}

#[test]
fn a_record_that_anybody_may_have_changed_has_one_holder_and_heals() {
    Rounds { rounds: 10, inputs: 150 }.feed(|| (harms(), acts()), |(harm, acts)| judge(harm, acts));
}

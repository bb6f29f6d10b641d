//! Stores that break their promises about lifelines: the suite finds each flaw, and none in a correct store.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use soloist::contract::{Harness, run_as_child};
use soloist::store::{Batch, Description, Held, Lease, LeaseRequest, Lifeline, Slot};
use soloist::{EventMutex, FileMutex, MutexError, MutexName, Term};

/// A flaw of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    Nothing,
    /// The lifelines have no effect, and the leases end with their terms.
    LeadsNowhere,
    /// The store gives lifelines for any lease.
    GivesToAll,
    /// A late extension by an earlier owner extends the lease of the holder.
    ProlongsAnothers,
    /// A late release by an earlier owner ends the lease of the holder.
    EndsAnothers,
    /// A lease ends when its lifeline is closed.
    EndsWithItsLifeline,
    /// The next lease of the name outlasts its term too.
    KeepsTheNext,
    /// An extension brings the end of the term back.
    ExtendsToAnEnd,
    /// The store refuses to extend a lease with a lifeline.
    RefusesToExtend,
    /// The store does not release a lease with a lifeline.
    ForgetsNothing,
    /// The store does not release a lease with a lifeline after its minimum hold either.
    ReleasesNothingLater,
    /// The store ends a minimum hold at once.
    ReleasesAtOnce,
    /// The store does not break a lease with a lifeline.
    BreaksNothing,
    /// A lease with a lifeline lasts for an hour, even if no process lives.
    OutlivesAll,
    /// The store gives no lifeline, and extends the lease.
    GivesNoneAndProlongs,
    /// The store gives no lifeline, and ends the lease.
    GivesNoneAndEnds,
}

/// The store on file, with a flaw.
#[derive(Clone, Debug)]
struct Flawed {
    file: FileMutex,
    flaw: Flaw,
    /// The last lease of each name, and whether it has a lifeline.
    leases: Arc<Mutex<BTreeMap<String, (Lease, bool)>>>,
}

impl Flawed {
    fn open(file: FileMutex, flaw: Flaw) -> Self {
        Self { file, flaw, leases: Arc::default() }
    }

    fn last(&self, name: &MutexName) -> Option<(Lease, bool)> {
        self.leases.lock().unwrap().get(&name.to_string()).cloned()
    }

    fn has_lifeline(&self, name: &MutexName) -> bool {
        self.last(name).is_some_and(|(_, has)| has)
    }

    fn hour() -> Term {
        Term::new(Duration::from_secs(3600)).unwrap()
    }

    fn nowhere(&self) -> Lifeline {
        Lifeline::of(File::open(self.file.dir()).unwrap())
    }

    fn prolong(&self, lease: &Lease) {
        self.released_later(lease, Self::hour()).unwrap();
    }

    fn released_later(&self, lease: &Lease, minimum_hold: Term) -> Result<bool, MutexError> {
        let mut batch = Batch::new();
        batch.release_after(lease.clone(), minimum_hold);
        self.file.carry_out(&mut batch);
        batch.releases()[0].answer().cloned().unwrap()
    }

    fn extended(&self, lease: &Lease, term: Term) -> Result<bool, MutexError> {
        let mut slot = Slot::new(lease.clone());
        self.file.extend(std::slice::from_mut(&mut slot), term);
        slot.answer().cloned().unwrap()
    }
}

impl EventMutex for Flawed {
    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        let lease = self.file.create(request)?;
        if let Some(lease) = &lease {
            if self.flaw == Flaw::KeepsTheNext && self.has_lifeline(lease.name()) {
                drop(self.file.lifeline(lease)?);
            }
            self.leases.lock().unwrap().insert(lease.name().to_string(), (lease.clone(), false));
        }
        Ok(lease)
    }

    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        self.file.exists(name)
    }

    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        if self.flaw == Flaw::ForgetsNothing && self.has_lifeline(lease.name()) {
            return Ok(true);
        }
        self.file.forget(lease)
    }

    fn describe(&self) -> Description {
        self.file.describe()
    }

    fn carry_out(&self, batch: &mut Batch) {
        let (releases, admissions) = batch.slots_mut();
        for slot in releases {
            let lease = slot.asked().lease();
            let answer = match (slot.asked().minimum_hold(), self.flaw) {
                (None, _) | (_, Flaw::ReleasesAtOnce) => self.forget(lease),
                (Some(minimum_hold), Flaw::ReleasesNothingLater) => self.extended(lease, minimum_hold),
                (Some(minimum_hold), _) => self.released_later(lease, minimum_hold),
            };
            slot.fill(answer);
        }
        for slot in admissions {
            let answer = slot.asked().ask(&self.file);
            slot.fill(answer);
        }
    }

    fn extend(&self, leases: &mut [Slot<Lease, bool>], term: Term) {
        for slot in leases {
            let lease = slot.asked();
            let answer = match self.flaw {
                Flaw::RefusesToExtend if self.has_lifeline(lease.name()) => Ok(false),
                Flaw::ExtendsToAnEnd => self.released_later(lease, term),
                _ => self.extended(lease, term),
            };
            slot.fill(answer);
        }
    }

    fn lifeline(&self, lease: &Lease) -> Result<Option<Lifeline>, MutexError> {
        let last = self.last(lease.name()).map(|(last, _)| last);
        match self.flaw {
            Flaw::LeadsNowhere => return Ok(self.file.exists(lease.name())?.then(|| self.nowhere())),
            Flaw::GivesToAll => return Ok(Some(self.nowhere())),
            Flaw::OutlivesAll => {
                self.prolong(lease);
                return Ok(Some(self.nowhere()));
            }
            Flaw::GivesNoneAndProlongs => {
                self.prolong(lease);
                return Ok(None);
            }
            Flaw::GivesNoneAndEnds => {
                let _ = self.file.break_lease(lease.name())?;
                return Ok(None);
            }
            _ => {}
        }
        let lifeline = self.file.lifeline(lease).inspect_err(|_| match (self.flaw, &last) {
            (Flaw::ProlongsAnothers, Some(last)) if last != lease => self.prolong(last),
            (Flaw::EndsAnothers, Some(last)) if last != lease => drop(self.file.break_lease(last.name())),
            _ => {}
        })?;
        if self.flaw == Flaw::EndsWithItsLifeline {
            let (mut open, inherited) = std::io::pipe().unwrap();
            let (file, name) = (self.file.clone(), lease.name().clone());
            thread::spawn(move || open.read_to_end(&mut Vec::new()).map(|_| file.break_lease(&name)));
            return Ok(Some(Lifeline::of(inherited)));
        }
        if let Some(last) = self.leases.lock().unwrap().get_mut(&lease.name().to_string()) {
            last.1 = true;
        }
        Ok(lifeline)
    }

    fn break_lease(&self, name: &MutexName) -> Result<Option<Held>, MutexError> {
        if self.flaw == Flaw::BreaksNothing && self.has_lifeline(name) {
            return Ok(Some(Held::new(name.clone(), None)));
        }
        self.file.break_lease(name)
    }
}

struct OnFile {
    mutex: Flawed,
    /// The directory goes with the harness that made it.
    _ours: Option<tempfile::TempDir>,
}

impl OnFile {
    fn with(flaw: Flaw) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { mutex: Flawed::open(FileMutex::in_dir(dir.path()).unwrap(), flaw), _ours: Some(dir) }
    }
}

impl Harness for OnFile {
    type Mutex = Flawed;

    fn mutex(&self) -> Flawed {
        self.mutex.clone()
    }

    fn short_term(&self) -> Term {
        Term::new(Duration::from_millis(100)).unwrap()
    }

    fn address(&self) -> Option<String> {
        Some(format!("{:?} {}", self.mutex.flaw, self.mutex.file.dir().display()))
    }

    fn at(address: &str) -> Self {
        let (flaw, dir) = address.split_once(' ').unwrap();
        let flaws = [Flaw::Nothing, Flaw::LeadsNowhere, Flaw::OutlivesAll];
        let flaw = flaws.into_iter().find(|it| format!("{it:?}") == flaw).unwrap();
        Self { mutex: Flawed::open(FileMutex::in_dir(dir).unwrap(), flaw), _ours: None }
    }
}

#[test]
fn processes_of_other_cases_begin_here() {
    run_as_child(|| OnFile::with(Flaw::Nothing));
}

super::finds! { OnFile::with, Flaw;
    a_lease_with_a_lifeline_outlasts_its_term:
        LeadsNowhere "a lease with a lifeline outlasts its term",
        EndsWithItsLifeline "a lease with a lifeline lasts while its owner holds it, even if another process has the lifeline";
    an_extension_does_not_end_a_lease_with_a_lifeline:
        ExtendsToAnEnd "an extension does not end a lease with a lifeline",
        RefusesToExtend "the owner can extend its lease, also after its term";
    a_forget_frees_a_name_whoever_has_its_lifeline:
        ForgetsNothing "a name is free after its lease was released, even if a process has the lifeline of that lease",
        KeepsTheNext "a lifeline does not prolong the next lease";
    a_later_release_frees_a_name_whoever_has_its_lifeline:
        ReleasesAtOnce "a name is held until its minimum hold is over",
        ReleasesNothingLater "a name is free when its minimum hold is over, even if a process has the lifeline of the lease";
    a_break_frees_a_name_whoever_has_its_lifeline:
        BreaksNothing "a name is free after its lease was broken, even if a process has the lifeline of that lease";
    what_is_not_ours_any_more_gets_no_lifeline:
        GivesToAll "a lost lease gets no lifeline",
        ProlongsAnothers "a request for the lifeline of another's lease does not prolong it",
        EndsAnothers "a request for the lifeline of another's lease changes nothing for its holder";
    a_lease_without_a_lifeline_is_as_it_was:
        GivesNoneAndProlongs "a lease without a lifeline ends with its term",
        GivesNoneAndEnds "the holder of a name can release it";
    a_lease_of_a_killed_process_lasts_as_long_as_a_command_has_its_lifeline:
        LeadsNowhere "a lease of a killed process lasts as long as a command has the lifeline of the lease";
    a_lease_of_a_killed_process_ends_when_nobody_has_its_lifeline:
        OutlivesAll "a lease of a killed process ends with its term, if no process has its lifeline";
}

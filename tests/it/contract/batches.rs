//! Stores that break their promises about batches and lists: the suite finds each flaw, and none in a correct
//! store.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use soloist::contract::Harness;
use soloist::store::{Admission, Admitted, Batch, Description, Held, Holder, Lease, LeaseRequest, Names, Slot};
use soloist::time::{Clock, ManualClock};
use soloist::{EventMutex, MemoryMutex, MutexError, MutexName, Term};

/// A flaw of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    Nothing,
    /// An admission is granted although the name that excludes it is held.
    IgnoresExclusions,
    /// The store reads the excluding name after the claim and the lease.
    ExcludesLast,
    /// An excluded admission keeps its claim.
    ConsumesTheClaim,
    /// An excluded admission keeps its lease.
    KeepsTheLease,
    /// The store does not name the holder of the excluding name.
    ExcludesByNobody,
    /// An admission takes the name that would exclude it.
    TakesTheExcludingName,
    /// A name that has excluded once excludes for ever.
    ExcludesForEver,
    /// A name that was held excludes for ever.
    ExcludesBeyondItsTerm,
    /// Where one admission of a batch is excluded, all are.
    ExcludesAll,
    /// Of several names, only the first excludes.
    ExcludesByTheFirst,
    /// The store names another name than the excluding one.
    ExcludesByAnother,
    /// All exclusions of a batch are checked before any grant.
    ExcludesAtOnce,
    /// The store grants the free half of a lease and a claim.
    GrantsHalf,
    /// The store admits before it releases.
    AdmitsFirst,
    /// All releases of a batch have the minimum hold of the first.
    HoldsAlike,
    /// The store ends a minimum hold at once.
    HoldsNothing,
    /// The store gives no answer to the last admission.
    LeavesOneOut,
    /// The store releases more than it was asked for.
    AsksForMore,
    /// A batch without questions ends everything.
    EndsAllForNothing,
    /// The store lists claims and markers, too.
    ListsClaims,
    /// The store lists names that are equal but for their case.
    ListsOtherCases,
    /// The store takes `_` for any character.
    ListsByPattern,
    /// The store lists expired leases.
    ListsTheEnded,
    /// The store lists a lease twice.
    ListsTwice,
    /// The store lists a lease with the holder of another.
    ListsOthersHolders,
    /// The store answers for another name than the requested one.
    TellsOfAnother,
    /// The store lists held names, and fails if there are none.
    ListsSometimes,
    /// The store does not name the occurrence of a held name.
    TellsNoOccurrence,
    /// The store names another application than the holder's.
    TellsAnotherApplication,
    /// The store returns the holder of the first of several names only.
    TellsOfTheFirst,
    /// The store returns the holder of one name, but not of several.
    TellsOfOneOnly,
}

/// The store in memory, with a flaw.
#[derive(Clone, Debug)]
struct Flawed {
    memory: MemoryMutex,
    clock: ManualClock,
    flaw: Flaw,
    /// Each lease that was created by its name, and each name that has excluded.
    created: Arc<Mutex<Vec<Lease>>>,
    excluded: Arc<Mutex<BTreeSet<MutexName>>>,
}

impl Flawed {
    fn with(flaw: Flaw) -> Self {
        let clock = ManualClock::at(chrono::DateTime::UNIX_EPOCH);
        let memory = MemoryMutex::with_clock(&clock);
        Self { memory, clock, flaw, created: Arc::default(), excluded: Arc::default() }
    }

    /// Executes a batch, and begins with the admissions.
    fn admit_first(&self, batch: &mut Batch) {
        let (releases, admissions) = batch.slots_mut();
        for slot in admissions {
            let answer = slot.asked().ask(&self.memory);
            slot.fill(answer);
        }
        for slot in releases {
            let answer = self.memory.forget(slot.asked().lease());
            slot.fill(answer);
        }
    }

    fn admit(&self, asked: &Admission) -> Result<Admitted, MutexError> {
        if self.flaw == Flaw::GrantsHalf && asked.lease().is_some_and(|lease| !lease.name().is_lease()) {
            let admitted = asked.ask(&self.memory)?;
            if let Admitted::LeaseTaken(_) = admitted {
                asked.claim().into_iter().for_each(|claim| drop(self.memory.create(claim)));
            }
            return Ok(admitted);
        }
        let names = asked.excluded_by();
        let Some(name) = names.iter().find(|name| self.memory.exists(name).unwrap()).or(names.first()) else {
            return asked.ask(&self.memory);
        };
        let unconditional = match (asked.lease().cloned(), asked.claim().cloned()) {
            (Some(lease), Some(claim)) => Admission::both(lease, claim),
            (Some(lease), None) => Admission::lease_only(lease),
            (None, Some(claim)) => Admission::claim_only(claim),
            (None, None) => unreachable!("an admission asks for something"),
        };
        match self.flaw {
            Flaw::IgnoresExclusions => return unconditional.ask(&self.memory),
            Flaw::ExcludesByTheFirst => return unconditional.unless(names[0].clone()).ask(&self.memory),
            Flaw::ExcludesLast => match unconditional.ask(&self.memory)? {
                Admitted::Granted(grant) => {
                    [grant.lease(), grant.claim()].into_iter().flatten().for_each(|it| drop(self.memory.forget(it)));
                }
                refused => return Ok(refused),
            },
            Flaw::ExcludesBeyondItsTerm if self.created.lock().unwrap().iter().any(|lease| lease.name() == name) => {
                return Ok(excluded(name));
            }
            Flaw::ExcludesForEver if !self.memory.exists(name)? && self.excluded.lock().unwrap().contains(name) => {
                return Ok(excluded(name));
            }
            _ => {}
        }
        let mut admitted = asked.ask(&self.memory)?;
        match (&mut admitted, self.flaw) {
            (Admitted::Excluded(held), Flaw::ExcludesByNobody) => *held = Held::new(name.clone(), None),
            (Admitted::Excluded(held), Flaw::ExcludesByAnother) => {
                *held = Held::new(name.mark("another", "name"), held.holder().cloned());
            }
            (Admitted::Excluded(_), Flaw::ConsumesTheClaim) => {
                asked.claim().into_iter().for_each(|claim| drop(self.memory.create(claim)));
            }
            (Admitted::Excluded(_), Flaw::KeepsTheLease) => {
                asked.lease().into_iter().for_each(|lease| drop(self.memory.create(lease)));
            }
            (Admitted::Excluded(_), _) => drop(self.excluded.lock().unwrap().insert(name.clone())),
            (Admitted::Granted(_), Flaw::TakesTheExcludingName) => {
                let request = asked.lease().or(asked.claim()).expect("it asks for something");
                self.memory.create(&request.with(name.clone(), request.term()))?;
            }
            _ => {}
        }
        Ok(admitted)
    }

    /// Returns all leases, held or expired, whose names begin with this in some way.
    fn list(&self, prefix: &str) -> Result<Vec<Held>, MutexError> {
        let created: Vec<Lease> = self.created.lock().unwrap().clone();
        let wanted = |lease: &&Lease| {
            let (name, chars) = (lease.name().mutex(), prefix.chars().count());
            let begins = || name.chars().take(chars).map(String::from).zip(prefix.chars().map(String::from));
            match self.flaw {
                Flaw::ListsOtherCases => name.to_lowercase().starts_with(&prefix.to_lowercase()),
                Flaw::ListsByPattern => {
                    name.chars().count() >= chars && begins().all(|(is, asked)| asked == "_" || is == asked)
                }
                _ => name.starts_with(prefix),
            }
        };
        let mut listed = Vec::new();
        for lease in created.iter().filter(wanted) {
            let held = self.memory.held(Names::of(lease.name()))?;
            let current = held.iter().find(|held| held.holder().is_some_and(|holder| holder.owner() == lease.owner()));
            match (current, self.flaw) {
                (Some(_), _) if !lease.name().is_lease() && self.flaw != Flaw::ListsClaims => {}
                (Some(held), Flaw::ListsTwice) => listed.extend([held.clone(), held.clone()]),
                (Some(held), _) => listed.push(held.clone()),
                (None, Flaw::ListsTheEnded) => listed.push(Held::new(lease.name().clone(), None)),
                (None, _) => {}
            }
        }
        if self.flaw == Flaw::ListsOthersHolders {
            let last = listed.last().and_then(Held::holder).cloned();
            listed = listed.into_iter().map(|held| Held::new(held.name().clone(), last.clone())).collect();
        }
        Ok(listed)
    }
}

impl EventMutex for Flawed {
    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        let lease = self.memory.create(request)?;
        self.created.lock().unwrap().extend(lease.clone());
        Ok(lease)
    }

    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        self.memory.exists(name)
    }

    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        self.memory.forget(lease)
    }

    fn describe(&self) -> Description {
        self.memory.describe()
    }

    fn carry_out(&self, batch: &mut Batch) {
        match self.flaw {
            Flaw::AdmitsFirst => return self.admit_first(batch),
            Flaw::AsksForMore => self.created.lock().unwrap().iter().for_each(|lease| batch.release(lease.clone())),
            Flaw::EndsAllForNothing if batch.is_empty() => {
                self.created.lock().unwrap().iter().for_each(|lease| drop(self.memory.forget(lease)));
            }
            _ => {}
        }
        let (releases, admissions) = batch.slots_mut();
        let mut asked = Batch::new();
        let first_hold = releases.first().and_then(|slot| slot.asked().minimum_hold());
        for slot in &*releases {
            let lease = slot.asked().lease().clone();
            let minimum_hold = if self.flaw == Flaw::HoldsAlike { first_hold } else { slot.asked().minimum_hold() };
            match minimum_hold.filter(|_| self.flaw != Flaw::HoldsNothing) {
                Some(minimum_hold) => asked.release_after(lease, minimum_hold),
                None => asked.release(lease),
            }
        }
        self.memory.carry_out(&mut asked);
        for (slot, answered) in releases.iter_mut().zip(asked.releases()) {
            slot.fill(answered.answer().cloned().unwrap());
        }
        let is_excluded = |slot: &Slot<Admission, Admitted>| {
            slot.asked().excluded_by().iter().any(|name| self.memory.exists(name).unwrap())
        };
        let any_is_excluded = admissions.iter().any(is_excluded);
        let excluded_before: Vec<bool> = admissions.iter().map(is_excluded).collect();
        let left_out = usize::from(self.flaw == Flaw::LeavesOneOut);
        let count = admissions.len().saturating_sub(left_out);
        for (slot, is_excluded) in admissions.iter_mut().zip(excluded_before).take(count) {
            let answer = match self.flaw {
                Flaw::ExcludesAll if any_is_excluded && !is_excluded => {
                    Ok(excluded(slot.asked().lease().unwrap().name()))
                }
                Flaw::ExcludesAtOnce if !is_excluded => {
                    Admission::lease_only(slot.asked().lease().cloned().unwrap()).ask(&self.memory)
                }
                _ => self.admit(slot.asked()),
            };
            slot.fill(answer);
        }
    }

    fn extend(&self, leases: &mut [Slot<Lease, bool>], term: Term) {
        self.memory.extend(leases, term);
    }

    fn held(&self, names: Names<'_>) -> Result<Vec<Held>, MutexError> {
        match names {
            Names::LeasesWithPrefix(prefix) if self.flaw != Flaw::Nothing => {
                let listed = self.list(prefix)?;
                if self.flaw == Flaw::ListsSometimes && listed.is_empty() {
                    return Err(MutexError::unsupported("list nothing"));
                }
                Ok(listed)
            }
            Names::Each([name]) if self.flaw == Flaw::TellsOfAnother => {
                let another = name.mark("another", "name");
                let told = self.memory.held(names)?;
                Ok(told.into_iter().map(|held| Held::new(another.clone(), held.into_holder())).collect())
            }
            Names::Each([_]) if self.flaw == Flaw::TellsNoOccurrence => {
                let told = self.memory.held(names)?.into_iter();
                let without = |held: Held| {
                    let name = held.name().clone();
                    Held::new(name, held.into_holder().map(|holder| holder.with_occurrence(None)))
                };
                Ok(told.map(without).collect())
            }
            Names::Each([_]) if self.flaw == Flaw::TellsAnotherApplication => {
                let told = self.memory.held(names)?.into_iter();
                let another = |held: Held| {
                    let holder = held.holder().map(|holder| {
                        Holder::new(holder.owner(), holder.token(), "host app=another", holder.since(), holder.until())
                    });
                    Held::new(held.name().clone(), holder)
                };
                Ok(told.map(another).collect())
            }
            Names::Each(names) if self.flaw == Flaw::TellsOfTheFirst => {
                Ok(names.first().map_or(Ok(Vec::new()), |name| self.memory.held(Names::of(name)))?)
            }
            Names::Each([_, _, ..]) if self.flaw == Flaw::TellsOfOneOnly => {
                Err(MutexError::unsupported("tell of several"))
            }
            names => self.memory.held(names),
        }
    }

    fn break_lease(&self, name: &MutexName) -> Result<Option<Held>, MutexError> {
        self.memory.break_lease(name)
    }
}

fn excluded(name: &MutexName) -> Admitted {
    Admitted::Excluded(Held::new(name.clone(), None))
}

impl Harness for Flawed {
    type Mutex = Self;

    fn mutex(&self) -> Self {
        self.clone()
    }

    fn clock(&self) -> Clock {
        Clock::from(&self.clock)
    }

    fn let_time_pass(&self, by: Duration) {
        self.clock.advance(by);
    }
}

super::finds! { Flawed::with, Flaw;
    an_admission_is_excluded_while_the_name_is_held:
        IgnoresExclusions "an admission is excluded while the name is held",
        ConsumesTheClaim "an excluded admission leaves the claim free",
        KeepsTheLease "an excluded admission leaves the lease free",
        ExcludesByNobody "a refusal names the holder",
        ExcludesForEver "a free lease and a free claim are granted",
        TakesTheExcludingName "an admission does not take the name that would exclude it";
    an_exclusion_is_looked_at_before_the_claim_and_the_lease:
        ExcludesLast "an admission is excluded while the name is held";
    an_exclusion_ends_with_the_term_of_its_name:
        ExcludesBeyondItsTerm "a free lease and a free claim are granted";
    an_exclusion_ends_when_its_name_is_broken:
        ExcludesForEver "a free lease and a free claim are granted",
        IgnoresExclusions "an admission is excluded while the name is held";
    admissions_that_share_an_excluding_name_are_decided_one_by_one:
        ExcludesAll "admissions that are excluded by one name are decided one by one",
        LeavesOneOut "each request gets an answer",
        IgnoresExclusions "admissions that are excluded by one name are decided one by one";
    each_of_several_names_excludes:
        ExcludesByTheFirst "an admission is excluded while the name is held",
        ExcludesByAnother "an excluded admission reports the name that excludes it",
        ExcludesAll "within a batch, a name excludes only the admissions that list it";
    a_mark_is_admitted_with_another_and_released:
        GrantsHalf "an admission that lost one of two markers leaves the other free";
    an_admission_is_excluded_by_what_was_admitted_before_it:
        ExcludesAtOnce "if two admissions of one batch exclude each other, the first is granted";
    a_batch_releases_before_it_admits:
        AdmitsFirst "a name that a batch releases is free for the admissions of the batch";
    a_batch_does_not_admit_to_what_it_releases_later:
        HoldsNothing "a name under a minimum hold is held, also for the batch that releases it";
    asking_for_nothing_answers_nothing:
        AsksForMore "a store does not change the requests",
        EndsAllForNothing "an empty batch changes nothing";
    releases_of_one_batch_have_minimum_holds_of_their_own:
        HoldsAlike "each release of a batch has its own minimum hold";
    the_holder_is_told_truly_or_not_at_all:
        TellsOfAnother "a read of one name returns no other name";
    the_holder_tells_for_which_occurrence_it_holds:
        TellsNoOccurrence "a holder has the occurrence for which it holds a name";
    the_holder_tells_its_application_and_its_instance:
        TellsAnotherApplication "a holder has its application and its instance";
    each_of_several_names_is_told_that_is_held:
        TellsOfTheFirst "a read of several names returns the held names, and no others",
        TellsOfOneOnly "every store can read several names";
    a_store_lists_the_leases_that_are_held_and_nothing_else:
        ListsClaims "a list by prefix has exactly the leases whose names begin with the prefix",
        ListsOtherCases "a list by prefix has exactly the leases whose names begin with the prefix",
        ListsTheEnded "a store that can't list leases says so each time",
        ListsTwice "a store that can't list leases says so each time",
        ListsOthersHolders "the list has the right holders",
        ListsSometimes "a store that can't list leases says so each time";
    a_prefix_is_text_and_no_pattern:
        ListsByPattern "a list by prefix has exactly the leases whose names begin with the prefix";
}
